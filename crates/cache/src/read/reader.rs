//! Reads of a range: of each page a hit, or a miss for as much as is missing.
//!
//! **The hit** takes no memory and no lock: a lookup and a pin ([`crate::table`]), at most one
//! copy. It waits only for a writer in the same page. The first touch of what was fetched ahead is
//! noted with the policy, under a lock.
//!
//! **The miss** brings bytes into pages, once however many threads want them:
//!
//! ```text
//! obtain ──> pin pages ──> claim units ──> send requests ──> streams ──> wait
//!                              │  not there, not in flight: ours to fetch
//!                              └─ in flight: join the fetch
//! ```
//!
//! A failed read is made again without what was fetched along: an error is for those that asked for
//! the bad place.
//!
//! # Read-ahead
//!
//! The policy is the store's, as what it learns of one object is true of the next. It sees all in
//! one address space ([`seen_from`]) and plans inside the one that is read.
//!
//! On a virtual disk sequential reads were 6 % faster with one piece of memory for each request, of
//! sixteen pages. So frames are taken many at a time and handed out by address: what streams left
//! behind is one run, mostly backward.
//!
//! What comes along with reads of no stream, or is asked for by name, leaves as pages read once,
//! and is counted apart: unread, it takes no read-ahead from streams.
//!
//! **Weakness.** Random reads scatter the free frames for good. A plan of which a part is in memory
//! may evict as many pages too early.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_AHEAD_USEFUL_BYTES, CACHE_HITS, CACHE_MEMORY_WAITS, CACHE_MISSES, CACHE_PINS_REFUSED,
    CACHE_TIMEOUTS, COPIED_BYTES,
};
use pagewell_device::{Error as DeviceError, Issuer};
use pagewell_policy::elevator::Extent;
use pagewell_policy::eviction::{Arrival, FrameIndex};
use pagewell_policy::readahead::{Access, AccessKind, Bounds, Counts, Feedback, Plan};

use crate::dirty::set::{DirtySet, abandoned};
use crate::page::{PAGE, Part, first_part, parts};
use crate::read::claim::{Claims, Fetcher, Wanted};
use crate::residency::in_flight::Fetches;
use crate::residency::pages::Pages;
use crate::residency::pages::{SEEN_BYTES, Streams, seen_from};
use crate::residency::pins::{OwnPages, OwnedPin, PagePin, PinLease, PinnedPage};
use crate::table::{AHEAD, FULL, MARKER, Pinned, STREAM, SlotIndex, State};
use crate::{Error, ReadMode, Result};

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
                // SAFETY: `obtain` gives pages with the bytes that it was asked for.
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
        // There is no page for no byte.
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

    /// `None` when too many pages are pinned, or not all of these have a frame at the same time.
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

    /// Prefetches the bytes by a guess, or before the pin.
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

    /// What gets this has to unpin.
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
        // Of a stream's page only reads of its first byte are heat: one pass in small steps is
        // none.
        if !state.has(AHEAD) && (!state.has(STREAM) || part.start == 0) {
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
    OthersFailed,
}

impl Reader {
    /// Pins the pages of a range, or its first pages when it is long or memory short; whether any
    /// byte was missing.
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
        // Nothing is fetched along with what is wanted.
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
                // What we claimed elsewhere is in flight.
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

    /// Obtained at a time: the range, or whole pages.
    fn portion_end(&self, range: &Range<u64>) -> u64 {
        let most = OBTAINED_BYTES_MAX.min(self.pages.arena().size_bytes() / 8);
        let end = range.start + most;
        if range.end <= end {
            return range.end;
        }
        end - end % PAGE
    }

    /// Afterwards all wanted is there or in flight; true: but for a page with another frame.
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
                None if !wanted.is_empty() => break,
                None if !mode.may_block => return Err(Error::WouldBlock),
                None => self.wait_for_memory(rest.start, self.timeout, deadline)?,
            }
        }
        Ok(wanted)
    }

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

    /// The read as the read-ahead policy sees it; `None`: all was there, without a marker.
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

