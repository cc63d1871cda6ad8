//! Reads of a range: of each page a hit, or a miss for as much as is missing.
//!
//! **The hit** takes no memory and no lock: a lookup and a pin ([`crate::table`]), at most one
//! copy, a look at the heat. It waits for one thing only: a writer that copies bytes in the same
//! page. The first touch of what was fetched ahead is noted with the policy, and that takes a lock.
//!
//! **The miss** brings bytes into pages, once however many threads want them:
//!
//! ```text
//! obtain ──> pin pages ──> claim units ──> send requests ──> streams ──> wait
//!                              │  not there, not in flight: ours to fetch
//!                              └─ in flight: join the fetch
//! ```
//!
//! A read whose request failed is made again without what was only fetched along: an error is for
//! those that asked for the bad place.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_HITS, CACHE_MEMORY_WAITS, CACHE_MISSES, CACHE_PINS_REFUSED, CACHE_TIMEOUTS, COPIED_BYTES,
};
use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::Extent;
use pagewell_policy::eviction::{Arrival, FrameIndex};
use pagewell_policy::readahead::AccessKind;

use crate::dirty::set::{DirtySet, abandoned};
use crate::page::{PAGE, Part, first_part};
use crate::read::claim::{Claims, Fetcher, Wanted};
use crate::read::prefetch::{ReadAhead, Reading};
use crate::residency::in_flight::Fetches;
use crate::residency::pages::Pages;
use crate::residency::pins::{OwnPages, OwnedPin, PagePin, PinLease, PinnedPage};
use crate::table::{AHEAD, FULL, MARKER, Pinned, STREAM, SlotIndex, State};
use crate::{Error, ReadMode, Result};

/// Reads of one object.
pub(crate) struct Reader {
    /// Those of `own`: a hit follows one pointer less.
    pages: Arc<Pages>,
    own: Arc<OwnPages>,
    fetcher: Arc<Fetcher>,
    ahead: ReadAhead,
    timeout: Duration,
}

impl Reader {
    pub(crate) fn new(fetcher: Arc<Fetcher>, ahead: ReadAhead, timeout: Duration) -> Self {
        Self {
            pages: fetcher.own().pages().clone(),
            own: fetcher.own().clone(),
            fetcher,
            ahead,
            timeout,
        }
    }

    pub(crate) fn own(&self) -> &Arc<OwnPages> {
        &self.own
    }

    pub(crate) fn fetcher(&self) -> &Arc<Fetcher> {
        &self.fetcher
    }

    pub(crate) fn ahead(&self) -> &ReadAhead {
        &self.ahead
    }

    fn dirty(&self) -> &DirtySet {
        self.fetcher.dirty()
    }

    pub(crate) fn check(&self, offset: u64, length: usize) -> Result<()> {
        let end = offset.checked_add(length as u64);
        if end.is_some_and(|end| end <= self.own.layout().length_bytes()) {
            return Ok(());
        }
        let device = self.fetcher.queue().name();
        Err(DeviceError::past_end(device, offset, length).into())
    }

    pub(crate) fn read(
        &self,
        offset: u64,
        target: &mut [u8],
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<()> {
        self.check(offset, target.len())?;
        let reading = Reading::new(mode);
        let mut rest = offset..offset + target.len() as u64;
        let (mut done, mut hits) = (0, 0);
        while !rest.is_empty() {
            let part = first_part(&rest);
            if let Some(pinned) = self.pin_to_copy(&part, &reading) {
                target[done..done + pinned.len()].copy_from_slice(&pinned);
                hits += 1;
                done += pinned.len();
                rest.start += part.length;
                continue;
            }
            let (pins, has_missed) = self.obtain(&rest, &reading)?;
            *waited |= has_missed;
            for pin in pins {
                let part = first_part(&rest);
                let (start, length) = (part.range().start, part.range().len());
                // SAFETY: a miss gives pages with the bytes that it was asked for.
                let bytes = unsafe { pin.bytes(start, length) };
                target[done..done + length].copy_from_slice(bytes);
                done += length;
                rest.start += part.length;
            }
        }
        CACHE_HITS.add(hits);
        COPIED_BYTES.add(target.len() as u64);
        Ok(())
    }

    pub(crate) fn pin(&self, offset: u64, length: usize, mode: ReadMode) -> Result<PinnedPage<'_>> {
        // At least one byte: there is no page for none.
        let length = length.max(1);
        self.check(offset, length)?;
        let reading = Reading::new(mode);
        let part = first_part(&(offset..offset + length as u64));
        if let Some(pinned) = self.pin_hit(&part, &reading) {
            CACHE_HITS.add(1);
            return Ok(pinned);
        }
        let (pins, _) = self.obtain(&(offset..offset + part.length), &reading)?;
        let Some(pin) = pins.first() else {
            return Err(Error::WouldBlock);
        };
        let pages = &self.pages;
        pages.table().pin_again(pin.slot());
        Ok(PinnedPage::new(pages, pin.slot(), pin.frame(), &part))
    }

