//! Which request goes next?
//!
//! A moving head costs more than bytes (67 ms on a DVD: 570 KiB), so requests go by address in long
//! runs. But no reader must stand behind read-ahead, and none wait for ever.
//!
//! [`Order::CircularLook`]: the *head* is the end of the last dispatch. Each class gets its lowest
//! request at or above the head, else its lowest (a *wrap*). The first of:
//!
//! 1. *Deadline.* The most overdue request, if the *batch* since the last such pick is done.
//! 2. *Run.* While fewer than [`RUN_BYTES_MAX`] went in a row, a request of any class at the head,
//!    or behind a hole that may be read over.
//! 3. *Minimum.* The most urgent class with less at the device than its share.
//! 4. *Urgency.* The most urgent class.
//!
//! ```text
//!   sync              x           s                 one reader waits at s, one at x
//!   async   aaaa|bbbbbbbb             cccccccc
//!             head
//!   b goes on up to RUN_BYTES_MAX, then s, then c if it begins right behind s, else x (wrap)
//! ```
//!
//! Only classes with a place at the device count. Under load all is overdue, and the order would be
//! that of arrival; so between two picks lies a batch of [`BATCH_BYTES`], where a seek counts
//! [`SEEK_CHARGE_BYTES`]. Before the next pick of read-ahead, more urgent classes get as many
//! dispatches as they had requests at the last pick, within one more batch: else streams leave
//! nothing to a random reader.
//!
//! [`Order::Arrival`]: 1 and 3, then the oldest.
//!
//! - [`RUN_BYTES_MAX`], 4 MiB: seven DVD seeks, so 0.88 of the time is transfer; 28 ms on a disk.
//! - [`BATCH_BYTES`], 4 MiB: as long as any run.
//! - [`SEEK_CHARGE_BYTES`], 256 KiB: 16 seeks to a batch, the batch of mq-deadline.
//!
//! Weaknesses: turns are short on a fast disk, as bytes are not time. With one place at the device,
//! writes wait for their deadline while reads are queued. A class at its maximum depth misses
//! deadlines.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    Class, Counts, Depth, Dispatch, DispatchId, Extent, Member, Order, Reason, RequestId, Settings,
};

/// Before another class gets its turn.
pub const RUN_BYTES_MAX: u64 = 4 << 20;
/// Between two picks at a deadline.
pub const BATCH_BYTES: u64 = 4 << 20;
/// What a seek counts in a batch.
pub const SEEK_CHARGE_BYTES: u64 = BATCH_BYTES / 16;

const SHARED_PLACES_MAX: u32 = 1 << 12;
const CLASSES: usize = Class::ALL.len();
const PROBES: usize = 16;

#[derive(Debug)]
struct InFlight {
    class: Class,
    members: Vec<Request>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    is_write: bool,
    bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Elevator {
    settings: Settings,
    /// The minimums there is room for.
    shares: [u32; CLASSES],
    requests: BTreeMap<RequestId, Request>,
    queue: Queue,
    overlap: Overlap,
    in_flight: BTreeMap<DispatchId, InFlight>,
    in_flight_of: [u32; CLASSES],
    head: Place,
    run: Option<Run>,
    /// With seeks, since the last pick at a deadline.
    batch_bytes: u64,
    pick_class: Class,
    urgent_owed: usize,
    sequence_next: u64,
    dispatch_next: u64,
    counts: Counts,
}

impl Elevator {
    /// An empty elevator.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let mut settings = settings;
        settings.depth_max = settings.depth_max.max(1);
        Self {
            settings,
            shares: shares(&settings),
            requests: BTreeMap::new(),
            queue: Queue::default(),
            overlap: Overlap::default(),
            in_flight: BTreeMap::new(),
            in_flight_of: [0; CLASSES],
            head: (0, 0),
            run: None,
            batch_bytes: BATCH_BYTES,
            pick_class: Class::SynchronousRead,
            urgent_owed: 0,
            sequence_next: 0,
            dispatch_next: 0,
            counts: Counts::default(),
        }
    }

