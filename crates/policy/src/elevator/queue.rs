//! What waits, and what of it travels along with a chosen request.
//!
//! Each class has a lane of its own with two ordered maps, so the next above an address, the
//! nearest below it and the oldest are found in O(log n) and never by walking.
//!
//! Rule: from the chosen request (the seed) a dispatch grows forward and then backward, always by
//! the nearest request that does not overlap it, as long as all bytes together, holes included,
//! are at most the longest transfer. The size is tested before a request is added, never after.
//! Reads step over holes up to `read_gap_bytes_max`; writes over none, because a hole would be
//! written. All of a dispatch is of one object. In C-LOOK order growth backward stops at the head,
//! so that a dispatch in order never goes back.
//!
//! ```text
//!          head        seed
//!   ...     |     bbbbb SSSS ffff   ffff  FFFFFFFFFFFFF
//!   below it          2   0    1  hole 1   too long: stays
//! ```
//!
//! Weakness: backward, of each class only the nearest request is looked at. When that one overlaps
//! the dispatch, an adjacent one behind it stays for the next dispatch.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Class, Extent, RequestId, Settings};

/// A request and when it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) object: u32,
    pub(super) extent: Extent,
    pub(super) class: Class,
    pub(super) arrival: Duration,
    /// Counts requests; tells those apart that came at the same time or lie at the same address.
    pub(super) sequence: u64,
}

impl Request {
    /// Where it begins.
    pub(super) fn place(&self) -> Place {
        (self.object, self.extent.offset)
    }
}

/// An object and a byte of it: what is ordered.
pub(super) type Place = (u32, u64);

/// The queued requests of one class.
#[derive(Debug, Default)]
struct Lane {
    /// Keyed by first byte and sequence.
    by_place: BTreeMap<(Place, u64), Request>,
    /// Keyed by arrival and sequence; the value is the first byte.
    by_arrival: BTreeMap<(Duration, u64), Place>,
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
        let place = request.place();
        lane.by_place.insert((place, request.sequence), request);
        lane.by_arrival
            .insert((request.arrival, request.sequence), place);
    }

    /// Takes a request out; it is in the queue.
    pub(super) fn remove(&mut self, request: &Request) {
        let lane = &mut self.lanes[request.class as usize];
        lane.by_place.remove(&(request.place(), request.sequence));
        lane.by_arrival.remove(&(request.arrival, request.sequence));
    }

    /// The lowest request of the class at a place or above.
    pub(super) fn first_from(&self, class: Class, place: Place) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let found = lane.by_place.range((place, 0)..).next();
        found.map(|(_, request)| *request)
    }

    /// The highest request of the class that begins below a place.
    pub(super) fn last_below(&self, class: Class, place: Place) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let found = lane.by_place.range(..(place, 0)).next_back();
        found.map(|(_, request)| *request)
    }

    /// The request of the class that came first.
    pub(super) fn oldest(&self, class: Class) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let ((_, sequence), place) = lane.by_arrival.first_key_value()?;
        lane.by_place.get(&(*place, *sequence)).copied()
    }

    /// How many requests of the class are queued.
    pub(super) fn len(&self, class: Class) -> usize {
        self.lanes[class as usize].by_place.len()
    }

    /// Whether the class has nothing queued.
    pub(super) fn is_empty(&self, class: Class) -> bool {
        self.lanes[class as usize].by_place.is_empty()
    }
}

/// A dispatch that is being put together.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) object: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The most urgent class of the members.
    pub(super) class: Class,
    /// Ascending.
    pub(super) members: Vec<Request>,
    pub(super) gaps: u64,
    pub(super) gap_bytes: u64,
}

impl Growth {
    fn of(seed: Request) -> Self {
        Self {
            object: seed.object,
            start: seed.extent.offset,
            end: seed.extent.end(),
            class: seed.class,
            members: vec![seed],
            gaps: 0,
            gap_bytes: 0,
        }
    }

    fn add(&mut self, request: Request, gap_bytes: u64) {
        self.start = self.start.min(request.extent.offset);
        self.end = self.end.max(request.extent.end());
        self.class = self.class.min(request.class);
        self.members.push(request);
        self.gaps += u64::from(gap_bytes > 0);
        self.gap_bytes += gap_bytes;
    }
}

/// Where and how far a dispatch may grow.
pub(super) struct Limits<'a> {
    pub(super) settings: &'a Settings,
    /// It does not grow below this place.
    pub(super) floor: Place,
    /// Which classes, in the order of [`Class::ALL`], have a place at the device.
    pub(super) has_place: [bool; Class::ALL.len()],
}

impl Limits<'_> {
    /// The classes that may join: of the same direction, and if more urgent, so that the dispatch
    /// comes to count as theirs, with a place for it.
    fn joining(&self, class: Class) -> impl Iterator<Item = Class> {
        let has_place = self.has_place;
        Class::ALL.into_iter().filter(move |other| {
            other.is_write() == class.is_write() && (*other >= class || has_place[*other as usize])
        })
    }

    /// Whether so many bytes may be one dispatch.
    fn fits(&self, start: u64, end: u64) -> bool {
        end - start <= self.settings.transfer_bytes_max
    }
}

/// The dispatch that grows from `seed`. Takes nothing out of the queue.
pub(super) fn grow(queue: &Queue, seed: Request, limits: &Limits<'_>) -> Growth {
    let mut growth = Growth::of(seed);
    if limits.settings.merge {
        while let Some((next, gap_bytes)) = next_above(queue, &growth, limits) {
            growth.add(next, gap_bytes);
        }
        let forward = growth.members.len();
        while let Some((next, gap_bytes)) = next_below(queue, &growth, limits) {
            growth.add(next, gap_bytes);
        }
        growth.members[forward..].reverse();
        growth.members.rotate_left(forward);
    }
    growth
}

fn next_above(queue: &Queue, growth: &Growth, limits: &Limits<'_>) -> Option<(Request, u64)> {
    let candidates = limits
        .joining(growth.class)
        .filter_map(|class| queue.first_from(class, (growth.object, growth.end)))
        .filter(|request| request.object == growth.object);
    let next = candidates.min_by_key(|request| (request.extent.offset, request.class))?;
    let gap_bytes = next.extent.offset - growth.end;
    let fits = limits.fits(growth.start, next.extent.end());
    let is_narrow = gap_bytes <= limits.settings.gap_bytes_max(growth.class.is_write());
    (fits && is_narrow).then_some((next, gap_bytes))
}

fn next_below(queue: &Queue, growth: &Growth, limits: &Limits<'_>) -> Option<(Request, u64)> {
    let candidates = limits
        .joining(growth.class)
        .filter_map(|class| queue.last_below(class, (growth.object, growth.start)))
        .filter(|request| request.object == growth.object)
        .filter(|request| request.extent.end() <= growth.start);
    let next = candidates.max_by_key(|request| (request.extent.offset, request.extent.length))?;
    let gap_bytes = growth.start - next.extent.end();
    let fits = limits.fits(next.extent.offset, growth.end) && next.place() >= limits.floor;
    let is_narrow = gap_bytes <= limits.settings.gap_bytes_max(growth.class.is_write());
    (fits && is_narrow).then_some((next, gap_bytes))
}
