//! Joliet: a second tree whose identifiers are UTF-16, most significant byte first.

use super::names::{Name, presentable, split_version};

/// The Joliet level (1, 2 or 3: UCS-2 levels of ISO 10646) that a supplementary volume descriptor
/// announces by its escape sequences (ECMA-119 clause 8.5.6), if it does.
pub(super) fn level(escape_sequences: &[u8]) -> Option<u8> {
    escape_sequences.windows(3).find_map(|window| match window {
        b"%/@" => Some(1),
        b"%/C" => Some(2),
        b"%/E" => Some(3),
        _ => None,
    })
}

/// The name of a record: ends at NUL, half a unit at the end is dropped, a lone surrogate becomes
/// U+FFFD, version and trailing dots are cut.
pub(super) fn name(identifier: &[u8]) -> Name {
    let units = identifier
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .take_while(|unit| *unit != 0);
    let text: String = char::decode_utf16(units)
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    let (base, version) = split_version(text.as_bytes());
    let end = base.iter().rposition(|byte| *byte != b'.');
    Name {
        bytes: presentable(base[..end.map_or(0, |last| last + 1)].to_vec()),
        version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_be_bytes).collect()
    }

    #[test]
    fn names() {
        for (text, expected) in [
            ("Readme.txt;1", "Readme.txt"),
            ("dots...;1", "dots"),
            ("\u{1f600}.png;1", "\u{1f600}.png"),
            ("a/b", "a_b"),
            ("a\0b", "a"),
            ("...", "_"),
            ("", "_"),
        ] {
            assert_eq!(name(&utf16(text)).bytes, expected.as_bytes());
        }
        assert_eq!(name(&[0xd8, 0, 0, b'x', 0]).bytes, "\u{fffd}x".as_bytes());
        assert_eq!(name(&utf16("a;7")).version, 7);
    }

    #[test]
    fn levels() {
        assert_eq!(level(b"%/@\0\0"), Some(1));
        assert_eq!(level(b"%/C\0\0"), Some(2));
        assert_eq!(level(b"\0%/E"), Some(3));
        assert_eq!(level(b"%/G\0\0"), None);
        assert_eq!(level(b""), None);
    }
}
