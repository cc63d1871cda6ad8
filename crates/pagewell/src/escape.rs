//! Foreign bytes as text that is safe on a terminal and stays on one line.

use std::fmt::Write;

/// `bytes` as text: control characters, direction overrides and bytes outside UTF-8 become `\n`,
/// `\t`, `\r` or `\` with three octal digits; a backslash stays, so programs cannot reverse it.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            match character {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                _ if turns || character.is_control() => {
                    push_octal(&mut out, character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => out.push(character),
            }
        }
        push_octal(&mut out, chunk.invalid());
    }
    out
}

fn push_octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// `bytes` in the path of a URL: all but letters, digits and `/-._~` as `%XX`.
pub(crate) fn url_path(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_disturbs_a_terminal_is_escaped() {
        assert_eq!(text("plain Ünï \\ text".as_bytes()), "plain Ünï \\ text");
        assert_eq!(text(b"a\nb\tc\rd\x1b\x7f"), "a\\nb\\tc\\rd\\033\\177");
        assert_eq!(text(b"\xff\xc3("), "\\377\\303(");
        assert_eq!(
            text("\u{85}\u{202e}".as_bytes()),
            "\\302\\205\\342\\200\\256"
        );
    }

    #[test]
    fn url_paths_keep_what_is_unreserved() {
        assert_eq!(url_path(b"/a b/\xff?-._~"), "/a%20b/%FF%3F-._~");
        assert_eq!(hexadecimal(&[0, 0xab]), "00ab");
    }
}
