//! Objects as a whole: PUT and DELETE, under a condition.
//!
//! Each body goes with its signed SHA-256, and with its MD5 unless the server was seen to compare
//! the former: some do not, and one kept a body that was cut. MD5 takes three times the time of
//! SHA-256 by instructions of the processor, here and at the server. An ETag in the reply that is
//! an MD5 has to be this one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue};

use super::upload::target_of_part;
use super::{ANSWER_BYTES_MAX, Bucket};
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::headers::{self, condition, describe};
use crate::provoke;
use crate::service::{Wanted, exchange};
use crate::settle::{Settled, deleted, seen, settled, token};
use crate::store::WholeObjects;
use crate::transport::{Call, Head};
use crate::version::{Version, quoted};
use crate::writable::{Condition, Metadata, Upload};
use crate::xml;

const DELETED_MAX: usize = 1000;

/// Gives a call its body and hashes. Returns the MD5 in hexadecimal digits, if that is among them.
pub(super) fn carry(bucket: &Bucket, call: &mut Call, body: Bytes) -> Result<Option<String>> {
    call.body_hash = crate::sign::hash(&body);
    // An empty body's MD5 costs nothing, and stores that want one want it there, too.
    if bucket.signed_hash_is_enough() && !body.is_empty() {
        call.body = body;
        return Ok(None);
    }
    headers::carry(call, body).map(Some)
}

/// Whether the tag of a reply is the MD5 of other bytes than those with this one.
pub(crate) fn names_others(head: &Head, md5: &str) -> bool {
    let Some(etag) = head.text(&ETAG).and_then(quoted) else {
        return false;
    };
    let bare = etag.trim_matches('"');
    let is_digest = bare.len() == 32 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    // An encrypting server may give a digest of something else.
    let encryption = head.named("x-amz-server-side-encryption");
    let is_plain = encryption.is_none_or(|kind| kind == "AES256")
        && head
            .named("x-amz-server-side-encryption-customer-algorithm")
            .is_none();
    is_digest && is_plain && !bare.eq_ignore_ascii_case(md5)
}

/// The ETag of a reply, compared with the sent MD5 where it is one.
pub(crate) fn etag(call: &Call, head: &Head, md5: Option<&str>) -> Result<Option<String>> {
    let Some(etag) = head.text(&ETAG).and_then(quoted) else {
        return Ok(None);
    };
    if md5.is_some_and(|md5| names_others(head, md5)) {
        let text = "the server has other bytes than were sent (ETag is not their MD5)";
        return Err(Error::Protocol(format!("{}: {text}", call.target.shown())));
    }
    Ok(Some(etag))
}

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
        let mut call = self.to_put(key)?;
        describe::<Bucket>(&mut call.headers, metadata, &token)?;
        condition(&mut call.headers, wanted)?;
        let md5 = carry(self, &mut call, body)?;
        let ended = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        let answer = match settled(self, ended, key, &token, wanted).await? {
            Settled::Answered(answer) => answer,
            Settled::Made(version) => return Ok(version),
        };
        let etag = etag(&call, &answer.head, md5.as_deref())?;
        // A server without ETags in its replies may have them elsewhere.
        let named = etag.map(|etag| Version::made(etag, length_bytes));
        seen(self, named, (key, &token), wanted).await
    }

    async fn delete(&self, key: &str, wanted: &Condition) -> Result<()> {
        let target = self.object(key, &[])?;
        let mut call = Call::new(Kind::Delete, Method::DELETE, target);
        condition(&mut call.headers, wanted)?;
        let ended = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        deleted(self, ended, key, wanted).await
    }

    async fn delete_many(self: &Arc<Self>, keys: &[String]) -> Result<Vec<(String, String)>> {
        let mut left = Vec::new();
        for keys in keys.chunks(DELETED_MAX) {
            let target = self.target("", &[("delete", "")])?;
            let shown = target.shown();
            let mut call = Call::new(Kind::Delete, Method::POST, target);
            let media_type = HeaderValue::from_static("application/xml");
            call.headers.insert(CONTENT_TYPE, media_type);
            // AWS takes this call with an MD5 only.
            headers::carry(&mut call, Bytes::from(names(keys)))?;
            let answer = exchange(self.as_ref(), &call, Wanted::Body(ANSWER_BYTES_MAX))
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

    fn damaged_put(&self, key: &str) -> Result<Call> {
        provoke::damaged(self.to_put(key)?)
    }

    fn signed_calls(&self, upload: &Upload) -> Result<[Call; 2]> {
        if !self.signs_bodies() {
            let text = "requests without keys have no signature";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let part = Call::new(Kind::Put, Method::PUT, target_of_part(self, upload, 1)?);
        Ok([self.to_put(&upload.key)?, part].map(provoke::signed))
    }

    fn signs_bodies(&self) -> bool {
        self.credentials.is_some()
    }

    fn trust_signed_hashes(&self, compares: bool) {
        self.trusts_signed_hashes.store(compares, Ordering::Relaxed);
    }
}
