//! Small objects: what they are and all of their bytes, by one request.

use bytes::Bytes;
use hyper::StatusCode;
use md5::{Digest as _, Md5};

use super::Bucket;
use super::write::names_others;
use crate::error::{Error, Result};
use crate::inspect::described;
use crate::remote::ObjectInfo;
use crate::service::{Wanted, exchange};
use crate::sign::hex;

/// An object, and its bytes if it has at most `bytes_max`: as many as the answer says, and those
/// that its tag names, where that is their MD5.
pub(crate) async fn get(
    bucket: &Bucket,
    key: &str,
    bytes_max: u64,
) -> Result<(ObjectInfo, Option<Bytes>)> {
    let call = bucket.get(key)?;
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let answer = match exchange(bucket, &call, Wanted::Body(limit)).await.result {
        Ok(answer) => answer,
        // There are more bytes, or the answer makes no sense: HEAD says which.
        Err(Error::Protocol(_)) => return Ok((bucket.head(key).await?, None)),
        Err(error) => return Err(error),
    };
    let wrong = |text: &str| Error::Protocol(format!("{}: {text}", call.target.shown()));
    let info = described::<Bucket>(&answer.head)
        .filter(|_| answer.head.status == StatusCode::OK)
        .ok_or_else(|| wrong("the server does not say how long it is"))?;
    let md5 = hex(&Md5::digest(&answer.body));
    let etag = info.version.strong_etag();
    if info.version.length_bytes != answer.body.len() as u64
        || etag.is_some_and(|etag| names_others(&answer.head, etag, &md5))
    {
        return Err(wrong("the bytes that came are not those of its ETag"));
    }
    Ok((info, Some(Bytes::from(answer.body))))
}
