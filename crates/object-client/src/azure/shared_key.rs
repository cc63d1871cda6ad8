//! The key of an account, and what it signs: requests ("Authorize with Shared Key"), and URLs from
//! which the store itself reads ("Create a service SAS").

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};

use crate::date;
use crate::headers::MD5;
use crate::percent;
use crate::sign::keyed;
use crate::transport::{Call, Sign};

/// The version of the API.
pub(crate) const VERSION: &str = "2024-11-04";
const DATE: HeaderName = HeaderName::from_static("x-ms-date");
/// How long such a URL is valid.
const SOURCE_TIME: Duration = Duration::from_secs(3600);

#[derive(PartialEq, Eq)]
pub(crate) struct SharedKey {
    account: String,
    key: Vec<u8>,
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SharedKey({}, ..)", self.account)
    }
}

impl SharedKey {
    /// A key by its base 64; `None` if the text is not that.
    pub(crate) fn new(account: &str, key: &str) -> Option<Self> {
        let key = STANDARD.decode(key.trim()).ok()?;
        (!key.is_empty()).then(|| Self {
            account: account.to_owned(),
            key,
        })
    }

    fn signature(&self, text: &[u8]) -> String {
        STANDARD.encode(keyed(&self.key, text))
    }

    /// The query by which the object `key` of a container can be read for a while.
    pub(crate) fn source(&self, container: &str, key: &str, now: SystemTime) -> String {
        let until = date::zulu(now + SOURCE_TIME);
        let resource = format!("/blob/{}/{container}/{key}", self.account);
        // Permission, times, resource; identifier, addresses, protocol; version, kind; snapshot,
        // scope of encryption, and five headers of the reply.
        let text = format!("r\n\n{until}\n{resource}\n\n\n\n{VERSION}\nb\n\n\n\n\n\n\n");
        let signature = self.signature(text.as_bytes());
        percent::query(&[
            ("sp", "r"),
            ("se", &until),
            ("sv", VERSION),
            ("sr", "b"),
            ("sig", &signature),
        ])
    }

    fn text(&self, call: &Call, headers: &HeaderMap) -> Vec<u8> {
        let mut text = format!("{}\n", call.method).into_bytes();
        let mut add = |value: &[u8]| {
            text.extend_from_slice(value.trim_ascii());
            text.push(b'\n');
        };
        let of = |name: &HeaderName| headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
        add(of(&CONTENT_ENCODING));
        add(of(&CONTENT_LANGUAGE));
        let length = call.body_bytes();
        // A length of 0 is left out, and so is the date, which is among the others.
        add(if length == 0 {
            String::new()
        } else {
            length.to_string()
        }
        .as_bytes());
        add(of(&MD5));
        add(of(&CONTENT_TYPE));
        add(b"");
        for name in [
            IF_MODIFIED_SINCE,
            IF_MATCH,
            IF_NONE_MATCH,
            IF_UNMODIFIED_SINCE,
            RANGE,
        ] {
            add(of(&name));
        }
        let mut own: Vec<_> = headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("x-ms-"))
            .collect();
        own.sort_by_cached_key(|(name, _)| place_of(name.as_str()));
        for (name, value) in own {
            text.extend_from_slice(name.as_str().as_bytes());
            text.push(b':');
            text.extend_from_slice(value.as_bytes().trim_ascii());
            text.push(b'\n');
        }
        text.extend_from_slice(self.resource(call).as_bytes());
        text
    }

    /// Account, path, and the decoded parameters of the query.
    fn resource(&self, call: &Call) -> String {
        let whole = &call.target.path_and_query;
        let (path, query) = whole.split_once('?').unwrap_or((whole, ""));
        let mut pairs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text: &str| percent::decode_text(text).unwrap_or_default();
            let values = pairs.entry(decoded(name).to_ascii_lowercase()).or_default();
            values.push(decoded(value));
        }
        let mut text = format!("/{}{path}", self.account);
        for (name, mut values) in pairs {
            values.sort();
            text.push_str(&format!("\n{name}:{}", values.join(",")));
        }
        text
    }
}

/// The order of headers at the service, which is that of a language: hyphens weigh nothing, an
/// underscore less than digits, and those less than letters.
fn place_of(name: &str) -> (Vec<u8>, &str) {
    let weight = |byte| if byte == b'_' { b'!' } else { byte };
    let bytes = name.bytes().filter(|byte| *byte != b'-');
    (bytes.map(weight).collect(), name)
}

