//! Blobs of blocks: new ones are sent, unchanged ones copied inside Azure from the URL of the blob
//! that has them.
//!
//! ```text
//!   name of a block = base 64 of ( 32 digits: the upload | 8 digits: the part | 8 at random )
//! ```
//!
//! A part that is sent again with other bytes is another block: a request that Azure carries out
//! after it was given up replaces nothing. All names of a blob's blocks have one length.
//! A part without bytes is no block.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderName};

use super::credentials::Access;
use super::write::{self, check, names_others};
use super::{ANSWER_BYTES_MAX, Container};
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::headers::{carry, condition, describe, value};
use crate::service::{Ended, Wanted, exchange};
use crate::settle::{Settled, seen, settled, token};
use crate::store::{Store as _, Uploads};
use crate::transport::{Call, Target};
use crate::version::Version;
use crate::writable::{Condition, ListedUpload, Metadata, Part, Upload};

/// How long Azure may be silent while it copies a block, or joins many.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes of the URL of a source.
const SOURCE_BYTES_MAX: usize = 2048;
const RANDOM_DIGITS: usize = 8;
const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-content-type");

fn block(container: &Container, upload: &Upload, number: u32) -> Result<(String, Target)> {
    Part::check_number(number)?;
    let mut random = token()?;
    random.truncate(RANDOM_DIGITS);
    let name = STANDARD.encode(format!("{}{number:08}{random}", upload.id));
    let query = [("comp", "block"), ("blockid", name.as_str())];
    let target = container.made(&upload.key, &query)?;
    Ok((name, target))
}

/// The headers that name the source, and let Azure read it.
async fn source(call: &mut Call, container: &Container, key: &str) -> Result<()> {
    let target = container.object(key, &[])?;
    let mut url = format!("{}{}", target.origin.url(), target.path_and_query);
    let query = match container.credentials.now().await? {
        Access::Anonymous => None,
        Access::Key(own) => Some(own.source(&container.name, key, SystemTime::now())),
        Access::Signature(query) => Some(query.to_string()),
        Access::Token(token) => {
            let name = HeaderName::from_static("x-ms-copy-source-authorization");
            call.headers.insert(name, token);
            None
        }
    };
    if let Some(query) = query {
        url.push('?');
        url.push_str(&query);
    }
    if url.len() > SOURCE_BYTES_MAX {
        let text = "Azure copies from no URL of more than 2 KiB";
        return Err(Error::Unsupported(text.to_owned()));
    }
    let mut source = value(url.as_bytes(), "source")?;
    source.set_sensitive(true);
    call.headers.insert("x-ms-copy-source", source);
    Ok(())
}

fn list_of(parts: &[Part]) -> Result<String> {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    let mut last = 0;
    for part in parts {
        if part.number <= last {
            let text = "parts are completed in the order of their numbers";
            return Err(Error::Invalid(text.to_owned()));
        }
        last = part.number;
        if part.length_bytes > 0 {
            // Letters, digits and other characters of base 64.
            text.push_str(&format!("<Uncommitted>{}</Uncommitted>", part.etag));
        }
    }
    text.push_str("</BlockList>");
    Ok(text)
}

/// Why blocks are not there, which came to the server.
async fn without_blocks(container: &Container, key: &str, wanted: &Condition) -> Error {
    match (container.head(key).await, wanted) {
        (Ok(_), Condition::Absent) => Error::Exists,
        (Ok(found), Condition::Is(version)) if !found.version.is_same(version) => Error::Changed,
        // They have expired, or another change of the object has taken them away.
        (Ok(_), _) => Error::NotFound,
        (Err(error), _) => error,
    }
}

impl Uploads for Container {
    async fn create_upload(&self, key: &str, metadata: &Metadata) -> Result<Upload> {
        self.made(key, &[])?;
        check(metadata)?;
        Ok(Upload {
            key: key.to_owned(),
            id: token()?,
            token: token()?,
            metadata: metadata.clone(),
        })
    }

    async fn upload_part(&self, upload: &Upload, number: u32, body: Bytes) -> Result<Part> {
        let (etag, target) = block(self, upload, number)?;
        let length_bytes = body.len() as u64;
        if length_bytes > 0 {
            let mut call = Call::new(Kind::Put, Method::PUT, target);
            let md5 = carry(&mut call, body)?;
            let answer = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX))
                .await
                .result?;
            if names_others(&answer.head, &md5) {
                let text = "the server has other bytes than were sent (by their MD5)";
                return Err(Error::Protocol(format!("{}: {text}", call.target.shown())));
            }
        }
        Ok(Part {
            number,
            etag,
            length_bytes,
        })
    }

    async fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        from: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Part> {
        Part::check_range(&range, version)?;
        let tag = version.strong_etag().ok_or_else(|| {
            let text = "only a version with a strong ETag can be copied";
            Error::Unsupported(text.to_owned())
        })?;
        let (etag, target) = block(self, upload, number)?;
        let mut call = Call::new(Kind::Put, Method::PUT, target);
        call.patience = PATIENCE;
        source(&mut call, self, from).await?;
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let bytes = value(bytes.as_bytes(), "range")?;
        call.headers.insert("x-ms-source-range", bytes);
        let tag = value(tag.as_bytes(), "ETag")?;
        call.headers.insert("x-ms-source-if-match", tag);
        exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX))
            .await
            .result?;
        Ok(Part {
            number,
            etag,
            length_bytes: range.end - range.start,
        })
    }

    /// Commits the blocks of an upload. When a second try finds no blocks, the first one has
    /// committed them, or another commit took them away.
    async fn complete(
        self: &Arc<Self>,
        upload: &Upload,
        parts: &[Part],
        wanted: &Condition,
    ) -> Result<Version> {
        let target = self.made(&upload.key, &[("comp", "blocklist")])?;
        let mut call = Call::new(Kind::Put, Method::PUT, target);
        call.patience = PATIENCE;
        describe::<Container>(&mut call.headers, &upload.metadata, &upload.token)?;
        if let Some(media_type) = call.headers.get(CONTENT_TYPE).cloned() {
            call.headers.insert(BLOB_TYPE, media_type);
        }
        let media_type = value(b"application/xml", "media type")?;
        call.headers.insert(CONTENT_TYPE, media_type);
        condition(&mut call.headers, wanted)?;
        carry(&mut call, Bytes::from(list_of(parts)?))?;
        let ended = exchange(self.as_ref(), &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        let is_gone = ended.result.as_ref().err() == Some(&Error::NotFound);
        let ended = Ended {
            is_unclear: ended.is_unclear || is_gone,
            ..ended
        };
        let (key, token) = (upload.key.as_str(), upload.token.as_str());
        let settled = settled(self.as_ref(), ended, key, token, wanted).await;
        let answer = match settled {
            Ok(Settled::Answered(answer)) => answer,
            Ok(Settled::Made(version)) => return Ok(version),
            // They went with the commit of another upload, which the condition may be about.
            Err(Error::NotFound) if is_gone => return Err(without_blocks(self, key, wanted).await),
            Err(error) => return Err(error),
        };
        let length_bytes = parts.iter().map(|part| part.length_bytes).sum();
        let named = write::version(&answer, length_bytes);
        seen(self.as_ref(), named, (key, token), wanted).await
    }
    async fn abort(self: &Arc<Self>, _upload: &Upload) -> Result<()> {
        Ok(())
    }

    async fn uploads(&self, _prefix: &str) -> Result<Vec<ListedUpload>> {
        let text = "Azure lists no uploads: their blocks belong to the blobs";
        Err(Error::Unsupported(text.to_owned()))
    }
}
