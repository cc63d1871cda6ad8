//! Objects in parts: each part is an object for a while, and Google composes one of them.
//!
//! The JSON API has no upload in parts, and that of the XML API takes no conditions ("Preconditions
//! are not supported in the requests"): its end would replace other writers' changes. A resumable
//! upload sends one piece after the other. *Compose* makes an object of up to 32, under a
//! condition, with metadata, in one request:
//! ```text
//!   .pagewell/parts/ID/0-00001 ... 0-00032 ──compose──> 1-00001 ─┐
//!                      0-00033 ... 0-00040 ──compose──> 1-00002 ─┴─compose──> KEY, if it is
//!                                                                             still GENERATION
//! ```
//!
//! Parts have names that no other upload has, in a hidden folder of what is mounted. Google removes
//! them with the compose that uses them (`deleteSourceObjects`), for good, also where a bucket
//! keeps what was deleted; another server is asked once whether it does so.
//!
//! Compose copies no ranges, but takes a whole object as a source, if it is still the named
//! version: for an append, or for a new key.
//!
//! Weaknesses: parts stay when the reply to their delete is lost (a lifecycle rule for
//! `.pagewell/parts/` helps); an object is sent whole on an append unless its storage class is that
//! of new objects.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use md5::{Digest as _, Md5};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::listing::below;
use super::resource::{self, FIELDS, generation};
use super::write::{MEDIA_TYPE, condition, insert, made, marked};
use super::{ANSWER_BYTES_MAX, Bucket};
use crate::activity::Kind;
use crate::date;
use crate::error::{Error, Result};
use crate::json::text_of;
use crate::service::{Ended, Wanted, exchange};
use crate::settle::{Settled, seen, settled, token};
use crate::store::{Store as _, Uploads, WholeObjects as _};
use crate::transport::Call;
use crate::version::Version;
use crate::writable::{Condition, Copies, ListedUpload, Metadata, Part, Upload};

/// Below the root of what is mounted.
const FOLDER: &str = ".pagewell/parts/";
const KEY: &str = "pagewell-key";
const SOURCES_MAX: usize = 32;
const LISTED_MAX: usize = 10_000 + 10_000 / 31;
const PARALLEL_MAX: usize = 8;

#[derive(Clone, Debug)]
struct Source {
    name: String,
    /// Of an object that is no part of ours, and stays; `None`: a part.
    generation: Option<u64>,
    length_bytes: u64,
}

fn folder_of(prefix: &str, key: &str) -> String {
    let rest = key.strip_prefix(prefix);
    let is_folder = prefix.is_empty() || prefix.ends_with('/');
    let root = match rest {
        Some(_) if is_folder => prefix.to_owned(),
        Some(rest) if rest.starts_with('/') => format!("{prefix}/"),
        // One object is mounted.
        _ => prefix[..prefix.rfind('/').map_or(0, |slash| slash + 1)].to_owned(),
    };
    format!("{root}{FOLDER}")
}

fn name_of(bucket: &Bucket, upload: &Upload, level: usize, number: usize) -> String {
    let folder = folder_of(&bucket.prefix, &upload.key);
    format!("{folder}{}/{level}-{number:05}", upload.id)
}

fn sources_of(bucket: &Bucket, upload: &Upload, parts: &[Part]) -> Result<Vec<Source>> {
    Part::check_order(parts)?;
    let sources = parts.iter().map(|part| {
        let copied = part.etag.split_once(' ').and_then(|(generation, key)| {
            let generation = generation.parse().ok()?;
            Some((generation, key.to_owned()))
        });
        let (generation, name) = match copied {
            Some((generation, key)) => (Some(generation), key),
            None => (None, name_of(bucket, upload, 0, part.number as usize)),
        };
        Source {
            name,
            generation,
            length_bytes: part.length_bytes,
        }
    });
    let sources: Vec<Source> = sources.collect();
    if sources.is_empty() {
        return Err(Error::Invalid("an object of no parts".to_owned()));
    }
    Ok(sources)
}

