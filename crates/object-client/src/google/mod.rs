//! A bucket of Google Cloud Storage, by its JSON API.
//!
//! A version is named by its generation ([`resource`]); conditions are `ifGenerationMatch`.
//!
//! Weaknesses: a change of metadata alone keeps the generation, so another writer's is replaced
//! unseen by the next change of the object; only the newest generation is looked at; folders of
//! buckets with a hierarchical namespace are not made, and shown only where they hold objects.

mod batch;
mod credentials;
mod listing;
mod resource;
mod upload;
mod write;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, ETAG, HeaderValue};
use serde_json::Value;

use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::location::Origin;
use crate::options::Options;
use crate::percent;
use crate::refusal::Refusal;
use crate::remote::{ListPage, ListQuery, ObjectInfo};
use crate::service::{Service, Wanted, exchange};
use crate::store::Store;
use crate::transport::{Call, Head, Target, Transport};
use crate::version::Version;
use credentials::Credentials;

const KEY_BYTES_MAX: usize = 1024;
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
const COMPOSE_PATIENCE: Duration = Duration::from_secs(300);
const ENDPOINT: &str = "https://storage.googleapis.com";
/// The variable of Google's libraries for a server to be asked instead, without a token.
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    origin: Origin,
    base: String,
    is_anonymous: bool,
}

impl Endpoint {
    fn find(options: &Options, emulator: Option<&str>) -> Result<Self> {
        let emulator = emulator.filter(|host| !host.is_empty() && options.endpoint.is_none());
        let url = match (&options.endpoint, emulator) {
            (Some(url), _) => url.clone(),
            (None, Some(host)) if host.contains("://") => host.to_owned(),
            (None, Some(host)) => format!("http://{host}"),
            (None, None) => ENDPOINT.to_owned(),
        };
        let (origin, path) = Origin::parse(&url)?;
        let path = path.split(['?', '#']).next().unwrap_or("");
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix("/storage/v1").unwrap_or(path);
        let is_anonymous = options.anonymous || emulator.is_some();
        if !is_anonymous && !origin.is_https {
            let text = format!("{url}: no token goes without TLS: https, or anonymous=true");
            return Err(Error::Invalid(text));
        }
        Ok(Self {
            base: path.trim_end_matches('/').to_owned(),
            origin,
            is_anonymous,
        })
    }
}

pub(crate) struct Bucket {
    transport: Transport,
    endpoint: Endpoint,
    name: String,
    /// Of the URL: where parts of objects go.
    prefix: String,
    credentials: Option<Credentials>,
    /// Whether the server has replied right once: before, a missing object may mean a missing
    /// bucket.
    is_proven: AtomicBool,
    /// Whether the server removes the sources of a compose, as Google does.
    removes_sources: AtomicBool,
}

impl Bucket {
    pub(crate) fn open(
        (name, prefix): (String, String),
        options: &Options,
        transport: Transport,
    ) -> Result<Self> {
        let emulator = std::env::var(EMULATOR).ok();
        let endpoint = Endpoint::find(options, emulator.as_deref())?;
        let credentials = (!endpoint.is_anonymous).then(|| Credentials::new(options));
        Ok(Self::with((name, prefix), endpoint, credentials, transport))
    }

    fn with(
        (name, prefix): (String, String),
        endpoint: Endpoint,
        credentials: Option<Credentials>,
        transport: Transport,
    ) -> Self {
        Self {
            transport,
            endpoint,
            name,
            prefix,
            credentials,
            is_proven: AtomicBool::new(false),
            removes_sources: AtomicBool::new(false),
        }
    }

    fn base(&self) -> &str {
        &self.endpoint.base
    }

    fn target(&self, path: &str, query: &[(&str, &str)]) -> Target {
        let mut path_and_query = format!("{}{path}", self.base());
        if !query.is_empty() {
            path_and_query.push('?');
            path_and_query.push_str(&percent::query(query));
        }
        Target {
            origin: self.endpoint.origin.clone(),
            path_and_query,
        }
    }

    fn objects(&self, query: &[(&str, &str)]) -> Target {
        self.target(&format!("/storage/v1/b/{}/o", self.name), query)
    }

    fn below(&self, key: &str, behind: &str, query: &[(&str, &str)]) -> Result<Target> {
        check_key(key)?;
        let (name, key) = (&self.name, percent::component(key));
        Ok(self.target(&format!("/storage/v1/b/{name}/o/{key}{behind}"), query))
    }

    fn object(&self, key: &str, query: &[(&str, &str)]) -> Result<Target> {
        self.below(key, "", query)
    }

    fn compose(&self, key: &str, query: &[(&str, &str)]) -> Result<Target> {
        self.below(key, "/compose", query)
    }

    fn upload(&self, key: &str, query: &[(&str, &str)]) -> Result<Target> {
        check_key(key)?;
        let path = format!("/upload/storage/v1/b/{}/o", self.name);
        Ok(self.target(&path, query))
    }