/// With 16 the pages of a request came in five pieces, with 64 in three, with 256 in two.
const TAKEN_AT_ONCE: usize = 256;

/// Free frames for pages to come.
struct Batch<'a> {
    pages: &'a Pages,
    taken: Vec<FrameIndex>,
}

impl<'a> Batch<'a> {
    fn new(pages: &'a Pages) -> Self {
        Self {
            pages,
            taken: Vec::new(),
        }
    }

    /// For the first of `rest` pages.
    fn take(&mut self, rest: u64) -> Option<FrameIndex> {
        if self.taken.is_empty() {
            let count = usize::try_from(rest).unwrap_or(TAKEN_AT_ONCE);
            for _ in 0..count.clamp(1, TAKEN_AT_ONCE) {
                let Some(frame) = self.pages.allocate() else {
                    break;
                };
                self.taken.push(frame);
            }
            self.taken
                .sort_unstable_by_key(|frame| std::cmp::Reverse(frame.0));
        }
        self.taken.pop()
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for frame in self.taken.drain(..) {
            self.pages.give_back(frame);
        }
    }
}

pub(crate) struct Reading {
    pub mode: ReadMode,
    /// The policy takes parts with the same time for one access.
    pub told: OnceCell<Duration>,
}

impl Reading {
    pub(crate) fn new(mode: ReadMode) -> Self {
        let told = OnceCell::new();
        Self { mode, told }
    }
}

pub(crate) struct ReadAhead {
    fetcher: Arc<Fetcher>,
    streams: Arc<Streams>,
    drops_behind: bool,
    rotational: bool,
}

