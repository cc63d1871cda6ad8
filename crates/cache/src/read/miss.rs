//! The miss: bringing bytes into pages, once however many threads want them.
//!
//! ```text
//! obtain ──> pin pages ──> claim units ──> send requests ──> streams ──> wait
//!                              │  not there, not in flight: ours to fetch
//!                              └─ in flight: join the fetch
//! ```
//!
//! What is missing becomes [claims](crate::read::claim). A read whose request failed is made again
//! without what was only fetched along, so an error reaches nobody but those that asked for the
//! bad place.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_counters::names::{CACHE_MEMORY_WAITS, CACHE_MISSES, CACHE_TIMEOUTS};
use pagewell_device::Error as DeviceError;
use pagewell_policy::eviction::Arrival;
use pagewell_policy::readahead::AccessKind;

use crate::dirty::set::abandoned;
use crate::page::{PAGE, first_part};
use crate::read::claim::{Claims, Wanted};
use crate::read::reader::{Reader, Reading};
use crate::residency::in_flight::Fetches;
use crate::residency::pins::OwnedPin;
use crate::table::lines::{AHEAD, MARKER};
use crate::{Error, ReadMode, Result};

/// Bytes obtained for one reader at a time.
const OBTAINED_BYTES_MAX: u64 = 1 << 20;
/// Longer than anybody waits.
const LONG: Duration = Duration::from_secs(365 * 86_400);
/// How long to sleep when there is no frame.
pub(crate) const MEMORY_TICK: Duration = Duration::from_millis(1);

/// How waiting ended.
enum Settled {
    Complete,
    /// What we asked for did not come.
    Failed(DeviceError),
    /// What another thread asked for, and we wanted a part of, did not come.
    OthersFailed,
}

impl Reader {
    /// Pins the pages of a range with all its bytes in them, and says whether any was missing. Of a
    /// long range only the first of them, and of any when memory is short, but at least one.
    pub(crate) fn obtain(
        self: &Arc<Self>,
        range: &Range<u64>,
        reading: &Reading,
    ) -> Result<(Vec<OwnedPin>, bool)> {
        let mode = reading.mode;
        let deadline = deadline_after(self.timeout);
        let offset = range.start;
        let portion = offset..self.portion_end(range);
        let mut wanted = self.pin_pages(&portion, mode, deadline)?;
        let last = wanted.last().map_or(offset, |one| (one.page + 1) * PAGE);
        let covered = last.min(portion.end).saturating_sub(offset);
        // Whether nothing is fetched along with what is wanted, which makes larger requests.
        let (mut alone, mut is_first) = (false, true);
        let mut has_missed = false;
        loop {
            if self.dirty.is_abandoned() {
                return Err(abandoned(offset));
            }
            let (fetches, is_stale) = self.launch(&wanted, alone, mode);
            if is_first && let Some(kind) = self.kind_of(&wanted, &fetches) {
                has_missed = kind.is_missing();
                self.note(offset, covered, kind, reading);
            }
            if is_stale {
                // A writer gave the page a new frame; what we claimed elsewhere is in flight.
                wanted = self.pin_pages(&portion, mode, deadline)?;
                continue;
            }
            if fetches.is_empty() {
                return Ok((pins(wanted), has_missed));
            }
            CACHE_MISSES.add(u64::from(is_first));
            is_first = false;
            match self.settle(&wanted, &fetches, (offset, mode), deadline)? {
                Settled::Complete => return Ok((pins(wanted), has_missed)),
                Settled::Failed(error) if alone => return Err(error.into()),
                // What failed may be a place that this read does not want.
                Settled::Failed(_) => alone = true,
                // It may be a place that only the other wanted.
                Settled::OthersFailed if Instant::now() < deadline => {}
                Settled::OthersFailed => return Err(self.timed_out(offset)),
            }
        }
    }

    /// Where that portion of a range ends that is obtained at a time: with the range, or else with
    /// a page. Of the last page obtained nothing else than what was asked for is there.
    fn portion_end(&self, range: &Range<u64>) -> u64 {
        let most = OBTAINED_BYTES_MAX.min(self.pages.arena.size_bytes() / 8);
        let end = range.start + most;
        if range.end <= end {
            return range.end;
        }
        end - end % PAGE
    }