    fn batch(&self) -> Target {
        self.target("/batch/storage/v1", &[])
    }

    fn is_missing(&self) -> Error {
        let Endpoint { origin, base, .. } = &self.endpoint;
        let (url, name) = (origin.url(), &self.name);
        Error::Invalid(format!("{url}{base}: there is no bucket {name}"))
    }

    async fn why_not_found(&self, key: &str) -> Error {
        let query = ListQuery {
            prefix: key,
            delimiter: false,
            token: None,
            page_entries_max: 1,
        };
        match listing::list(self, &query).await {
            // Where nothing may be listed, the object may still be asked for.
            Ok(_) | Err(Error::Denied(_)) => Error::NotFound,
            Err(error) => error,
        }
    }

    /// Whether the server removed a part with the compose that used it.
    async fn removes_sources(&self, part: &str) -> Result<bool> {
        if self.removes_sources.load(Ordering::Relaxed) {
            return Ok(true);
        }
        match self.head(part).await {
            Ok(_) => Ok(false),
            Err(Error::NotFound) => {
                self.removes_sources.store(true, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

fn check_key(key: &str) -> Result<()> {
    let length = key.len();
    if !(1..=KEY_BYTES_MAX).contains(&length) {
        let text = format!("a key has 1 to {KEY_BYTES_MAX} bytes, not {length}");
        return Err(Error::Invalid(text));
    }
    if key == "." || key == ".." || key.contains(['\r', '\n']) {
        let text = "Google takes neither . and .. as a key, nor keys with line breaks";
        return Err(Error::Invalid(text.to_owned()));
    }
    Ok(())
}

impl Service for Bucket {
    const IS_STORE: bool = true;

    fn transport(&self) -> &Transport {
        &self.transport
    }

    async fn prepare(&self, call: &mut Call) -> Result<()> {
        if let Some(credentials) = &self.credentials {
            let header = credentials.header().await?;
            call.headers.insert(AUTHORIZATION, header);
        }
        Ok(())
    }

    /// Learns that a token has expired, or was taken back.
    fn learn(&self, _call: &Call, _tried: &Call, refusal: &Refusal) -> bool {
        let credentials = self.credentials.as_ref();
        let credentials = credentials.filter(|_| refusal.is_unauthenticated);
        credentials.is_some_and(Credentials::forget)
    }

    fn answered(&self, _call: &Call, _tried: &Call) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    fn pin(&self, call: &mut Call, version: &Version) -> Result<()> {
        let generation = resource::generation(version)?;
        let path = &mut call.target.path_and_query;
        path.push_str(&format!("&ifGenerationMatch={generation}"));
        if resource::is_compressed(version) {
            let gzip = HeaderValue::from_static("gzip");
            call.headers.insert(ACCEPT_ENCODING, gzip);
        }
        Ok(())
    }

    fn name_version(head: &mut Head) {
        let is_gzip = |encoding: &str| encoding.eq_ignore_ascii_case("gzip");
        let sent = is_gzip(head.text(&CONTENT_ENCODING).unwrap_or_default());
        let stored = head.named("x-goog-stored-content-encoding");
        let stored = stored.map_or(sent, is_gzip);
        let generation = head.named("x-goog-generation");
        let generation = generation.and_then(|number| number.parse().ok());
        // Bytes unpacked on the way are of no version.
        let generation = generation.filter(|_| sent == stored);
        let tag = generation.map(|generation| resource::tag(generation, stored));
        head.headers.remove(ETAG);
        if let Some(Ok(tag)) = tag.map(HeaderValue::try_from) {
            head.headers.insert(ETAG, tag);
        }
    }
}

impl Store for Bucket {
    fn describe(&self, prefix: &str) -> String {
        let Endpoint { origin, base, .. } = &self.endpoint;
        let slash = if prefix.is_empty() { "" } else { "/" };
        format!(
            "gs://{}{slash}{prefix} at {}{base}",
            self.name,
            origin.url()
        )
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let query = [("fields", resource::FIELDS), ("prettyPrint", "false")];
        let call = Call::new(Kind::Head, Method::GET, self.object(key, &query)?);
        let ended = exchange(self, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
        let answer = match ended.result {
            Ok(answer) => answer,
            Err(Error::NotFound) if !self.is_proven.load(Ordering::Relaxed) => {
                return Err(self.why_not_found(key).await);
            }
            Err(error) => return Err(error),
        };
        let object: Option<Value> = serde_json::from_slice(&answer.body).ok();
        object.as_ref().and_then(resource::info).ok_or_else(|| {
            let shown = call.target.shown();
            Error::Protocol(format!("{shown}: the answer describes no object"))
        })
    }

    async fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        listing::list(self, query).await
    }

    fn get(&self, key: &str) -> Result<Call> {
        let target = self.object(key, &[("alt", "media")])?;
        Ok(Call::new(Kind::Get, Method::GET, target))
    }
}

#[cfg(test)]
mod tests;
