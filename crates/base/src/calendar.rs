//! Dates: as text, ISO 8601 in UTC, and as days.

/// `2026-01-31T23:59:59`: `seconds` after 1970 in the proleptic Gregorian calendar. Years begin on
/// March 1: the leap day is the last; 719,468 days lie between 0000-03-01 and 1970-01-01.
#[must_use]
pub fn seconds_text(seconds: i64) -> String {
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

/// Days from 1970-01-01; January and the first of a month are 1. Years begin in March; month
/// lengths from March repeat in 153 days per five months.
#[must_use]
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_text_agree() {
        for (year, month, day) in [(1970, 1, 1), (2000, 2, 29), (1, 1, 1), (-400, 3, 1)] {
            let days = days_since_1970(year, month, day);
            let text = seconds_text(days * 86_400);
            assert_eq!(text, format!("{year:04}-{month:02}-{day:02}T00:00:00"));
        }
    }

    #[test]
    fn a_leap_day_is_the_last_of_its_year() {
        assert_eq!(seconds_text(951_782_400), "2000-02-29T00:00:00");
        assert_eq!(seconds_text(951_868_799), "2000-02-29T23:59:59");
        assert_eq!(seconds_text(951_868_800), "2000-03-01T00:00:00");
    }
}
