//! Objects as a whole: PUT and DELETE, under a condition.
//!
//! Each body goes with its SHA-256, which the signature holds, and with its MD5: some servers do
//! not compare the former, and one kept what had come of a body that was cut. Where the answer's
//! ETag is the MD5 of an object it has to be this one.
//!
//! An answer that is lost leaves open whether the change happened. A conditional one that is tried
//! again then meets itself: so each object carries a token of the change that made it, and a HEAD
//! tells which it was.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{
    CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH,
};
use md5::{Digest as _, Md5};

use super::{ANSWER_BYTES_MAX, Bucket};
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::inspect::METADATA;
use crate::service::{Wanted, exchange};
use crate::settle::{Settled, TOKEN, deleted, settle, settled, token};
use crate::sign::hex;
use crate::transport::{Call, Head};
use crate::version::{Version, quoted};
use crate::writable::{Condition, Metadata};
use crate::xml;

const MD5: HeaderName = HeaderName::from_static("content-md5");
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// Objects of one request to delete many.
const DELETED_MAX: usize = 1000;

fn value(bytes: &[u8], what: &str) -> Result<HeaderValue> {
    HeaderValue::from_bytes(bytes)
        .map_err(|_| Error::Invalid(format!("{what}: a header cannot hold this value")))
}

/// The headers of metadata and of the token.
pub(crate) fn describe(headers: &mut HeaderMap, metadata: &Metadata, token: &str) -> Result<()> {
    for (name, text) in metadata {
        if name == TOKEN {
            continue;
        }
        let header = HeaderName::try_from(format!("{METADATA}{name}"))
            .map_err(|_| Error::Invalid(format!("metadata {name:?}: no name of a header")))?;
        headers.append(header, value(text, name)?);
    }
    let header = HeaderName::try_from(format!("{METADATA}{TOKEN}"))
        .map_err(|error| Error::Invalid(error.to_string()))?;
    headers.insert(header, value(token.as_bytes(), TOKEN)?);
    headers.insert(CONTENT_TYPE, MEDIA_TYPE);
    Ok(())
}

/// The headers of a condition.
pub(crate) fn condition(headers: &mut HeaderMap, condition: &Condition) -> Result<()> {
    match condition {
        Condition::Always => {}
        Condition::Absent => {
            headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        Condition::Is(version) => {
            let etag = version.strong_etag().ok_or_else(|| {
                let text = "a condition needs a version with a strong ETag";
                Error::Unsupported(text.to_owned())
            })?;
            headers.insert(IF_MATCH, value(etag.as_bytes(), "ETag")?);
        }
    }
    Ok(())
}

/// Gives a call its body, with the hashes of it. Returns the MD5 in hexadecimal digits.
pub(crate) fn carry(call: &mut Call, body: Bytes) -> Result<String> {
    let digest = Md5::digest(&body);
    let text = STANDARD.encode(digest);
    call.headers.insert(MD5, value(text.as_bytes(), "MD5")?);
    call.body_hash = crate::sign::hash(&body);
    call.body = body;
    Ok(hex(&digest))
}

/// Whether the tag of an answer is the MD5 of other bytes than those with this one.
pub(crate) fn names_others(head: &Head, etag: &str, md5: &str) -> bool {
    let bare = etag.trim_matches('"');
    let is_digest = bare.len() == 32 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Where the server encrypts, it is the digest of something else.
    let encryption = head.named("x-amz-server-side-encryption");
    let is_plain = encryption.is_none_or(|kind| kind == "AES256")
        && head
            .named("x-amz-server-side-encryption-customer-algorithm")
            .is_none();
    is_digest && is_plain && !bare.eq_ignore_ascii_case(md5)
}

/// The ETag of an answer, compared with the MD5 of what was sent where it is one.
pub(crate) fn etag(call: &Call, head: &Head, md5: &str) -> Result<Option<String>> {
    let Some(etag) = head.text(&ETAG).and_then(quoted) else {
        return Ok(None);
    };
    if names_others(head, &etag, md5) {
        let text = "the server has other bytes than were sent (ETag is not their MD5)";
        return Err(Error::Protocol(format!("{}: {text}", call.target.shown())));
    }
    Ok(Some(etag))
}

pub(crate) async fn put(
    bucket: &Bucket,
    key: &str,
    body: Bytes,
    wanted: &Condition,
    metadata: &Metadata,
) -> Result<Version> {
    let token = token()?;
    let length_bytes = body.len() as u64;
    let target = bucket.object(key, &[])?;
    let mut call = Call::new(Kind::Put, Method::PUT, target);
    describe(&mut call.headers, metadata, &token)?;
    condition(&mut call.headers, wanted)?;
    let md5 = carry(&mut call, body)?;
    let ended = exchange(bucket, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
    let answer = match settled(bucket, ended, key, &token, wanted).await? {
        Settled::Answered(answer) => answer,
        Settled::Made(version) => return Ok(version),
    };
    if let Some(etag) = etag(&call, &answer.head, &md5)? {
        return Ok(Version {
            etag: Some(etag),
            last_modified: None,
            length_bytes,
        });
    }
    // A server without ETags in its answers may have them elsewhere.
    let made = settle(bucket, key, &token).await?;
    made.ok_or(Error::Changed)
}

pub(crate) async fn delete(bucket: &Bucket, key: &str, wanted: &Condition) -> Result<()> {
    if *wanted == Condition::Absent {
        let text = "what is absent cannot be deleted";
        return Err(Error::Invalid(text.to_owned()));
    }
    let target = bucket.object(key, &[])?;
    let mut call = Call::new(Kind::Delete, Method::DELETE, target);
    condition(&mut call.headers, wanted)?;
    let ended = exchange(bucket, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
    deleted(bucket, ended, key, wanted).await
}

/// The body of a request to delete many.
fn names(keys: &[String]) -> String {
    let mut text = String::from(
        "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>",
    );
    for key in keys {
        text.push_str("<Object><Key>");
        text.push_str(&xml::escaped(key));
        text.push_str("</Key></Object>");
    }
    text.push_str("</Delete>");
    text
}

pub(crate) async fn delete_many(bucket: &Bucket, keys: &[String]) -> Result<Vec<(String, String)>> {
    let mut left = Vec::new();
    for keys in keys.chunks(DELETED_MAX) {
        let target = bucket.target("", &[("delete", "")])?;
        let shown = target.shown();
        let mut call = Call::new(Kind::Delete, Method::POST, target);
        let media_type = HeaderValue::from_static("application/xml");
        call.headers.insert(CONTENT_TYPE, media_type);
        carry(&mut call, Bytes::from(names(keys)))?;
        let answer = exchange(bucket, &call, Wanted::Body(ANSWER_BYTES_MAX))
            .await
            .result?;
        let wrong = |text: String| Error::Protocol(format!("{shown}: {text}"));
        let document = xml::parse(&answer.body).map_err(wrong)?;
        if !document.name.starts_with("Delete") {
            return Err(wrong(format!("the answer is a {}", document.name)));
        }
        let failed = document.all("Error").filter_map(|error| {
            let code = error.text_of("Code");
            let is_gone = code == "NoSuchKey";
            let text = format!("{code}: {}", error.text_of("Message"));
            let text = pagewell_base::line::one_line(&text);
            (!is_gone).then(|| (error.text_of("Key").to_owned(), text))
        });
        left.extend(failed);
    }
    Ok(left)
}
