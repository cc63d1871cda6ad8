//! Writing, mostly without reading; and purging.
//!
//! **Rule.** Page by page, under its lock, the writer waits for a unit in flight, which would
//! overwrite what is new, becomes [alone](Alone) in the page where readers may use the bytes, and
//! copies.
//!
//! ```text
//!   a page     |  valid  | not valid | not valid |  valid  |      units
//!   a write          ~~~~~~~~~~~~~~~~~~~~~~~
//!   afterwards |  valid  |   valid   | dirty only|  valid  |
//! ```
//!
//! Of a unit that is written in part only the dirty bytes mean something; a reader has the rest
//! filled in. So a write reads only where a unit has too many small ranges, and waits for its quota
//! of dirty memory, not for write-back, whose bytes are a copy.
//!
//! # Copy-on-write
//!
//! What is pinned may not change, and no writer may wait for a slow receiver. The writer sets
//! [`WRITING`], and waits a moment: most pins are short. If they stay, the page is *detached*:
//! valid units and dirty bytes go to a new frame with the name; the last pin frees the old one. A
//! reader that waits for a fetch into that claims again.
//!
//! ```text
//!   alone:     name ──> slot ──> frame          written in place
//!   detached:  name ──> slot' ──> frame'        a copy, written in place
//!                       slot ──> frame          as it was, for those that have pinned it
//! ```
//!
//! **Weakness.** A page pinned at each write is copied each time.
//!
//! # Purging
//!
//! Another client changed a file, or it was cut short: no reader may see what memory has, nor what
//! was asked for before. Page by page, under its lock, the policy forgets what is dirty, and the
//! page loses its name; fetches into it are lost. Of a page in part:
//!
//! ```text
//!   no other thread has pinned it:  in place, the units of the range are not valid any more
//!   nothing else is dirty:          it loses its name as a whole, and is fetched again
//!   else:                           a copy of the rest takes its name
//! ```
//!
//! A write at the device may come after a purge; later reads, which the elevator keeps behind it,
//! see it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_DETACHED_PAGES, CACHE_TIMEOUTS, CACHE_WRITE_FETCH_WAITS, CACHE_WRITE_PAUSE_NANOSECONDS,
    CACHE_WRITE_PAUSES, CACHE_WRITE_REFUSALS, COPIED_BYTES,
};
use pagewell_policy::elevator::Extent;
use pagewell_policy::eviction::{Arrival, FrameIndex};
use pagewell_policy::writeback::{Admission, Urgency};

use crate::dirty::set::{DirtySet, Still, TICK, abandoned};
use crate::dirty::written::NoRoom;
use crate::page::{PAGE, Part, Units, first_part, parts};
use crate::read::reader::Reading;
use crate::read::reader::{MEMORY_TICK, Reader, deadline_after};
use crate::residency::in_flight::Fetch;
use crate::residency::pages::{PageCopy, Pages};
use crate::residency::pins::{OwnPages, OwnedPin};
use crate::sync::relax;
use crate::table::{DIRTY, FULL, SlotIndex, WRITING};
use crate::writeback::submit::Submitter;
use crate::{Error, ReadMode, Result, WriteMode};

/// How long a full device may take nothing: what needs no new room there may be on its way.
const NO_ROOM_PATIENCE: Duration = Duration::from_secs(1);
/// Ranges of dirty bytes in one unit that is not valid.
const RANGES_MAX: usize = 8;

pub(crate) struct Piece<'a> {
    pub part: Part,
    pub source: &'a [u8],
}

pub(crate) enum Attempt {
    Done(Urgency),
    Fetching(Arc<Fetch>),
    Scattered,
    /// No frame, or none for a copy of a pinned page.
    NoMemory,
}

/// What the store did while a writer waits for memory.
struct Waits {
    taken: Still<u64>,
    taken_count: u64,
    no_room_count: u64,
}

