//! Signatures of requests: AWS Signature Version 4 in the header `Authorization`.
//!
//! All headers of a call are signed. Values are signed as bytes: others' metadata need not be
//! ASCII.

use std::time::SystemTime;

use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::Method;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use crate::date;
use crate::options::Keys;
use crate::transport::{Call, Sign, Target};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const BODY_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn keyed(key: &[u8], text: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(key).map_or_else(
        |_| Vec::new(),
        |mut hmac| {
            hmac.update(text);
            hmac.finalize().into_bytes().to_vec()
        },
    )
}

/// The canonical request, which is hashed and signed, and the names of its headers.
fn canonical(
    method: &Method,
    target: &Target,
    headers: &HeaderMap,
    body_hash: &str,
) -> (Vec<u8>, String) {
    let (path, query) = target
        .path_and_query
        .split_once('?')
        .unwrap_or((&target.path_and_query, ""));
    let mut names: Vec<&HeaderName> = headers.keys().collect();
    names.sort_by_key(|name| name.as_str());
    let mut text = format!("{method}\n{path}\n{}\n", canonical_query(query)).into_bytes();
    for name in &names {
        text.extend_from_slice(name.as_str().as_bytes());
        text.push(b':');
        for (index, value) in headers.get_all(*name).iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend(folded(value.as_bytes()));
        }
        text.push(b'\n');
    }
    let names: Vec<&str> = names.into_iter().map(HeaderName::as_str).collect();
    let names = names.join(";");
    text.extend_from_slice(format!("\n{names}\n{body_hash}").as_bytes());
    (text, names)
}

/// A value without spaces around it, and with one space for several.
fn folded(value: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len());
    for &byte in value.trim_ascii() {
        if byte != b' ' || text.last() != Some(&b' ') {
            text.push(byte);
        }
    }
    text
}

/// An encoded query in canonical form: each name with a `=`, sorted.
fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(&str, &str)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

#[derive(Debug)]
pub(crate) struct Signing {
    pub keys: Keys,
    pub region: String,
}

impl Sign for Signing {
    fn is_for(&self, host: &str) -> bool {
        host.ends_with(".amazonaws.com")
    }

    /// All headers but those that a signature needs are there.
    fn sign(&self, call: &Call, headers: &mut HeaderMap, now: SystemTime) {
        let time = date::basic(now);
        let day = time.get(..8).unwrap_or("");
        let mut set = |name: HeaderName, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        set(HOST, &call.target.origin.authority());
        set(DATE, &time);
        set(BODY_HASH, &call.body_hash);
        if let Some(token) = &self.keys.session_token {
            set(TOKEN, token);
        }
        let (request, names) = canonical(&call.method, &call.target, headers, &call.body_hash);
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hash(&request));
        let secret = format!("AWS4{}", self.keys.secret_access_key);
        let mut key = keyed(secret.as_bytes(), day.as_bytes());
        for part in [self.region.as_str(), "s3", "aws4_request"] {
            key = keyed(&key, part.as_bytes());
        }
        let signature = hex(&keyed(&key, text.as_bytes()));
        let public = &self.keys.access_key_id;
        let value = format!(
            "{ALGORITHM} Credential={public}/{scope}, SignedHeaders={names}, Signature={signature}"
        );
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
    use crate::percent;
    use std::time::{Duration, UNIX_EPOCH};

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn target(host: &str, path_and_query: &str) -> Target {
        let (origin, _) = Origin::parse(&format!("https://{host}")).expect("an origin");
        Target {
            origin,
            path_and_query: path_and_query.to_owned(),
        }
    }

    /// The examples of the manual of S3 ("Authenticating requests: using the Authorization
    /// header").
    #[test]
    fn signatures_are_those_of_the_manual() {
        type Example = (
            Method,
            &'static str,
            &'static [(&'static str, &'static str)],
            &'static [u8],
            &'static str,
        );
        let examples: [Example; 4] = [
            (
                Method::GET,
                "/test.txt",
                &[("range", "bytes=0-9")],
                b"",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                Method::PUT,
                "/test%24file.text",
                &[
                    ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                    ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ],
                b"Welcome to Amazon S3.",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                Method::GET,
                "/?lifecycle",
                &[],
                b"",
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                Method::GET,
                "/?prefix=J&max-keys=2",
                &[],
                b"",
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ];
        for (method, path, given, body, expected) in examples {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.insert(
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                );
            }
            let signing = Signing {
                keys: Keys {
                    access_key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
                    secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
                    session_token: None,
                },
                region: "us-east-1".to_owned(),
            };
            let now = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
            let target = target("examplebucket.s3.amazonaws.com", path);
            let call = Call {
                body_hash: hash(body),
                ..Call::new(Kind::Get, method, target)
            };
            signing.sign(&call, &mut headers, now);
            let value = headers[AUTHORIZATION].to_str().expect("text");
            assert!(value.ends_with(expected), "{path}: {value}");
        }
    }

    /// S3 signs keys as they are: nothing is joined, resolved or encoded twice.
    #[test]
    fn keys_are_signed_as_they_travel() {
        for key in [
            "a//b", "./y", "../y", "x ", "dir/", "a~b", "a%41b", "\u{e9}",
        ] {
            let path = format!("/bucket/{}", percent::path(key));
            let (request, names) =
                canonical(&Method::GET, &target("h", &path), &HeaderMap::new(), EMPTY);
            let expected = format!("GET\n{path}\n\n\n\n{EMPTY}");
            assert_eq!(String::from_utf8(request).expect("text"), expected);
            assert_eq!(names, "");
        }
    }

    #[test]
    fn headers_are_sorted_folded_and_bytes() {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes("  \u{e9}  b ".as_bytes()).expect("a value");
        headers.insert("x-amz-meta-b", value);
        headers.insert("range", HeaderValue::from_static("bytes=0-1"));
        let (request, names) = canonical(&Method::PUT, &target("h", "/b?x&a=1"), &headers, EMPTY);
        let expected = format!(
            "PUT\n/b\na=1&x=\nrange:bytes=0-1\nx-amz-meta-b:\u{e9} b\n\nrange;x-amz-meta-b\n{EMPTY}"
        );
        assert_eq!(String::from_utf8(request).expect("text"), expected);
        assert_eq!(names, "range;x-amz-meta-b");
    }
}
