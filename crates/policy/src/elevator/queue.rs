//! What waits: by name, by address and by arrival.
//!
//! Each class has a lane of its own with two ordered maps, so the next above an address, the
//! nearest below it and the oldest are found in O(log n) and never by walking.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Class, Extent, RequestId};

/// A request and when it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) extent: Extent,
    pub(super) class: Class,
    pub(super) arrival: Duration,
    /// Counts requests; tells those apart that came at the same time or lie at the same address.
    pub(super) sequence: u64,
}

/// The queued requests of one class.
#[derive(Debug, Default)]
struct Lane {
    /// Keyed by first byte and sequence.
    by_offset: BTreeMap<(u64, u64), Request>,
    /// Keyed by arrival and sequence; the value is the first byte.
    by_arrival: BTreeMap<(Duration, u64), u64>,
}

/// All requests that may be dispatched.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lanes: [Lane; Class::ALL.len()],
}

impl Queue {
    /// Adds a request. Its sequence is not in the queue.
    pub(super) fn insert(&mut self, request: Request) {
        let lane = &mut self.lanes[request.class as usize];
        let offset = request.extent.offset;
        lane.by_offset.insert((offset, request.sequence), request);
        lane.by_arrival
            .insert((request.arrival, request.sequence), offset);
    }

    /// Takes a request out; it is in the queue.
    pub(super) fn remove(&mut self, request: &Request) {
        let lane = &mut self.lanes[request.class as usize];
        lane.by_offset
            .remove(&(request.extent.offset, request.sequence));
        lane.by_arrival.remove(&(request.arrival, request.sequence));
    }

    /// The lowest request of the class at `offset` or above.
    pub(super) fn first_from(&self, class: Class, offset: u64) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let found = lane.by_offset.range((offset, 0)..).next();
        found.map(|(_, request)| *request)
    }

    /// The highest request of the class that begins below `offset`.
    pub(super) fn last_below(&self, class: Class, offset: u64) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let found = lane.by_offset.range(..(offset, 0)).next_back();
        found.map(|(_, request)| *request)
    }

    /// The request of the class that came first.
    pub(super) fn oldest(&self, class: Class) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let ((_, sequence), offset) = lane.by_arrival.first_key_value()?;
        lane.by_offset.get(&(*offset, *sequence)).copied()
    }

    /// How many requests of the class are queued.
    pub(super) fn len(&self, class: Class) -> usize {
        self.lanes[class as usize].by_offset.len()
    }

    /// Whether the class has nothing queued.
    pub(super) fn is_empty(&self, class: Class) -> bool {
        self.lanes[class as usize].by_offset.is_empty()
    }
}
