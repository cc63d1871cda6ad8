//! Versions of objects.

use std::time::{SystemTime, UNIX_EPOCH};

/// A version of an object, as a server named it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The entity tag with its quotation marks, `W/` in front if it is weak (RFC 9110, 8.8.3).
    pub etag: Option<String>,
    /// The last change by the server: whole seconds in HTTP, finer in some listings. Some servers
    /// give here what a client wrote into the metadata.
    pub last_modified: Option<SystemTime>,
    /// How many bytes it has.
    pub length_bytes: u64,
}

impl Version {
    /// A version that was just made: a reply tells the tag alone.
    pub(crate) fn made(etag: String, length_bytes: u64) -> Self {
        Self {
            etag: Some(etag),
            last_modified: None,
            length_bytes,
        }
    }

    /// Whether no strong tag names it: two versions may look alike.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.strong_etag().is_none()
    }

    /// The tag, unless it is weak.
    #[must_use]
    pub fn strong_etag(&self) -> Option<&str> {
        let etag = self.etag.as_deref()?;
        (!etag.starts_with("W/")).then_some(etag)
    }

    /// Whether both name the same bytes, as well as can be seen: by length and strong tags; without
    /// these, by the second of the last change.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        if self.length_bytes != other.length_bytes {
            return false;
        }
        match (self.strong_etag(), other.strong_etag()) {
            (Some(own), Some(other)) => own == other,
            _ => seconds(self.last_modified) == seconds(other.last_modified),
        }
    }
}

fn seconds(time: Option<SystemTime>) -> Option<u64> {
    let since = time?.duration_since(UNIX_EPOCH);
    Some(since.map_or(0, |since| since.as_secs()))
}

/// A tag in the form of headers: some servers leave out the quotation marks.
pub(crate) fn quoted(etag: &str) -> Option<String> {
    let etag = etag.trim();
    let is_quoted = etag.ends_with('"') && etag.trim_start_matches("W/").starts_with('"');
    match etag {
        "" | "\"\"" => None,
        etag if is_quoted => Some(etag.to_owned()),
        etag => Some(format!("\"{etag}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn version(etag: Option<&str>, milliseconds: Option<u64>) -> Version {
        let time = |milliseconds| UNIX_EPOCH + Duration::from_millis(milliseconds);
        Version {
            etag: etag.map(str::to_owned),
            last_modified: milliseconds.map(time),
            length_bytes: 5,
        }
    }

    #[test]
    fn strong_tags_decide_and_times_only_without() {
        let strong = version(Some("\"a\""), Some(1_000));
        assert!(!strong.is_weak());
        assert!(strong.is_same(&version(Some("\"a\""), Some(9_000))));
        assert!(!strong.is_same(&version(Some("\"b\""), Some(1_000))));
        assert!(!strong.is_same(&Version {
            length_bytes: 6,
            ..strong.clone()
        }));
        let weak = version(Some("W/\"a\""), Some(1_000));
        assert!(weak.is_weak());
        assert!(weak.is_same(&version(None, Some(1_999))));
        assert!(!weak.is_same(&version(Some("W/\"a\""), Some(2_000))));
        assert!(!weak.is_same(&version(None, None)));
    }

    #[test]
    fn tags_get_their_quotation_marks() {
        assert_eq!(quoted("abc-2").as_deref(), Some("\"abc-2\""));
        assert_eq!(quoted(" \"abc\" ").as_deref(), Some("\"abc\""));
        assert_eq!(quoted("W/\"abc\"").as_deref(), Some("W/\"abc\""));
        assert_eq!(quoted(""), None);
    }
}
