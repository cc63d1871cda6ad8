//! The miss: bringing bytes into pages, once however many want them.
//!
//! ```text
//! obtain ──> hold pages ──> claim units ──> send requests ──> streams ──> wait
//!                              │  not there, not on their way: ours to fetch
//!                              └─ on their way: join the flight
//! ```
//!
//! A page is claimed under the lock of its flights, so a unit is fetched by one request. The
//! request puts the bytes straight into the page; when it ends, the units become valid, then the
//! flight leaves the map, then those who wait are told.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_AHEAD_LATE, CACHE_FETCH_ERRORS, CACHE_JOINED, CACHE_MEMORY_WAITS, CACHE_MISSES,
    CACHE_RETRIES, CACHE_TIMEOUTS, CACHE_WOULD_BLOCK,
};
use pagewell_device::{Error as DeviceError, Issuer, Segment};
use pagewell_policy::elevator::Extent;
use pagewell_policy::eviction::Arrival;
use pagewell_policy::readahead::AccessKind;

use crate::flight::{Flight, Units};
use crate::object::{Held, Object};
use crate::queue::Fetch;
use crate::state::{AHEAD, FULL, MARKER, State};
use crate::{Error, PAGE_BYTES, ReadMode, Result};

const PAGE: u64 = PAGE_BYTES as u64;
/// Longer than anybody waits.
const LONG: Duration = Duration::from_secs(365 * 86_400);
/// How long to sleep when every page is held by somebody.
const MEMORY_TICK: Duration = Duration::from_millis(1);

/// A page that is wanted, and which units of it.
pub(crate) struct Wanted {
    pub(crate) page: u64,
    pub(crate) units: Units,
    pub(crate) held: Held,
    /// Before it was held.
    pub(crate) state: State,
}

/// A run of units of one page that is ours to fetch.
pub(crate) struct Run {
    offset: u64,
    length: u64,
    held: Held,
    page: u64,
    flight: Arc<Flight>,
}

/// What has to be done for some pages.
#[derive(Default)]
pub(crate) struct Claims {
    pub(crate) runs: Vec<Run>,
    joined: Vec<Arc<Flight>>,
}

impl Object {
    /// Holds the pages of a range with all its bytes in them. The range may come shorter than it
    /// was when memory is short, but not empty.
    pub(crate) fn obtain(
        self: &Arc<Self>,
        offset: u64,
        length: u64,
        mode: ReadMode,
    ) -> Result<Vec<Held>> {
        Ok(self.obtain_as(offset, length, mode)?.0)
    }