    /// Queues a request. False: the extent is empty or passes the end of addresses, or `id` is
    /// queued.
    pub fn insert(
        &mut self,
        id: RequestId,
        (object, extent): (u32, Extent),
        class: Class,
        now: Duration,
    ) -> bool {
        let fits = extent.offset.checked_add(extent.length).is_some();
        if extent.length == 0 || !fits || self.requests.contains_key(&id) {
            self.counts.refused += 1;
            return false;
        }
        let request = Request {
            id,
            object,
            extent,
            class,
            arrival: now,
            sequence: self.sequence_next,
        };
        self.sequence_next += 1;
        self.counts.inserted += 1;
        self.requests.insert(id, request);
        if self.overlap.admit(&request) {
            self.queue.insert(request);
        } else {
            self.counts.overlapped += 1;
        }
        true
    }

    /// A reader waits for a queued read; its arrival stays.
    pub fn promote(&mut self, id: RequestId, class: Class) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        if request.class.is_write() || class >= request.class {
            return;
        }
        let before = *request;
        request.class = class;
        let after = *request;
        self.counts.promoted += 1;
        match self.overlap.in_line(before.sequence) {
            Some(waiting) => waiting.class = class,
            None => {
                self.queue.remove(&before);
                self.queue.insert(after);
            }
        }
    }

    /// What to send to the device now.
    pub fn dispatch(&mut self, now: Duration) -> Option<Dispatch> {
        let in_flight = u32::try_from(self.in_flight.len()).unwrap_or(u32::MAX);
        let chosen = if in_flight < self.settings.depth_max {
            self.choose(now)
        } else {
            None
        };
        let Some((seed, reason)) = chosen else {
            self.counts.depth_refusals += u64::from(!self.requests.is_empty());
            return None;
        };
        let ordered = self.settings.order == Order::CircularLook && reason == Reason::Order;
        let limits = Limits {
            settings: &self.settings,
            floor: if ordered { self.head } else { (0, 0) },
            has_place: Class::ALL.map(|class| self.has_place(class)),
        };
        let growth = grow(&self.queue, seed, &limits);
        self.account(&growth, reason);
        Some(self.depart(growth, reason))
    }

    /// False: the dispatch is not at the device.
    pub fn complete(&mut self, id: DispatchId) -> bool {
        let Some(done) = self.in_flight.remove(&id) else {
            return false;
        };
        self.counts.completed += 1;
        self.in_flight_of[done.class as usize] -= 1;
        for member in &done.members {
            self.overlap.release(member);
        }
        self.move_line_up();
        true
    }

    /// Requests not dispatched yet.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.requests.len()
    }

    /// Dispatches not completed yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn move_line_up(&mut self) {
        while let Some(request) = self.overlap.next_ready() {
            self.queue.insert(request);
        }
    }

    fn has_place(&self, class: Class) -> bool {
        let maximum = self.settings.depths[class as usize].maximum.max(1);
        self.in_flight_of[class as usize] < maximum
    }

    fn choose(&mut self, now: Duration) -> Option<(Request, Reason)> {
        let in_order = match self.settings.order {
            Order::CircularLook => self.continuation().or_else(|| self.next_in_look()),
            Order::Arrival => self.next_in_arrival(),
        };
        let late = self
            .most_overdue(now)
            .filter(|late| in_order.is_none_or(|(next, _)| next.sequence != late.sequence));
        match late {
            Some(late) if self.may_pick(&late) => Some((late, Reason::Deadline)),
            late => {
                self.counts.deadline_postponed += u64::from(late.is_some());
                in_order
            }
        }
    }

    /// Whether the batch since the last pick is done.
    fn may_pick(&self, late: &Request) -> bool {
        let mut urgent = Class::ALL.into_iter().filter(|class| *class < late.class);
        let urgent_waits = self.urgent_owed > 0
            && urgent.any(|class| self.has_place(class) && !self.queue.is_empty(class));
        let done = self.batch_bytes >= BATCH_BYTES;
        done && (self.batch_bytes >= 2 * BATCH_BYTES || !urgent_waits)
    }

    /// The most overdue request of a class with a place.
    fn most_overdue(&self, now: Duration) -> Option<Request> {
        let overdue = Class::ALL.into_iter().filter_map(|class| {
            let deadline = if class.is_write() {
                self.settings.write_deadline
            } else {
                self.settings.read_deadline
            };
            let oldest = self.queue.oldest(class)?;
            let due = oldest.arrival.saturating_add(deadline?);
            (self.has_place(class) && now >= due).then_some((due, oldest))
        });
        let first = overdue.min_by_key(|(due, request)| (*due, request.sequence));
        first.map(|(_, request)| request)
    }

    /// What goes on at the head in a run.
    fn continuation(&self) -> Option<(Request, Reason)> {
        let run = self.run.filter(|run| run.bytes < RUN_BYTES_MAX)?;
        let candidates = Class::ALL
            .into_iter()
            .filter(|class| class.is_write() == run.is_write && self.has_place(*class))
            .filter_map(|class| self.queue.first_from(class, self.head))
            .filter(|request| self.is_adjacent(request.place(), run.is_write));
        let next = candidates.min_by_key(|request| (request.extent.offset, request.class))?;
        Some((next, Reason::Order))
    }

    fn is_adjacent(&self, (object, start): Place, is_write: bool) -> bool {
        let gap_bytes_max = self.settings.gap_bytes_max(is_write);
        let follows = self.run.is_some_and(|run| run.is_write == is_write);
        let (head_object, head) = self.head;
        let distance = start.checked_sub(head).filter(|_| object == head_object);
        follows && distance.is_some_and(|distance| distance <= gap_bytes_max)
    }

    fn classes(&self) -> (Option<Class>, impl Iterator<Item = Class>) {
        let ready = move || {
            let with_place = Class::ALL.into_iter();
            with_place.filter(|class| self.has_place(*class) && !self.queue.is_empty(*class))
        };
        let owed =
            ready().find(|class| self.in_flight_of[*class as usize] < self.shares[*class as usize]);
        (owed, ready())
    }

    fn next_in_look(&self) -> Option<(Request, Reason)> {
        let (owed, mut ready) = self.classes();
        let class = owed.or_else(|| ready.next())?;
        match self.queue.first_from(class, self.head) {
            Some(above) => Some((above, Reason::Order)),
            None => Some((self.queue.first_from(class, (0, 0))?, Reason::Wrap)),
        }
    }

    fn next_in_arrival(&self) -> Option<(Request, Reason)> {
        let (owed, ready) = self.classes();
        let oldest = match owed {
            Some(class) => self.queue.oldest(class),
            None => ready
                .filter_map(|class| self.queue.oldest(class))
                .min_by_key(|request| (request.arrival, request.sequence)),
        };
        oldest.map(|request| (request, Reason::Order))
    }

    fn account(&mut self, growth: &Growth, reason: Reason) {
        let length = growth.end - growth.start;
        let is_write = growth.class.is_write();
        let place = (growth.object, growth.start);
        let adjacent = self.is_adjacent(place, is_write);
        let run_bytes = match self.run {
            Some(run) if adjacent => run.bytes.saturating_add(length),
            _ => length,
        };
        let charge = if adjacent { 0 } else { SEEK_CHARGE_BYTES };
        if reason == Reason::Deadline {
            self.batch_bytes = length;
            self.pick_class = growth.class;
            let urgent = Class::ALL.into_iter().filter(|class| *class < growth.class);
            self.urgent_owed = urgent.map(|class| self.queue.len(class)).sum();
        } else {
            let beyond_the_run = !adjacent || self.batch_bytes >= BATCH_BYTES;
            let urgent = growth.class < self.pick_class && beyond_the_run;
            self.urgent_owed = self.urgent_owed.saturating_sub(usize::from(urgent));
            let so_far = self.batch_bytes.saturating_add(charge);
            self.batch_bytes = so_far.saturating_add(length);
        }
        self.counts.dispatched += 1;
        self.counts.merged += growth.members.len() as u64 - 1;
        self.counts.wraps += u64::from(reason == Reason::Wrap);
        self.counts.deadline_picks += u64::from(reason == Reason::Deadline);
        self.counts.backward_moves += u64::from(place < self.head);
        self.counts.run_continuations += u64::from(adjacent);
        self.counts.bridged_gaps += growth.gaps;
        self.counts.bridged_gap_bytes += growth.gap_bytes;
        self.head = (growth.object, growth.end);
        self.run = Some(Run {
            is_write,
            bytes: run_bytes,
        });
    }

    fn depart(&mut self, growth: Growth, reason: Reason) -> Dispatch {
        for member in &growth.members {
            self.queue.remove(member);
            self.requests.remove(&member.id);
        }
        let id = DispatchId(self.dispatch_next);
        self.dispatch_next += 1;
        self.in_flight_of[growth.class as usize] += 1;
        let members = growth.members.iter().map(|member| Member {
            id: member.id,
            extent: member.extent,
        });
        let dispatch = Dispatch {
            id,
            object: growth.object,
            extent: Extent::of((growth.start, growth.end)),
            class: growth.class,
            members: members.collect(),
            reason,
        };
        let class = growth.class;
        let members = growth.members;
        self.in_flight.insert(id, InFlight { class, members });
        dispatch
    }
}

