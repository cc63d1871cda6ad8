//! A request: what is asked of whom.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderMap;

use crate::activity::Kind;
use crate::location::Origin;
use crate::transport::failure::Failure;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    /// The server.
    pub origin: Origin,
    /// From the slash on, encoded.
    pub path_and_query: String,
}

impl Target {
    /// As people may see it: a query may hold a signature.
    pub(crate) fn shown(&self) -> String {
        let path = self.path_and_query.split('?').next().unwrap_or("/");
        let mut path = path.to_owned();
        // Keys have 1,024 bytes; longer paths say nothing more.
        if path.len() > 512 && path.is_ascii() {
            path.truncate(512);
            path.push_str("...");
        }
        format!("{}{path}", self.origin.url())
    }
}

/// By what a request is signed, or shown to be allowed; of which nothing is shown.
pub(crate) trait Sign: fmt::Debug + Send + Sync {
    /// Adds what signs a call with these headers.
    fn sign(&self, call: &Call, headers: &mut HeaderMap, now: SystemTime);

    /// Whether a host may be asked in the same way, to which another one redirects.
    fn is_for(&self, _host: &str) -> bool {
        false
    }
}

/// A request, which may be tried several times.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What it is counted as.
    pub kind: Kind,
    /// The method.
    pub method: Method,
    /// Where it goes.
    pub target: Target,
    /// Headers, but for those that each request has.
    pub headers: HeaderMap,
    /// The body, but for what stands around it.
    pub body: Bytes,
    /// What goes before and behind the body, where that is one of several parts.
    pub frame: [Bytes; 2],
    /// Its SHA-256 in hexadecimal digits; empty where nothing is signed.
    pub body_hash: String,
    /// Without it, it is not signed.
    pub signing: Option<Arc<dyn Sign>>,
    /// How long the server may be silent, where that is longer than in other calls.
    pub patience: Duration,
}

impl Call {
    pub(crate) fn new(kind: Kind, method: Method, target: Target) -> Self {
        Self {
            kind,
            method,
            target,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            frame: [Bytes::new(), Bytes::new()],
            body_hash: String::new(),
            signing: None,
            patience: Duration::ZERO,
        }
    }

    /// Whether it changes nothing, and can be sent again without a thought.
    pub(crate) fn is_reading(&self) -> bool {
        !matches!(self.kind, Kind::Put | Kind::Delete)
    }

    /// Whether it or its answer has a body of objects.
    pub(crate) fn has_body(&self) -> bool {
        matches!(self.kind, Kind::Get) || !self.body.is_empty()
    }

    /// All that is sent as its body, in order.
    pub(crate) fn pieces(&self) -> [Bytes; 3] {
        let [before, behind] = self.frame.clone();
        [before, self.body.clone(), behind]
    }

    /// How many bytes that is.
    pub(crate) fn body_bytes(&self) -> usize {
        self.pieces().iter().map(Bytes::len).sum()
    }

    /// A failure names what it is about.
    pub(crate) fn failed(&self, text: &str) -> Failure {
        Failure::not_sent(format!("{}: {text}", self.target.shown()))
    }
}
