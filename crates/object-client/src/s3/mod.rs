//! A bucket of a store that speaks S3.
//!
//! Weaknesses: a part copied from another version goes unnoticed where the server ignores
//! `x-amz-copy-source-if-match`; only the newest version of an object is looked at.

mod config;
mod credentials;
mod listing;
mod upload;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hyper::Method;
use pagewell_base::sync::Mutex;

use crate::activity::Kind;
use crate::at_once;
use crate::error::{Error, Result};
use crate::headers;
use crate::inspect::inspect;
use crate::location::Origin;
use crate::options::Options;
use crate::percent;
use crate::refusal::Refusal;
use crate::remote::{ListPage, ListQuery, ObjectInfo};
use crate::service::{Service, Wanted, exchange};

use crate::sign::{self, Signing};
use crate::store::{Store, Whole};
use crate::transport::{Call, Target, Transport};
use config::Settings;
use credentials::Credentials;

const KEY_BYTES_MAX: usize = 1024;
/// Bytes of a page of a listing: 5,000 keys of 1,024 bytes, each written as three.
const LIST_BYTES_MAX: usize = 32 * 1024 * 1024;
pub(crate) const ANSWER_BYTES_MAX: usize = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// A named server and its path; `None`: AWS by its region.
    endpoint: Option<(Origin, String)>,
    region: String,
    bucket: String,
    is_in_path: bool,
}

impl Place {
    fn origin(&self) -> Result<Origin> {
        let mut origin = match &self.endpoint {
            Some((origin, _)) => origin.clone(),
            None => {
                let region = &self.region;
                let is_china = region.starts_with("cn-");
                let end = if is_china { "com.cn" } else { "com" };
                let url = format!("https://s3.{region}.amazonaws.{end}");
                Origin::parse(&url)?.0
            }
        };
        if !self.is_in_path {
            origin.host = format!("{}.{}", self.bucket.to_ascii_lowercase(), origin.host);
        }
        Ok(origin)
    }

    /// Why a listing may be answered by 404.
    fn no_store(&self) -> &'static str {
        let ends_with_bucket = |(_, path): &(Origin, String)| {
            let last = path.rsplit('/').next();
            self.is_in_path && last == Some(self.bucket.as_str())
        };
        if self.endpoint.as_ref().is_some_and(ends_with_bucket) {
            "nothing is there (404): endpoint= is the server alone, without the bucket"
        } else {
            "nothing is there (404), and the answer is not of S3: endpoint= may be another server"
        }
    }

    fn base(&self) -> String {
        let outer = self.endpoint.as_ref().map_or("", |(_, path)| path);
        if self.is_in_path {
            format!("{outer}/{}", self.bucket)
        } else {
            outer.to_owned()
        }
    }
}

fn lacks_md5(call: &Call) -> bool {
    call.kind == Kind::Put && !call.body.is_empty() && !call.headers.contains_key(headers::MD5)
}

pub(crate) struct Bucket {
    transport: Transport,
    place: Mutex<Place>,
    credentials: Option<Credentials>,
    raw_listings: bool,
    /// Whether the server has replied right once: before, a missing object may mean a wrong key.
    is_proven: AtomicBool,
    trusts_signed_hashes: AtomicBool,
    /// Whether the server has refused a body without MD5, as buckets with object locks do.
    wants_md5: AtomicBool,
}

impl Bucket {
    pub(crate) fn open(bucket: String, options: &Options, transport: Transport) -> Result<Self> {
        let settings = Settings::find(options)?;
        Self::with(bucket, options, &settings, transport)
    }

    fn with(
        bucket: String,
        options: &Options,
        settings: &Settings,
        transport: Transport,
    ) -> Result<Self> {
        let endpoint = match &settings.endpoint {
            Some(url) => {
                let (origin, path) = Origin::parse(url)?;
                let path = path.split(['?', '#']).next().unwrap_or("");
                Some((origin, path.trim_end_matches('/').to_owned()))
            }
            None => None,
        };
        let is_aws = endpoint
            .as_ref()
            .is_none_or(|(origin, _)| origin.host.ends_with(".amazonaws.com"));
        // AWS's certificate does not cover a name with a dot.
        let by_default = !is_aws || bucket.contains('.');
        let place = Place {
            endpoint,
            region: settings.region.clone(),
            is_in_path: options.path_style.unwrap_or(by_default),
            bucket,
        };
        place.origin()?;
        let credentials = (!options.anonymous).then(|| Credentials::new(options, settings));
        Ok(Self {
            transport,
            place: Mutex::new(place),
            credentials,
            raw_listings: options.raw_listings,
            is_proven: AtomicBool::new(false),
            trusts_signed_hashes: AtomicBool::new(false),
            wants_md5: AtomicBool::new(false),
        })
    }

    fn place(&self) -> Place {
        self.place.lock().clone()
    }