/// Deals places one by one, the most urgent class first.
fn shares(settings: &Settings) -> [u32; CLASSES] {
    let least = |depth: Depth| depth.minimum.min(depth.maximum.max(1));
    let minimums = settings.depths.map(least);
    let mut shares = [0; CLASSES];
    let mut places = settings.depth_max.min(SHARED_PLACES_MAX);
    loop {
        let before = places;
        for (share, minimum) in shares.iter_mut().zip(minimums) {
            if *share < minimum && places > 0 {
                *share += 1;
                places -= 1;
            }
        }
        if places == before {
            return shares;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Request {
    id: RequestId,
    object: u32,
    extent: Extent,
    class: Class,
    arrival: Duration,
    /// Orders requests of one time or address.
    sequence: u64,
}

impl Request {
    fn place(&self) -> Place {
        (self.object, self.extent.offset)
    }
}

/// An object and a byte of it.
type Place = (u32, u64);

#[derive(Debug, Default)]
struct Lane {
    by_place: BTreeMap<(Place, u64), Request>,
    by_arrival: BTreeMap<(Duration, u64), Place>,
}

#[derive(Debug, Default)]
struct Queue {
    lanes: [Lane; Class::ALL.len()],
}

impl Queue {
    fn insert(&mut self, request: Request) {
        let lane = &mut self.lanes[request.class as usize];
        let place = request.place();
        lane.by_place.insert((place, request.sequence), request);
        lane.by_arrival
            .insert((request.arrival, request.sequence), place);
    }

    fn remove(&mut self, request: &Request) {
        let lane = &mut self.lanes[request.class as usize];
        lane.by_place.remove(&(request.place(), request.sequence));
        lane.by_arrival.remove(&(request.arrival, request.sequence));
    }

    /// The lowest request from a place on.
    fn first_from(&self, class: Class, place: Place) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let found = lane.by_place.range((place, 0)..).next();
        found.map(|(_, request)| *request)
    }

    fn last_below(&self, class: Class, place: Place) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let found = lane.by_place.range(..(place, 0)).next_back();
        found.map(|(_, request)| *request)
    }

    fn oldest(&self, class: Class) -> Option<Request> {
        let lane = &self.lanes[class as usize];
        let ((_, sequence), place) = lane.by_arrival.first_key_value()?;
        lane.by_place.get(&(*place, *sequence)).copied()
    }

    fn len(&self, class: Class) -> usize {
        self.lanes[class as usize].by_place.len()
    }

    fn is_empty(&self, class: Class) -> bool {
        self.lanes[class as usize].by_place.is_empty()
    }
}

#[derive(Debug)]
struct Growth {
    object: u32,
    start: u64,
    end: u64,
    class: Class,
    members: Vec<Request>,
    gaps: u64,
    gap_bytes: u64,
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

struct Limits<'a> {
    settings: &'a Settings,
    floor: Place,
    /// By class, as [`Class::ALL`].
    has_place: [bool; Class::ALL.len()],
}

impl Limits<'_> {
    /// Classes of one direction; a more urgent one needs a place.
    fn joining(&self, class: Class) -> impl Iterator<Item = Class> {
        let has_place = self.has_place;
        Class::ALL.into_iter().filter(move |other| {
            other.is_write() == class.is_write() && (*other >= class || has_place[*other as usize])
        })
    }

    fn fits(&self, start: u64, end: u64) -> bool {
        end - start <= self.settings.transfer_bytes_max
    }
}

