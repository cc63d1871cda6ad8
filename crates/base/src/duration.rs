//! Times as people write them: `80us`, `0.43ms`, `5s`, `2m`, `1h`; no unit: seconds.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::decimal::{scaled, split_unit};

/// In nanoseconds.
const UNITS: [(&str, u64); 7] = [
    ("", 1_000_000_000),
    ("ns", 1),
    ("us", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Can be added to any time.
pub const MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// A number, maybe with a fraction, and a unit, at most [`MAX`]. The error says what is expected.
pub fn parse(text: &str) -> Result<Duration, String> {
    within(text, Duration::ZERO..=MAX)
}

/// The same, within a range.
pub fn within(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    const FORM: &str = "a time is written like 80us, 0.5ms, 5s, 2m or 1h; without a unit, seconds";
    let (number, unit) = split_unit(text);
    let unit = UNITS.iter().find(|(name, _)| *name == unit).ok_or(FORM)?.1;
    let time = Duration::from_nanos(scaled(number, unit).ok_or(FORM)?);
    if range.contains(&time) {
        Ok(time)
    } else {
        let (low, high) = range.into_inner();
        Err(format!("a time from {low:?} to {high:?} is wanted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, nanoseconds) in [
            ("0s", 0),
            ("0", 0),
            ("1ns", 1),
            ("80us", 80_000),
            ("0.43ms", 430_000),
            ("5s", 5_000_000_000),
            ("5", 5_000_000_000),
            ("0.5", 500_000_000),
            ("1.5m", 90_000_000_000),
            ("2h", 7_200_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "", "s", "-1s", "+1s", "1e3s", "inf", "infs", "NaNs", "5 s", "5sec", "5S", "876001h",
            "1d",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bounds_are_named() {
        let range = Duration::from_secs(1)..=Duration::from_secs(10);
        assert_eq!(within("10s", range.clone()), Ok(Duration::from_secs(10)));
        let error = within("10.1s", range).unwrap_err();
        assert_eq!(error, "a time from 1s to 10s is wanted");
    }
}