    /// [`Self::obtain`], and how the bytes were found.
    pub(crate) fn obtain_as(
        self: &Arc<Self>,
        offset: u64,
        length: u64,
        mode: ReadMode,
    ) -> Result<(Vec<Held>, AccessKind)> {
        let deadline = Instant::now().checked_add(self.core.options.read_timeout);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + LONG);
        let wanted = self.hold_pages(offset, length, mode, deadline)?;
        let covered = covered(&wanted, offset, length);
        let (mut reach, mut is_first) = (Reach::Wide, true);
        let mut found = AccessKind::Hit;
        loop {
            let flights = self.launch(&wanted, reach, mode);
            if is_first {
                let kind = self.kind_of(&wanted, &flights);
                found = kind.unwrap_or(found);
                if let Some(kind) = kind.filter(|_| !self.wants_hits) {
                    self.tell(offset, covered, kind);
                }
            }
            if flights.is_empty() {
                return Ok((held(wanted), found));
            }
            CACHE_MISSES.add(u64::from(is_first));
            is_first = false;
            match self.settle(&wanted, &flights, (offset, mode), deadline)? {
                Settled::Complete => return Ok((held(wanted), found)),
                Settled::Failed(error) if reach == Reach::Alone => {
                    return Err(Error::Device(error));
                }
                // What failed may be a place that this read does not want.
                Settled::Failed(_) => reach = Reach::Alone,
                // It may be a place that only the other wanted.
                Settled::OthersFailed if Instant::now() < deadline => {}
                Settled::OthersFailed => return Err(self.timed_out(offset)),
            }
            CACHE_RETRIES.add(1);
        }
    }

    /// Sees that everything wanted is there or on its way.
    fn launch(self: &Arc<Self>, wanted: &[Wanted], reach: Reach, mode: ReadMode) -> Flights {
        let mut claims = Claims::default();
        let widen = reach == Reach::Wide && self.widens;
        for one in wanted {
            self.claim(one, false, widen, &mut claims);
        }
        let joined = std::mem::take(&mut claims.joined);
        let ours = claims.runs.iter().map(|run| run.flight.clone()).collect();
        self.send(claims.runs, mode.issuer);
        let guesses: Vec<_> = joined.iter().filter_map(|flight| flight.want()).collect();
        self.queue.promote(&guesses);
        Flights { ours, joined }
    }

    /// Waits for flights and says whether the wanted units have come.
    fn settle(
        &self,
        wanted: &[Wanted],
        flights: &Flights,
        (offset, mode): (u64, ReadMode),
        deadline: Instant,
    ) -> Result<Settled> {
        let (mut failure, mut others_failed) = (None, false);
        for (flight, is_ours) in flights.all() {
            let outcome = if mode.may_block {
                flight.wait(deadline)
            } else {
                flight.outcome()
            };
            match outcome {
                Some(Ok(())) => {}
                Some(Err(error)) if is_ours => failure = failure.or(Some(error)),
                Some(Err(_)) => others_failed = true,
                None if mode.may_block => return Err(self.timed_out(offset)),
                None => return Err(would_block()),
            }
        }
        let missing = wanted
            .iter()
            .any(|one| self.core.valid(one.held.frame) & one.units != one.units);
        match failure {
            // An error of units that were fetched along is none of ours.
            _ if !missing => Ok(Settled::Complete),
            _ if !mode.may_block => Err(would_block()),
            Some(error) => Ok(Settled::Failed(error)),
            None if others_failed => Ok(Settled::OthersFailed),
            None => Ok(Settled::Failed(self.short(offset))),
        }
    }

    fn timed_out(&self, offset: u64) -> Error {
        CACHE_TIMEOUTS.add(1);
        Error::Device(DeviceError::TimedOut {
            device: self.queue.device().name().to_owned(),
            offset,
            seconds: self.core.options.read_timeout.as_secs(),
        })
    }

    fn hold_pages(
        self: &Arc<Self>,
        offset: u64,
        length: u64,
        mode: ReadMode,
        deadline: Instant,
    ) -> Result<Vec<Wanted>> {
        let end = offset + length;
        let mut wanted = Vec::new();
        let mut at = offset;
        while at < end {
            let page = at / PAGE;
            let start = at % PAGE;
            let inside = (PAGE - start).min(end - at);
            let key = self.key(page);
            match self.core.find_or_make(key, Arrival::Demand, 0) {
                Some(found) => {
                    wanted.push(Wanted {
                        page,
                        units: self.units(start, inside),
                        held: self.hold(found),
                        state: found.state,
                    });
                    at += inside;
                }
                // With less memory than pages wanted: these first.
                None if !wanted.is_empty() => break,
                None if !mode.may_block => return Err(Error::WouldBlock),
                None if Instant::now() >= deadline => {
                    return Err(Error::Memory {
                        device: self.queue.device().name().to_owned(),
                        offset: at,
                        seconds: self.core.options.read_timeout.as_secs(),
                    });
                }
                None => {
                    CACHE_MEMORY_WAITS.add(1);
                    std::thread::sleep(MEMORY_TICK);
                }
            }
        }
        Ok(wanted)
    }

    /// Finds out, for the wanted units of a page, which are on their way and which are ours.
    /// With `widen`, a page that is met again is fetched to its ends.
    pub(crate) fn claim(
        self: &Arc<Self>,
        wanted: &Wanted,
        ahead: bool,
        widen: bool,
        claims: &mut Claims,
    ) {
        let frame = wanted.held.frame;
        let mut flights = self.core.flights(frame);
        let valid = self.core.valid(frame);
        let mut missing = wanted.units & !valid;
        if missing == 0 {
            return;
        }
        let here = flights.entry(frame.0).or_default();
        let mut flying = 0;
        for flight in here.iter() {
            flying |= flight.units;
            if flight.units & missing != 0 {
                CACHE_JOINED.add(u64::from(!ahead));
                claims.joined.push(flight.clone());
            }
        }
        missing &= !flying;
        if missing != 0 && widen && (valid | flying) != 0 {
            missing = self.all_units(wanted.page) & !valid & !flying;
        }
        for units in runs_of(missing, self.request_bytes_max / self.unit_bytes) {
            let flight = Arc::new(Flight::new(units, ahead));
            here.push(flight.clone());
            claims.runs.push(self.run(wanted, units, flight));
        }
        if here.is_empty() {
            flights.remove(&frame.0);
        }
    }

    fn run(self: &Arc<Self>, wanted: &Wanted, units: Units, flight: Arc<Flight>) -> Run {
        let base = wanted.page * PAGE;
        let first = u64::from(units.trailing_zeros()) * self.unit_bytes;
        let offset = base + first;
        let end = offset + u64::from(units.count_ones()) * self.unit_bytes;
        let last = self.length_bytes.next_multiple_of(self.block_bytes);
        let length = end.min(last) - offset;
        if flight.ahead {
            self.core.ahead_bytes.fetch_add(length, Ordering::Relaxed);
        }
        Run {
            offset,
            length,
            held: self.hold_again(&wanted.held),
            page: wanted.page,
            flight,
        }
    }

    /// One more hold on a page that is held.
    fn hold_again(self: &Arc<Self>, held: &Held) -> Held {
        self.core.table.pin_again(held.slot);
        self.hold(crate::core::Page {
            slot: held.slot,
            frame: held.frame,
            state: State(0),
        })
    }

    /// What a read of these pages is to the read-ahead policy: nothing when it found everything
    /// and no page had a marker.
    fn kind_of(&self, wanted: &[Wanted], flights: &Flights) -> Option<AccessKind> {
        let mut marked = false;
        for one in wanted {
            if one.state.0 & (AHEAD | MARKER) != 0 {
                marked |= self.touch(one.held.slot, one.page);
            }
        }
        if flights.ours.is_empty() && flights.joined.iter().any(|flight| flight.ahead) {
            CACHE_AHEAD_LATE.add(1);
            return Some(AccessKind::Late);
        }
        if !flights.is_empty() {
            return Some(AccessKind::Miss);
        }
        marked.then_some(AccessKind::Marker)
    }

    /// Makes requests of runs, adjacent ones together, and sends them.
    pub(crate) fn send(self: &Arc<Self>, runs: Vec<Run>, issuer: Issuer) {
        let mut groups: Vec<Vec<Run>> = Vec::new();
        let mut group_bytes = 0;
        for run in runs {
            let adjacent = groups.last().and_then(|group| group.last());
            let adjacent = adjacent.is_some_and(|last| last.offset + last.length == run.offset);
            let fits = group_bytes + run.length <= self.request_bytes_max;
            match groups.last_mut() {
                Some(group) if adjacent && fits => {
                    group_bytes += run.length;
                    group.push(run);
                }
                _ => {
                    group_bytes = run.length;
                    groups.push(vec![run]);
                }
            }
        }
        if groups.is_empty() {
            return;
        }
        self.requests
            .fetch_add(groups.len() as u64, Ordering::Relaxed);
        let mut guesses = Vec::new();
        let fetches = groups.into_iter().map(|group| {
            let id = self.queue.name_request();
            for run in &group {
                run.flight.name(id);
                if run.flight.ahead {
                    guesses.push((id, run.flight.clone()));
                }
            }
            (id, self.fetch(group, issuer))
        });
        let fetches = fetches.collect();
        // SAFETY: every segment is a run of units of a page that its `Run` holds until the
        // completion has run, and that only this request may write: they were claimed.
        unsafe { self.queue.submit(fetches) };
        // Readers may have joined before the queue knew the requests.
        let wanted = guesses.iter().filter(|(_, flight)| flight.is_wanted());
        let wanted: Vec<_> = wanted.map(|(id, _)| *id).collect();
        self.queue.promote(&wanted);
    }

    fn fetch(self: &Arc<Self>, group: Vec<Run>, issuer: Issuer) -> Fetch {
        let offset = group.first().map_or(0, |run| run.offset);
        let length = group.iter().map(|run| run.length).sum();
        let segments = group.iter().map(|run| self.segment(run)).collect();
        let this = self.clone();
        Fetch {
            extent: Extent { offset, length },
            segments,
            issuer,
            completion: Box::new(move |transferred, result| {
                this.arrived(group, offset + transferred as u64, result);
            }),
        }
    }

    fn segment(&self, run: &Run) -> Segment {
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let (start, length) = ((run.offset % PAGE) as usize, run.length as usize);
        assert!(start + length <= PAGE_BYTES);
        // SAFETY: inside the page.
        let start = unsafe { self.core.arena.address(run.held.frame).add(start) };
        Segment::new(start, length)
    }

    /// Everything before `end` has come.
    fn arrived(&self, group: Vec<Run>, end: u64, result: Result<(), DeviceError>) {
        for mut run in group {
            // The last block may reach past the end.
            let needed = (run.offset + run.length).min(self.length_bytes);
            let complete = end >= needed;
            let whole = (end.saturating_sub(run.offset) / self.unit_bytes).min(32);
            let (units, outcome) = if complete {
                (run.flight.units, Ok(()))
            } else {
                CACHE_FETCH_ERRORS.add(1);
                let units = units_from(run.flight.units.trailing_zeros(), whole);
                let error = result.clone().err().unwrap_or_else(|| self.short(end));
                (run.flight.units & units, Err(error))
            };
            run.end(units, outcome);
        }
    }

    /// A device that says all is well and brought less.
    fn short(&self, offset: u64) -> DeviceError {
        DeviceError::PastEnd {
            device: self.queue.device().name().to_owned(),
            offset,
            length: 1,
        }
    }
}

