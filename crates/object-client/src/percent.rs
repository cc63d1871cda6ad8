//! Percent-encoding, as S3 signs it and as URLs have it (RFC 3986, 2.1).
//!
//! Keys travel as they are: `a//b`, `./y`, `x ` and `a%41b` are encoded byte by byte, and nothing
//! is resolved or joined.

use std::fmt::Write as _;

/// Kept, beside letters and digits (RFC 3986, 2.3).
const UNRESERVED: &[u8] = b"-._~";

fn encode(text: &[u8], kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_alphanumeric() || UNRESERVED.contains(&byte) || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A key as a path, its slashes kept.
pub(crate) fn path(key: &str) -> String {
    encode(key.as_bytes(), b"/")
}

pub(crate) fn component(text: &str) -> String {
    encode(text.as_bytes(), b"")
}

/// A query, sorted as signatures want it.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut encoded: Vec<(String, String)> = pairs
        .iter()
        .map(|(name, value)| (component(name), component(value)))
        .collect();
    encoded.sort();
    let pairs: Vec<String> = encoded
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// The decoded bytes; `None` where a `%` has no two hexadecimal digits behind it.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    Some(decoded)
}

/// [`decode`] of what has to be UTF-8.
pub(crate) fn decode_text(text: &str) -> Option<String> {
    String::from_utf8(decode(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_as_they_were() {
        let keys = [
            ("a//b", "a//b"),
            ("./y", "./y"),
            ("../y", "../y"),
            ("x ", "x%20"),
            ("dir/", "dir/"),
            ("a~b", "a~b"),
            ("a%41b", "a%2541b"),
            ("a+b&c=d?e#f", "a%2Bb%26c%3Dd%3Fe%23f"),
            ("\u{e9}\u{10000}", "%C3%A9%F0%90%80%80"),
            ("a\nb\u{1}", "a%0Ab%01"),
        ];
        for (key, expected) in keys {
            assert_eq!(path(key), expected);
            assert_eq!(decode_text(expected).as_deref(), Some(key));
        }
        assert_eq!(component("a/b"), "a%2Fb");
    }

    #[test]
    fn queries_are_sorted_by_encoded_names() {
        assert_eq!(
            query(&[("prefix", "a b"), ("list-type", "2"), ("delimiter", "/")]),
            "delimiter=%2F&list-type=2&prefix=a%20b"
        );
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["%", "%4", "%4g", "%\u{e9}", "a%zz"] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode_text("%ff"), None);
    }
}
