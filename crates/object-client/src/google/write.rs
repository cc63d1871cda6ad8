//! Objects as a whole: made of one body with its description, and deleted, under a condition. Each
//! body goes with its MD5, which the server compares.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

use super::batch;
use super::resource::{self, FIELDS, generation};
use super::{ANSWER_BYTES_MAX, Bucket};
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::json::text_of;
use crate::provoke;
use crate::service::{Answer, Wanted, exchange};
use crate::settle::{Settled, TOKEN, deleted, seen, settled, token};
use crate::store::WholeObjects;
use crate::transport::Call;
use crate::version::Version;
use crate::writable::{Condition, Metadata};

pub(crate) const MEDIA_TYPE: &str = "application/octet-stream";

pub(crate) fn condition(wanted: &Condition) -> Result<Option<String>> {
    match wanted {
        Condition::Always => Ok(None),
        Condition::Absent => Ok(Some("0".to_owned())),
        Condition::Is(version) => Ok(Some(generation(version)?.to_string())),
    }
}

pub(crate) fn marked(metadata: &Metadata, token: &str) -> Result<Value> {
    let others = metadata.iter().filter(|(name, _)| name != TOKEN);
    let mut metadata: Metadata = others.cloned().collect();
    metadata.push((TOKEN.to_owned(), token.as_bytes().to_vec()));
    resource::described(&metadata)
}

/// The call that makes an object of a body with this MD5. The boundary must not be in the body.
pub(crate) fn insert(
    bucket: &Bucket,
    key: &str,
    body: Bytes,
    wanted: &Condition,
    (metadata, digest): (Value, [u8; 16]),
    boundary: &str,
) -> Result<Call> {
    let condition = condition(wanted)?;
    let mut pairs = vec![
        ("uploadType", "multipart"),
        ("name", key),
        ("fields", FIELDS),
        ("prettyPrint", "false"),
    ];
    pairs.extend(condition.as_deref().map(|text| ("ifGenerationMatch", text)));
    let target = bucket.upload(key, &pairs)?;
    let description = json!({
        "name": key,
        "contentType": MEDIA_TYPE,
        "md5Hash": STANDARD.encode(digest),
        "metadata": metadata,
    });
    let before = format!(
        "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{description}\r\n\
         --{boundary}\r\nContent-Type: {MEDIA_TYPE}\r\n\r\n"
    );
    let behind = format!("\r\n--{boundary}--\r\n");
    let mut call = Call::new(Kind::Put, Method::POST, target);
    let media_type = HeaderValue::try_from(format!("multipart/related; boundary={boundary}"))
        .map_err(|error| Error::Invalid(error.to_string()))?;
    call.headers.insert(CONTENT_TYPE, media_type);
    call.frame = [Bytes::from(before), Bytes::from(behind)];
    call.body = body;
    Ok(call)
}

/// The version that a reply describes, if it does; the length, and an MD5 that it names, must be
/// these.
pub(crate) fn made(
    call: &Call,
    answer: &Answer,
    length_bytes: u64,
    digest: Option<[u8; 16]>,
) -> Result<Option<Version>> {
    let Ok(object) = serde_json::from_slice::<Value>(&answer.body) else {
        return Ok(None);
    };
    let Some(version) = resource::version(&object).filter(|version| !version.is_weak()) else {
        return Ok(None);
    };
    let md5 = text_of(&object, "md5Hash");
    let is_other = digest.is_some_and(|digest| !md5.is_empty() && md5 != STANDARD.encode(digest));
    if version.length_bytes != length_bytes || is_other {
        let text = "the server has other bytes than were sent";
        return Err(Error::Protocol(format!("{}: {text}", call.target.shown())));
    }
    // As with other stores, whose replies have no time.
    Ok(Some(Version {
        last_modified: None,
        ..version
    }))
}

impl WholeObjects for Bucket {
    async fn put(
        &self,
        key: &str,
        body: Bytes,
        wanted: &Condition,
        metadata: &Metadata,
    ) -> Result<Version> {
        let token = token()?;
        let length_bytes = body.len() as u64;
        let digest: [u8; 16] = Md5::digest(&body).into();
        let described = (marked(metadata, &token)?, digest);
        let call = insert(self, key, body, wanted, described, &token)?;
        let ended = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        let answer = match settled(self, ended, key, &token, wanted).await {
            Ok(Settled::Answered(answer)) => answer,
            Ok(Settled::Made(version)) => return Ok(version),
            // A new object is found missing where its bucket is.
            Err(Error::NotFound) if !matches!(wanted, Condition::Is(_)) => {
                return Err(self.is_missing());
            }
            Err(error) => return Err(error),
        };
        let named = made(&call, &answer, length_bytes, Some(digest))?;
        seen(self, named, (key, &token), wanted).await
    }

    async fn delete(&self, key: &str, wanted: &Condition) -> Result<()> {
        let condition = condition(wanted)?;
        let pairs: Vec<(&str, &str)> = condition
            .as_deref()
            .map(|text| ("ifGenerationMatch", text))
            .into_iter()
            .collect();
        let call = Call::new(Kind::Delete, Method::DELETE, self.object(key, &pairs)?);
        let ended = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        deleted(self, ended, key, wanted).await
    }

    /// Deletes in batches; what those leave goes one by one.
    async fn delete_many(self: &Arc<Self>, keys: &[String]) -> Result<Vec<(String, String)>> {
        let mut left = Vec::new();
        for keys in keys.chunks(batch::CALLS_MAX) {
            let gone = match keys {
                [_] => Vec::new(),
                _ => batch::delete(self, keys).await?,
            };
            for key in keys.iter().filter(|key| !gone.contains(*key)) {
                match self.delete(key, &Condition::Always).await {
                    Ok(()) => {}
                    // The others would end in the same way.
                    Err(error @ (Error::Unreachable(_) | Error::TryLater(_))) => {
                        return Err(error);
                    }
                    Err(error) => left.push((key.clone(), error.to_string())),
                }
            }
        }
        Ok(left)
    }
    fn damaged_put(&self, key: &str) -> Result<Call> {
        let body = Bytes::from_static(provoke::BODY);
        let described = (resource::described(&Vec::new())?, provoke::WRONG_DIGEST);
        insert(self, key, body, &Condition::Always, described, &token()?)
    }
}
