//! Blobs as a whole: Put Blob and Delete Blob, under a condition. Each body goes with its MD5,
//! which Azure compares and returns.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{ETAG, HeaderName, HeaderValue};
use tokio::task::JoinSet;

use super::{ANSWER_BYTES_MAX, Container};
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::headers::{MD5, carry, condition, describe};
use crate::provoke;
use crate::service::{Answer, Wanted, exchange};
use crate::settle::{Settled, deleted, seen, settled, token};
use crate::sign::hex;
use crate::store::{Store as _, WholeObjects};
use crate::transport::{Call, Head};
use crate::version::{Version, quoted};
use crate::writable::{Condition, Metadata};

const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");
/// Deletes at once. In a batch each of them would have to be signed by itself.
const DELETES_MAX: usize = 16;

fn to_put(container: &Container, key: &str) -> Result<Call> {
    let mut call = Call::new(Kind::Put, Method::PUT, container.made(key, &[])?);
    let block_blob = HeaderValue::from_static("BlockBlob");
    call.headers.insert(BLOB_TYPE, block_blob);
    Ok(call)
}

/// Refuses metadata that Azure does not take: headers are signed as ASCII.
pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    match metadata.iter().find(|(_, value)| !value.is_ascii()) {
        None => Ok(()),
        Some((name, _)) => {
            let text = format!("metadata {name:?}: Azure takes ASCII alone");
            Err(Error::Invalid(text))
        }
    }
}

/// Whether a reply names other bytes than those with this MD5.
pub(crate) fn names_others(head: &Head, md5: &str) -> bool {
    let named = head.text(&MD5).and_then(|text| STANDARD.decode(text).ok());
    named.is_some_and(|digest| hex(&digest) != md5)
}

pub(crate) fn version(answer: &Answer, length_bytes: u64) -> Option<Version> {
    let etag = answer.head.text(&ETAG).and_then(quoted)?;
    Some(Version::made(etag, length_bytes))
}

impl WholeObjects for Container {
    fn takes(&self, key: &str) -> bool {
        self.made(key, &[]).is_ok()
    }

    async fn put(
        &self,
        key: &str,
        body: Bytes,
        wanted: &Condition,
        metadata: &Metadata,
    ) -> Result<Version> {
        let token = token()?;
        let length_bytes = body.len() as u64;
        let mut call = to_put(self, key)?;
        check(metadata)?;
        describe::<Container>(&mut call.headers, metadata, &token)?;
        condition(&mut call.headers, wanted)?;
        let md5 = carry(&mut call, body)?;
        let ended = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        let answer = match settled(self, ended, key, &token, wanted).await? {
            Settled::Answered(answer) => answer,
            Settled::Made(version) => return Ok(version),
        };
        if names_others(&answer.head, &md5) {
            let text = "the server has other bytes than were sent (by their MD5)";
            return Err(Error::Protocol(format!("{}: {text}", call.target.shown())));
        }
        let named = version(&answer, length_bytes);
        seen(self, named, (key, &token), wanted).await
    }

    async fn delete(&self, key: &str, wanted: &Condition) -> Result<()> {
        let target = self.object(key, &[])?;
        let mut call = Call::new(Kind::Delete, Method::DELETE, target);
        condition(&mut call.headers, wanted)?;
        let ended = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        let is_refused = ended.result.as_ref().err() == Some(&Error::Changed);
        // Azure reports an absent object as another version, too.
        if is_refused && self.head(key).await == Err(Error::NotFound) {
            return if ended.is_unclear {
                Ok(())
            } else {
                Err(Error::NotFound)
            };
        }
        deleted(self, ended, key, wanted).await
    }

    async fn delete_many(self: &Arc<Self>, keys: &[String]) -> Result<Vec<(String, String)>> {
        let mut left = Vec::new();
        let mut waiting = keys.iter();
        let mut running = JoinSet::new();
        loop {
            while running.len() < DELETES_MAX
                && let Some(key) = waiting.next()
            {
                let (container, key) = (Arc::clone(self), key.clone());
                running.spawn(async move {
                    let ended = container.delete(&key, &Condition::Always).await;
                    (key, ended)
                });
            }
            let Some(ended) = running.join_next().await else {
                return Ok(left);
            };
            let lost = |_| Error::TryLater("a thread ended".to_owned());
            match ended.map_err(lost)? {
                (_, Ok(())) => {}
                // The others would end in the same way.
                (_, Err(error @ (Error::Unreachable(_) | Error::TryLater(_)))) => {
                    return Err(error);
                }
                (key, Err(error)) => left.push((key, error.to_string())),
            }
        }
    }
    fn damaged_put(&self, key: &str) -> Result<Call> {
        provoke::damaged(to_put(self, key)?)
    }
}
