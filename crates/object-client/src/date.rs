//! Times as servers write them.

use std::time::{SystemTime, UNIX_EPOCH};

use reqsign_core::time::Timestamp;

fn since_1970(timestamp: Timestamp) -> Option<SystemTime> {
    // Earlier ones are no times of changes.
    (timestamp.as_second() >= 0).then(|| timestamp.as_system_time())
}

/// `Sat, 28 Nov 2026 03:21:43 GMT` (RFC 9110, 5.6.7).
pub(crate) fn http(text: &str) -> Option<SystemTime> {
    since_1970(Timestamp::parse_rfc2822(text).ok()?)
}

/// `2026-11-28T03:42:41.928Z`, as listings have it.
pub(crate) fn iso(text: &str) -> Option<SystemTime> {
    since_1970(text.parse().ok()?)
}

fn text(time: SystemTime, format: impl Fn(Timestamp) -> String) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_or_else(|_| String::new(), format)
}

/// `20261128T034241Z`, as signatures of S3 have it.
pub(crate) fn basic(time: SystemTime) -> String {
    text(time, Timestamp::format_iso8601)
}

/// `2026-11-28T03:42:41Z`, as signatures of URLs have it.
pub(crate) fn zulu(time: SystemTime) -> String {
    text(time, Timestamp::format_rfc3339_zulu)
}

/// `Sat, 28 Nov 2026 03:21:43 GMT`, the reverse of [`http`].
pub(crate) fn http_text(time: SystemTime) -> String {
    text(time, Timestamp::format_http_date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_of_servers_are_read() {
        let expected = UNIX_EPOCH + Duration::from_secs(1_795_836_103);
        assert_eq!(http("Sat, 28 Nov 2026 03:21:43 GMT"), Some(expected));
        assert_eq!(iso("2026-11-28T03:21:43Z"), Some(expected));
        let finer = expected + Duration::from_millis(928);
        assert_eq!(iso("2026-11-28T03:21:43.928Z"), Some(finer));
        assert_eq!(basic(expected), "20261128T032143Z");
        assert_eq!(zulu(expected), "2026-11-28T03:21:43Z");
        assert_eq!(http_text(expected), "Sat, 28 Nov 2026 03:21:43 GMT");
        for text in [
            "",
            "yesterday",
            "2026-11-28",
            "Sat, 99 Nov 2026 03:21:43 GMT",
        ] {
            assert_eq!(http(text), None, "{text}");
            assert_eq!(iso(text), None, "{text}");
        }
        assert_eq!(http("Sat, 28 Nov 1926 03:21:43 GMT"), None);
    }
}