fn compose(
    bucket: &Bucket,
    key: &str,
    sources: &[Source],
    wanted: &Condition,
    metadata: &Value,
) -> Result<Call> {
    let condition = condition(wanted)?;
    let mut pairs = vec![("fields", FIELDS), ("prettyPrint", "false")];
    pairs.extend(condition.as_deref().map(|text| ("ifGenerationMatch", text)));
    let is_own = |source: &Source| source.generation.is_none();
    let listed: Vec<Value> = sources
        .iter()
        .map(|source| match source.generation {
            None => json!({"name": source.name}),
            Some(generation) => json!({
                "name": source.name,
                "objectPreconditions": {"ifGenerationMatch": generation.to_string()},
            }),
        })
        .collect();
    let mut document = json!({
        "kind": "storage#composeRequest",
        "sourceObjects": listed,
        "destination": {"contentType": MEDIA_TYPE, "metadata": metadata},
    });
    if sources.iter().all(is_own) {
        document["deleteSourceObjects"] = Value::from(true);
    }
    let mut call = Call::new(Kind::Put, Method::POST, bucket.compose(key, &pairs)?);
    call.patience = super::COMPOSE_PATIENCE;
    let media_type = HeaderValue::from_static("application/json");
    call.headers.insert(CONTENT_TYPE, media_type);
    call.body = Bytes::from(document.to_string());
    Ok(call)
}

