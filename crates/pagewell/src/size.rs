//! Sizes as people write them.

use std::fmt::Write;

/// Bytes of a size: digits, then nothing or one of k, m, g (any case; powers of 1024).
/// A size of 0, an empty text and what is beyond 2^63 - 1 are errors; the text of the error says
/// what is wrong without repeating the input.
///
/// # Errors
///
/// As above.
pub fn parse(text: &str) -> Result<u64, String> {
    const FORM: &str = "a size is a number, with k, m or g for units of 1024, 1024^2, 1024^3";
    let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => (&text[..text.len() - 1], 10),
        Some(b'm') => (&text[..text.len() - 1], 20),
        Some(b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FORM.to_owned());
    }
    let too_large = || "the size is beyond 2^63 - 1 bytes".to_owned();
    let number: u64 = digits.parse().map_err(|_| too_large())?;
    let bytes = number
        .checked_mul(1 << shift)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(too_large)?;
    if bytes == 0 {
        Err("the size is 0".to_owned())
    } else {
        Ok(bytes)
    }
}

/// `bytes` for people: up to four digits and a unit, such as `640 KiB`.
#[must_use]
pub fn display(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut out = String::new();
    if bytes < 1024 {
        let _ = write!(out, "{bytes} B");
        return out;
    }
    let unit = (bytes.ilog2() / 10).clamp(1, 6) as usize;
    #[allow(clippy::cast_precision_loss)] // three digits are shown
    let value = bytes as f64 / (1u64 << (unit * 10)) as f64;
    let digits = usize::from(value < 9.95);
    let _ = write!(out, "{value:.digits$} {}", UNITS[unit - 1]);
    out
}

/// `bytes` as ls(1) and du(1) write them with -h: up to three digits and a letter, never less than
/// it is, such as `640K` and `1.2G`.
#[must_use]
pub fn brief(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 1u128;
    for letter in ["K", "M", "G", "T", "P", "E"] {
        unit *= 1024;
        let tenths = (u128::from(bytes) * 10).div_ceil(unit);
        if tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        let whole = u128::from(bytes).div_ceil(unit);
        if whole < 1024 {
            return format!("{whole}{letter}");
        }
    }
    // 2^64 bytes are 16 of the last unit.
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_sizes_are_those_of_ls() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10_137, "9.9K"),
            (10_138, "10K"),
            (1_047_552, "1023K"),
            (1_047_553, "1.0M"),
            (3_145_745, "3.1M"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(brief(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [
            ("1", 1),
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("3m", 3 << 20),
            ("2G", 2 << 30),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for bad in [
            "",
            "k",
            "0",
            "0g",
            "-1",
            "+1",
            "1.5g",
            "1kb",
            "1 k",
            " 1",
            "1t",
            "0x10",
            "१",
            "9223372036854775808",
            "8589934592g",
            "99999999999999999999999",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("0k"), Err("the size is 0".to_owned()));
    }

    #[test]
    fn sizes_are_shown_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (10 << 10, "10 KiB"),
            (1_500_000, "1.4 MiB"),
            (3 << 30, "3.0 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(display(bytes), text);
        }
    }
}