impl Waits {
    fn check_room(&mut self, taken_count: u64, no_room: NoRoom) -> Result<()> {
        if taken_count != self.taken_count {
            (self.taken_count, self.no_room_count) = (taken_count, no_room.count);
        }
        let is_still = self.taken.time(taken_count) >= NO_ROOM_PATIENCE;
        match no_room.error {
            Some(error) if is_still && no_room.count != self.no_room_count => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Changes what memory has of one object, and commits it in the end.
pub(crate) struct Writer {
    reader: Arc<Reader>,
    submitter: Arc<Submitter>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.submitter.close();
    }
}

impl Writer {
    pub(crate) fn new(reader: Arc<Reader>, submitter: Arc<Submitter>) -> Self {
        Self { reader, submitter }
    }

    pub(crate) fn submitter(&self) -> &Arc<Submitter> {
        &self.submitter
    }

    pub(crate) fn dirty(&self) -> &DirtySet {
        self.submitter.dirty()
    }

    fn own(&self) -> &Arc<OwnPages> {
        self.submitter.own()
    }

    fn timeout(&self) -> Duration {
        self.submitter.flushes().timeout()
    }

    pub(crate) fn write(
        &self,
        offset: u64,
        source: &[u8],
        mode: WriteMode,
        changed: &mut usize,
    ) -> Result<()> {
        *changed = 0;
        self.reader.check(offset, source.len())?;
        if source.is_empty() {
            return Ok(());
        }
        self.dirty().store().enlist();
        let mut urgency = Urgency::Later;
        for part in parts(offset..offset + source.len() as u64) {
            let count = part.range().len();
            let source = &source[*changed..*changed + count];
            match self.write_piece(&Piece { part, source }, mode) {
                Ok(this) => urgency = urgency.max(this),
                Err(error) => {
                    self.see_to(urgency);
                    return Err(error);
                }
            }
            *changed += count;
        }
        COPIED_BYTES.add(source.len() as u64);
        self.see_to(urgency);
        Ok(())
    }

    fn write_piece(&self, piece: &Piece<'_>, mode: WriteMode) -> Result<Urgency> {
        self.admit(piece.part.extent(), mode)?;
        let deadline = deadline_after(self.timeout());
        loop {
            if self.dirty().is_abandoned() {
                return Err(abandoned(piece.part.extent().offset));
            }
            let attempt = self.try_piece(piece);
            match attempt {
                Attempt::Done(urgency) => return Ok(urgency),
                _ if !mode.may_block => return Err(Error::WouldBlock),
                Attempt::Fetching(fetch) => {
                    CACHE_WRITE_FETCH_WAITS.add(1);
                    let has_ended = self.dirty().wait_for(&fetch, deadline).is_some();
                    if !has_ended && !self.dirty().is_abandoned() {
                        let offset = piece.part.extent().offset;
                        let flushes = self.submitter.flushes();
                        return Err(flushes.no_answer(offset, self.timeout()).into());
                    }
                }
                Attempt::Scattered => {
                    let Extent { offset, length } = piece.part.extent();
                    let range = offset..offset + length;
                    self.reader.obtain(&range, &Reading::new(ReadMode::WAIT))?;
                }
                Attempt::NoMemory => {
                    let offset = piece.part.extent().offset;
                    let timeout = self.timeout();
                    self.reader.wait_for_memory(offset, timeout, deadline)?;
                }
            }
        }
    }

    /// Waits until the policy grants a write, as long as the device takes anything.
    ///
    /// # Errors
    /// Soon where the device has no room, which others have to make.
    fn admit(&self, extent: Extent, mode: WriteMode) -> Result<()> {
        let mut waits: Option<Waits> = None;
        loop {
            let progress = self.dirty().store().progress();
            match self.dirty().admit(extent, mode.may_block) {
                Admission::Granted => return Ok(()),
                _ if !mode.may_block => return Err(Error::WouldBlock),
                Admission::Paused(pause) => {
                    CACHE_WRITE_PAUSES.add(1);
                    let began = Instant::now();
                    std::thread::sleep(pause);
                    let slept = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    CACHE_WRITE_PAUSE_NANOSECONDS.add(slept);
                    return Ok(());
                }
                Admission::Refused => CACHE_WRITE_REFUSALS.add(u64::from(waits.is_none())),
            }
            if self.dirty().is_abandoned() {
                return Err(abandoned(extent.offset));
            }
            if !self.wait_for_quota(&mut waits, progress)? {
                CACHE_TIMEOUTS.add(1);
                return Err(Error::Full {
                    device: self.submitter.queue().name().to_owned(),
                    offset: extent.offset,
                    seconds: self.timeout().as_secs(),
                });
            }
        }
    }

    /// False when the store has taken nothing for too long. `progress` was taken before the
    /// refusal.
    fn wait_for_quota(&self, waits: &mut Option<Waits>, progress: u64) -> Result<bool> {
        let store = self.dirty().store();
        let before = store.taken();
        let waits = waits.get_or_insert_with(|| Waits {
            taken: Still::new(before),
            taken_count: before,
            no_room_count: store.no_room().count,
        });
        self.submitter.submit();
        store.flusher().wake();
        let mut dirty = self.dirty().lock();
        let now = store.taken();
        waits.check_room(now, store.no_room())?;
        if waits.taken.time(now) >= self.timeout() {
            return Ok(false);
        }
        if now == before && store.progress() == progress && !dirty.unflushed.has_answer() {
            // Only active objects are notified.
            self.dirty().start();
            dirty.waiting.others += 1;
            dirty = self.dirty().wait(dirty, TICK);
            dirty.waiting.others -= 1;
        }
        Ok(true)
    }

    pub(crate) fn try_piece(&self, piece: &Piece<'_>) -> Attempt {
        let key = self.own().layout().key(piece.part.page);
        let _page = self.own().pages().lock_page(key);
        let Some(found) = self.own().pages().find_or_make(key, Arrival::Demand, 0) else {
            return Attempt::NoMemory;
        };
        let mut pin = self.own().own(found);
        self.own().pages().table().warm(found.slot, found.state);
        let mut alone: Option<Alone<'_>> = None;
        loop {
            if let Some(attempt) = self.put(&pin, piece, alone.is_some()) {
                return attempt;
            }
            alone = self.exclude(&mut pin, piece.part.page);
            if alone.is_none() {
                return Attempt::NoMemory;
            }
        }
    }

    fn is_scattered(&self, pin: &OwnedPin, part: &Part, missing: Units) -> bool {
        let layout = self.own().layout();
        let mut partial = layout.each(missing & !layout.whole_units_of(part));
        let is_full = |(_, unit): (Units, Range<usize>)| {
            let unit = Part {
                page: part.page,
                start: unit.start as u64,
                length: unit.len() as u64,
            };
            self.dirty().in_page(&unit).len() >= RANGES_MAX
        };
        self.own().pages().table().state(pin.slot()).has(DIRTY) && partial.any(is_full)
    }

    /// The first and the last block, if only a part of them is written, and they are valid.
    fn partial_blocks(&self, extent: Extent, valid: Units) -> [Option<Extent>; 2] {
        let layout = self.own().layout();
        let grain = layout.grain_bytes();
        [extent.offset, extent.end()].map(|edge| {
            let offset = edge - edge % grain;
            let is_inside = edge != offset && layout.units(offset % PAGE, grain) & !valid == 0;
            let length = grain.min(layout.length_bytes().saturating_sub(offset));
            is_inside.then_some(Extent { offset, length })
        })
    }

    /// Copies the bytes into the page; `None` when the writer must be alone in it for that.
    fn put(&self, pin: &OwnedPin, piece: &Piece<'_>, is_alone: bool) -> Option<Attempt> {
        let (pages, layout, part) = (self.own().pages(), self.own().layout(), &piece.part);
        // Under this lock no fetch of these units begins, and only fetches make units valid while
        // the page is locked.
        let fetches = pages.in_flight().lock(pin.frame());
        let valid = pages.valid(pin.frame());
        let touched = layout.units_of(part);
        let missing = touched & !valid;
        if let Some(fetch) = fetches.of(missing) {
            return Some(Attempt::Fetching(fetch));
        }
        // Alone it was asked before, and units only become valid meanwhile.
        if !is_alone && self.is_scattered(pin, part, missing) {
            return Some(Attempt::Scattered);
        }
        if !is_alone && touched & valid != 0 {
            return None;
        }
        let fetches = (missing != 0).then_some(fetches);
        // SAFETY: the page is pinned. Writers and write-back are kept out by its lock. Of the units
        // that are not valid no slice exists, no fetch is in flight, and none begins under the
        // lock of the fetches. If there are valid ones, no other thread has a pin, and none gets
        // one, as WRITING is set.
        unsafe {
            pages
                .arena()
                .fill(pin.frame(), part.range().start, piece.source)
        };
        let blocks = self.partial_blocks(part.extent(), valid);
        let urgency = self.dirty().note_written(pin.slot(), part.extent(), blocks);
        let whole = layout.whole_units_of(part) & missing;
        if whole != 0 && pages.validate(pin.frame(), whole) == layout.all_units(part.page) {
            pages.table().set(pin.slot(), FULL);
        }
        drop(fetches);
        Some(Attempt::Done(urgency))
    }

    fn see_to(&self, urgency: Urgency) {
        if urgency == Urgency::Later {
            return;
        }
        if self.dirty().store().flusher().is_running() {
            self.dirty().store().flusher().wake();
        } else {
            self.submitter.submit();
        }
    }
}

/// The last rounds give the processor to a reader that lost it in a copy.
const ROUNDS: u32 = if cfg!(feature = "loom") { 1 } else { 204 };

/// A page whose readable bytes are this thread's until this is dropped.
pub(crate) struct Alone<'a> {
    pages: &'a Pages,
    slot: SlotIndex,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.pages.table().clear(self.slot, WRITING);
    }
}

