//! Small objects of stores: their description and all of their bytes, by one request.

use bytes::Bytes;
use hyper::StatusCode;
use md5::{Digest as _, Md5};

use crate::error::{Error, Result};
use crate::inspect::described;
use crate::remote::ObjectInfo;
use crate::service::{Wanted, exchange};
use crate::sign::hex;
use crate::store::Store;
use crate::transport::{Call, Head};

/// The object of a GET, and its bytes if it has at most `bytes_max`. The bytes must be as many as
/// the reply says, and no `others` by the MD5 that it may name.
pub(crate) async fn get<S: Store>(
    store: &S,
    call: &Call,
    key: &str,
    bytes_max: u64,
    names_others: impl Fn(&Head, &str) -> bool + Send,
) -> Result<(ObjectInfo, Option<Bytes>)> {
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let answer = match exchange(store, call, Wanted::Body(limit)).await.result {
        Ok(answer) => answer,
        // There are more bytes, or the reply makes no sense: HEAD says which.
        Err(Error::Protocol(_)) => return Ok((store.head(key).await?, None)),
        Err(error) => return Err(error),
    };
    let wrong = |text: &str| Error::Protocol(format!("{}: {text}", call.target.shown()));
    let info = described::<S>(&answer.head)
        .filter(|_| answer.head.status == StatusCode::OK)
        .ok_or_else(|| wrong("the server does not say how long it is"))?;
    let md5 = hex(&Md5::digest(&answer.body));
    if info.version.length_bytes != answer.body.len() as u64 || names_others(&answer.head, &md5) {
        return Err(wrong(
            "the bytes that came are not those that the answer names",
        ));
    }
    Ok((info, Some(Bytes::from(answer.body))))
}
