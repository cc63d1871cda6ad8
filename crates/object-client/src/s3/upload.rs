//! Objects in parts: new ones are sent, unchanged ones copied inside the server.
//!
//! No upload is resumed from the server's list of parts: one server lists cut parts with the sizes
//! that they should have had.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use super::listing::Encoding;
use super::write::{self, carry};
use super::{ANSWER_BYTES_MAX, Bucket, LIST_BYTES_MAX};
use crate::activity::Kind;
use crate::date;
use crate::error::{Error, Result};
use crate::headers::{self, condition, describe};
use crate::percent;
use crate::service::{Answer, Ended, Wanted, exchange};
use crate::settle::{Settled, seen, settled, token};
use crate::store::Uploads;
use crate::transport::{Call, Target};
use crate::version::{Version, quoted};
use crate::writable::{Condition, ListedUpload, Metadata, Part, Upload};
use crate::xml::{self, Element};

/// How long a server may be silent while it joins parts, or copies one.
const PATIENCE: Duration = Duration::from_secs(300);
const UPLOADS_MAX: usize = 10_000;
/// Pages of a list of uploads: servers choose their size.
const PAGES_MAX: usize = 1_000;

/// The document in a reply. Servers disagree about its name, which begins with `name`.
fn document(target: &Target, answer: &Answer, name: &str) -> Result<Element> {
    let wrong = |text: String| Error::Protocol(format!("{}: {text}", target.shown()));
    let document = xml::parse(&answer.body).map_err(wrong)?;
    if !document.name.starts_with(name) {
        return Err(wrong(format!("the answer is a {}", document.name)));
    }
    Ok(document)
}

fn missing(target: &Target, what: &str) -> Error {
    Error::Protocol(format!("{}: the answer has no {what}", target.shown()))
}

pub(super) fn target_of_part(bucket: &Bucket, upload: &Upload, number: u32) -> Result<Target> {
    Part::check_number(number)?;
    let number = number.to_string();
    let query = [("partNumber", number.as_str()), ("uploadId", &upload.id)];
    bucket.object(&upload.key, &query)
}

fn list_of(parts: &[Part]) -> Result<String> {
    Part::check_order(parts)?;
    let mut text =
        String::from("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for part in parts {
        let (number, etag) = (part.number, xml::escaped(&part.etag));
        text.push_str(&format!(
            "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
        ));
    }
    text.push_str("</CompleteMultipartUpload>");
    Ok(text)
}