async fn composed(
    bucket: &Bucket,
    (key, token): (&str, &str),
    sources: &[Source],
    wanted: &Condition,
    metadata: &Metadata,
) -> Result<Version> {
    let metadata = marked(metadata, token)?;
    let call = compose(bucket, key, sources, wanted, &metadata)?;
    let ended = exchange(bucket, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
    // The parts are gone at a second try where the first one's reply was lost.
    let is_gone = matches!(ended.result, Err(Error::NotFound));
    let ended = Ended {
        is_unclear: ended.is_unclear || is_gone,
        ..ended
    };
    let has_copies = sources.iter().any(|source| source.generation.is_some());
    let answer = match settled(bucket, ended, key, token, wanted).await {
        Ok(Settled::Answered(answer)) => answer,
        Ok(Settled::Made(version)) => return Ok(version),
        Err(Error::Invalid(text)) if has_copies => return Err(Error::Unsupported(text)),
        Err(error) => return Err(error),
    };
    let length_bytes = sources.iter().map(|source| source.length_bytes).sum();
    let named = made(&call, &answer, length_bytes, None)?;
    seen(bucket, named, (key, token), wanted).await
}

async fn joined(
    bucket: &Arc<Bucket>,
    upload: &Upload,
    level: usize,
    sources: Vec<Source>,
) -> Result<Vec<Source>> {
    let groups = sources.chunks(SOURCES_MAX);
    let mut came: Vec<Option<Source>> = vec![None; groups.len()];
    let mut working = JoinSet::new();
    let mut ended = Ok(());
    for (number, group) in groups.map(<[Source]>::to_vec).enumerate() {
        if working.len() >= PARALLEL_MAX {
            ended = take(&mut working, &mut came).await;
        }
        if ended.is_err() {
            break;
        }
        let name = name_of(bucket, upload, level, number + 1);
        let (bucket, upload) = (Arc::clone(bucket), upload.clone());
        working.spawn(async move {
            let metadata = vec![(KEY.to_owned(), upload.key.clone().into_bytes())];
            let place = (name.as_str(), upload.token.as_str());
            let always = Condition::Always;
            let version = composed(&bucket, place, &group, &always, &metadata).await?;
            let source = Source {
                name,
                generation: None,
                length_bytes: version.length_bytes,
            };
            Ok((number, source))
        });
    }
    // What runs is not given up with the first that fails: it would leave objects behind later.
    while !working.is_empty() {
        let taken = take(&mut working, &mut came).await;
        ended = ended.and(taken);
    }
    ended.map(|()| came.into_iter().flatten().collect())
}

async fn take(
    working: &mut JoinSet<Result<(usize, Source)>>,
    came: &mut [Option<Source>],
) -> Result<()> {
    let Some(ended) = working.join_next().await else {
        return Ok(());
    };
    let lost = |_| Error::Unreachable("a compose was given up by the runtime".to_owned());
    let (number, source) = ended.map_err(lost)??;
    came[number] = Some(source);
    Ok(())
}

async fn clear(bucket: &Arc<Bucket>, own: Vec<String>, is_all_own: bool) -> Result<()> {
    let Some(last) = own.last() else {
        return Ok(());
    };
    if is_all_own && bucket.removes_sources(last).await? {
        return Ok(());
    }
    bucket.delete_many(&own).await?;
    Ok(())
}

impl Uploads for Bucket {
    const COPIES: Copies = Copies::Objects;

    // They are objects of one name, whatever version comes last.
    const REPLACES_PARTS: bool = false;

    /// Begins an upload; the server gets its first request with the first part.
    async fn create_upload(&self, key: &str, metadata: &Metadata) -> Result<Upload> {
        self.object(key, &[])?;
        resource::described(metadata)?;
        Ok(Upload {
            key: key.to_owned(),
            id: token()?,
            token: token()?,
            metadata: metadata.clone(),
        })
    }

    async fn upload_part(&self, upload: &Upload, number: u32, body: Bytes) -> Result<Part> {
        Part::check_number(number)?;
        let name = name_of(self, upload, 0, number as usize);
        let length_bytes = body.len() as u64;
        let digest: [u8; 16] = Md5::digest(&body).into();
        let metadata = vec![(KEY.to_owned(), upload.key.clone().into_bytes())];
        let described = (resource::described(&metadata)?, digest);
        // Only this part has the name: after a lost reply the same bytes go again.
        let always = Condition::Always;
        let call = insert(self, &name, body, &always, described, &upload.token)?;
        let ended = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        let version = made(&call, &ended.result?, length_bytes, Some(digest))?;
        let etag = version.and_then(|version| version.etag).ok_or_else(|| {
            let shown = call.target.shown();
            Error::Protocol(format!("{shown}: the answer has no generation"))
        })?;
        Ok(Part {
            number,
            etag,
            length_bytes,
        })
    }

    /// Makes a part of a whole object. One request looks whether it is that version; the compose
    /// looks again.
    async fn copy_part(
        &self,
        _upload: &Upload,
        number: u32,
        source: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Part> {
        Part::check_number(number)?;
        Part::check_range(&range, version)?;
        if range != (0..version.length_bytes) {
            let text = "Google Cloud Storage copies objects as a whole, and no ranges of them";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let generation = generation(version)?;
        if !self.head(source).await?.version.is_same(version) {
            return Err(Error::Changed);
        }
        Ok(Part {
            number,
            etag: format!("{generation} {source}"),
            length_bytes: version.length_bytes,
        })
    }

    async fn complete(
        self: &Arc<Self>,
        upload: &Upload,
        parts: &[Part],
        wanted: &Condition,
    ) -> Result<Version> {
        let mut sources = sources_of(self, upload, parts)?;
        let mut own: Vec<Source> = sources.clone();
        let mut level = 0;
        while sources.len() > SOURCES_MAX {
            level += 1;
            sources = joined(self, upload, level, sources).await?;
            own.extend(sources.iter().cloned());
        }
        own.retain(|source| source.generation.is_none());
        let place = (upload.key.as_str(), upload.token.as_str());
        let version = composed(self, place, &sources, wanted, &upload.metadata).await?;
        let is_all_own = sources.iter().all(|source| source.generation.is_none());
        let own: Vec<String> = own.into_iter().map(|source| source.name).collect();
        // The object is made, whatever becomes of its parts.
        let _ = clear(self, own, is_all_own).await;
        Ok(version)
    }

    async fn abort(self: &Arc<Self>, upload: &Upload) -> Result<()> {
        let folder = folder_of(&self.prefix, &upload.key);
        let folder = format!("{folder}{}/", upload.id);
        let found = below(self, &folder, LISTED_MAX).await?;
        let names: Vec<String> = found
            .iter()
            .map(|part| text_of(part, "name").to_owned())
            .collect();
        let left = self.delete_many(&names).await?;
        match left.into_iter().next() {
            None => Ok(()),
            Some((_, text)) => Err(Error::TryLater(text)),
        }
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<ListedUpload>> {
        let folder = folder_of(&self.prefix, prefix);
        let mut uploads: Vec<ListedUpload> = Vec::new();
        for part in below(self, &folder, LISTED_MAX).await? {
            let name = text_of(&part, "name");
            let id = name[folder.len()..].split('/').next().unwrap_or_default();
            let metadata = resource::metadata(&part);
            let key = metadata.into_iter().find(|(name, _)| name == KEY);
            let key = key.and_then(|(_, key)| String::from_utf8(key).ok());
            let is_known = uploads.iter().any(|upload| upload.id == id);
            if let Some(key) = key.filter(|key| !is_known && key.starts_with(prefix)) {
                uploads.push(ListedUpload {
                    key,
                    id: id.to_owned(),
                    initiated: date::iso(text_of(&part, "timeCreated")),
                });
            }
        }
        Ok(uploads)
    }
}
