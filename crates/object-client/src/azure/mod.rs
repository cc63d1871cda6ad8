//! A container of Azure Blob Storage: the Blob service REST API.
//!
//! ```text
//!   object      block blob, made by Put Blob or Put Block List
//!   part        block, whose name begins with the upload's: Azure knows no uploads
//!   version     ETag, which also changes with the metadata
//!   metadata    x-ms-meta-NAME, under names that Azure takes (`names`)
//! ```
//!
//! **Keys.** Azure resolves `.` and `..` in paths, and takes a backslash for a slash: such keys
//! would be other blobs, and are refused. Whether a dot at the end of a segment stays is not
//! documented: such a key is read, and not written.
//!
//! **Uploads.** Uncommitted blocks belong to the blob, and vanish with its next commit by any
//! program, or after a week. So uploads are neither given up nor listed. Of two uploads of a key at
//! once the second finds its blocks gone, which does no harm: its condition would have failed.
//!
//! Weaknesses: directories of accounts with a hierarchical namespace are made and removed as the
//! blobs `dir/` only, and a blob by which another program marks `dir` stays; blobs with snapshots
//! are not deleted; another program's uncommitted block whose name has another length makes uploads
//! of that blob fail for a week.

mod config;
mod credentials;
mod listing;
mod names;
mod shared_key;
mod tokens;
mod upload;
mod write;

use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::activity::Kind;
use crate::at_once;
use crate::error::{Error, Result};
use crate::inspect::inspect;
use crate::options::Options;
use crate::percent;
use crate::refusal::Refusal;
use crate::remote::{ListPage, ListQuery, ObjectInfo};
use crate::service::{Service, Wanted, exchange};
use crate::store::{Store, Whole};
use crate::transport::{Call, Target, Transport};
use config::{Place, Settings};
use credentials::{Access, Credentials};
use shared_key::VERSION;

const VERSION_NAME: HeaderName = HeaderName::from_static("x-ms-version");
/// The prefix of headers of metadata.
const METADATA: &str = "x-ms-meta-";
const KEY_CHARACTERS_MAX: usize = 1024;
const SEGMENTS_MAX: usize = 254;
const ENTRIES_MAX: u32 = 5000;
const EMPTY_PAGES_MAX: u32 = 100;
/// Bytes of a page of a listing: as many entries with keys of 1,024 characters.
const LIST_BYTES_MAX: usize = 48 * 1024 * 1024;
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

pub(crate) struct Container {
    transport: Transport,
    place: Place,
    name: String,
    credentials: Credentials,
}

impl Container {
    /// Opens a container; `transport` carries its requests.
    pub(crate) fn open(name: String, options: &Options, transport: Transport) -> Result<Self> {
        let Settings { place, access } = Settings::find(options)?;
        let credentials = Credentials::new(access, options);
        Ok(Self::with(name, place, credentials, transport))
    }

    fn with(name: String, place: Place, credentials: Credentials, transport: Transport) -> Self {
        Self {
            transport,
            place,
            name,
            credentials,
        }
    }

    /// The target of an encoded path behind the endpoint.
    fn target(&self, path: &str, query: &[(&str, &str)]) -> Target {
        let mut path_and_query = format!("{}/{}{path}", self.place.path, self.name);
        if !query.is_empty() {
            path_and_query.push('?');
            path_and_query.push_str(&percent::query(query));
        }
        Target {
            origin: self.place.origin.clone(),
            path_and_query,
        }
    }

    fn object(&self, key: &str, query: &[(&str, &str)]) -> Result<Target> {
        let characters = key.chars().count();
        if !(1..=KEY_CHARACTERS_MAX).contains(&characters) {
            let text =
                format!("a key has 1 to {KEY_CHARACTERS_MAX} characters, and not {characters}");
            return Err(Error::Invalid(text));
        }
        if key.split('/').count() > SEGMENTS_MAX {
            let text = format!("a key has at most {SEGMENTS_MAX} parts between slashes");
            return Err(Error::Invalid(text));
        }
        if key.contains('\\') || key.split('/').any(|part| matches!(part, "." | "..")) {
            let text = "Azure takes '.', '..' and '\\' in a key for something else";
            return Err(Error::Invalid(text.to_owned()));
        }
        Ok(self.target(&format!("/{}", percent::path(key)), query))
    }

    fn made(&self, key: &str, query: &[(&str, &str)]) -> Result<Target> {
        if key.split('/').any(|part| part.ends_with('.')) {
            let text = "in a key of Azure no part ends with a dot";
            return Err(Error::Invalid(text.to_owned()));
        }
        self.object(key, query)
    }

    /// Refuses to send a token, which opens more than this container, without TLS.
    fn check_secret(&self) -> Result<()> {
        let origin = &self.place.origin;
        let host = origin.host.trim_start_matches('[').trim_end_matches(']');
        let address = host.parse::<std::net::IpAddr>();
        let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        if origin.is_https || is_here {
            return Ok(());
        }
        let url = origin.url();
        Err(Error::Denied(format!(
            "{url}: no server without TLS gets a token"
        )))
    }

