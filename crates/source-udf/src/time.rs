//! Time stamps (ECMA-167 1/7.3): local time, its distance from UTC, and fractions to the
//! microsecond.

use pagewell_base::calendar::days_since_1970;
use pagewell_fs::Timestamp;

use super::fields::Fields;

pub(crate) const TIME_BYTES: usize = 12;
/// The type of local time, the only one whose zone counts.
const TYPE_LOCAL: u16 = 1;
const ZONE_UNKNOWN: i64 = -2047;
/// Minutes of a day.
const ZONE_MAX: i64 = 1440;

/// `None` when the bytes are no date. A time without a zone counts as UTC.
pub(crate) fn timestamp(bytes: &[u8]) -> Option<Timestamp> {
    if bytes.len() < TIME_BYTES {
        return None;
    }
    let fields = Fields::new(bytes);
    let byte = |at| i64::from(fields.u8(at));
    let type_and_zone = fields.u16(0);
    // The low 12 bits, with their sign.
    let zone = i64::from((type_and_zone << 4).cast_signed() >> 4);
    let is_local = type_and_zone >> 12 == TYPE_LOCAL;
    let is_known = zone != ZONE_UNKNOWN && zone.abs() <= ZONE_MAX;
    let zone = if is_local && is_known { zone } else { 0 };
    let year = i64::from(fields.u16(2).cast_signed());
    let (month, day, hour, minute, second) = (byte(4), byte(5), byte(6), byte(7), byte(8));
    let plausible = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    if !plausible {
        return None;
    }
    let days = days_since_1970(year, month, day);
    let microseconds = u32::from(fields.u8(9)) * 10_000
        + u32::from(fields.u8(10)) * 100
        + u32::from(fields.u8(11));
    Some(Timestamp {
        seconds: days * 86_400 + hour * 3600 + minute * 60 + second - zone * 60,
        // Three bytes can be over a second.
        nanoseconds: microseconds.min(999_999) * 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(kind: u16, zone: i16, rest: [u8; 8], year: i16) -> Option<(i64, u32)> {
        let mut bytes = (kind << 12 | zone.cast_unsigned() & 0xfff)
            .to_le_bytes()
            .to_vec();
        bytes.extend(year.to_le_bytes());
        bytes.extend(rest);
        timestamp(&bytes).map(|time| (time.seconds, time.nanoseconds))
    }

    #[test]
    fn zones_and_fractions() {
        let noon = [1, 1, 12, 0, 0, 12, 34, 56];
        let seconds = 946_728_000;
        assert_eq!(stamp(1, 0, noon, 2000), Some((seconds, 123_456_000)));
        assert_eq!(stamp(1, 90, noon, 2000).unwrap().0, seconds - 5400);
        assert_eq!(stamp(1, -600, noon, 2000).unwrap().0, seconds + 36_000);
        assert_eq!(stamp(1, -2047, noon, 2000).unwrap().0, seconds, "no zone");
        assert_eq!(stamp(1, 1500, noon, 2000).unwrap().0, seconds, "too far");
        assert_eq!(stamp(0, 90, noon, 2000).unwrap().0, seconds, "UTC");
        assert_eq!(stamp(1, 0, [1, 1, 0, 0, 0, 0, 0, 0], 1970), Some((0, 0)));
        let late = [12, 31, 23, 59, 59, 255, 255, 255];
        assert_eq!(stamp(1, 0, late, 9999).unwrap().1, 999_999_000);
    }

    #[test]
    fn what_is_no_date() {
        assert_eq!(stamp(1, 0, [0; 8], 2000), None);
        assert_eq!(stamp(1, 0, [13, 1, 0, 0, 0, 0, 0, 0], 2000), None);
        assert_eq!(stamp(1, 0, [1, 1, 24, 0, 0, 0, 0, 0], 2000), None);
        assert_eq!(timestamp(&[1; 11]), None);
    }
}
