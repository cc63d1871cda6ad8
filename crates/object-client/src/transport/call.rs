//! A request and its target.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderMap;

use crate::activity::Kind;
use crate::location::Origin;
use crate::transport::failure::Failure;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub origin: Origin,
    /// From the slash on, encoded.
    pub path_and_query: String,
}

impl Target {
    /// For people: without the query, which may hold a signature.
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

/// What signs or authorizes a request; its `Debug` shows no secrets.
pub(crate) trait Sign: fmt::Debug + Send + Sync {
    fn sign(&self, call: &Call, headers: &mut HeaderMap, now: SystemTime);

    /// Whether a redirect to this host may be signed, too.
    fn is_for(&self, _host: &str) -> bool {
        false
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub kind: Kind,
    pub method: Method,
    pub target: Target,
    /// Headers, but for those that each request has.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// What goes before and behind the body, where it is one of several parts.
    pub frame: [Bytes; 2],
    /// The body's SHA-256 in hexadecimal digits; empty where nothing is signed.
    pub body_hash: String,
    pub signing: Option<Arc<dyn Sign>>,
    /// How long the server may be silent, where that is longer than usual.
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

    /// Whether the call changes nothing, and can be sent again without a thought.
    pub(crate) fn is_reading(&self) -> bool {
        !matches!(self.kind, Kind::Put | Kind::Delete)
    }

    pub(crate) fn has_body(&self) -> bool {
        matches!(self.kind, Kind::Get) || !self.body.is_empty()
    }

    /// All that is sent as its body, in order.
    pub(crate) fn pieces(&self) -> [Bytes; 3] {
        let [before, behind] = self.frame.clone();
        [before, self.body.clone(), behind]
    }

    pub(crate) fn body_bytes(&self) -> usize {
        self.pieces().iter().map(Bytes::len).sum()
    }

    pub(crate) fn failed(&self, text: &str) -> Failure {
        Failure::not_sent(format!("{}: {text}", self.target.shown()))
    }
}
