//! Writing: bytes into pages, without reading what is not needed and without waiting for a device.
//!
//! **Rule.** A write goes page by page. Under the lock of the page's name the page gets a place;
//! a unit that is on its way from the device is waited for, as it would overwrite what is new;
//! where readers may use what is to be changed, the writer is alone in the page
//! ([`crate::write::copy_on_write`]); then the bytes are copied, the policy is told, and the page is dirty.
//!
//! ```text
//!   a page     |  valid  | not valid | not valid |  valid  |      units
//!   a write          ~~~~~~~~~~~~~~~~~~~~~~~
//!   afterwards |  valid  |   valid   | dirty only|  valid  |
//! ```
//!
//! A unit that is written wholly becomes valid. One that is written in part does not: only its
//! dirty bytes mean something, and who reads it has the rest [filled](crate::read::fill) in. So a write
//! never reads, but for one case: a unit in which too many small ranges have gathered is filled,
//! so that they become one.
//!
//! A page under write-out is written like any other: what is on its way is a copy. No write ever
//! waits for a write-out, but for the room that memory has
//! ([`pagewell_policy::writeback::Admission`]), and under the rules of the report, which are here
//! to show that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_MEMORY_WAITS, CACHE_WRITE_BUSY_WAITS, CACHE_WRITE_FETCH_WAITS, CACHE_WRITE_FILLS,
    CACHE_WRITE_PAUSE_NANOSECONDS, CACHE_WRITE_PAUSES, CACHE_WRITE_REFUSALS, CACHE_WRITE_TIMEOUTS,
    CACHE_WRITE_WOULD_BLOCK, CACHE_WRITES, CACHE_WRITTEN_BYTES, COPIED_BYTES,
};
use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::Extent;
use pagewell_policy::eviction::{Arrival, HEAT_MAX};
use pagewell_policy::writeback::{Admission, Rule, Urgency};

use crate::cached_device::CachedDevice;
use crate::dirty::set::FILE;
use crate::object::{Held, Object};
use crate::page::{PAGE, Units};
use crate::residency::in_flight::Flight;
use crate::table::state::{DIRTY, FULL, PIN, State};
use crate::write::copy_on_write::Alone;
use crate::{Error, PAGE_BYTES, ReadMode, Result};

/// How long to sleep when every page is held by somebody.
const MEMORY_TICK: Duration = Duration::from_millis(1);
/// How often to look for room when no write ends: the wait after a failure may be over.
const ROOM_TICK: Duration = Duration::from_millis(100);
/// Ranges of dirty bytes in one unit that is not valid.
const RANGES_MAX: usize = 8;

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteMode {
    /// Whether to wait, for memory, for a device that is behind, for a fetch of the same bytes;
    /// else what would have to wait gives [`crate::Error::WouldBlock`].
    pub may_block: bool,
}

impl WriteMode {
    /// A writer that waits.
    pub const WAIT: Self = Self { may_block: true };
    /// A writer that does not.
    pub const TRY: Self = Self { may_block: false };
}

/// One page's part of a write.
struct Piece<'a> {
    page: u64,
    /// First byte in the page.
    start: u64,
    source: &'a [u8],
}

impl Piece<'_> {
    fn extent(&self) -> Extent {
        Extent {
            offset: self.page * PAGE + self.start,
            length: self.source.len() as u64,
        }
    }
}

/// How an attempt at a piece ended.
enum Attempt {
    Done(Urgency),
    /// These bytes are on their way from the device.
    Fetching(Arc<Flight>),
    /// Too many ranges: this unit first.
    Scattered,
    /// No place, or others hold the page and there is none for a copy.
    NoMemory,
}

impl CachedDevice {
    /// Writes `source` at `offset`: all of it, or an error, and then any part of it may have been
    /// written. It is in memory when this returns; [`Self::commit`] says whether it is on the
    /// device. Reads that begin afterwards see it; one that runs at the same time may see any mix
    /// of old and new. What is lent already does not change.
    pub fn write_at(&self, offset: u64, source: &[u8], mode: WriteMode) -> Result<()> {
        self.write_counting(offset, source, mode, &mut 0)
    }

