//! Names of an image that a client can use: 1 to 255 bytes without `/` and NUL, neither `.` nor
//! `..`.
//!
//! A bad name must not hide the rest of its directory, or lead out of it, so it is changed, as
//! little as it takes.

use pagewell_fs::name::NAME_BYTES_MAX;

/// Makes a name valid: cuts at NUL and at 255 bytes, puts `_` for `/`, and underscores for an empty
/// name, `.` and `..`.
#[must_use]
pub fn presentable(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(end) = name.iter().position(|byte| *byte == 0) {
        name.truncate(end);
    }
    for byte in &mut name {
        if *byte == b'/' {
            *byte = b'_';
        }
    }
    cut(&mut name, NAME_BYTES_MAX);
    if matches!(name.as_slice(), b"" | b"." | b"..") {
        name = vec![b'_'; name.len().max(1)];
    }
    name
}

/// The `number`th with a name: `name~2`, within 255 bytes.
pub(crate) fn numbered(name: &[u8], number: u32) -> Vec<u8> {
    with_suffix(name, &format!("~{number}"))
}

/// A version of a file: `name;2`, within 255 bytes.
pub(crate) fn versioned(name: &[u8], version: u16) -> Vec<u8> {
    with_suffix(name, &format!(";{version}"))
}

fn with_suffix(name: &[u8], suffix: &str) -> Vec<u8> {
    let mut whole = name.to_vec();
    cut(&mut whole, NAME_BYTES_MAX - suffix.len());
    whole.extend_from_slice(suffix.as_bytes());
    whole
}

/// What [`numbered`] keeps of a name in any case.
pub(crate) fn stem(name: &[u8]) -> Vec<u8> {
    let mut stem = name.to_vec();
    cut(&mut stem, NAME_BYTES_MAX - "~4294967295".len());
    stem
}

/// Cuts at the boundary of a UTF-8 sequence.
fn cut(name: &mut Vec<u8>, bytes_max: usize) {
    if name.len() <= bytes_max {
        return;
    }
    let mut end = bytes_max;
    let is_middle = |byte: u8| byte & 0xc0 == 0x80;
    while end > 0 && bytes_max - end < 3 && is_middle(name[end]) {
        end -= 1;
    }
    if is_middle(name[end]) {
        end = bytes_max; // not UTF-8
    }
    name.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_valid_with_little_change() {
        for (name, shown) in [
            (&b"plain"[..], &b"plain"[..]),
            (b"../x", b".._x"),
            (b"a\0b", b"a"),
            (b"", b"_"),
            (b"\0", b"_"),
            (b".", b"_"),
            (b"..", b"__"),
            (b"...", b"..."),
        ] {
            assert_eq!(presentable(name.to_vec()), shown);
        }
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let wide = "\u{20ac}".repeat(100).into_bytes();
        assert_eq!(presentable(wide.clone()).len(), 255);
        let shifted = [b"a".to_vec(), wide].concat();
        assert_eq!(presentable(shifted.clone()).len(), 253);
        let numbered = numbered(&presentable(shifted), 12);
        assert!(
            std::str::from_utf8(&numbered)
                .unwrap()
                .ends_with("\u{20ac}~12")
        );
        assert!(numbered.len() <= 255);
        assert_eq!(presentable(vec![0x80; 300]).len(), 255);
    }
}
