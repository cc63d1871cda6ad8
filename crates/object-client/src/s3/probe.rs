//! What a server makes of requests that it should refuse, and that no other call sends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderValue, IF_MATCH};

use super::{ANSWER_BYTES_MAX, Bucket};
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::service::{Wanted, attempt, exchange};

/// Whether a PUT with another MD5 than that of its body is refused.
pub(crate) async fn compares_hashes(bucket: &Bucket, key: &str) -> Result<bool> {
    let body = Bytes::from_static(b"not what the hash says");
    let target = bucket.object(key, &[])?;
    let mut call = Bucket::call(Kind::Put, Method::PUT, target, body);
    let wrong = STANDARD.encode([0; 16]);
    let wrong = HeaderValue::try_from(wrong).map_err(|error| Error::Invalid(error.to_string()))?;
    call.headers.insert("content-md5", wrong);
    // Once: a hash that is wrong is tried again by others, as damage on the way.
    let Err(refusal) = attempt(bucket, &mut call, Wanted::Body(ANSWER_BYTES_MAX)).await else {
        return Ok(false);
    };
    match refusal.failure.error {
        Error::Invalid(_) | Error::TryLater(_) if !refusal.failure.is_unclear => Ok(true),
        error => Err(error),
    }
}

/// Whether a GET under a condition that fails is refused.
pub(crate) async fn honours_if_match(bucket: &Bucket, key: &str) -> Result<bool> {
    let mut call = bucket.get(key)?;
    let other = HeaderValue::from_static("\"00000000000000000000000000000000\"");
    call.headers.insert(IF_MATCH, other);
    match exchange(bucket, &call, Wanted::Head).await.result {
        Ok(_) => Ok(false),
        Err(Error::Changed) => Ok(true),
        Err(error) => Err(error),
    }
}
