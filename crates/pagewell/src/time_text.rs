//! Points in time as text: ISO 8601 in UTC, everywhere the same.

use pagewell_base::calendar::seconds_text as civil;
use pagewell_fs::Timestamp;

/// `2026-01-31T23:59:59Z`, of seconds since 1970.
pub fn seconds_text(seconds: i64) -> String {
    format!("{}Z", civil(seconds))
}

/// `2026-01-31T23:59:59.000000001Z`.
pub(crate) fn nanoseconds(time: Timestamp) -> String {
    format!("{}.{:09}Z", civil(time.seconds), time.nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (value, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-2_208_988_800, "1900-01-01T00:00:00Z"),
        ] {
            assert_eq!(seconds_text(value), text);
        }
        let time = Timestamp {
            seconds: 0,
            nanoseconds: 5,
        };
        assert_eq!(nanoseconds(time), "1970-01-01T00:00:00.000000005Z");
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        assert!(seconds_text(i64::MAX).ends_with('Z'));
        assert!(seconds_text(i64::MIN).starts_with('-'));
    }
}