impl Writer {
    /// `pin` may become another frame with the same bytes. `None`: no memory for a copy. The caller
    /// has the page's lock, `pin` its name.
    pub(crate) fn exclude(&self, pin: &mut OwnedPin, page: u64) -> Option<Alone<'_>> {
        let (alone, is_alone) = self.try_alone(pin);
        if is_alone {
            return Some(alone);
        }
        self.move_out(alone, pin, page, Units::MAX)
    }

    pub(crate) fn write_alone(&self, pin: &OwnedPin) -> Alone<'_> {
        let pages = &**self.own().pages();
        pages.table().set(pin.slot(), WRITING);
        let slot = pin.slot();
        Alone { pages, slot }
    }

    /// [`Self::write_alone`], and waits a moment for pins; whether they have gone.
    pub(crate) fn try_alone(&self, pin: &OwnedPin) -> (Alone<'_>, bool) {
        let alone = self.write_alone(pin);
        for round in 0..ROUNDS {
            // An earlier pin would be counted; a later one sees WRITING and is taken back.
            if self.own().pages().table().state(pin.slot()).pins() == 1 {
                return (alone, true);
            }
            relax(round);
        }
        (alone, false)
    }

    /// Gives the name of a page to a copy, which `pin` becomes: of its valid units the `kept` ones.
    /// `None`: there is no frame or no slot.
    pub(crate) fn move_out<'a>(
        &'a self,
        alone: Alone<'a>,
        pin: &mut OwnedPin,
        page: u64,
        kept: Units,
    ) -> Option<Alone<'a>> {
        let pages = &**self.own().pages();
        let frame = pages.allocate()?;
        let valid = pages.valid(pin.frame()) & kept;
        self.copy(pin, page, valid, frame);
        let copy = PageCopy {
            frame,
            valid,
            is_full: valid == self.own().layout().all_units(page),
        };
        let key = self.own().layout().key(page);
        let old = (pin.slot(), pin.frame());
        let new = pages.detach(key, old, &copy, || self.dirty().lock())?;
        // It has no name: no new pin comes.
        drop(alone);
        pages.free_when_unpinned(old.0, old.1);
        *pin = self.own().own(new);
        CACHE_DETACHED_PAGES.add(1);
        pages.sweep();
        let slot = new.slot;
        Some(Alone { pages, slot })
    }

    fn copy(&self, pin: &OwnedPin, page: u64, valid: Units, frame: FrameIndex) {
        let layout = self.own().layout();
        let units = layout.each(valid).map(|(_, unit)| unit);
        for range in units.chain(self.dirty().in_page(&Part::whole(page))) {
            let (start, length) = (range.start, range.len());
            // SAFETY: the target has no name yet: no other thread knows it. Of the source, valid
            // units are written by writers only, of which we are the only one, and dirty bytes
            // too: a fetch or fill of their unit leaves them alone.
            unsafe {
                let arena = self.own().pages().arena();
                arena.fill(frame, start, arena.bytes(pin.frame(), start, length));
            }
        }
    }
}

