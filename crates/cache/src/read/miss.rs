//! The miss: bringing bytes into pages, once however many want them.
//!
//! ```text
//! obtain ──> hold pages ──> claim units ──> send requests ──> streams ──> wait
//!                              │  not there, not on their way: ours to fetch
//!                              └─ on their way: join the flight
//! ```
//!
//! What is claimed becomes [`crate::read::claim`]s. A read whose request failed is made again without what
//! was only fetched along, so an error reaches nobody but those who asked for the bad place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_AHEAD_LATE, CACHE_MEMORY_WAITS, CACHE_MISSES, CACHE_RETRIES, CACHE_TIMEOUTS,
    CACHE_WOULD_BLOCK,
};
use pagewell_device::Error as DeviceError;
use pagewell_policy::eviction::Arrival;
use pagewell_policy::readahead::AccessKind;

use crate::object::{Held, Object};
use crate::page::{PAGE, Units};
use crate::read::claim::Claims;
use crate::residency::in_flight::Flight;
use crate::table::state::{AHEAD, MARKER, State};
use crate::{Error, ReadMode, Result};

/// Longer than anybody waits.
pub(crate) const LONG: Duration = Duration::from_secs(365 * 86_400);
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
        let deadline = Instant::now().checked_add(self.settings.read_timeout);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + LONG);
        let mut wanted = self.hold_pages(offset, length, mode, deadline)?;
        let covered = covered(&wanted, offset, length);
        let (mut reach, mut is_first) = (Reach::Wide, true);
        let mut found = AccessKind::Hit;
        loop {
            if self.is_abandoned() {
                return Err(self.abandoned(offset));
            }
            let flights = self.launch(&wanted, reach, mode);
            if is_first {
                let kind = self.kind_of(&wanted, &flights);
                found = kind.unwrap_or(found);
                if let Some(kind) = kind.filter(|_| !self.wants_hits) {
                    self.tell(offset, covered, kind, mode.bounds);
                }
            }
            if flights.stale {
                // A writer gave the page a new place; what we claimed elsewhere is on its way.
                wanted = self.hold_pages(offset, length, mode, deadline)?;
                continue;
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
        Flights {
            ours,
            joined,
            stale: claims.stale,
        }
    }

    /// Waits for flights and says whether the wanted units have come.
    fn settle(
        self: &Arc<Self>,
        wanted: &[Wanted],
        flights: &Flights,
        (offset, mode): (u64, ReadMode),
        deadline: Instant,
    ) -> Result<Settled> {
        let (mut failure, mut others_failed) = (None, false);
        for (flight, is_ours) in flights.all() {
            let outcome = if mode.may_block {
                self.wait_for(flight, deadline)
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
        if self.is_abandoned() {
            return self.abandoned(offset);
        }
        CACHE_TIMEOUTS.add(1);
        Error::Device(DeviceError::TimedOut {
            device: self.queue.device().name().to_owned(),
            offset,
            seconds: self.settings.read_timeout.as_secs(),
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
                None if self.is_abandoned() => return Err(self.abandoned(at)),
                None if Instant::now() >= deadline => {
                    return Err(Error::Memory {
                        device: self.queue.device().name().to_owned(),
                        offset: at,
                        seconds: self.settings.read_timeout.as_secs(),
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

    /// A device that says all is well and brought less.
    pub(crate) fn short(&self, offset: u64) -> DeviceError {
        DeviceError::PastEnd {
            device: self.queue.device().name().to_owned(),
            offset,
            length: 1,
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
    /// A page has another place by now.
    stale: bool,
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
