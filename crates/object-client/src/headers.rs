//! Headers of all stores: metadata, conditions, and hashes of bodies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use md5::{Digest as _, Md5};

use crate::error::{Error, Result};
use crate::service::Service;
use crate::settle::TOKEN;
use crate::sign::hex;
use crate::transport::Call;
use crate::writable::{Condition, Metadata};

pub(crate) const MD5: HeaderName = HeaderName::from_static("content-md5");
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

pub(crate) fn value(bytes: &[u8], what: &str) -> Result<HeaderValue> {
    HeaderValue::from_bytes(bytes)
        .map_err(|_| Error::Invalid(format!("{what}: a header cannot hold this value")))
}

fn header<S: Service>(name: &str) -> Result<HeaderName> {
    HeaderName::try_from(S::metadata_header(name))
        .map_err(|_| Error::Invalid(format!("metadata {name:?}: no name of a header")))
}

pub(crate) fn describe<S: Service>(
    headers: &mut HeaderMap,
    metadata: &Metadata,
    token: &str,
) -> Result<()> {
    for (name, text) in metadata {
        if name == TOKEN {
            continue;
        }
        headers.append(header::<S>(name)?, value(text, name)?);
    }
    headers.insert(header::<S>(TOKEN)?, value(token.as_bytes(), TOKEN)?);
    headers.insert(CONTENT_TYPE, MEDIA_TYPE);
    Ok(())
}

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

/// Gives a call its body and the MD5 of it, which is returned in hexadecimal digits.
pub(crate) fn carry(call: &mut Call, body: Bytes) -> Result<String> {
    let digest = Md5::digest(&body);
    let text = STANDARD.encode(digest);
    call.headers.insert(MD5, value(text.as_bytes(), "MD5")?);
    call.body = body;
    Ok(hex(&digest))
}