    /// [`Self::write_at`], and tells how many bytes were `changed`, counted from the first. That is
    /// true of a write that fails, too, and of one that would have to wait in its middle.
    pub fn write_counting(
        &self,
        offset: u64,
        source: &[u8],
        mode: WriteMode,
        changed: &mut usize,
    ) -> Result<()> {
        *changed = 0;
        self.object.check(offset, source.len())?;
        if source.is_empty() {
            return Ok(());
        }
        let object = &self.object;
        if !mode.may_block && object.settings.write_rule.synchronous() {
            // It would be committed before this returns. Nothing of it is written, as a writer
            // who is told so does it all again.
            return Err(would_block());
        }
        if object.writes.start() {
            object.core.flusher.enlist(object);
        }
        let (mut done, mut urgency) = (0, Urgency::Later);
        while done < source.len() {
            let at = offset + done as u64;
            let start = at % PAGE;
            #[allow(clippy::cast_possible_truncation)] // at most a page
            let count = (source.len() - done).min((PAGE - start) as usize);
            let piece = Piece {
                page: at / PAGE,
                start,
                source: &source[done..done + count],
            };
            match object.write_piece(&piece, mode) {
                Ok(this) => urgency = more_urgent(urgency, this),
                Err(error) => {
                    // What was written before it is as dirty as any.
                    if urgency == Urgency::Now {
                        object.see_to(urgency, offset, done as u64)?;
                    }
                    return Err(error);
                }
            }
            done += count;
            *changed = done;
        }
        CACHE_WRITES.add(1);
        CACHE_WRITTEN_BYTES.add(source.len() as u64);
        COPIED_BYTES.add(source.len() as u64);
        object.see_to(urgency, offset, source.len() as u64)
    }

    /// Changes whenever data that was written with success may have been lost: when a flush
    /// failed, or data could not be written before the device was closed. Whoever promised
    /// anything about such data has to ask for it again.
    #[must_use]
    pub fn loss_epoch(&self) -> u64 {
        self.object.writes.losses.load(Ordering::Acquire)
    }

    /// Whether bytes of a range are not at the device yet, or on their way there.
    #[must_use]
    pub fn has_dirty(&self, offset: u64, length: u64) -> bool {
        let extent = Extent { offset, length };
        let object = &self.object;
        object.writes.has_started() && object.writes.lock().policy.is_unwritten(FILE, extent)
    }

    /// Whether bytes of a range are at the device and not durable.
    #[must_use]
    pub fn has_unflushed(&self, offset: u64, length: u64) -> bool {
        let extent = Extent { offset, length };
        let object = &self.object;
        object.writes.has_started() && object.writes.lock().flush_needed(extent).is_some()
    }

    /// Bytes in memory that are not on the device yet, those on their way included.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        let dirty = self.object.writes.lock();
        dirty.policy.dirty_bytes() + dirty.policy.flight_bytes()
    }

    /// Pages that hold them: what the limits are about.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.object.writes.lock().policy.dirty_pages()
    }

    /// What its write-back policy has seen and done.
    #[must_use]
    pub fn write_back_counts(&self) -> pagewell_policy::writeback::Counts {
        self.object.writes.lock().policy.counts()
    }
}

impl Object {
    fn write_piece(self: &Arc<Self>, piece: &Piece<'_>, mode: WriteMode) -> Result<Urgency> {
        let deadline = Deadline::after(self.settings.write_timeout);
        self.admit(piece.extent(), mode, deadline)?;
        loop {
            if self.is_abandoned() {
                return Err(self.abandoned(piece.extent().offset));
            }
            let attempt = self.try_piece(piece);
            match attempt {
                Attempt::Done(urgency) => return Ok(urgency),
                _ if !mode.may_block => return Err(would_block()),
                Attempt::Fetching(flight) => {
                    CACHE_WRITE_FETCH_WAITS.add(1);
                    // How it ended does not matter: it is not in the way any more.
                    if self.wait_for(&flight, deadline.0).is_none() {
                        return Err(self.timed_out_writing(piece.extent().offset));
                    }
                }
                Attempt::Scattered => {
                    CACHE_WRITE_FILLS.add(1);
                    let extent = piece.extent();
                    self.obtain(extent.offset, extent.length, ReadMode::WAIT)?;
                }
                Attempt::NoMemory if deadline.has_passed() => {
                    return Err(Error::Memory {
                        device: self.queue.device().name().to_owned(),
                        offset: piece.extent().offset,
                        seconds: self.settings.write_timeout.as_secs(),
                    });
                }
                Attempt::NoMemory => {
                    CACHE_MEMORY_WAITS.add(1);
                    std::thread::sleep(MEMORY_TICK);
                }
            }
        }
    }

