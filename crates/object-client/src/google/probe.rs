//! What a server makes of requests that it should refuse, and that no other call sends.

use bytes::Bytes;

use super::Bucket;
use super::write::insert;
use crate::error::{Error, Result};
use crate::service::{Wanted, attempt, exchange};
use crate::settle::token;
use crate::version::Version;
use crate::writable::Condition;

use super::{ANSWER_BYTES_MAX, resource};

/// Whether a body with another MD5 than that of its description is refused.
pub(crate) async fn compares_hashes(bucket: &Bucket, key: &str) -> Result<bool> {
    let body = Bytes::from_static(b"not what the hash says");
    let metadata = resource::described(&Vec::new())?;
    let digest = [0; 16];
    let boundary = token()?;
    let described = (metadata, digest);
    let mut call = insert(bucket, key, body, &Condition::Always, described, &boundary)?;
    let Err(refusal) = attempt(bucket, &mut call, Wanted::Body(ANSWER_BYTES_MAX)).await else {
        return Ok(false);
    };
    match refusal.failure.error {
        Error::Invalid(_) => Ok(true),
        error => Err(error),
    }
}

/// Whether a GET of a version that is gone is refused.
pub(crate) async fn honours_if_match(bucket: &Bucket, key: &str) -> Result<bool> {
    use crate::service::Service as _;
    let mut call = bucket.get(key)?;
    let gone = Version {
        etag: Some(resource::tag(1, false)),
        last_modified: None,
        length_bytes: 0,
    };
    bucket.pin(&mut call, &gone)?;
    match exchange(bucket, &call, Wanted::Head).await.result {
        Ok(_) => Ok(false),
        Err(Error::Changed) => Ok(true),
        Err(error) => Err(error),
    }
}
