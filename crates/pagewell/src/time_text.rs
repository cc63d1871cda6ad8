//! Points in time as text: ISO 8601 in UTC, so that a listing reads the same everywhere.

use pagewell_fs::Timestamp;

/// `2026-01-31T23:59:59Z`, of seconds since 1970.
pub fn seconds_text(seconds: i64) -> String {
    format!("{}Z", civil(seconds))
}

/// `2026-01-31T23:59:59.000000001Z`.
pub(crate) fn nanoseconds(time: Timestamp) -> String {
    format!("{}.{:09}Z", civil(time.seconds), time.nanoseconds)
}

/// Date and time of day of `seconds` after 1970, in the Gregorian calendar carried on in both
/// directions. The year is counted in eras of 400 years that begin on March 1, so that the leap
/// day is the last day of a year; 719,468 is the number of days from 0000-03-01 to 1970-01-01.
fn civil(seconds: i64) -> String {
    const DAY: i64 = 86_400;
    const ERA_DAYS: i64 = 146_097;
    let of_day = seconds.rem_euclid(DAY);
    let days = seconds.div_euclid(DAY) + 719_468;
    let era = days.div_euclid(ERA_DAYS);
    let of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
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
