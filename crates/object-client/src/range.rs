//! Whether a reply to a GET of a range is what was asked: bytes of two versions must never come
//! together.
//!
//! A condition in the request is no guarantee: several servers ignore If-Match, and all that were
//! tried ignore If-Range. So each reply is compared:
//!
//! ```text
//!   status            206, or 200 where all bytes are wanted
//!   ETag              that of the version; without, Last-Modified to the second
//!   Content-Range     the bytes that were asked for, and the length of the version
//!   Content-Length    the bytes that were asked for
//!   Content-Encoding  none
//! ```
//!
//! A store keeps `Content-Encoding` as a description, and sends the bytes as they are: there it is
//! no objection if `Content-Length` is exact, which it is not of bytes that were compressed on the
//! way.

use std::ops::Range;

use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, LAST_MODIFIED};

use crate::date;
use crate::transport::Head;
use crate::version::{Version, quoted};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its body is the bytes that were asked for.
    Right,
    /// The object is another version now.
    Changed,
    /// The server sends all bytes for any range.
    Ignored,
    Wrong(String),
}

/// `bytes FIRST-LAST/TOTAL`; the total may be unknown.
pub(crate) fn content_range(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (unit, rest) = text.trim().split_once(' ')?;
    let (range, total) = rest.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let total = match total {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    let is_right = unit.eq_ignore_ascii_case("bytes") && first <= last && last < u64::MAX;
    is_right.then(|| (first..last + 1, total))
}

pub(crate) fn version(head: &Head, length_bytes: u64) -> Version {
    Version {
        etag: head.text(&ETAG).and_then(quoted),
        last_modified: head.text(&LAST_MODIFIED).and_then(date::http),
        length_bytes,
    }
}

/// Compares tags, or times where there are none.
fn same_version(head: &Head, wanted: &Version) -> Verdict {
    let found = version(head, wanted.length_bytes);
    if let Some(strong) = wanted.strong_etag() {
        return match found.etag.as_deref() {
            None => Verdict::Wrong("it has no ETag".to_owned()),
            Some(etag) if etag == strong => Verdict::Right,
            Some(etag) if etag.strip_prefix("W/") == Some(strong) => {
                Verdict::Wrong("its ETag is weak".to_owned())
            }
            Some(_) => Verdict::Changed,
        };
    }
    // The tag of a file that has just changed is weak at first, and strong a second later.
    let opaque = |etag: &Option<String>| {
        let etag = etag.as_deref()?;
        Some(etag.trim_start_matches("W/").to_owned())
    };
    if let (Some(wanted), Some(found)) = (opaque(&wanted.etag), opaque(&found.etag))
        && wanted != found
    {
        return Verdict::Changed;
    }
    match (wanted.last_modified, found.last_modified) {
        (Some(_), None) => Verdict::Wrong("it has no Last-Modified".to_owned()),
        (None, _) => Verdict::Right,
        (Some(_), Some(_)) => {
            let wanted = Version {
                etag: None,
                ..wanted.clone()
            };
            if wanted.is_same(&Version {
                etag: None,
                ..found
            }) {
                Verdict::Right
            } else {
                Verdict::Changed
            }
        }
    }
}

/// Compares a reply with the request for the bytes `range`, not empty, of `wanted`.
pub(crate) fn check(head: &Head, wanted: &Version, range: &Range<u64>, is_store: bool) -> Verdict {
    let wrong = |text: String| Verdict::Wrong(text);
    let expected = range.end - range.start;
    let length = head.content_length();
    if head.status != StatusCode::OK && head.status != StatusCode::PARTIAL_CONTENT {
        return wrong(format!("status {}", head.status.as_u16()));
    }
    let encoding = head.text(&CONTENT_ENCODING).unwrap_or("identity");
    let is_encoded = !encoding.eq_ignore_ascii_case("identity");
    if is_encoded && !(is_store && length == Some(expected)) {
        return wrong(format!("Content-Encoding is {encoding:?}"));
    }
    match same_version(head, wanted) {
        Verdict::Right => {}
        other => return other,
    }
    if head.status == StatusCode::OK {
        let is_all = *range == (0..wanted.length_bytes);
        return match length {
            Some(length) if length != wanted.length_bytes => other_length(wanted, length),
            _ if !is_all => Verdict::Ignored,
            _ => Verdict::Right,
        };
    }
    let given = head.text(&CONTENT_RANGE).unwrap_or("");
    match content_range(given) {
        None => wrong(format!("Content-Range is {given:?}")),
        Some((_, Some(total))) if total != wanted.length_bytes => other_length(wanted, total),
        Some((found, _)) if found != *range => {
            let (first, last) = (range.start, range.end - 1);
            wrong(format!("Content-Range is {given:?}, not {first}-{last}"))
        }
        Some(_) if length.is_some_and(|length| length != expected) => {
            let length = length.unwrap_or_default();
            wrong(format!("Content-Length is {length}, not {expected}"))
        }
        Some(_) => Verdict::Right,
    }
}

/// The same strong tag on another length is a lie; without one the object has changed.
fn other_length(wanted: &Version, length: u64) -> Verdict {
    if wanted.is_weak() {
        return Verdict::Changed;
    }
    let expected = wanted.length_bytes;
    Verdict::Wrong(format!("it has {length} bytes and not {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    const MODIFIED: &str = "Sat, 28 Nov 2026 03:21:43 GMT";

    fn head(status: u16, headers: &[(&'static str, &str)]) -> Head {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).expect("a value");
            map.insert(HeaderName::from_static(name), value);
        }
        Head {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: map,
        }
    }

    fn strong() -> Version {
        Version {
            etag: Some("\"a\"".to_owned()),
            last_modified: date::http(MODIFIED),
            length_bytes: 100,
        }
    }

    fn weak() -> Version {
        Version {
            etag: None,
            ..strong()
        }
    }

    fn judge(status: u16, headers: &[(&'static str, &str)], range: Range<u64>) -> Verdict {
        check(&head(status, headers), &strong(), &range, false)
    }

    const RIGHT: [(&str, &str); 3] = [
        ("etag", "\"a\""),
        ("content-range", "bytes 10-19/100"),
        ("content-length", "10"),
    ];

    fn with(changed: &[(&'static str, &'static str)]) -> Verdict {
        let mut headers = RIGHT.to_vec();
        for (name, value) in changed {
            headers.retain(|(known, _)| known != name);
            if !value.is_empty() {
                headers.push((name, value));
            }
        }
        judge(206, &headers, 10..20)
    }

    #[test]
    fn what_was_asked_is_right() {
        assert_eq!(with(&[]), Verdict::Right);
        assert_eq!(with(&[("content-length", "")]), Verdict::Right);
        assert_eq!(with(&[("content-range", "bytes 10-19/*")]), Verdict::Right);
        assert_eq!(with(&[("content-encoding", "identity")]), Verdict::Right);
        assert_eq!(with(&[("last-modified", "nonsense")]), Verdict::Right);
        let whole = [("etag", "\"a\""), ("content-length", "100")];
        assert_eq!(judge(200, &whole, 0..100), Verdict::Right);
        assert_eq!(judge(200, &[("etag", "\"a\"")], 0..100), Verdict::Right);
    }

    #[test]
    fn another_version_is_seen() {
        assert_eq!(with(&[("etag", "\"b\"")]), Verdict::Changed);
        assert_eq!(judge(200, &[("etag", "\"b\"")], 0..100), Verdict::Changed);
        let of = |headers: &[(&'static str, &str)]| {
            check(&head(206, headers), &weak(), &(10..20), false)
        };
        let range = ("content-range", "bytes 10-19/100");
        assert_eq!(of(&[range, ("last-modified", MODIFIED)]), Verdict::Right);
        let later = "Sat, 28 Nov 2026 03:21:44 GMT";
        assert_eq!(of(&[range, ("last-modified", later)]), Verdict::Changed);
        assert!(matches!(of(&[range]), Verdict::Wrong(_)));
        let tagged = Version {
            etag: Some("W/\"a\"".to_owned()),
            ..weak()
        };
        let of_tag = |tag: &'static str| {
            let headers = [range, ("last-modified", MODIFIED), ("etag", tag)];
            check(&head(206, &headers), &tagged, &(10..20), false)
        };
        assert_eq!(of_tag("W/\"a\""), Verdict::Right);
        assert_eq!(of_tag("\"a\""), Verdict::Right);
        assert_eq!(of_tag("W/\"b\""), Verdict::Changed);
        let grown = ("content-range", "bytes 10-19/101");
        assert_eq!(of(&[grown, ("last-modified", MODIFIED)]), Verdict::Changed);
    }

    #[test]
    fn lies_are_wrong() {
        for changed in [
            ("etag", ""),
            ("etag", "W/\"a\""),
            ("content-range", ""),
            ("content-range", "bytes 10-18/100"),
            ("content-range", "bytes 11-19/100"),
            ("content-range", "bytes 0-9/100"),
            ("content-range", "bytes 10-19/99"),
            ("content-range", "bytes */100"),
            ("content-range", "bytes 10--1/100"),
            ("content-range", "bytes 10-18446744073709551615/100"),
            ("content-length", "9"),
            ("content-length", "11"),
            ("content-encoding", "gzip"),
        ] {
            assert!(matches!(with(&[changed]), Verdict::Wrong(_)), "{changed:?}");
        }
        for status in [204, 304, 404, 416, 500] {
            assert!(matches!(judge(status, &RIGHT, 10..20), Verdict::Wrong(_)));
        }
    }

    #[test]
    fn a_server_that_ignores_ranges_is_known() {
        let whole = [("etag", "\"a\""), ("content-length", "100")];
        assert_eq!(judge(200, &whole, 0..10), Verdict::Ignored);
        assert_eq!(judge(200, &whole, 90..100), Verdict::Ignored);
        let short = [("etag", "\"a\""), ("content-length", "99")];
        assert!(matches!(judge(200, &short, 0..100), Verdict::Wrong(_)));
    }

    #[test]
    fn a_store_may_name_an_encoding_of_the_bytes_that_it_keeps() {
        let mut headers = RIGHT.to_vec();
        headers.push(("content-encoding", "gzip"));
        let judge = |headers: &[(&'static str, &str)]| {
            check(&head(206, headers), &strong(), &(10..20), true)
        };
        assert_eq!(judge(&headers), Verdict::Right);
        headers.retain(|(name, _)| *name != "content-length");
        assert!(matches!(judge(&headers), Verdict::Wrong(_)));
    }

    #[test]
    fn any_content_range_is_read_or_refused() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            for text in [text.to_string(), format!("bytes {text}")] {
                if let Some((range, _)) = content_range(&text) {
                    assert!(!range.is_empty());
                }
            }
        });
    }
}
