//! Names of keys.
//!
//! A key is cut at its slashes. The text between two is the name, unless a file system cannot have
//! it:
//!
//! | between the slashes | name |
//! |---|---|
//! | nothing | `%` |
//! | `.`, `..` | `%2E`, `%2E%2E` |
//! | a NUL | `%00` in its place |
//! | more than 255 bytes | the first of them, `%`, and 16 digits that tell it from others |
//! | what is a file and a directory | the file keeps the name, the directory has `%` behind it |
//!
//! Such a name is found in the listing of its directory alone. Where a key has that name in fact,
//! the key keeps it, and the other is not shown.

use std::borrow::Cow;

use pagewell_fs::name::NAME_BYTES_MAX;

use super::identifier::hash_of;

/// A folder below the root for what Pagewell itself keeps, which is not shown.
pub(super) const HIDDEN: &str = ".pagewell";
/// Bytes of the longest key that is shown: object stores have 1,024. Each slash of it is a
/// directory in memory.
pub(super) const KEY_BYTES_MAX: usize = 4096;
/// Bytes that are kept of a name that is too long.
const KEPT_BYTES: usize = 230;

/// The name for the text between two slashes of a key: borrowed where it is the same.
pub(super) fn of_segment(segment: &str) -> Cow<'_, [u8]> {
    match segment {
        "" => return Cow::Borrowed(b"%"),
        "." => return Cow::Borrowed(b"%2E"),
        ".." => return Cow::Borrowed(b"%2E%2E"),
        _ => {}
    }
    let without_nul = if segment.contains('\0') {
        Cow::Owned(segment.replace('\0', "%00"))
    } else {
        Cow::Borrowed(segment)
    };
    if without_nul.len() <= NAME_BYTES_MAX {
        return match without_nul {
            Cow::Borrowed(plain) => Cow::Borrowed(plain.as_bytes()),
            Cow::Owned(changed) => Cow::Owned(changed.into_bytes()),
        };
    }
    let end = (0..=KEPT_BYTES)
        .rev()
        .find(|end| without_nul.is_char_boundary(*end));
    let kept = without_nul.get(..end.unwrap_or(0)).unwrap_or_default();
    let (number, _) = hash_of(segment).halves();
    Cow::Owned(format!("{kept}%{number:016x}").into_bytes())
}

pub(super) fn beside_file(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    name.truncate(NAME_BYTES_MAX - 1);
    name.push(b'%');
    name
}

/// Whether a name may be one of those in the table above.
pub(super) fn may_be_made(name: &[u8]) -> bool {
    name.contains(&b'%')
}

pub(super) fn is_plain(name: &[u8]) -> bool {
    let text = std::str::from_utf8(name);
    text.is_ok_and(|text| matches!(of_segment(text), Cow::Borrowed(same) if same == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_can_be_called_gets_another_name() {
        for (segment, name) in [
            ("plain", "plain"),
            ("a~b%41", "a~b%41"),
            (" x ", " x "),
            ("", "%"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("...", "..."),
            ("a\0b", "a%00b"),
        ] {
            assert_eq!(of_segment(segment).as_ref(), name.as_bytes());
            assert_eq!(is_plain(segment.as_bytes()), segment == name, "{segment:?}");
        }
        assert!(!is_plain(b"\xff"));
    }

    #[test]
    fn long_names_are_cut_between_letters_and_stay_apart() {
        let fits = "x".repeat(255);
        assert_eq!(of_segment(&fits).as_ref(), fits.as_bytes());
        let (one, other) = ("ä".repeat(200), "ä".repeat(201));
        let (one, other) = (of_segment(&one), of_segment(&other));
        assert_ne!(one, other);
        for name in [&one, &other] {
            assert!(name.len() <= 255 && std::str::from_utf8(name).is_ok());
        }
        assert_eq!(beside_file(fits.as_bytes()).len(), 255);
    }
}