    async fn list_once(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        let wanted = query.page_entries_max.clamp(1, ENTRIES_MAX).to_string();
        let mut pairs = vec![
            ("restype", "container"),
            ("comp", "list"),
            ("prefix", query.prefix),
            ("maxresults", wanted.as_str()),
        ];
        if query.delimiter {
            pairs.push(("delimiter", "/"));
            // It has the marks of directories.
            pairs.push(("include", "metadata"));
        }
        if let Some(token) = &query.token {
            pairs.push(("marker", token));
        }
        let target = self.target("", &pairs);
        let shown = target.shown();
        let call = Call::new(Kind::List, Method::GET, target);
        let answer = exchange(self, &call, Wanted::Body(LIST_BYTES_MAX))
            .await
            .result?;
        listing::page(&answer.body, query)
            .map_err(|text| Error::Protocol(format!("{shown}: the listing is wrong: {text}")))
    }
}

impl Service for Container {
    const IS_STORE: bool = true;

    fn transport(&self) -> &Transport {
        &self.transport
    }

    fn metadata_header(name: &str) -> String {
        format!("{METADATA}{}", names::to_azure(name))
    }

    fn metadata_name(header: &str) -> Option<String> {
        header.strip_prefix(METADATA).map(names::from_azure)
    }

    async fn prepare(&self, call: &mut Call) -> Result<()> {
        let version = HeaderValue::from_static(VERSION);
        call.headers.insert(VERSION_NAME, version);
        match self.credentials.now().await? {
            Access::Anonymous => {}
            Access::Key(key) => call.signing = Some(key),
            Access::Signature(query) => {
                let behind = call.target.path_and_query.contains('?');
                let sign = if behind { '&' } else { '?' };
                call.target.path_and_query.push(sign);
                call.target.path_and_query.push_str(&query);
            }
            Access::Token(token) => {
                self.check_secret()?;
                call.headers.insert(AUTHORIZATION, token);
            }
        }
        Ok(())
    }

    /// Learns that a token has expired.
    fn learn(&self, _call: &Call, _tried: &Call, refusal: &Refusal) -> bool {
        let codes = [
            "AuthenticationFailed",
            "InvalidAuthenticationInfo",
            "ExpiredAuthenticationToken",
        ];
        codes.contains(&refusal.code.as_str()) && self.credentials.forget()
    }

    fn answered(&self, _call: &Call, _tried: &Call) {}
}

/// Whether that pair of a blob's metadata says that it is a directory.
fn is_directory_mark(name: &str, value: &[u8]) -> bool {
    name.eq_ignore_ascii_case("hdi_isfolder") && value.eq_ignore_ascii_case(b"true")
}

/// Leaves out directories, which accounts with a hierarchical namespace, and some programs
/// elsewhere, show as blobs without bytes.
fn is_object(key: &str, info: ObjectInfo) -> Result<ObjectInfo> {
    let is_mark = |(name, value): &(String, Vec<u8>)| is_directory_mark(name, value);
    if !key.ends_with('/') && info.metadata.iter().any(is_mark) {
        return Err(Error::NotFound);
    }
    Ok(info)
}

impl Store for Container {
    fn describe(&self, prefix: &str) -> String {
        let Self { place, name, .. } = self;
        let slash = if prefix.is_empty() { "" } else { "/" };
        let at = format!("{}{}", place.origin.url(), place.path);
        format!("az://{name}{slash}{prefix} at {at}")
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        // A header says whether the blob or the container is missing.
        let is_sure = |error: &Error| *error == Error::NotFound;
        let info = inspect(self, self.object(key, &[])?, is_sure).await?;
        is_object(key, info)
    }

    async fn at_once(&self, key: &str, bytes_max: u64) -> Result<Option<Whole>> {
        let call = self.get(key)?;
        let (info, bytes) = at_once::get(self, &call, key, bytes_max, write::names_others).await?;
        Ok(Some((is_object(key, info)?, bytes)))
    }

    /// A page that has something, or the last one: other pages may be empty.
    async fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        let mut query = query.clone();
        for _ in 0..EMPTY_PAGES_MAX {
            let page = self.list_once(&query).await?;
            let is_empty = page.objects.is_empty() && page.prefixes.is_empty();
            if !is_empty || page.next.is_none() {
                return Ok(page);
            }
            query.token = page.next;
        }
        let shown = self.target("", &[]).shown();
        let text = format!("{shown}: {EMPTY_PAGES_MAX} pages of a listing are empty");
        Err(Error::TryLater(text))
    }

    fn get(&self, key: &str) -> Result<Call> {
        Ok(Call::new(Kind::Get, Method::GET, self.object(key, &[])?))
    }
}

#[cfg(test)]
mod tests;