impl ReadAhead {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        streams: Arc<Streams>,
        drops_behind: bool,
        rotational: bool,
    ) -> Self {
        Self {
            fetcher,
            streams,
            drops_behind,
            rotational,
        }
    }

    fn own(&self) -> &Arc<OwnPages> {
        self.fetcher.own()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.streams.lock().counts()
    }

    pub(crate) fn note(&self, offset: u64, length: u64, kind: AccessKind, reading: &Reading) {
        let now = *reading.told.get_or_init(|| self.fetcher.dirty().now());
        let base = seen_from(self.own().layout().number());
        let access = Access {
            offset: base + offset,
            length,
            kind,
            budget_bytes: self.own().pages().ahead_budget_bytes(),
            spare_bytes: self.own().pages().spare_bytes(),
            now,
            bounds: self.bounds(base, reading),
            // One head serves one request at a time: there waiting is not for the way.
            latency: self
                .fetcher
                .queue()
                .least_latency()
                .filter(|_| !self.rotational),
        };
        let plan = self.streams.lock().access(&access);
        self.run_plan(plan, base);
    }

    fn bounds(&self, base: u64, reading: &Reading) -> Option<Bounds> {
        let moved = |bounds: Bounds| Bounds {
            start: base + bounds.start,
            end: base + bounds.end,
        };
        let length = self.own().layout().length_bytes();
        let whole = Bounds {
            start: 0,
            end: length,
        };
        let is_one_of_many = self.own().layout().is_file();
        let bounds = reading.mode.bounds.or(is_one_of_many.then_some(whole));
        bounds.map(moved)
    }

    pub(crate) fn touch(&self, slot: SlotIndex, page: u64) -> bool {
        let before = self.own().pages().table().clear(slot, AHEAD | MARKER);
        if before.has(AHEAD) {
            self.own().pages().no_longer_ahead(before);
            CACHE_AHEAD_USEFUL_BYTES.add(PAGE);
            let offset = seen_from(self.own().layout().number()) + page * PAGE;
            let length = PAGE;
            let useful = Feedback::Useful { offset, length };
            self.streams.lock().feedback(useful);
        }
        before.has(MARKER)
    }

    pub(crate) fn prefetch(&self, offset: u64, length: u64) {
        let length = length.min(self.own().pages().ahead_budget_bytes());
        let end = offset.saturating_add(length);
        let end = end.min(self.own().layout().length_bytes());
        if offset < end {
            let plan = Plan {
                along: Some(offset..end),
                ..Plan::default()
            };
            self.run_plan(plan, 0);
        }
    }

    fn run_plan(&self, plan: Plan, base: u64) {
        let in_object = |range: Range<u64>| {
            let end = range.end.saturating_sub(base).min(SEEN_BYTES);
            range.start.saturating_sub(base)..end
        };
        let (pages, layout) = (self.own().pages(), &self.own().layout());
        if let Some(range) = plan.release.filter(|_| self.drops_behind) {
            let range = in_object(range);
            for page in range.start.div_ceil(PAGE)..range.end / PAGE {
                pages.drop_behind(layout.key(page));
            }
        }
        let mut claims = Claims::default();
        for range in plan.fetch {
            let arrival = Arrival::Stream;
            if let Err(offset) = self.claim_ahead(in_object(range), arrival, &mut claims) {
                let offset = base + offset;
                let refused = Feedback::Refused { offset };
                self.streams.lock().feedback(refused);
                break;
            }
        }
        if let Some(range) = plan.along {
            // Where memory is short, the rest comes when it is read.
            let _ = self.claim_ahead(in_object(range), Arrival::Demand, &mut claims);
        }
        // Before the bytes can come, so that no reader gets past it.
        if let Some(page) = plan.marker.map(|offset| offset.saturating_sub(base) / PAGE)
            && let Some(found) = pages.find(layout.key(page))
        {
            pages.table().set(found.slot, MARKER);
            pages.table().unpin(found.slot);
        }
        self.fetcher.send(claims.ours, Issuer::ReadAhead);
    }

    /// Claims what is missing of a range, or says where memory ran out.
    fn claim_ahead(
        &self,
        range: Range<u64>,
        arrival: Arrival,
        claims: &mut Claims,
    ) -> Result<(), u64> {
        let flags = match arrival {
            Arrival::Stream => AHEAD | STREAM,
            Arrival::Demand => AHEAD,
        };
        let (pages, layout) = (self.own().pages(), &self.own().layout());
        let end = range.end.min(layout.length_bytes());
        let mut frames = Batch::new(pages);
        for part in parts(range.start..end) {
            let rest = (end - part.page * PAGE).div_ceil(PAGE);
            let frame = || frames.take(rest);
            let key = layout.key(part.page);
            let found = pages
                .find_or_make_in(key, arrival, flags, frame)
                .ok_or(part.extent().offset)?;
            let wanted = Wanted::new(self.own(), found, part.page, layout.units_of(&part));
            if !found.state.has(FULL) {
                self.fetcher.claim(&wanted, true, true, claims);
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::{Cache, CacheOptions};

    #[test]
    fn frames_come_in_the_order_of_their_addresses_and_go_back() {
        let pages = Cache::new(CacheOptions::new(crate::BYTES_MIN))
            .unwrap()
            .pages()
            .clone();
        let all = u64::from(pages.arena().frames());
        // As drop-behind leaves them: the stack gives the last one first.
        let taken: Vec<_> = (0..all).filter_map(|_| pages.allocate()).collect();
        taken.iter().for_each(|frame| pages.give_back(*frame));
        let mut frames = Batch::new(&pages);
        let first: Vec<u32> = (0..8)
            .map(|done| frames.take(16 - done).unwrap().0)
            .collect();
        assert!(
            first.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "{first:?}"
        );
        drop(frames);
        let mut rest = Batch::new(&pages);
        let count = std::iter::from_fn(|| rest.take(all)).count();
        assert_eq!(count as u64, all - 8);
    }
}