impl Sign for SharedKey {
    fn sign(&self, call: &Call, headers: &mut HeaderMap, now: SystemTime) {
        if let Ok(value) = HeaderValue::from_str(&date::http_text(now)) {
            headers.insert(DATE, value);
        }
        let signature = self.signature(&self.text(call, headers));
        let value = format!("SharedKey {}:{signature}", self.account);
        if let Ok(mut value) = HeaderValue::from_str(&value) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Kind;
    use crate::location::Origin;
    use crate::transport::Target;
    use hyper::Method;

    fn call(method: Method, path_and_query: &str) -> Call {
        let (origin, _) = Origin::parse("https://myaccount.blob.core.windows.net").expect("a URL");
        let target = Target {
            origin,
            path_and_query: path_and_query.to_owned(),
        };
        Call::new(Kind::Put, method, target)
    }

    fn key() -> SharedKey {
        SharedKey::new("myaccount", "a2V5").expect("a key")
    }

    fn text(call: &Call) -> String {
        String::from_utf8(key().text(call, &call.headers)).expect("text")
    }

    /// The examples of the manual ("Authorize with Shared Key").
    #[test]
    fn requests_are_signed_as_the_manual_says() {
        let mut get = call(
            Method::GET,
            "/mycontainer?restype=container&comp=metadata&timeout=20",
        );
        let own = [
            ("x-ms-version", "2015-02-21"),
            ("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"),
        ];
        for (name, value) in own {
            get.headers.insert(name, HeaderValue::from_static(value));
        }
        assert_eq!(
            text(&get),
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n\
             x-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nrestype:container\n\
             timeout:20"
        );
        let list = call(
            Method::GET,
            "/container?include=snapshots&include=metadata&comp=list",
        );
        let expected = "/myaccount/container\ncomp:list\ninclude:metadata,snapshots";
        assert!(text(&list).ends_with(expected));
    }

    #[test]
    fn bodies_ranges_and_keys_are_signed() {
        let mut put = call(Method::PUT, "/c/a%20%2541//b%C3%A9?blockid=a%2Bb%3D");
        put.body = bytes::Bytes::from_static(b"abc");
        put.headers
            .insert(RANGE, HeaderValue::from_static("bytes=0-1"));
        put.headers
            .insert(IF_MATCH, HeaderValue::from_static("\"e\""));
        put.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        assert_eq!(
            text(&put),
            "PUT\n\n\n3\n\ntext/plain\n\n\n\"e\"\n\n\nbytes=0-1\n\
             /myaccount/c/a%20%2541//b%C3%A9\nblockid:a+b="
        );
        let mut headers = HeaderMap::new();
        key().sign(&put, &mut headers, SystemTime::UNIX_EPOCH);
        let signed = headers[AUTHORIZATION].to_str().expect("text");
        assert!(signed.starts_with("SharedKey myaccount:"), "{signed}");
        assert_eq!(headers[DATE], "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(format!("{:?}", key()), "SharedKey(myaccount, ..)");
    }

    #[test]
    fn a_key_is_of_base_64() {
        for wrong in ["", "%%", "a"] {
            assert!(SharedKey::new("a", wrong).is_none(), "{wrong}");
        }
        let query = key().source("c", "a b", SystemTime::UNIX_EPOCH);
        let start = "se=1970-01-01T01%3A00%3A00Z&sig=";
        assert!(query.starts_with(start), "{query}");
        assert!(query.ends_with("&sp=r&sr=b&sv=2024-11-04"), "{query}");
    }

    #[test]
    fn headers_are_sorted_as_the_service_does_it() {
        let mut names = [
            "x-ms-meta-ib",
            "x-ms-meta-i_",
            "x-ms-meta-i0",
            "x-ms-date",
            "x-ms-meta-i",
        ];
        names.sort_by_cached_key(|name| place_of(name));
        let sorted = [
            "x-ms-date",
            "x-ms-meta-i",
            "x-ms-meta-i_",
            "x-ms-meta-i0",
            "x-ms-meta-ib",
        ];
        assert_eq!(names, sorted);
    }
}
