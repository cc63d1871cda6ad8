//! Sizes as people write them: `4096`, `128k`, `1.5g`, `2t`.

use std::ops::RangeInclusive;

use crate::decimal::{scaled, split_unit};

/// The largest size.
pub const MAX: u64 = i64::MAX as u64;

/// Bytes: a number, maybe with a fraction, and nothing or k, m, g, t in either case, for powers of
/// 1024; rounded down. The error says what is expected.
pub fn parse(text: &str) -> Result<u64, String> {
    const FORM: &str =
        "a size is a number with k, m, g or t for units of 1024, as 1.5g, not beyond 2^63 - 1";
    let (number, unit) = split_unit(text);
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(FORM.to_owned()),
    };
    scaled(number, 1 << shift).ok_or_else(|| FORM.to_owned())
}

/// The same, but not 0.
pub fn parse_positive(text: &str) -> Result<u64, String> {
    let bytes = parse(text)?;
    if bytes == 0 {
        return Err("the size is 0".to_owned());
    }
    Ok(bytes)
}

/// The same, within a range.
pub fn within(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = parse(text)?;
    if !range.contains(&bytes) {
        let (low, high) = (display(*range.start()), display(*range.end()));
        return Err(format!("a size from {low} to {high} is wanted"));
    }
    Ok(bytes)
}

/// For people: up to four digits and a unit, as `640 KiB`.
pub fn display(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let unit = (bytes.ilog2() / 10).clamp(1, 6) as usize;
    // A float is exact for three digits.
    let value = bytes as f64 / (1u64 << (unit * 10)) as f64;
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$} {}", UNITS[unit - 1])
}

/// As ls(1) and du(1) with -h: up to three digits and a letter, rounded up, as `640K` and `1.2G`.
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
            ("0", 0),
            ("1", 1),
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("3m", 3 << 20),
            ("8.5m", 8_912_896),
            ("1.5g", 3 << 29),
            ("2G", 2 << 30),
            ("3t", 3 << 40),
            ("0.3k", 307),
            ("9223372036854775807", MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for bad in [
            "",
            "k",
            "-1",
            "+1",
            "1e3",
            "1kb",
            "1 k",
            " 1",
            ".5g",
            "1.g",
            "1.2.3",
            "1.0000000000000000001k",
            "9.9999999t9",
            "inf",
            "0x10",
            "१",
            "9223372036854775808",
            "8589934592g",
            "8388608t",
            "99999999999999999999999",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bounds_are_named() {
        assert_eq!(parse_positive("1"), Ok(1));
        assert_eq!(parse_positive("0k"), Err("the size is 0".to_owned()));
        assert_eq!(within("4k", 4096..=8192), Ok(4096));
        let error = within("4095", 4096..=8192).unwrap_err();
        assert_eq!(error, "a size from 4.0 KiB to 8.0 KiB is wanted");
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