impl Uploads for Bucket {
    async fn create_upload(&self, key: &str, metadata: &Metadata) -> Result<Upload> {
        let token = token()?;
        let target = self.object(key, &[("uploads", "")])?;
        let mut call = Call::new(Kind::Put, Method::POST, target);
        describe::<Bucket>(&mut call.headers, metadata, &token)?;
        // After a lost reply another upload begins: the first one is swept later.
        let answer = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX))
            .await
            .result?;
        let found = document(&call.target, &answer, "InitiateMultipartUpload")?;
        let id = found.text_of("UploadId").trim().to_owned();
        if id.is_empty() {
            return Err(missing(&call.target, "UploadId"));
        }
        Ok(Upload {
            key: key.to_owned(),
            id,
            token,
            metadata: Metadata::new(),
        })
    }

    async fn upload_part(&self, upload: &Upload, number: u32, body: Bytes) -> Result<Part> {
        let length_bytes = body.len() as u64;
        let mut call = Call::new(
            Kind::Put,
            Method::PUT,
            target_of_part(self, upload, number)?,
        );
        let md5 = carry(self, &mut call, body)?;
        let answer = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX))
            .await
            .result?;
        let etag = write::etag(&call, &answer.head, md5.as_deref())?;
        Ok(Part {
            number,
            etag: etag.ok_or_else(|| missing(&call.target, "ETag"))?,
            length_bytes,
        })
    }

    async fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Part> {
        Part::check_range(&range, version)?;
        let etag = version.strong_etag().ok_or_else(|| {
            let text = "only a version with a strong ETag can be copied";
            Error::Unsupported(text.to_owned())
        })?;
        // The source is checked as any key is.
        self.object(source, &[])?;
        let mut call = Call::new(
            Kind::Put,
            Method::PUT,
            target_of_part(self, upload, number)?,
        );
        call.patience = PATIENCE;
        let source = format!("/{}/{}", self.place().bucket, percent::path(source));
        let (first, last) = (range.start, range.end - 1);
        let bytes = format!("bytes={first}-{last}");
        for (name, text) in [
            ("x-amz-copy-source", source.as_str()),
            ("x-amz-copy-source-range", &bytes),
            ("x-amz-copy-source-if-match", etag),
        ] {
            let value = HeaderValue::from_str(text)
                .map_err(|_| Error::Invalid(format!("{name}: a header cannot hold this value")))?;
            call.headers.insert(name, value);
        }
        let answer = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX))
            .await
            .result?;
        let found = document(&call.target, &answer, "CopyPart")?;
        let etag = quoted(found.text_of("ETag"));
        Ok(Part {
            number,
            etag: etag.ok_or_else(|| missing(&call.target, "ETag"))?,
            length_bytes: range.end - range.start,
        })
    }

    /// Completes an upload. After a lost reply the object is looked at first, since only some
    /// servers complete twice.
    async fn complete(
        self: &Arc<Self>,
        upload: &Upload,
        parts: &[Part],
        wanted: &Condition,
    ) -> Result<Version> {
        let target = self.object(&upload.key, &[("uploadId", &upload.id)])?;
        let mut call = Call::new(Kind::Put, Method::POST, target);
        call.patience = PATIENCE;
        condition(&mut call.headers, wanted)?;
        let media_type = HeaderValue::from_static("application/xml");
        call.headers.insert(CONTENT_TYPE, media_type);
        headers::carry(&mut call, Bytes::from(list_of(parts)?))?;
        let ended = exchange(self.as_ref(), &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        // The upload is not found at a second try where the first one's reply was lost.
        let is_gone = matches!(ended.result, Err(Error::NotFound | Error::Denied(_)));
        let ended = Ended {
            is_unclear: ended.is_unclear || is_gone,
            ..ended
        };
        let answer = match settled(self.as_ref(), ended, &upload.key, &upload.token, wanted).await?
        {
            Settled::Answered(answer) => answer,
            Settled::Made(version) => return Ok(version),
        };
        let found = document(&call.target, &answer, "CompleteMultipartUpload")?;
        let length_bytes = parts.iter().map(|part| part.length_bytes).sum();
        let etag = quoted(found.text_of("ETag"));
        let named = etag.map(|etag| Version::made(etag, length_bytes));
        seen(self.as_ref(), named, (&upload.key, &upload.token), wanted).await
    }

    async fn abort(self: &Arc<Self>, upload: &Upload) -> Result<()> {
        let target = self.object(&upload.key, &[("uploadId", &upload.id)])?;
        let call = Call::new(Kind::Delete, Method::DELETE, target);
        let ended = exchange(self.as_ref(), &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        match ended.result {
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<ListedUpload>> {
        let mut uploads = Vec::new();
        let mut marker: Option<(String, String)> = None;
        for _ in 0..PAGES_MAX {
            let mut query = vec![
                ("uploads", ""),
                ("encoding-type", "url"),
                ("prefix", prefix),
            ];
            if let Some((key, id)) = &marker {
                query.push(("key-marker", key));
                query.push(("upload-id-marker", id));
            }
            let target = self.target("", &query)?;
            let call = Call::new(Kind::List, Method::GET, target);
            let answer = exchange(self, &call, Wanted::Body(LIST_BYTES_MAX))
                .await
                .result?;
            let found = document(&call.target, &answer, "ListMultipartUploads")?;
            let keys = found.all("Upload").map(|upload| upload.text_of("Key"));
            let encoding = Encoding::of(&found, keys, self.raw_listings);
            let wrong = || missing(&call.target, "key that is UTF-8");
            for upload in found.all("Upload") {
                let key = encoding.decode(upload.text_of("Key")).ok_or_else(wrong)?;
                if key.starts_with(prefix) && uploads.len() < UPLOADS_MAX {
                    uploads.push(ListedUpload {
                        key,
                        id: upload.text_of("UploadId").trim().to_owned(),
                        initiated: date::iso(upload.text_of("Initiated").trim()),
                    });
                }
            }
            let key = encoding
                .decode(found.text_of("NextKeyMarker"))
                .ok_or_else(wrong)?;
            let next = (key, found.text_of("NextUploadIdMarker").to_owned());
            let is_truncated = found.text_of("IsTruncated").trim() == "true";
            if !is_truncated || uploads.len() >= UPLOADS_MAX || marker.as_ref() == Some(&next) {
                break;
            }
            marker = Some(next);
        }
        Ok(uploads)
    }
}
