//! What an endpoint was asked, and what that cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pagewell_counters::names;

/// Counts since the endpoint was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// GET of an object.
    pub gets: u64,
    /// HEAD.
    pub heads: u64,
    /// Listings.
    pub lists: u64,
    /// PUT of an object or a part, copies of parts, and what begins or ends an upload.
    pub puts: u64,
    /// DELETE, and POST of many.
    pub deletes: u64,
    /// Tries after the first one of a call.
    pub retries: u64,
    /// Replies 429 and 503.
    pub throttled: u64,
    /// Connections made.
    pub connections: u64,
    /// Bytes of bodies that came.
    pub received_bytes: u64,
    /// Bytes of bodies that went.
    pub sent_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Head,
    List,
    Put,
    Delete,
}

/// Counts of many threads, added to the program's counters, too.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Whether it is no store, which may charge for requests.
    is_web: bool,
    requests: [AtomicU64; 5],
    retries: AtomicU64,
    throttled: AtomicU64,
    connections: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

fn add(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}

impl Counts {
    pub(crate) fn of_web() -> Self {
        Self {
            is_web: true,
            ..Self::default()
        }
    }

    pub(crate) fn request(&self, kind: Kind, sent_bytes: u64) {
        add(&self.requests[kind as usize], 1);
        add(&self.sent_bytes, sent_bytes);
        let counter = match kind {
            Kind::Get => &names::OBJECT_GETS,
            Kind::Head => &names::OBJECT_HEADS,
            Kind::List => &names::OBJECT_LISTS,
            Kind::Put => &names::OBJECT_PUTS,
            Kind::Delete => &names::OBJECT_DELETES,
        };
        counter.add(1);
        names::OBJECT_WEB_REQUESTS.add(u64::from(self.is_web));
        names::OBJECT_SENT_BYTES.add(sent_bytes);
    }

    /// A reply began so long after its request.
    pub(crate) fn answered(after: Duration) {
        let nanoseconds = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        names::OBJECT_ANSWER_NANOSECONDS.add(nanoseconds);
        names::OBJECT_ANSWERS.add(1);
    }

    pub(crate) fn retry(&self) {
        add(&self.retries, 1);
        names::OBJECT_RETRIES.add(1);
    }

    pub(crate) fn throttled(&self) {
        add(&self.throttled, 1);
        names::OBJECT_THROTTLED.add(1);
    }

    pub(crate) fn connection(&self) {
        add(&self.connections, 1);
        names::OBJECT_CONNECTIONS.add(1);
    }

    pub(crate) fn received(&self, bytes: u64) {
        add(&self.received_bytes, bytes);
        names::OBJECT_RECEIVED_BYTES.add(bytes);
    }

    pub(crate) fn now(&self) -> Activity {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [gets, heads, lists, puts, deletes] = self.requests.each_ref().map(of);
        Activity {
            gets,
            heads,
            lists,
            puts,
            deletes,
            retries: of(&self.retries),
            throttled: of(&self.throttled),
            connections: of(&self.connections),
            received_bytes: of(&self.received_bytes),
            sent_bytes: of(&self.sent_bytes),
        }
    }
}