    /// Sees that everything wanted is there or in flight, unless a page has another frame by now.
    fn launch(self: &Arc<Self>, wanted: &[Wanted], alone: bool, mode: ReadMode) -> (Fetches, bool) {
        let mut claims = Claims::default();
        for one in wanted {
            self.claim(one, false, self.widens && !alone, &mut claims);
        }
        let fetches = claims.fetches();
        self.send(claims.ours, mode.issuer);
        let joined = fetches.joined.iter();
        let guesses: Vec<_> = joined.filter_map(|fetch| fetch.want()).collect();
        self.queue.promote(&guesses);
        (fetches, claims.stale)
    }

    /// Waits for fetches and says whether the wanted units have come.
    fn settle(
        &self,
        wanted: &[Wanted],
        fetches: &Fetches,
        (offset, mode): (u64, ReadMode),
        deadline: Instant,
    ) -> Result<Settled> {
        let (mut failure, mut others_failed) = (None, false);
        for (fetch, is_ours) in fetches.all() {
            let outcome = if mode.may_block {
                self.dirty.wait_for(fetch, deadline)
            } else {
                fetch.outcome()
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
            .any(|one| self.pages.valid(one.pin.frame) & one.units != one.units);
        match failure {
            // An error of units that were fetched along is none of ours.
            _ if !missing => Ok(Settled::Complete),
            _ if !mode.may_block => Err(would_block()),
            Some(error) => Ok(Settled::Failed(error)),
            None if others_failed => Ok(Settled::OthersFailed),
            None => Ok(Settled::Failed(self.queue.short(offset))),
        }
    }

    fn timed_out(&self, offset: u64) -> Error {
        if self.dirty.is_abandoned() {
            return abandoned(offset);
        }
        CACHE_TIMEOUTS.add(1);
        self.queue.timed_out(offset, self.timeout).into()
    }

    fn pin_pages(
        &self,
        range: &Range<u64>,
        mode: ReadMode,
        deadline: Instant,
    ) -> Result<Vec<Wanted>> {
        let mut wanted = Vec::new();
        let mut rest = range.clone();
        while !rest.is_empty() {
            let part = first_part(&rest);
            let key = self.own.layout.key(part.page);
            match self.pages.find_or_make(key, Arrival::Demand, 0) {
                Some(found) => {
                    let units = self.own.layout.units_of(&part);
                    wanted.push(Wanted::new(&self.own, found, part.page, units));
                    rest.start += part.length;
                }
                // With less memory than pages wanted: these first.
                None if !wanted.is_empty() => break,
                None if !mode.may_block => return Err(Error::WouldBlock),
                None => self.wait_for_memory(rest.start, self.timeout, deadline)?,
            }
        }
        Ok(wanted)
    }

    /// Lets a moment pass in which a page may come free, unless the time is up.
    pub(crate) fn wait_for_memory(
        &self,
        offset: u64,
        timeout: Duration,
        deadline: Instant,
    ) -> Result<()> {
        if self.dirty.is_abandoned() {
            return Err(abandoned(offset));
        }
        if Instant::now() >= deadline {
            return Err(Error::Memory {
                device: self.queue.name(),
                offset,
                seconds: timeout.as_secs(),
            });
        }
        CACHE_MEMORY_WAITS.add(1);
        std::thread::sleep(MEMORY_TICK);
        Ok(())
    }

    /// What a read of these pages is to the read-ahead policy: nothing when it found everything
    /// and no page had a marker.
    fn kind_of(&self, wanted: &[Wanted], fetches: &Fetches) -> Option<AccessKind> {
        let mut marked = false;
        for one in wanted {
            if one.state.0 & (AHEAD | MARKER) != 0 {
                marked |= self.touch(one.pin.slot, one.page);
            }
        }
        let mut joined = fetches.joined.iter();
        if fetches.ours.is_empty() && joined.any(|fetch| fetch.ahead_bytes.is_some()) {
            return Some(AccessKind::Late);
        }
        if !fetches.is_empty() {
            return Some(AccessKind::Miss);
        }
        marked.then_some(AccessKind::Marker)
    }
}

/// When a thread gives up that may wait so long.
pub(crate) fn deadline_after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + LONG)
}

fn would_block() -> Error {
    Error::WouldBlock
}

fn pins(wanted: Vec<Wanted>) -> Vec<OwnedPin> {
    wanted.into_iter().map(|one| one.pin).collect()
}
