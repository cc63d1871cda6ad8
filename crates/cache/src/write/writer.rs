//! Writing: bytes into pages, without reading what is not needed and without waiting for a device.
//!
//! **Rule.** A write goes page by page. Under its lock the page gets a frame; a unit that is in
//! flight from the device is waited for, as it would overwrite what is new; where readers may use
//! what is to be changed, the writer is alone in the page ([`crate::write::copy_on_write`]); then
//! the bytes are copied, the policy is notified, and the page is dirty.
//!
//! ```text
//!   a page     |  valid  | not valid | not valid |  valid  |      units
//!   a write          ~~~~~~~~~~~~~~~~~~~~~~~
//!   afterwards |  valid  |   valid   | dirty only|  valid  |
//! ```
//!
//! A unit that is written wholly becomes valid. One that is written in part does not: only its
//! dirty bytes mean something, and a reader of it has the rest filled in. So a write never reads,
//! but for one case: a unit in which too many small ranges have gathered is filled, so that they
//! become one.
//!
//! A page under write-back is written like any other: what is on its way is a copy. No write ever
//! waits for a write-back, but for its quota of dirty memory
//! ([`pagewell_policy::writeback::Admission`]).

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use pagewell_counters::names::{
    CACHE_TIMEOUTS, CACHE_WRITE_FETCH_WAITS, CACHE_WRITE_PAUSE_NANOSECONDS, CACHE_WRITE_PAUSES,
    CACHE_WRITE_REFUSALS, COPIED_BYTES,
};
use pagewell_policy::elevator::Extent;
use pagewell_policy::eviction::Arrival;
use pagewell_policy::writeback::{Admission, Urgency};

use crate::dirty::set::{Still, TICK, abandoned};
use crate::page::{PAGE, Part, Units, parts};
use crate::read::miss::deadline_after;
use crate::read::reader::Reading;
use crate::residency::in_flight::Fetch;
use crate::residency::pins::OwnedPin;
use crate::table::lines::{DIRTY, FULL};
use crate::write::copy_on_write::Alone;
use crate::writeback::Writer;
use crate::{Error, ReadMode, Result, WriteMode};

/// Ranges of dirty bytes in one unit that is not valid.
const RANGES_MAX: usize = 8;

/// One page's part of a write.
pub(crate) struct Piece<'a> {
    pub(crate) part: Part,
    pub(crate) source: &'a [u8],
}

/// How an attempt at a piece ended.
pub(crate) enum Attempt {
    Done(Urgency),
    /// These bytes are on their way from the device.
    Fetching(Arc<Fetch>),
    /// Too many ranges: this unit first.
    Scattered,
    /// No frame, or others have pinned the page and there is none for a copy.
    NoMemory,
}