impl Writer {
    /// Purges the units with the old and the new end: what is fetched for the old one is lost.
    pub(crate) fn set_length(&self, length_bytes: u64) {
        let before = self.own().layout().set_length(length_bytes);
        let now = self.own().layout().length_bytes();
        if now == before {
            return;
        }
        let start = before.min(now);
        let page_end = start.next_multiple_of(PAGE);
        if now < before {
            self.purge_to(start, before.max(page_end));
        } else if start < page_end {
            self.purge_to(start, page_end);
        }
    }

    pub(crate) fn purge(&self, offset: u64, length: u64) {
        let extent = self.own().layout().inside(offset, length);
        if extent.length > 0 {
            self.purge_to(offset, extent.end());
        }
    }

    fn purge_to(&self, offset: u64, end: u64) {
        let extent = Extent::of((offset, end));
        if self.dirty().has_started() {
            // First: what is written while the pages go is not to be taken from a flush.
            self.dirty().lock().unflushed.purged(extent);
        }
        let range = offset / PAGE..extent.end().div_ceil(PAGE);
        let number = self.own().layout().number();
        for page in self.own().pages().resident(number, range) {
            let start = offset.max(page * PAGE);
            let end = extent.end().min((page + 1) * PAGE);
            self.purge_in_page(&first_part(&(start..end)));
        }
        if self.dirty().has_started() {
            let mut dirty = self.dirty().lock();
            self.dirty().show(&mut dirty);
            self.dirty().let_others_go_on(dirty);
            self.dirty().notify();
        }
        self.own().pages().sweep();
    }