    /// Waits until the policy lets a writer in.
    fn admit(self: &Arc<Self>, extent: Extent, mode: WriteMode, deadline: Deadline) -> Result<()> {
        let mut is_first = true;
        loop {
            let all = self.core.all_dirty_bytes_max();
            let shares = &self.core.shares;
            let allowance = shares.allowance(self.number, self.dirty_bytes_max, all);
            let mut dirty = self.writes.lock();
            dirty.policy.set_dirty_bytes_max(allowance);
            let admission = if mode.may_block {
                dirty.policy.admit(FILE, extent, self.now())
            } else {
                dirty.policy.try_admit(FILE, extent, self.now())
            };
            drop(dirty);
            match admission {
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
                Admission::Busy => CACHE_WRITE_BUSY_WAITS.add(u64::from(is_first)),
                Admission::Refused => CACHE_WRITE_REFUSALS.add(u64::from(is_first)),
            }
            is_first = false;
            if self.is_abandoned() {
                return Err(self.abandoned(extent.offset));
            }
            if !self.wait_for_room(deadline) {
                CACHE_WRITE_TIMEOUTS.add(1);
                return Err(Error::Full {
                    device: self.queue.device().name().to_owned(),
                    offset: extent.offset,
                    seconds: self.settings.write_timeout.as_secs(),
                });
            }
        }
    }

    /// Waits until a write has ended, or a little; false when the time is up.
    fn wait_for_room(self: &Arc<Self>, deadline: Deadline) -> bool {
        let ended = self.writes.lock().ended;
        // What is waited for may not have been sent yet.
        self.drive();
        let dirty = self.writes.lock();
        let Some(left) = deadline.left() else {
            return false;
        };
        if dirty.ended == ended && !dirty.has_answer() {
            drop(self.writes.wait(dirty, left.min(ROOM_TICK)));
        }
        true
    }

    fn try_piece(self: &Arc<Self>, piece: &Piece<'_>) -> Attempt {
        let key = self.key(piece.page);
        let _page = self.core.lock_page(key);
        let Some(found) = self.core.find_or_make(key, Arrival::Demand, 0) else {
            return Attempt::NoMemory;
        };
        let mut held = self.hold(found);
        let heat = found.state.heat();
        if heat < HEAT_MAX {
            let with_our_pin = State(found.state.0 + PIN);
            self.core.table.heat(held.slot, with_our_pin, heat + 1);
        }
        let touched = self.units(piece.start, piece.source.len() as u64);
        if let Some(flight) = self.conflict(&held, touched) {
            return Attempt::Fetching(flight);
        }
        if self.is_scattered(&held, piece, touched) {
            return Attempt::Scattered;
        }
        // Nobody but a fetch makes units valid while the page's name is locked. If one does so
        // from here on, `put` sees it.
        let mut alone: Option<Alone<'_>> = None;
        loop {
            if let Some(attempt) = self.put(&held, piece, touched, alone.is_some()) {
                return attempt;
            }
            alone = self.exclude(&mut held, piece.page);
            if alone.is_none() {
                return Attempt::NoMemory;
            }
        }
    }

    /// A fetch of units that are not valid yet, if there is one.
    fn conflict(&self, held: &Held, touched: Units) -> Option<Arc<Flight>> {
        let flights = self.core.flights(held.frame);
        let missing = touched & !self.core.valid(held.frame);
        let mut here = flights.get(&held.frame.0)?.iter();
        here.find(|flight| flight.units & missing != 0).cloned()
    }

    /// Whether one more range would be too many for a unit that is written in part.
    fn is_scattered(&self, held: &Held, piece: &Piece<'_>, touched: Units) -> bool {
        let is_dirty = self.core.table.state(held.slot).has(DIRTY);
        let partial = touched & !self.whole(piece) & !self.core.valid(held.frame);
        let one = |unit: u64| {
            let start = unit * self.unit_bytes;
            self.dirty_inside(piece.page, start, self.unit_bytes).len() >= RANGES_MAX
        };
        is_dirty && (0..Units::BITS).any(|unit| partial >> unit & 1 == 1 && one(u64::from(unit)))
    }

    /// The units of which all bytes are written.
    fn whole(&self, piece: &Piece<'_>) -> Units {
        let end = piece.start + piece.source.len() as u64;
        let first = piece.start.next_multiple_of(self.unit_bytes);
        // Behind the end of the device there are no bytes to be written.
        let last = if piece.page * PAGE + end == self.length_bytes {
            end.next_multiple_of(self.unit_bytes)
        } else {
            end - end % self.unit_bytes
        };
        if first < last {
            self.units(first, last - first)
        } else {
            0
        }
    }

