//! Files of a web server.
//!
//! A key is the path of a file without its first slash, decoded; the key that the URL named is
//! asked for exactly as the URL has it, with its query.
//!
//! Weaknesses: most servers list for people alone ([`listing`]); only the URL itself can name a
//! file whose name is not UTF-8.

mod listing;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use pagewell_base::sync::Mutex;
use tokio::time::Instant;

use crate::activity::{Activity, Kind};
use crate::error::{Error, Result};
use crate::fetch::{End, fetch};
use crate::inspect::inspect;
use crate::location::Origin;
use crate::percent;
use crate::refusal::Refusal;
use crate::remote::{ListPage, ListQuery, ObjectInfo, Remote, Sink};
use crate::runtime;
use crate::service::Service;
use crate::transport::{Call, Target, Transport};
use crate::version::Version;
use crate::writable::WritableRemote;

const MOVED_AGE: Duration = Duration::from_secs(300);
const MOVED_MAX: usize = 1024;

pub(crate) struct Web {
    transport: Transport,
    origin: Origin,
    path_and_query: String,
    prefix: String,
    listing: listing::Known,
    /// Where redirects led: requests for bytes need not ask again.
    moved: Mutex<HashMap<Target, (Target, Instant)>>,
}

impl Web {
    pub(crate) fn new(
        transport: Transport,
        origin: Origin,
        path_and_query: String,
        prefix: String,
    ) -> Self {
        Self {
            transport,
            origin,
            path_and_query,
            prefix,
            listing: listing::Known::default(),
            moved: Mutex::new(HashMap::new()),
        }
    }

    fn target(&self, key: &str) -> Target {
        let path_and_query = if key == self.prefix {
            self.path_and_query.clone()
        } else {
            format!("/{}", percent::path(key))
        };
        Target {
            origin: self.origin.clone(),
            path_and_query,
        }
    }

    pub(crate) async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let is_sure = |error: &Error| *error == Error::NotFound;
        let target = self.target(key);
        match inspect(self, target.clone(), is_sure).await {
            Err(Error::Unsupported(_)) if self.leads_to_a_folder(&target) => {
                let url = target.shown();
                let text = format!("{url}: is a folder, which ends with a slash: {url}/");
                Err(Error::Unsupported(text))
            }
            other => other,
        }
    }

    /// Whether the server redirects a path to the same one with a slash behind it.
    fn leads_to_a_folder(&self, target: &Target) -> bool {
        let path = |target: &Target| -> String {
            let path = target.path_and_query.split('?').next();
            path.unwrap_or_default().to_owned()
        };
        let moved = self.moved.lock();
        let found = moved.get(target);
        found.is_some_and(|(to, _)| path(to) == path(target) + "/")
    }

    pub(crate) async fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        let url = self.target(query.prefix).shown();
        if !query.delimiter || !(query.prefix.is_empty() || query.prefix.ends_with('/')) {
            let text = format!("{url}: a web server lists one folder at a time");
            return Err(Error::Unsupported(text));
        }
        listing::list(self, &self.listing, self.target(query.prefix), query.prefix).await
    }

    pub(crate) fn get(&self, key: &str) -> Call {
        Call::new(Kind::Get, Method::GET, self.target(key))
    }
}

impl Service for Web {
    const IS_STORE: bool = false;

    fn transport(&self) -> &Transport {
        &self.transport
    }

    async fn prepare(&self, call: &mut Call) -> Result<()> {
        let moved = self.moved.lock();
        if let Some((target, since)) = moved.get(&call.target)
            && since.elapsed() < MOVED_AGE
        {
            call.target = target.clone();
        }
        Ok(())
    }

    /// A redirect's target may have gone: the server is asked again.
    fn learn(&self, call: &Call, _tried: &Call, refusal: &Refusal) -> bool {
        let was_known = self.moved.lock().remove(&call.target).is_some();
        was_known && !refusal.failure.is_passing
    }

    fn answered(&self, call: &Call, tried: &Call) {
        if call.target == tried.target {
            return;
        }
        let mut moved = self.moved.lock();
        if moved.len() >= MOVED_MAX {
            moved.clear();
        }
        let known = moved
            .get(&call.target)
            .is_some_and(|(target, since)| *target == tried.target && since.elapsed() < MOVED_AGE);
        if !known {
            let entry = (tried.target.clone(), Instant::now());
            moved.insert(call.target.clone(), entry);
        }
    }
}

pub(crate) struct WebRemote(Arc<Web>);

impl WebRemote {
    pub(crate) fn new(web: Web) -> Self {
        Self(Arc::new(web))
    }
}

impl Remote for WebRemote {
    fn describe(&self) -> String {
        self.0.target(&self.0.prefix).shown()
    }

    fn head(&self, key: &str) -> Result<ObjectInfo> {
        runtime::wait(self.0.head(key))
    }

    fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        runtime::wait(self.0.list(query))
    }

    fn fetch(&self, key: &str, version: &Version, range: Range<u64>, sink: Box<dyn Sink>) {
        let (web, call, version) = (Arc::clone(&self.0), self.0.get(key), version.clone());
        let end = End::new(sink);
        // Without threads the dropped future calls the end.
        let _ = runtime::begin(fetch(web, call, version, range, end));
    }

    fn as_writable(&self) -> Option<&dyn WritableRemote> {
        None
    }

    fn activity(&self) -> Activity {
        self.0.transport.activity()
    }
}

#[cfg(test)]
mod tests;
