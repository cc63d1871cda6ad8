//! From recorded identifiers to shown names.
//!
//! **Letters of plain names.** The standard allows capitals only, and most writers make them of
//! small letters. Shown small, `Makefile` and `makefile` of other writers would clash; shown as
//! recorded, most discs would be in capitals.
//!
//! ```text
//! a small letter in the root directory, or in the name's own      as recorded
//! in neither                                                      small
//! ```
//!
//! Names of a directory change together, where none has a small letter: different names never
//! become equal. A name that is not UTF-8 stays.
//!
//! Weakness: a directory of capitals only, as `README`, below a root without small letters is shown
//! small. Lookups ignore case.

use pagewell_source_bytes::presentable;

use super::charset::{Charset, decoded};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// 1 to 255 bytes without `/` and NUL; neither `.` nor `..`.
    pub bytes: Vec<u8>,
    /// File version (ECMA-119 clause 7.5.1); 1 when none was recorded.
    pub version: u32,
    /// The letters may be changed.
    pub is_plain: bool,
}

/// The name of a record without extensions: without version, one trailing dot and trailing spaces.
pub(super) fn plain(identifier: &[u8], charset: Option<Charset>) -> Name {
    let (base, version) = split_version(identifier);
    let base = base.strip_suffix(b".").unwrap_or(base);
    let end = base.iter().rposition(|byte| *byte != b' ');
    let base = decoded(&base[..end.map_or(0, |last| last + 1)], charset);
    Name {
        is_plain: std::str::from_utf8(&base).is_ok(),
        bytes: presentable(base.into_owned()),
        version,
    }
}

pub(super) fn rock_ridge(name: &[u8], charset: Option<Charset>) -> Name {
    Name {
        bytes: presentable(decoded(name, charset).into_owned()),
        version: 1,
        is_plain: false,
    }
}

/// The name of a record of ISO 9660:1999: as it is, but for a version that some writers add.
pub(super) fn enhanced(identifier: &[u8], charset: Option<Charset>) -> Name {
    let base = identifier.strip_suffix(b";1").unwrap_or(identifier);
    rock_ridge(base, charset)
}

/// Whether escape sequences of a supplementary descriptor (ECMA-119 clause 8.5.6) announce Joliet,
/// of level 1, 2 or 3 (UCS-2 levels of ISO 10646).
pub(super) fn announce_joliet(escape_sequences: &[u8]) -> bool {
    let mut windows = escape_sequences.windows(3);
    windows.any(|window| matches!(window, b"%/@" | b"%/C" | b"%/E"))
}

/// Big-endian UTF-16; an odd last byte is left out, a lone surrogate becomes U+FFFD.
pub(super) fn wide_text(bytes: &[u8]) -> String {
    let units = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    char::decode_utf16(units)
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// The name of a Joliet record, in big-endian UTF-16: up to NUL, without version and trailing dots.
pub(super) fn joliet(identifier: &[u8]) -> Name {
    let text = wide_text(identifier);
    let text = text.split('\0').next().unwrap_or_default();
    let (base, version) = split_version(text.as_bytes());
    let end = base.iter().rposition(|byte| *byte != b'.');
    Name {
        bytes: presentable(base[..end.map_or(0, |last| last + 1)].to_vec()),
        version,
        is_plain: false,
    }
}

/// Cuts `;` and the digits after it. The highest version is 32767 (clause 7.5.1).
fn split_version(identifier: &[u8]) -> (&[u8], u32) {
    let Some(separator) = identifier.iter().rposition(|byte| *byte == b';') else {
        return (identifier, 1);
    };
    let (base, digits) = (&identifier[..separator], &identifier[separator + 1..]);
    if digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return (identifier, 1);
    }
    let version = digits
        .iter()
        .fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    (base, version.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names() {
        for (identifier, name, version) in [
            (&b"README.TXT;1"[..], &b"README.TXT"[..], 1),
            (b"README.;32767", b"README", 32767),
            (b"README", b"README", 1),
            (b"A.B..;2", b"A.B.", 2),
            (b"A;B.C;1", b"A;B.C", 1),
            (b"A;B", b"A;B", 1),
            (b"A;", b"A", 1),
            (b"A;999999", b"A;999999", 1),
            (b"PAD   ;1", b"PAD", 1),
            (b"../X;1", b".._X", 1),
            (b"A\0B", b"A", 1),
            (b";1", b"_", 1),
            (b"..;1", b"_", 1),
            (b"...", b"__", 1),
        ] {
            let expected = Name {
                bytes: name.to_vec(),
                version,
                is_plain: true,
            };
            assert_eq!(plain(identifier, None), expected, "{identifier:?}");
        }
    }

    #[test]
    fn names_of_1999_are_as_recorded() {
        for (identifier, name) in [
            (&b"Read Me.first;1"[..], &b"Read Me.first"[..]),
            (b"a;2", b"a;2"),
            (b"a.", b"a."),
            (b"\xc3\xa4", b"\xc3\xa4"),
            (b";1", b"_"),
        ] {
            assert_eq!(enhanced(identifier, None).bytes, name);
        }
    }

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_be_bytes).collect()
    }

    #[test]
    fn joliet_names() {
        for (text, expected) in [
            ("Readme.txt;1", "Readme.txt"),
            ("dots...;1", "dots"),
            ("\u{1f600}.png;1", "\u{1f600}.png"),
            ("a/b", "a_b"),
            ("a\0b", "a"),
            ("...", "_"),
            ("", "_"),
        ] {
            assert_eq!(joliet(&utf16(text)).bytes, expected.as_bytes());
        }
        assert_eq!(joliet(&[0xd8, 0, 0, b'x', 0]).bytes, "\u{fffd}x".as_bytes());
        assert_eq!(joliet(&utf16("a;7")).version, 7);
    }

    #[test]
    fn joliet_levels() {
        for level in [&b"%/@\0\0"[..], b"%/C\0\0", b"\0%/E"] {
            assert!(announce_joliet(level));
        }
        assert!(!announce_joliet(b"%/G\0\0") && !announce_joliet(b""));
    }
}
