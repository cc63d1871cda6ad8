//! Numbers with units, short enough for a table.

use crate::measure::number;

/// A count of bytes in the largest binary unit that keeps it whole or above ten.
pub fn bytes(count: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in UNITS {
        let size = 1u64 << shift;
        if count >= size && count.is_multiple_of(size) {
            return format!("{} {unit}", count >> shift);
        }
        if count >= 10 * size {
            return format!("{:.1} {unit}", number(count) / number(size));
        }
    }
    format!("{count} B")
}

/// A rate per second with at least three digits: `0.123`, `12.3`, `1,234`.
pub fn rate(value: f64) -> String {
    match value.abs() {
        small if small < 1.0 => format!("{value:.3}"),
        small if small < 10.0 => format!("{value:.2}"),
        small if small < 100.0 => format!("{value:.1}"),
        _ => thousands(value),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (131_072, "128 KiB"),
            (1 << 20, "1 MiB"),
            (1 << 30, "1 GiB"),
            (12_345_678, "11.8 MiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn rates_have_three_digits() {
        for (value, text) in [
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (999.6, "1,000"),
            (123.4, "123"),
            (1_234_567.0, "1,234,567"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(rate(value), text);
        }
    }
}