impl Run {
    /// Bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Ends it: these units have come.
    fn end(&mut self, units: Units, outcome: Result<(), DeviceError>) {
        let (object, frame) = (self.held.object(), self.held.frame);
        let valid = object.core.validate(frame, units);
        if valid == object.all_units(self.page) {
            object.core.table.set(self.held.slot, FULL);
        }
        let mut flights = object.core.flights(frame);
        if let Some(here) = flights.get_mut(&frame.0) {
            here.retain(|flight| !Arc::ptr_eq(flight, &self.flight));
            if here.is_empty() {
                flights.remove(&frame.0);
            }
        }
        drop(flights);
        if self.flight.ahead {
            let bytes = &object.core.ahead_bytes;
            bytes.fetch_sub(self.length, Ordering::Relaxed);
        }
        self.flight.land(outcome);
    }
}

/// Nobody waits for ever for a run that was given up, whatever the reason.
impl Drop for Run {
    fn drop(&mut self) {
        if !self.flight.has_landed() {
            let offset = self.offset;
            self.end(0, Err(DeviceError::Abandoned { offset }));
        }
    }
}

/// How much is fetched along with what is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// What makes larger requests.
    Wide,
    /// Nothing.
    Alone,
}

/// What a read waits for.
struct Flights {
    ours: Vec<Arc<Flight>>,
    joined: Vec<Arc<Flight>>,
}