    /// `None` when too many pages are pinned already, or when not all of these have a frame at the
    /// same time.
    pub(crate) fn pin_all(
        &self,
        offset: u64,
        length: usize,
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<Option<Vec<PagePin>>> {
        self.check(offset, length)?;
        let range = offset..offset + length as u64;
        let count = range.end.div_ceil(PAGE) - offset / PAGE;
        let Some(lease) = PinLease::take(&self.own, count) else {
            CACHE_PINS_REFUSED.add(1);
            return Ok(None);
        };
        #[allow(clippy::cast_possible_truncation)] // fewer than bytes
        let mut pinned = Vec::with_capacity(count as usize);
        match self.pin_each(range, &Reading::new(mode), &lease, &mut pinned, waited) {
            Ok(()) => Ok(Some(pinned)),
            Err(Error::Memory { .. }) => {
                CACHE_PINS_REFUSED.add(1);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn pin_each(
        &self,
        mut rest: Range<u64>,
        reading: &Reading,
        lease: &Arc<PinLease>,
        pinned: &mut Vec<PagePin>,
        waited: &mut bool,
    ) -> Result<()> {
        while !rest.is_empty() {
            let part = first_part(&rest);
            if let Some(page) = self.pin_kept(&part, reading) {
                CACHE_HITS.add(1);
                rest.start += part.length;
                pinned.push(PagePin::new(lease, page, &part));
                continue;
            }
            let (pins, has_missed) = self.obtain(&rest, reading)?;
            *waited |= has_missed;
            for pin in pins {
                let part = first_part(&rest);
                rest.start += part.length;
                pinned.push(PagePin::new(lease, pin.again_kept(), &part));
            }
        }
        Ok(())
    }

    fn pin_hit(&self, part: &Part, reading: &Reading) -> Option<PinnedPage<'_>> {
        let found = self.pages.find(self.own.layout().key(part.page))?;
        self.accept(found.slot, found.state, part, reading)
    }

    /// Asks the processor for the bytes before the page is found, by a guess, or else before it is
    /// pinned.
    #[inline]
    fn pin_to_copy(&self, part: &Part, reading: &Reading) -> Option<PinnedPage<'_>> {
        let prefetch = |frame| self.pages.arena().prefetch(frame, part.range());
        let key = self.own.layout().key(part.page);
        let guess = self.pages.table().guess(key);
        guess.into_iter().for_each(prefetch);
        let hint = |state: State| match state.frame() {
            frame if guess == Some(frame) => {}
            frame => prefetch(frame),
        };
        let Pinned::Yes(slot, state) = self.pages.table().pin_with_hint(key, hint) else {
            return None;
        };
        self.accept(slot, state, part, reading)
    }

    /// The pin is to be let go of by what gets this.
    fn pin_kept(&self, part: &Part, reading: &Reading) -> Option<(SlotIndex, FrameIndex)> {
        self.pin_hit(part, reading).map(PinnedPage::into_kept)
    }

    #[inline]
    fn accept(
        &self,
        slot: SlotIndex,
        state: State,
        part: &Part,
        reading: &Reading,
    ) -> Option<PinnedPage<'_>> {
        let pinned = PinnedPage::new(&self.pages, slot, state.frame(), part);
        if state.flags(FULL | AHEAD | MARKER) != FULL {
            let units = self.own.layout().units_of(part);
            if !state.has(FULL) && self.pages.valid(state.frame()) & units != units {
                return None;
            }
            let is_marked = state.flags(AHEAD | MARKER) != 0;
            if is_marked && self.ahead.touch(slot, part.page) {
                let Extent { offset, length } = part.extent();
                self.ahead.note(offset, length, AccessKind::Marker, reading);
            }
        }
        // Of a page that came by a stream only those that read its first byte again are heat: one
        // pass in small steps is none.
        if !state.has(STREAM) || part.start == 0 && !state.has(AHEAD) {
            self.pages.table().warm(slot, state);
        }
        Some(pinned)
    }
}

const OBTAINED_BYTES_MAX: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(365 * 86_400);
pub(crate) const MEMORY_TICK: Duration = Duration::from_millis(1);

enum Settled {
    Complete,
    Failed(DeviceError),
    /// What another thread asked for did not come.
    OthersFailed,
}

impl Reader {
    /// Pins the pages of a range with all its bytes in them, and says whether any was missing; of a
    /// long range, and when memory is short, the first ones.
    pub(crate) fn obtain(
        &self,
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
            if self.dirty().is_abandoned() {
                return Err(abandoned(offset));
            }
            let (fetches, is_stale) = self.launch(&wanted, alone, mode);
            if is_first && let Some(kind) = self.kind_of(&wanted, &fetches) {
                has_missed = kind.is_missing();
                self.ahead.note(offset, covered, kind, reading);
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

    /// Where the portion ends that is obtained at a time: with the range, or else with a page, of
    /// which nothing more is there than what was asked for.
    fn portion_end(&self, range: &Range<u64>) -> u64 {
        let most = OBTAINED_BYTES_MAX.min(self.pages.arena().size_bytes() / 8);
        let end = range.start + most;
        if range.end <= end {
            return range.end;
        }
        end - end % PAGE
    }

    /// All that is wanted is there or in flight afterwards, unless a page has another frame by now.
    fn launch(&self, wanted: &[Wanted], alone: bool, mode: ReadMode) -> (Fetches, bool) {
        let mut claims = Claims::default();
        for one in wanted {
            self.fetcher.claim(one, false, !alone, &mut claims);
        }
        let fetches = claims.fetches();
        self.fetcher.send(claims.ours, mode.issuer);
        let joined = fetches.joined.iter();
        let guesses: Vec<_> = joined.filter_map(|fetch| fetch.want()).collect();
        self.fetcher.queue().promote(&guesses);
        (fetches, claims.stale)
    }

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
                self.dirty().wait_for(fetch, deadline)
            } else {
                fetch.outcome()
            };
            match outcome {
                Some(Ok(())) => {}
                Some(Err(error)) if is_ours => failure = failure.or(Some(error)),
                Some(Err(_)) => others_failed = true,
                None if mode.may_block => return Err(self.timed_out(offset)),
                None => return Err(Error::WouldBlock),
            }
        }
        let missing = wanted
            .iter()
            .any(|one| self.pages.valid(one.pin.frame()) & one.units != one.units);
        match failure {
            // An error of units that were fetched along is none of ours.
            _ if !missing => Ok(Settled::Complete),
            _ if !mode.may_block => Err(Error::WouldBlock),
            Some(error) => Ok(Settled::Failed(error)),
            None if others_failed => Ok(Settled::OthersFailed),
            None => Ok(Settled::Failed(self.fetcher.queue().short(offset))),
        }
    }