    fn purge_in_page(&self, part: &Part) {
        let (layout, page) = (self.own().layout(), part.page);
        let rest = layout.length_bytes().saturating_sub(page * PAGE);
        let is_whole = part.start == 0 && part.length >= PAGE.min(rest);
        loop {
            let lock = self.own().pages().lock_page(layout.key(page));
            let Some(mut pin) = self.own().pin_locked(page) else {
                return;
            };
            if is_whole {
                return self.drop_page(pin, part);
            }
            let has_others = self.forget_dirty(part);
            let (alone, is_alone) = self.try_alone(&pin);
            if is_alone {
                let pages = self.own().pages();
                pages.invalidate(pin.frame(), layout.units_of(part));
                pages.table().clear(pin.slot(), FULL);
                self.clear_if_clean(page);
                drop(alone);
                return;
            }
            if !has_others {
                drop(alone);
                return self.drop_page(pin, part);
            }
            let kept = !layout.units_of(part);
            let moved = self.move_out(alone, &mut pin, page, kept);
            if let Some(alone) = moved {
                self.clear_if_clean(page);
                drop(alone);
                return;
            }
            drop(pin);
            drop(lock);
            std::thread::sleep(MEMORY_TICK);
        }
    }

    fn forget_dirty(&self, part: &Part) -> bool {
        if !self.dirty().has_started() {
            return false;
        }
        let dirty = self.dirty().forget(part.extent());
        let whole = Part::whole(part.page).extent();
        dirty.policy.dirty_in(whole).next().is_some()
    }

    fn clear_if_clean(&self, page: u64) {
        let dirty = self.dirty().lock();
        self.dirty().mark_clean(&dirty, Part::whole(page).extent());
    }

    /// Takes a page's name, and what is dirty of a part, at a stroke.
    fn drop_page(&self, pin: OwnedPin, part: &Part) {
        let (pages, key) = (self.own().pages(), self.own().layout().key(part.page));
        let (slot, frame) = (pin.slot(), pin.frame());
        let alone = self.write_alone(&pin);
        pages.unname(key, (slot, frame), || self.dirty().forget(part.extent()));
        drop(alone);
        drop(pin);
        pages.free_when_unpinned(slot, frame);
    }
}
