//! Time stamps: the 7-byte form of records and the 17-byte form of descriptors.

use pagewell_base::calendar::days_since_1970;
use pagewell_fs::Timestamp;

/// The 7-byte form (ECMA-119 clause 9.1.5): years since 1900, month, day, hour, minute, second,
/// zone. `None` when it is no date.
pub(super) fn short(bytes: &[u8]) -> Option<Timestamp> {
    let (stamp, _) = bytes.split_first_chunk::<7>()?;
    let [year, month, day, hour, minute, second, zone] = *stamp;
    seconds(
        1900 + i64::from(year),
        [month, day, hour, minute, second],
        zone,
    )
    .map(|seconds| Timestamp {
        seconds,
        nanoseconds: 0,
    })
}

/// The 17-byte form (ECMA-119 clause 8.4.26.1): sixteen digits to the hundredth of a second and a
/// zone. `None` when it is no date; zeros mean "not specified".
pub(super) fn long(bytes: &[u8]) -> Option<Timestamp> {
    let (stamp, _) = bytes.split_first_chunk::<17>()?;
    let digits = |from: usize, count: usize| {
        let mut value = 0u16;
        for digit in stamp.iter().skip(from).take(count) {
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value * 10 + u16::from(digit - b'0');
        }
        Some(value)
    };
    let byte = |from: usize| digits(from, 2).and_then(|value| u8::try_from(value).ok());
    let parts = [byte(4)?, byte(6)?, byte(8)?, byte(10)?, byte(12)?];
    let seconds = seconds(i64::from(digits(0, 4)?), parts, stamp[16])?;
    Some(Timestamp {
        seconds,
        nanoseconds: u32::from(byte(14)?) * 10_000_000,
    })
}

/// Seconds since 1970 of a local time; `zone` counts quarters of an hour east of Greenwich, -48 to
/// 52; other values count as 0.
fn seconds(year: i64, parts: [u8; 5], zone: u8) -> Option<i64> {
    let [month, day, hour, minute, second] = parts.map(i64::from);
    let plausible = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    if !plausible {
        return None;
    }
    let zone = i64::from(zone.cast_signed());
    let zone = if (-48..=52).contains(&zone) { zone } else { 0 };
    let days = days_since_1970(year, month, day);
    Some(days * 86400 + hour * 3600 + minute * 60 + second - zone * 900)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_stamps() {
        let at = |bytes: [u8; 7]| short(&bytes).map(|time| time.seconds);
        assert_eq!(at([70, 1, 1, 0, 0, 0, 0]), Some(0));
        assert_eq!(at([100, 2, 29, 12, 0, 0, 0]), Some(951_825_600));
        assert_eq!(at([255, 12, 31, 23, 59, 59, 0]), Some(5_869_583_999));
        assert_eq!(at([0, 1, 1, 0, 0, 0, 0]), Some(-2_208_988_800));
        assert_eq!(at([70, 1, 1, 1, 0, 0, 4]), Some(0));
        assert_eq!(at([70, 1, 1, 0, 0, 0, 0xd0]), Some(12 * 3600));
        assert_eq!(at([70, 1, 1, 0, 0, 0, 53]), Some(0), "zone out of range");
        for bad in [[70, 0, 1, 0, 0, 0, 0], [70, 1, 32, 0, 0, 0, 0], [0; 7]] {
            assert_eq!(at(bad), None);
        }
        assert_eq!(short(&[70, 1, 1, 0, 0, 0]), None);
    }

    #[test]
    fn long_stamps() {
        let time = long(b"2100010100000050\0").unwrap();
        assert_eq!(
            (time.seconds, time.nanoseconds),
            (4_102_444_800, 500_000_000)
        );
        assert_eq!(long(b"0000000000000000\0"), None);
        assert_eq!(long(b"21000101000000x0\0"), None);
        assert_eq!(long(b"2100010100000050"), None);
    }
}
