//! Lines that begin with a word; the last has a checksum over the others.

use std::hash::Hasher;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use siphasher::sip128::{Hasher128, SipHasher13};

/// Bytes in a line: what is no text, control characters and `%` are `%XX`.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut line = String::with_capacity(bytes.len());
    let escape = |line: &mut String, bytes: &[u8]| {
        for byte in bytes {
            line.push_str(&format!("%{byte:02X}"));
        }
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '%' {
                escape(&mut line, character.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                line.push(character);
            }
        }
        escape(&mut line, chunk.invalid());
    }
    line
}

/// The opposite of [`escaped`].
pub(crate) fn unescaped(line: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut parts = line.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

/// The same, of a text.
pub(crate) fn unescaped_text(line: &str) -> Option<String> {
    String::from_utf8(unescaped(line)?).ok()
}

/// After 1970.
pub(crate) fn nanoseconds(time: SystemTime) -> i128 {
    let signed = |span: Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => signed(after),
        Err(error) => -signed(error.duration()),
    }
}

/// The opposite of [`nanoseconds`].
pub(crate) fn time_of(nanoseconds: i128) -> Option<SystemTime> {
    const SECOND: u128 = 1_000_000_000;
    let size = nanoseconds.unsigned_abs();
    let seconds = u64::try_from(size / SECOND).ok()?;
    let span = Duration::new(seconds, u32::try_from(size % SECOND).ok()?);
    match nanoseconds < 0 {
        true => UNIX_EPOCH.checked_sub(span),
        false => UNIX_EPOCH.checked_add(span),
    }
}

/// With the last line.
pub(crate) fn sealed(mut text: String) -> String {
    let seal = checksum(text.as_bytes());
    text.push_str(&format!("end {seal:032x}\n"));
    text
}

/// Without the last line, if that is right.
pub(crate) fn unsealed(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let start = text.strip_suffix('\n')?.rfind('\n')? + 1;
    let (body, last) = text.split_at_checked(start)?;
    let seal = format!("end {:032x}\n", checksum(body.as_bytes()));
    (seal == last).then_some(body)
}

fn checksum(bytes: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish128().as_u128()
}

/// Lines, taken in order.
pub(crate) struct Lines<'a>(std::iter::Peekable<std::str::Lines<'a>>);

impl<'a> Lines<'a> {
    /// From the first.
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text.lines().peekable())
    }

    /// What follows this word in the next line; `None`, taking nothing, for another word.
    pub(crate) fn take(&mut self, word: &str) -> Option<&'a str> {
        let rest = self.0.peek()?.strip_prefix(word)?;
        let rest = match rest.is_empty() {
            true => rest,
            false => rest.strip_prefix(' ')?,
        };
        self.0.next();
        Some(rest)
    }

    /// Whether all are taken.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.0.peek().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_one_line() {
        for bytes in [
            &b""[..],
            b" a  b ",
            b"100%\n\r\0\x7f",
            "ü/€".as_bytes(),
            b"\xff\xfe%41",
        ] {
            let line = escaped(bytes);
            assert!(line.chars().all(|character| !character.is_control()));
            assert_eq!(unescaped(&line).as_deref(), Some(bytes));
        }
        assert_eq!(escaped("ü b".as_bytes()), "ü b");
        for line in ["%", "%4", "%zz", "a%4ü"] {
            assert_eq!(unescaped(line), None, "{line}");
        }
        assert_eq!(unescaped_text("%ff"), None);
    }

    #[test]
    fn times_come_back() {
        for nanoseconds in [0, 1, -1, 1_795_839_036_163_480_710, -5_000_000_001] {
            assert_eq!(
                time_of(nanoseconds).map(super::nanoseconds),
                Some(nanoseconds)
            );
        }
        assert_eq!(time_of(i128::MAX), None);
        assert_eq!(time_of(i128::MIN), None);
    }

    #[test]
    fn a_seal_is_of_all_before_it() {
        let text = sealed("one\ntwo\n".to_owned());
        assert_eq!(unsealed(text.as_bytes()), Some("one\ntwo\n"));
        for at in 0..text.len() {
            assert_eq!(unsealed(&text.as_bytes()[..at]), None);
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            assert_eq!(unsealed(&damaged), None);
        }
        let mut lines = Lines::new("one 1\nempty\n");
        assert_eq!(lines.take("on"), None);
        assert_eq!(lines.take("one"), Some("1"));
        assert_eq!(lines.take("empty"), Some(""));
        assert!(lines.is_at_end());
    }
}