    fn timed_out(&self, offset: u64) -> Error {
        if self.dirty().is_abandoned() {
            return abandoned(offset);
        }
        CACHE_TIMEOUTS.add(1);
        self.fetcher.queue().timed_out(offset, self.timeout).into()
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
            let key = self.own.layout().key(part.page);
            match self.pages.find_or_make(key, Arrival::Demand, 0) {
                Some(found) => {
                    let units = self.own.layout().units_of(&part);
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

    /// Lets a moment pass, unless the time is up.
    pub(crate) fn wait_for_memory(
        &self,
        offset: u64,
        timeout: Duration,
        deadline: Instant,
    ) -> Result<()> {
        if self.dirty().is_abandoned() {
            return Err(abandoned(offset));
        }
        if Instant::now() >= deadline {
            return Err(Error::Memory {
                device: self.fetcher.queue().name().to_owned(),
                offset,
                seconds: timeout.as_secs(),
            });
        }
        CACHE_MEMORY_WAITS.add(1);
        std::thread::sleep(MEMORY_TICK);
        Ok(())
    }

    /// What the read is to the read-ahead policy: nothing when all was there, without a marker.
    fn kind_of(&self, wanted: &[Wanted], fetches: &Fetches) -> Option<AccessKind> {
        let mut marked = false;
        for one in wanted {
            if one.state.flags(AHEAD | MARKER) != 0 {
                marked |= self.ahead.touch(one.pin.slot(), one.page);
            }
        }
        let mut joined = fetches.joined.iter();
        if fetches.ours.is_empty() && joined.any(|fetch| fetch.is_ahead()) {
            return Some(AccessKind::Late);
        }
        if !fetches.is_empty() {
            return Some(AccessKind::Miss);
        }
        marked.then_some(AccessKind::Marker)
    }
}

pub(crate) fn deadline_after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + LONG)
}

fn pins(wanted: Vec<Wanted>) -> Vec<OwnedPin> {
    wanted.into_iter().map(|one| one.pin).collect()
}