    /// The blocks of valid units of which only a part is written: the first and the last.
    fn partial_blocks(&self, piece: &Piece<'_>, valid: Units) -> [Option<Extent>; 2] {
        let (grain, extent) = (self.grain_bytes, piece.extent());
        [extent.offset, extent.end()].map(|edge| {
            let offset = edge - edge % grain;
            let start = offset % PAGE;
            // The end of a page is a multiple of a block too.
            let is_inside = edge != offset && self.units(start, grain) & !valid == 0;
            let length = grain.min(self.length_bytes - offset);
            is_inside.then_some(Extent { offset, length })
        })
    }

    /// Copies the bytes into the page and notes that they are dirty; `None` when the writer must
    /// be alone in it for that, and is not.
    fn put(
        &self,
        held: &Held,
        piece: &Piece<'_>,
        touched: Units,
        is_alone: bool,
    ) -> Option<Attempt> {
        // Claims are made under this lock: no fetch of these units begins before they are valid,
        // or dirty.
        let flights = self.core.flights(held.frame);
        let valid = self.core.valid(held.frame);
        if !is_alone && touched & valid != 0 {
            return None;
        }
        let missing = touched & !valid;
        let here = flights.get(&held.frame.0).into_iter().flatten();
        if let Some(flight) = { here }.find(|flight| flight.units & missing != 0) {
            return Some(Attempt::Fetching(flight.clone()));
        }
        // Units that are valid stay so, and a fetch that is on its way elsewhere in this page has
        // nothing to do with these.
        let flights = (missing != 0).then_some(flights);
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let start = piece.start as usize;
        assert!(start + piece.source.len() <= PAGE_BYTES);
        let page = self.core.arena.address(held.frame);
        // SAFETY: inside the page, which is held. Writers and write-out are kept out by the lock
        // of its name. Of the units that are not valid nobody has a slice, no fetch is on its
        // way, and none begins under the lock of the flights. If there are valid ones, nobody
        // else has a pin, and nobody gets one, as WRITING is set.
        unsafe {
            let target = page.as_ptr().add(start);
            std::ptr::copy_nonoverlapping(piece.source.as_ptr(), target, piece.source.len());
        }
        let blocks = self.partial_blocks(piece, valid);
        let urgency = self.note_written(held.slot, piece.extent(), blocks);
        let whole = self.whole(piece) & missing;
        if whole != 0 && self.core.validate(held.frame, whole) == self.all_units(piece.page) {
            self.core.table.set(held.slot, FULL);
        }
        drop(flights);
        Some(Attempt::Done(urgency))
    }

    /// Does what the policy wants done after a write.
    fn see_to(self: &Arc<Self>, urgency: Urgency, offset: u64, length: u64) -> Result<()> {
        match urgency {
            Urgency::Later => Ok(()),
            Urgency::Now => {
                // Under the rules of the report the block goes before the next call comes.
                if self.settings.write_rule == Rule::Delayed && self.core.flusher.is_running() {
                    self.core.flusher.wake();
                } else {
                    self.drive();
                }
                Ok(())
            }
            Urgency::Synchronous => {
                let patience = self.settings.write_timeout;
                self.commit_range(Extent { offset, length }, patience)?;
                if self.settings.write_rule.reads_again() {
                    for page in offset / PAGE..(offset + length).div_ceil(PAGE) {
                        self.core.give_up(self.key(page));
                    }
                }
                Ok(())
            }
        }
    }

    fn timed_out_writing(&self, offset: u64) -> Error {
        if self.is_abandoned() {
            return self.abandoned(offset);
        }
        CACHE_WRITE_TIMEOUTS.add(1);
        Error::Device(DeviceError::TimedOut {
            device: self.queue.device().name().to_owned(),
            offset,
            seconds: self.settings.write_timeout.as_secs(),
        })
    }
}

/// When a writer gives up.
#[derive(Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    fn after(time: Duration) -> Self {
        let now = Instant::now();
        Self(
            now.checked_add(time)
                .unwrap_or(now + crate::read::miss::LONG),
        )
    }

    fn left(self) -> Option<Duration> {
        let left = self.0.checked_duration_since(Instant::now());
        left.filter(|left| !left.is_zero())
    }

    fn has_passed(self) -> bool {
        self.left().is_none()
    }
}

fn more_urgent(one: Urgency, other: Urgency) -> Urgency {
    match (one, other) {
        (Urgency::Synchronous, _) | (_, Urgency::Synchronous) => Urgency::Synchronous,
        (Urgency::Now, _) | (_, Urgency::Now) => Urgency::Now,
        _ => Urgency::Later,
    }
}

fn would_block() -> Error {
    CACHE_WRITE_WOULD_BLOCK.add(1);
    Error::WouldBlock
}
