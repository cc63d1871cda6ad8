//! Which request goes next?
//!
//! Problem: a head that moves costs more than the bytes it reads (67 ms on a DVD is 570 KiB of
//! transfer), so requests must go in the order of their addresses and in long runs; but a reader
//! that waits must not stand behind read-ahead nobody has asked for yet, and no request may wait
//! for ever because others keep coming in front of it.
//!
//! Rule of [`Order::CircularLook`]. The *head* is the end of the last dispatch, a number. Each
//! class is served C-LOOK: the lowest request at or above the head, else the lowest of all (a
//! *wrap*). The class, or the request itself, is found by the first of these that applies:
//!
//! 1. *Deadline.* The most overdue request whose class has a place goes, if the *batch* since the
//!    last such pick is done. The order then goes on from there.
//! 2. *Run.* While fewer than [`RUN_BYTES_MAX`] have gone one behind the other, a request at the
//!    head (or behind a hole that would be read over) goes on, whatever its class.
//! 3. *Minimum.* The most urgent class that has less at the device than its share.
//! 4. *Urgency.* The most urgent class that has a place.
//!
//! ```text
//!   sync              x           s                 one reader waits at s, one at x
//!   async   aaaa|bbbbbbbb             cccccccc
//!             head
//!   b goes on up to RUN_BYTES_MAX, then s, then c if it begins right behind s, else x (wrap)
//! ```
//!
//! Under load everything is overdue. If an overdue request always went first, C-LOOK would become
//! the order of arrival; that happened to the elevator of HSFS. So a batch lies between two such
//! picks: [`BATCH_BYTES`] of transfer, where a dispatch that is not adjacent to the last counts
//! [`SEEK_CHARGE_BYTES`] more. That is a run of 4 MiB, or 16 random reads of 8 KiB. Before the
//! next pick of read-ahead, more urgent classes get as many dispatches as they had requests queued
//! at the last pick, for at most one batch more: else streams that are always overdue would leave
//! nothing to a random reader. An overdue request goes at once when there was no such pick lately,
//! and at the latest after two batches for each older one and for itself.
//!
//! Because the end of an endless run is its deadline, several streams that are always topped up
//! take turns of about `read_deadline`, or of [`RUN_BYTES_MAX`] once their readers wait.
//!
//! Rule of [`Order::Arrival`]. 1 and 3 as above; then the oldest of all that have a place. There
//! is no head: adjacent requests are merged, and nothing else is ordered.
//!
//! - [`RUN_BYTES_MAX`], 4 MiB: seven DVD seeks, so 0.88 of the time is transfer, and a reader
//!   elsewhere waits half a second; 28 ms on a disk of 150 MB/s.
//! - [`BATCH_BYTES`], 4 MiB: a run that begins with a deadline is as long as any other.
//! - [`SEEK_CHARGE_BYTES`], 256 KiB: 16 seeks to a batch, the batch of mq-deadline.
//!
//! Weaknesses: bytes are not time, so the turns are short on a fast disk. With one place at the
//! device, writes go when no reads are queued or at their deadline. A class that is at its maximum
//! depth misses deadlines.

use std::collections::BTreeMap;
use std::time::Duration;

use super::overlap::Overlap;
use super::queue::{Growth, Limits, Place, Queue, Request, grow};
use super::{
    Class, Counts, Depth, Dispatch, DispatchId, Extent, Member, Order, Reason, RequestId, Settings,
};

/// So many bytes may go one behind the other before a more urgent class elsewhere gets its turn.
pub const RUN_BYTES_MAX: u64 = 4 << 20;
/// So much lies between two requests that go because of their deadline.
pub const BATCH_BYTES: u64 = 4 << 20;
/// A seek counts as so many bytes of a batch.
pub const SEEK_CHARGE_BYTES: u64 = BATCH_BYTES / 16;

/// Places dealt to minimums; more than any device has.
const SHARED_PLACES_MAX: u32 = 1 << 12;
const CLASSES: usize = Class::ALL.len();

/// A dispatch at the device.
#[derive(Debug)]
struct InFlight {
    class: Class,
    members: Vec<Request>,
}

/// What the last dispatch left behind.
#[derive(Clone, Copy, Debug)]
struct Run {
    is_write: bool,
    /// Bytes gone one behind the other.
    bytes: u64,
}

/// A request queue of a device. See the module for its rules.
#[derive(Debug)]
pub struct Elevator {
    settings: Settings,
    /// What of the minimum depth of each class there is room for.
    shares: [u32; CLASSES],
    /// All that is queued or in line, by name.
    requests: BTreeMap<RequestId, Request>,
    queue: Queue,
    overlap: Overlap,
    in_flight: BTreeMap<DispatchId, InFlight>,
    in_flight_of: [u32; CLASSES],
    /// The end of the last dispatch.
    head: Place,
    run: Option<Run>,
    /// Bytes and seeks since the last pick because of a deadline.
    batch_bytes: u64,
    /// The class of that pick.
    pick_class: Class,
    /// Dispatches that more urgent classes are to get before the next one.
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

    /// Queues a request for bytes of an object that came at `now`. False, and nothing is queued:
    /// the extent is empty or goes past the end of addresses, or a request of this name is queued.
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

    /// A reader began to wait for a queued read: it takes the class if that is more urgent, and
    /// keeps its arrival. No effect on writes and on what is not queued.
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

    /// What to send to the device now; `None` when nothing may go before something is completed
    /// or inserted.
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

    /// A dispatch is done, well or not; false when it is not at the device (any more).
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

    /// What it did so far.
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

    /// The next request and why.
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

    /// Whether the batch since the last pick is done, as far as a request like this is concerned.
    fn may_pick(&self, late: &Request) -> bool {
        let mut urgent = Class::ALL.into_iter().filter(|class| *class < late.class);
        let urgent_waits = self.urgent_owed > 0
            && urgent.any(|class| self.has_place(class) && !self.queue.is_empty(class));
        let done = self.batch_bytes >= BATCH_BYTES;
        done && (self.batch_bytes >= 2 * BATCH_BYTES || !urgent_waits)
    }

    /// Of the oldest of each class that has a place, the one furthest past its deadline.
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

    /// What goes on where the last dispatch ended, within the length of a run.
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

    /// Classes that may go now, those below their share first, then by urgency.
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

    /// Moves the head and counts.
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

    /// Takes the members out of the queue and notes them as being at the device.
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

/// Deals the places at the device to the minimums, one at a time, the most urgent class first.
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