/// Grows from `seed`, forward, then backward, by the nearest request that does not overlap it,
/// within the longest transfer with holes. In C-LOOK it stops at the head.
///
/// Weakness: backward, only the nearest request of each class is looked at.
fn grow(queue: &Queue, seed: Request, limits: &Limits<'_>) -> Growth {
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

/// Extents that may overlap each other, with their ends; finds whether one overlaps any.
///
/// Grouped by the power of two of their length: only those of a group that begin less than twice
/// that below an extent reach it. At most [`PROBES`] are looked at; more are taken for a conflict.
#[derive(Debug, Default)]
struct Spans(BTreeMap<Key, u64>);

type Key = (u32, u32, u64, u64);

fn key(object: u32, extent: Extent, sequence: u64) -> Key {
    let group = extent.length.max(1).ilog2();
    (object, group, extent.offset, sequence)
}

impl Spans {
    fn insert(&mut self, object: u32, extent: Extent, sequence: u64) {
        self.0.insert(key(object, extent, sequence), extent.end());
    }

    fn remove(&mut self, object: u32, extent: Extent, sequence: u64) {
        self.0.remove(&key(object, extent, sequence));
    }

    fn overlaps(&self, object: u32, extent: Extent) -> bool {
        let after = |group| self.0.range((object, group, 0, 0)..).next();
        let mut next = after(0);
        while let Some((&(of, group, ..), _)) = next.filter(|((of, ..), _)| *of == object) {
            let length_max = u64::MAX >> (u64::BITS - 1 - group);
            let lowest = extent.offset.saturating_sub(length_max - 1);
            let near = (of, group, lowest, 0)..(of, group, extent.end(), 0);
            let near = self.0.range(near);
            for (probe, (_, end)) in near.rev().enumerate() {
                if *end > extent.offset || probe + 1 == PROBES {
                    return true;
                }
            }
            next = after(group + 1);
        }
        false
    }
}

#[derive(Debug, Default)]
struct Directions {
    reads: Spans,
    writes: Spans,
}

impl Directions {
    fn of(&mut self, request: &Request) -> &mut Spans {
        if request.class.is_write() {
            &mut self.writes
        } else {
            &mut self.reads
        }
    }

    fn insert(&mut self, request: &Request) {
        let (object, extent) = (request.object, request.extent);
        self.of(request).insert(object, extent, request.sequence);
    }

    fn remove(&mut self, request: &Request) {
        let (object, extent) = (request.object, request.extent);
        self.of(request).remove(object, extent, request.sequence);
    }

    fn conflict(&self, request: &Request) -> bool {
        let (object, extent) = (request.object, request.extent);
        self.writes.overlaps(object, extent)
            || request.class.is_write() && self.reads.overlaps(object, extent)
    }
}

/// Keeps the order of requests of one object that *conflict*: they overlap, and one writes.
/// *Active* requests (queued, or at the device) never conflict. Others stand in one line.
///
/// Weaknesses: a request may wait for one that it does not overlap, and a write for more than
/// [`PROBES`] overlapping reads. A read does not make the write it waits for more urgent; a page
/// cache does not read what it is writing.
#[derive(Debug, Default)]
struct Overlap {
    active: Directions,
    waiting: Directions,
    line: BTreeMap<u64, Request>,
}

impl Overlap {
    fn admit(&mut self, request: &Request) -> bool {
        if self.active.conflict(request) || self.waiting.conflict(request) {
            self.waiting.insert(request);
            self.line.insert(request.sequence, *request);
            return false;
        }
        self.active.insert(request);
        true
    }

    fn release(&mut self, request: &Request) {
        self.active.remove(request);
    }

    /// The next of the line that may become active; call until `None` after [`Overlap::release`].
    fn next_ready(&mut self) -> Option<Request> {
        let (_, request) = self.line.first_key_value()?;
        if self.active.conflict(request) {
            return None;
        }
        let (_, request) = self.line.pop_first()?;
        self.waiting.remove(&request);
        self.active.insert(&request);
        Some(request)
    }

    fn in_line(&mut self, sequence: u64) -> Option<&mut Request> {
        self.line.get_mut(&sequence)
    }
}