    fn target(&self, key: &str, query: &[(&str, &str)]) -> Result<Target> {
        let place = self.place();
        let mut path_and_query = place.base();
        path_and_query.push('/');
        path_and_query.push_str(&percent::path(key));
        if !query.is_empty() {
            path_and_query.push('?');
            path_and_query.push_str(&percent::query(query));
        }
        Ok(Target {
            origin: place.origin()?,
            path_and_query,
        })
    }

    fn object(&self, key: &str, query: &[(&str, &str)]) -> Result<Target> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let length = key.len();
            let text = format!("a key has 1 to {KEY_BYTES_MAX} bytes, not {length}");
            return Err(Error::Invalid(text));
        }
        self.target(key, query)
    }

    fn call(kind: Kind, method: Method, target: Target, body: Bytes) -> Call {
        Call {
            body_hash: sign::hash(&body),
            body,
            ..Call::new(kind, method, target)
        }
    }

    fn signed_hash_is_enough(&self) -> bool {
        self.credentials.is_some()
            && self.trusts_signed_hashes.load(Ordering::Relaxed)
            && !self.wants_md5.load(Ordering::Relaxed)
    }

    fn to_put(&self, key: &str) -> Result<Call> {
        Ok(Call::new(Kind::Put, Method::PUT, self.object(key, &[])?))
    }
}

impl Service for Bucket {
    const IS_STORE: bool = true;

    fn transport(&self) -> &Transport {
        &self.transport
    }

    async fn prepare(&self, call: &mut Call) -> Result<()> {
        let place = self.place();
        call.target.origin = place.origin()?;
        if self.wants_md5.load(Ordering::Relaxed) && lacks_md5(call) {
            headers::carry(call, call.body.clone())?;
        }
        let Some(credentials) = &self.credentials else {
            return Ok(());
        };
        if call.body_hash.is_empty() {
            call.body_hash = sign::hash(&call.body);
        }
        call.signing = Some(Arc::new(Signing {
            keys: credentials.keys().await?,
            region: place.region,
        }));
        Ok(())
    }

    /// Learns the bucket's region, that keys have expired, or that bodies need an MD5.
    fn learn(&self, _call: &Call, tried: &Call, refusal: &Refusal) -> bool {
        if refusal.code == "InvalidRequest" && lacks_md5(tried) {
            self.wants_md5.store(true, Ordering::Relaxed);
            return true;
        }
        if matches!(refusal.code.as_str(), "ExpiredToken" | "InvalidToken") {
            return self.credentials.as_ref().is_some_and(Credentials::forget);
        }
        let Some(region) = &refusal.region else {
            return false;
        };
        let is_name = region.len() <= 64
            && region
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let mut place = self.place.lock();
        let is_new = is_name && !region.is_empty() && place.region != *region;
        if is_new {
            place.region.clone_from(region);
        }
        is_new
    }

    fn answered(&self, _call: &Call, _tried: &Call) {
        self.is_proven.store(true, Ordering::Relaxed);
    }
}

impl Store for Bucket {
    fn describe(&self, prefix: &str) -> String {
        let place = self.place();
        let slash = if prefix.is_empty() { "" } else { "/" };
        let at = match place.endpoint {
            Some((origin, path)) => format!("{}{path}", origin.url()),
            None => place.region,
        };
        format!("s3://{}{slash}{prefix} at {at}", place.bucket)
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let is_proven = self.is_proven.load(Ordering::Relaxed);
        let is_sure = |error: &Error| is_proven && *error == Error::NotFound;
        inspect(self, self.object(key, &[])?, is_sure).await
    }

    async fn at_once(&self, key: &str, bytes_max: u64) -> Result<Option<Whole>> {
        let call = self.get(key)?;
        let whole = at_once::get(self, &call, key, bytes_max, write::names_others);
        Ok(Some(whole.await?))
    }

    async fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        let wanted = query.page_entries_max.max(1).to_string();
        let mut pairs = vec![
            ("list-type", "2"),
            ("encoding-type", "url"),
            ("prefix", query.prefix),
            ("max-keys", wanted.as_str()),
        ];
        if query.delimiter {
            pairs.push(("delimiter", "/"));
        }
        if let Some(token) = &query.token {
            pairs.push(("continuation-token", token));
        }
        let target = self.target("", &pairs)?;
        let shown = target.shown();
        let call = Self::call(Kind::List, Method::GET, target, Bytes::new());
        let ended = exchange(self, &call, Wanted::Body(LIST_BYTES_MAX)).await;
        let answer = ended.result.map_err(|error| match error {
            // A missing bucket has a code of S3.
            Error::NotFound => Error::Invalid(format!("{shown}: {}", self.place().no_store())),
            other => other,
        })?;
        listing::page(&answer.body, query, self.raw_listings)
            .map_err(|text| Error::Protocol(format!("{shown}: the listing is wrong: {text}")))
    }

    fn get(&self, key: &str) -> Result<Call> {
        let target = self.object(key, &[])?;
        Ok(Self::call(Kind::Get, Method::GET, target, Bytes::new()))
    }
}

#[cfg(test)]
pub(crate) mod tests;