impl Flights {
    fn is_empty(&self) -> bool {
        self.ours.is_empty() && self.joined.is_empty()
    }

    /// All of them, and whether each is ours.
    fn all(&self) -> impl Iterator<Item = (&Arc<Flight>, bool)> {
        let ours = self.ours.iter().map(|flight| (flight, true));
        ours.chain(self.joined.iter().map(|flight| (flight, false)))
    }
}

/// How waiting ended.
enum Settled {
    Complete,
    /// What we asked for did not come.
    Failed(DeviceError),
    /// What somebody else asked for, and we wanted a part of, did not come.
    OthersFailed,
}

fn would_block() -> Error {
    CACHE_WOULD_BLOCK.add(1);
    Error::WouldBlock
}

fn held(wanted: Vec<Wanted>) -> Vec<Held> {
    wanted.into_iter().map(|one| one.held).collect()
}

/// How many of the bytes the held pages cover.
fn covered(wanted: &[Wanted], offset: u64, length: u64) -> u64 {
    let last = wanted.last().map_or(offset, |one| (one.page + 1) * PAGE);
    length.min(last.saturating_sub(offset))
}

/// `count` units from `first`.
fn units_from(first: u32, count: u64) -> Units {
    let all = (u64::from(Units::MAX) << first) & u64::from(Units::MAX);
    let end = u64::from(first) + count;
    let below = if end >= 32 {
        u64::from(Units::MAX)
    } else {
        (1 << end) - 1
    };
    #[allow(clippy::cast_possible_truncation)] // masked
    {
        (all & below) as Units
    }
}

/// The runs of adjacent units, none longer than `longest`.
fn runs_of(mut units: Units, longest: u64) -> Vec<Units> {
    let mut runs = Vec::new();
    while units != 0 {
        let first = units.trailing_zeros();
        let length = u64::from((units >> first).trailing_ones()).min(longest.max(1));
        let run = units_from(first, length);
        runs.push(run);
        units &= !run;
    }
    runs
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_adjacent_units() {
        assert_eq!(runs_of(0, 32), []);
        assert_eq!(runs_of(0b1101_1000, 32), [0b1_1000, 0b1100_0000]);
        assert_eq!(runs_of(0b111, 1), [1, 2, 4]);
        assert_eq!(runs_of(u32::MAX, 32), [u32::MAX]);
        assert_eq!(runs_of(u32::MAX, 16), [0xffff, 0xffff_0000]);
        assert_eq!(units_from(31, 1), 1 << 31);
        assert_eq!(units_from(4, 0), 0);
    }
}
