//! Sizes and times as people write them: `4096`, `128k`, `8.5m`, `67ms`, `0.43ms`, `80us`.

use std::time::Duration;

/// Longest time anybody may ask for.
const DURATION_MAX: Duration = Duration::from_hours(24);

/// A number of bytes with an optional unit of 1024: k, m, g or t.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = split_unit(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => {
            return Err(format!(
                "'{text}' is no size, write it like 4096, 128k or 1m"
            ));
        }
    };
    if digits.contains('.') {
        let bytes = decimal(digits).map(|number| number * (1u64 << shift) as f64);
        let bytes = bytes.filter(|bytes| *bytes < 2f64.powi(63));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked above
        return bytes
            .map(|bytes| bytes as u64)
            .ok_or_else(|| format!("'{text}' is no size"));
    }
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("'{text}' is no size"))
}

/// A time with a unit: ns, us, ms or s. At most a day.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = split_unit(text);
    let scale = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => {
            return Err(format!(
                "'{text}' is no time, write it like 80us, 67ms or 5s"
            ));
        }
    };
    decimal(digits)
        .and_then(|number| Duration::try_from_secs_f64(number * scale).ok())
        .filter(|duration| *duration <= DURATION_MAX)
        .ok_or_else(|| format!("'{text}' is no time of at most a day"))
}

/// Digits with at most one point: no sign, no exponent, no infinity.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain && text.len() <= 30)
}

fn split_unit(text: &str) -> (&str, &str) {
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic());
    text.split_at(unit.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("128k", 131_072),
            ("1M", 1 << 20),
            ("8.5m", 8_912_896),
            ("3t", 3 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        let bad = [
            "",
            "k",
            "-1",
            "1e3",
            "1kb",
            "99999999t",
            "1.2.3",
            "9.9999999t9",
            "inf",
        ];
        for text in bad {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("99999999999.0t").is_err());
    }

    #[test]
    fn times() {
        for (text, nanoseconds) in [
            ("0s", 0),
            ("1ns", 1),
            ("80us", 80_000),
            ("0.43ms", 430_000),
            ("5s", 5_000_000_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_nanos(nanoseconds)),
                "{text}"
            );
        }
        for text in [
            "", "5", "s", "-1s", "1e3s", "infs", "NaNs", "86401s", "5 s", "5sec",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
