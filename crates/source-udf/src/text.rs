//! Text of OSTA compressed Unicode (UDF 2.1.1): a compression identifier, then characters of one
//! or two bytes.

use pagewell_source_bytes::presentable;

use super::fields::Fields;

/// The text of compressed Unicode; `None` for an unknown compression identifier. A lone surrogate
/// becomes U+FFFD; an odd last byte is ignored. 254 and 255 mark deleted names.
pub(crate) fn decode(recorded: &[u8]) -> Option<String> {
    let Some((compression, characters)) = recorded.split_first() else {
        return Some(String::new());
    };
    match compression {
        8 | 254 => Some(characters.iter().copied().map(char::from).collect()),
        16 | 255 => {
            let units = characters
                .chunks_exact(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            let text = char::decode_utf16(units)
                .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER));
            Some(text.collect())
        }
        _ => None,
    }
}

/// The name of a file identifier, and whether its compression is known. Bytes of an unknown one are
/// shown as characters of one byte.
pub(crate) fn name(recorded: &[u8]) -> (Vec<u8>, bool) {
    let known = decode(recorded);
    let is_known = known.is_some();
    let text = known.unwrap_or_else(|| recorded.iter().copied().map(char::from).collect());
    (presentable(text.into_bytes()), is_known)
}

/// The text of a field of fixed length, whose last byte is the length (ECMA-167 1/7.2.12).
pub(crate) fn fixed(field: &[u8]) -> String {
    let Some((length, characters)) = field.split_last() else {
        return String::new();
    };
    let recorded = Fields::new(characters).bytes(0, usize::from(*length));
    let text = decode(recorded).unwrap_or_default();
    text.trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_one_and_two_bytes() {
        assert_eq!(decode(b"\x08caf\xe9").unwrap(), "café");
        assert_eq!(
            decode(&[16, 0x20, 0xac, 0xd8, 0x3d, 0xde, 0]).unwrap(),
            "€😀"
        );
        assert_eq!(decode(&[16, 0xd8, 0x3d, 0, b'x', 7]).unwrap(), "\u{fffd}x");
        assert_eq!(decode(&[255, 0, b'x']).unwrap(), "x");
        assert_eq!(decode(b"").unwrap(), "");
        assert_eq!(decode(b"\x09x"), None);
    }

    #[test]
    fn names_lead_nowhere_else() {
        assert_eq!(name(b"\x08../x").0, b".._x");
        assert_eq!(name(b"\x08").0, b"_");
        assert_eq!(name(b"\x08..").0, b"__");
        assert_eq!(name(b"ab"), (b"ab".to_vec(), false));
        let long = [&[16][..], &[0x4e, 0].repeat(127)].concat();
        assert_eq!(name(&long).0.len(), 255);
    }

    #[test]
    fn fields_of_fixed_length() {
        assert_eq!(fixed(b"\x08LinuxUDF\0\0\x09"), "LinuxUDF");
        assert_eq!(fixed(b"\x08LinuxUDF\0\0\x20"), "", "past the field");
        assert_eq!(fixed(b"\0\0\0\0"), "");
        assert_eq!(fixed(b""), "");
    }
}