impl Writer {
    /// Writes `source` at `offset`, and tells how many bytes were `changed`.
    pub(crate) fn write(
        self: &Arc<Self>,
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
        self.dirty.store.enlist();
        let mut urgency = Urgency::Later;
        for part in parts(offset..offset + source.len() as u64) {
            let count = part.range().len();
            let source = &source[*changed..*changed + count];
            match self.write_piece(&Piece { part, source }, mode) {
                Ok(this) => urgency = urgency.max(this),
                Err(error) => {
                    // What was written before it is as dirty as any.
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

    fn write_piece(self: &Arc<Self>, piece: &Piece<'_>, mode: WriteMode) -> Result<Urgency> {
        self.admit(piece.part.extent(), mode)?;
        let deadline = deadline_after(self.timeout);
        loop {
            if self.dirty.is_abandoned() {
                return Err(abandoned(piece.part.extent().offset));
            }
            let attempt = self.try_piece(piece);
            match attempt {
                Attempt::Done(urgency) => return Ok(urgency),
                _ if !mode.may_block => return Err(would_block()),
                Attempt::Fetching(fetch) => {
                    CACHE_WRITE_FETCH_WAITS.add(1);
                    // How it ended does not matter: it is not in the way any more.
                    let has_ended = self.dirty.wait_for(&fetch, deadline).is_some();
                    if !has_ended && !self.dirty.is_abandoned() {
                        let offset = piece.part.extent().offset;
                        return Err(self.no_answer(offset, self.timeout).into());
                    }
                }
                Attempt::Scattered => {
                    let Extent { offset, length } = piece.part.extent();
                    let range = offset..offset + length;
                    self.reader.obtain(&range, &Reading::new(ReadMode::WAIT))?;
                }
                Attempt::NoMemory => {
                    let offset = piece.part.extent().offset;
                    let timeout = self.timeout;
                    self.reader.wait_for_memory(offset, timeout, deadline)?;
                }
            }
        }
    }

    /// Waits until the policy lets a writer in, for as long as the device takes anything: others
    /// may be let in before, and a slow device is not a dead one.
    fn admit(self: &Arc<Self>, extent: Extent, mode: WriteMode) -> Result<()> {
        let mut taken: Option<Still<u64>> = None;
        loop {
            let progress = self.dirty.store.progress();
            match self.dirty.admit(extent, mode.may_block) {
                Admission::Granted => return Ok(()),
                _ if !mode.may_block => return Err(would_block()),
                Admission::Paused(pause) => {
                    CACHE_WRITE_PAUSES.add(1);
                    let began = Instant::now();
                    std::thread::sleep(pause);
                    let slept = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    CACHE_WRITE_PAUSE_NANOSECONDS.add(slept);
                    return Ok(());
                }
                Admission::Refused => CACHE_WRITE_REFUSALS.add(u64::from(taken.is_none())),
            }
            if self.dirty.is_abandoned() {
                return Err(abandoned(extent.offset));
            }
            if !self.wait_for_quota(&mut taken, progress) {
                CACHE_TIMEOUTS.add(1);
                return Err(Error::Full {
                    device: self.queue.name(),
                    offset: extent.offset,
                    seconds: self.timeout.as_secs(),
                });
            }
        }
    }

    /// Waits until something has ended in any object of the store, or a little; false when the
    /// store has taken nothing for too long. `progress` is that of before the writer was refused.
    fn wait_for_quota(self: &Arc<Self>, taken: &mut Option<Still<u64>>, progress: u64) -> bool {
        let store = &self.dirty.store;
        let before = store.taken();
        let taken = taken.get_or_insert_with(|| Still::new(before));
        // What is waited for may not have been sent yet, here or elsewhere.
        self.submit();
        store.flusher.wake();
        let mut dirty = self.dirty.lock();
        let now = store.taken();
        if taken.time(now) >= self.timeout {
            return false;
        }
        if now == before && store.progress() == progress && !dirty.has_answer() {
            // Others notify an object that waits, though nothing is dirty in it.
            self.dirty.start();
            dirty.waiters += 1;
            dirty = self.dirty.wait(dirty, TICK);
            dirty.waiters -= 1;
        }
        true
    }

    pub(crate) fn try_piece(&self, piece: &Piece<'_>) -> Attempt {
        let key = self.own.layout.key(piece.part.page);
        let _page = self.own.pages.lock_page(key);
        let Some(found) = self.own.pages.find_or_make(key, Arrival::Demand, 0) else {
            return Attempt::NoMemory;
        };
        let mut pin = self.own.own(found);
        self.own.pages.table.warm(found.slot, found.state);
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

    /// Whether one more range would be too many for a unit of these, which are not valid, that is
    /// written in part.
    fn is_scattered(&self, pin: &OwnedPin, part: &Part, missing: Units) -> bool {
        let layout = &self.own.layout;
        let mut partial = layout.each(missing & !layout.whole_units_of(part));
        let is_full = |(_, unit): (Units, Range<usize>)| {
            let unit = Part {
                page: part.page,
                start: unit.start as u64,
                length: unit.len() as u64,
            };
            self.dirty.in_page(&unit).len() >= RANGES_MAX
        };
        self.own.pages.table.state(pin.slot).has(DIRTY) && partial.any(is_full)
    }

    /// The blocks of valid units of which only a part is written: the first and the last.
    fn partial_blocks(&self, extent: Extent, valid: Units) -> [Option<Extent>; 2] {
        let layout = &self.own.layout;
        let grain = layout.grain_bytes;
        [extent.offset, extent.end()].map(|edge| {
            let offset = edge - edge % grain;
            // The end of a page is a multiple of a block too.
            let is_inside = edge != offset && layout.units(offset % PAGE, grain) & !valid == 0;
            let length = grain.min(layout.length_bytes().saturating_sub(offset));
            is_inside.then_some(Extent { offset, length })
        })
    }

    /// Copies the bytes into the page and notes that they are dirty; `None` when the writer must
    /// be alone in it for that, and is not.
    fn put(&self, pin: &OwnedPin, piece: &Piece<'_>, is_alone: bool) -> Option<Attempt> {
        let (pages, layout, part) = (&self.own.pages, &self.own.layout, &piece.part);
        // Claims are made under this lock: no fetch of these units begins before they are valid,
        // or dirty. And nobody but a fetch makes units valid while the page's name is locked.
        let fetches = pages.in_flight.lock(pin.frame);
        let valid = pages.valid(pin.frame);
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
        // Units that are valid stay so, and a fetch that is in flight elsewhere in this page has
        // nothing to do with these.
        let fetches = (missing != 0).then_some(fetches);
        // SAFETY: the page is pinned. Writers and write-back are kept out by its lock. Of the units
        // that are not valid nobody has a slice, no fetch is in flight, and none begins under the
        // lock of the fetches. If there are valid ones, no other thread has a pin, and none gets
        // one, as WRITING is set.
        unsafe {
            pages
                .arena
                .fill(pin.frame, part.range().start, piece.source)
        };
        let blocks = self.partial_blocks(part.extent(), valid);
        let urgency = self.dirty.note_written(pin.slot, part.extent(), blocks);
        let whole = layout.whole_units_of(part) & missing;
        if whole != 0 && pages.validate(pin.frame, whole) == layout.all_units(part.page) {
            pages.table.set(pin.slot, FULL);
        }
        drop(fetches);
        Some(Attempt::Done(urgency))
    }

    /// Does what the policy wants done after a write.
    fn see_to(self: &Arc<Self>, urgency: Urgency) {
        if urgency == Urgency::Later {
            return;
        }
        if self.dirty.store.flusher.is_running() {
            self.dirty.store.flusher.wake();
        } else {
            self.submit();
        }
    }
}

fn would_block() -> Error {
    Error::WouldBlock
}
