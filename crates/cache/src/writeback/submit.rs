//! Write-out: what the policy chooses, on its way to the device.
//!
//! ```text
//!   drive ──> choose ──> stage ──> queue (elevator) ──> device ──> ended ──┐
//!     ^         │ a block is not whole: fill it first                      │
//!     └─────────┴───────────────────── something may go now <─────────────┘
//! ```
//!
//! Whoever has a reason drives: the flusher, a commit, a writer who waits. One thread at a time
//! does so for a device, so that what was copied first is queued first; who comes meanwhile leaves
//! it to that one. It does so for a bounded number of rounds, then the flusher goes on: nobody who
//! commits is held by what others write.
//!
//! **Staging.** The bytes are copied under the lock of each page's name, so nobody sees half of a
//! write. From then on the page can be read and written as before.
//!
//! **Whole blocks.** A device takes whole blocks. Where dirty bytes end inside one, the write is
//! widened to its ends if the rest is in memory, and waits for a [fill](crate::read::fill) if not.
//!
//! **Order.** Two writes of one block are never at the device at the same time: neither the
//! elevator nor a request that is made again after a failure can bring the older one last. And no
//! read passes a write that has not ended: what is dirty or under write-out is in memory, its page
//! cannot go, and fills leave its bytes alone.

use std::sync::Arc;

use pagewell_counters::names::{
    CACHE_DRIVES_HANDED_OVER, CACHE_DURABLE_WRITES, CACHE_STAGED_BYTES, CACHE_WRITE_ERRORS,
    CACHE_WRITE_OUT_FILLS, CACHE_WRITES_POSTPONED,
};
use pagewell_device::{Error as DeviceError, Issuer, Operation};
use pagewell_policy::elevator::Extent;
use pagewell_policy::writeback::{Rule, Write};

use crate::PAGE_BYTES;
use crate::dirty::set::Dirty;
use crate::io_queue::Transfer;
use crate::object::Object;
use crate::page::{PAGE, Units};
use crate::read::claim::Claims;
use crate::read::miss::Wanted;
use crate::residency::in_flight::Flight;
use crate::sync::Guard;
use crate::writeback::staging::Staged;

/// Who drives sends so often what others have brought meanwhile; then it is the flusher's, who sees
/// to other devices in between.
const ROUNDS_MAX: u32 = 8;

/// A write that cannot go yet.
pub(crate) struct Postponed {
    pub(crate) write: Write,
    /// What has to land first, and was asked for because of this write.
    fills: Vec<Arc<Flight>>,
    /// What has to land first, and somebody else asked for.
    joined: Vec<Arc<Flight>>,
}

/// What became of staging.
enum Stage {
    Staged(Staged),
    /// Units of pages that must be filled first.
    Incomplete(Vec<(u64, Units)>),
    /// A page was discarded.
    Gone,
}

/// Lets others drive when something panics, and gives back what was chosen and not sent.
struct Driving<'a> {
    object: &'a Object,
    chosen: std::vec::IntoIter<Write>,
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut dirty = self.object.writes.lock();
            for write in self.chosen.by_ref() {
                self.object.refuse(&mut dirty, write);
            }
            dirty.driving = false;
            drop(dirty);
            self.object.writes.notify();
        }
    }
}

impl Object {
    /// Sends what may go now.
    pub(crate) fn drive(self: &Arc<Self>) {
        self.tend_flush();
        let mut dirty = self.writes.lock();
        if std::mem::replace(&mut dirty.driving, true) {
            dirty.again = true;
            return;
        }
        drop(dirty);
        let mut guard = Driving {
            object: self,
            chosen: Vec::new().into_iter(),
        };
        for round in 1.. {
            let (chosen, is_single) = self.choose();
            guard.chosen = chosen.into_iter();
            // By reference: what is left stays with the guard.
            for write in guard.chosen.by_ref() {
                self.write_out(write, is_single);
            }
            let mut dirty = self.writes.lock();
            let again = std::mem::take(&mut dirty.again);
            if again && (round < ROUNDS_MAX || !self.core.flusher.is_running()) {
                continue;
            }
            dirty.driving = false;
            if dirty.closed {
                // Who closes waits for this.
                self.writes.notify();
            }
            drop(dirty);
            if again {
                CACHE_DRIVES_HANDED_OVER.add(1);
                self.core.flusher.wake();
            }
            return;
        }
    }

    /// Ends a write that will not go to the device.
    fn refuse(&self, dirty: &mut Dirty, write: Write) {
        dirty.ended += 1;
        dirty.policy.finished(write.id, false, self.now());
        dirty.show(self);
    }

    /// A part of a write was discarded before it was sent: what is left is chosen anew.
    fn put_back(&self, dirty: &mut Dirty, write: Write) {
        dirty.policy.put_back(write.id, self.now());
        self.mark_clean(dirty, write.extent);
        dirty.again = true;
        dirty.show(self);
        self.writes.notify();
    }

    /// All that may go now, and whether it is one write that a commit waits for and nothing else
    /// is to be made durable: then it can be so by itself, without a flush.
    pub(crate) fn choose(&self) -> (Vec<Write>, bool) {
        let now = self.now();
        let mut dirty = self.writes.lock();
        let dirty = &mut *dirty;
        let mut chosen = Vec::new();
        if dirty.closed {
            for postponed in std::mem::take(&mut dirty.postponed) {
                self.refuse(dirty, postponed.write);
            }
            return (chosen, false);
        }
        for postponed in std::mem::take(&mut dirty.postponed) {
            // When somebody else's failed, this write has one of its own made.
            let mut is_pending = postponed.joined.iter().any(|fill| !fill.has_landed());
            let outcomes = postponed.fills.iter().map(|fill| fill.outcome());
            let mut failure = None;
            for outcome in outcomes {
                match outcome {
                    Some(Ok(())) => {}
                    Some(Err(error)) => failure = Some(error),
                    None => is_pending = true,
                }
            }
            let is_free = !self.is_flying(dirty, postponed.write.extent);
            match failure {
                Some(error) if !is_pending => {
                    CACHE_WRITE_ERRORS.add(1);
                    dirty.failure = Some(error);
                    self.refuse(dirty, postponed.write);
                    self.writes.notify();
                }
                None if !is_pending && is_free => chosen.push(postponed.write),
                _ => dirty.postponed.push(postponed),
            }
        }
        while let Some(write) = dirty.policy.next(now) {
            chosen.push(write);
        }
        dirty.show(self);
        let is_alone = dirty.flying.is_empty() && dirty.postponed.is_empty();
        let is_settled = dirty.unflushed.is_empty() && dirty.flushing.is_none();
        let is_single = chosen.len() == 1 && dirty.committers > 0 && is_alone && is_settled;
        (chosen, is_single)
    }

    /// Whether a write of a block of a range is at the device.
    fn is_flying(&self, dirty: &Dirty, extent: Extent) -> bool {
        let wide = self.widened(extent);
        let before = dirty.flying.range(..wide.end()).next_back();
        before.is_some_and(|(_, end)| *end > wide.offset)
    }

    /// A range to the ends of its blocks.
    fn widened(&self, extent: Extent) -> Extent {
        let grain = self.grain_bytes;
        let offset = extent.offset - extent.offset % grain;
        let last = self.length_bytes.next_multiple_of(self.block_bytes);
        let end = extent.end().next_multiple_of(grain).min(last);
        let length = end - offset;
        Extent { offset, length }
    }

    /// Sends one write, or puts it off.
    pub(crate) fn write_out(self: &Arc<Self>, write: Write, durable: bool) {
        let mut dirty = self.writes.lock();
        if dirty.closed {
            self.refuse(&mut dirty, write);
            return;
        }
        if self.is_flying(&dirty, write.extent) {
            CACHE_WRITES_POSTPONED.add(1);
            dirty.postponed.push(Postponed {
                write,
                fills: Vec::new(),
                joined: Vec::new(),
            });
            return;
        }
        drop(dirty);
        let wide = self.widened(write.extent);
        match self.stage(wide) {
            Stage::Staged(staged) => self.submit_write(write, wide, durable, staged),
            Stage::Incomplete(missing) => self.fill_first(write, &missing),
            Stage::Gone => self.put_back(&mut self.writes.lock(), write),
        }
    }

    /// Copies a range out of the pages, if all of it is there.
    #[allow(clippy::cast_possible_truncation)] // a request is memory that exists
    fn stage(self: &Arc<Self>, wide: Extent) -> Stage {
        let alignment = self.queue.memory_alignment_bytes();
        let mut staged = self.core.staging.take(wide.length as usize, alignment);
        let mut missing = Vec::new();
        let end = wide.end().min(self.length_bytes);
        let mut at = wide.offset;
        while at < end {
            let (page, start) = (at / PAGE, at % PAGE);
            let length = (PAGE - start).min(end - at);
            let done = (at - wide.offset) as usize;
            let target = &mut staged.bytes()[done..done + length as usize];
            let Some(units) = self.copy_out(page, start, target) else {
                self.core.staging.give(staged);
                return Stage::Gone;
            };
            if units != 0 {
                missing.push((page, units));
            }
            at += length;
        }
        if !missing.is_empty() {
            self.core.staging.give(staged);
            return Stage::Incomplete(missing);
        }
        // The last block reaches past the end.
        let there = (end - wide.offset) as usize;
        staged.bytes()[there..wide.length as usize].fill(0);
        CACHE_STAGED_BYTES.add(end - wide.offset);
        Stage::Staged(staged)
    }

    /// Copies a part of a page, or says which units have bytes that are not there; `None` when the
    /// page was discarded.
    fn copy_out(self: &Arc<Self>, page: u64, start: u64, target: &mut [u8]) -> Option<Units> {
        let key = self.key(page);
        let touched = self.units(start, target.len() as u64);
        let _page = self.core.lock_page(key);
        // A part of it is under write-out, so it is there unless it was discarded. It keeps its
        // place under the lock of its name, and, if it is another page by now, as it is held.
        let held = self.hold_named(page)?;
        let unknown = touched & !self.core.valid(held.frame);
        let end = start + target.len() as u64;
        let is_missing = |unit: u64| {
            let first = (unit * self.unit_bytes).max(start);
            let length = ((unit + 1) * self.unit_bytes).min(end) - first;
            let known = self.dirty_inside(page, first, length);
            known.iter().map(|range| range.len() as u64).sum::<u64>() < length
        };
        let missing = (0..Units::BITS).filter(|unit| unknown >> unit & 1 == 1);
        let missing = missing.filter(|unit| is_missing(u64::from(*unit)));
        let missing = missing.fold(0, |units, unit| units | 1 << unit);
        if missing == 0 {
            #[allow(clippy::cast_possible_truncation)] // inside a page
            let start = start as usize;
            assert!(start + target.len() <= PAGE_BYTES);
            let address = self.core.arena.address(held.frame);
            // SAFETY: inside the page, which is held, and the lock of its name keeps it from being
            // detached. Writers have that lock while they change bytes. Fetches change only units
            // that are not valid; a fill leaves alone what was dirty when it was claimed, and
            // nothing can have become dirty there since.
            unsafe {
                let source = address.as_ptr().add(start);
                std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len());
            }
        }
        Some(missing)
    }

    fn submit_write(self: &Arc<Self>, write: Write, wide: Extent, durable: bool, staged: Staged) {
        let mut staged = staged;
        #[allow(clippy::cast_possible_truncation)] // a request is memory that exists
        let segment = staged.segment(wide.length as usize);
        let mut dirty = self.writes.lock();
        if dirty.policy.is_cut(write.id) {
            // What was copied may be none of its bytes.
            self.put_back(&mut dirty, write);
            drop(dirty);
            self.core.staging.give(staged);
            return;
        }
        CACHE_DURABLE_WRITES.add(u64::from(durable));
        dirty.flying.insert(wide.offset, wide.end());
        drop(dirty);
        let this = self.clone();
        let transfer = Transfer {
            operation: Operation::Write,
            durable,
            extent: wide,
            segments: vec![segment],
            issuer: Issuer::Flusher,
            completion: Box::new(move |transferred, result| {
                this.core.staging.give(staged);
                this.ended(write, wide, durable, (transferred as u64, result));
            }),
        };
        let id = self.queue.name_request();
        // SAFETY: the memory is the staging buffer's, which its completion owns, and which nobody
        // else knows.
        unsafe { self.queue.submit(vec![(id, transfer)]) };
    }

    /// A write has ended.
    fn ended(
        self: &Arc<Self>,
        write: Write,
        wide: Extent,
        durable: bool,
        (transferred, result): (u64, Result<(), DeviceError>),
    ) {
        // The last block may reach past the end.
        let is_written = transferred >= wide.end().min(self.length_bytes) - wide.offset;
        let now = self.now();
        let mut dirty = self.writes.lock();
        dirty.flying.remove(&wide.offset);
        dirty.ended += 1;
        if !is_written {
            CACHE_WRITE_ERRORS.add(1);
            dirty.failure = Some(result.err().unwrap_or_else(|| self.short(wide.offset)));
        } else if !durable {
            dirty.unflushed.insert(wide);
        }
        if is_written && !durable && self.keeps {
            dirty.policy.finished_unflushed(write.id, now);
        } else {
            dirty.policy.finished(write.id, is_written, now);
        }
        dirty.tidy();
        if !dirty.closed {
            self.mark_clean(&dirty, write.extent);
        }
        dirty.show(self);
        let is_due = dirty.policy.next_at(now).is_some_and(|next| next <= now);
        let is_due = is_due || !dirty.postponed.is_empty();
        self.go_on(dirty, is_due);
    }

    /// Whether a write may have to wait for units without a dirty byte: under the rules of the
    /// report it goes from the first dirty byte of a block to the last.
    pub(crate) fn writes_span_clean_bytes(&self) -> bool {
        self.settings.write_rule != Rule::Delayed && self.writes.has_started()
    }

    /// Something that a write may have waited for has landed.
    pub(crate) fn filled(self: &Arc<Self>) {
        let dirty = self.writes.lock();
        let is_due = !dirty.postponed.is_empty();
        self.go_on(dirty, is_due);
    }

    /// Tells those who wait, and has somebody drive if there may be something to send.
    fn go_on(&self, mut dirty: Guard<'_, Dirty>, is_due: bool) {
        let somebody_drives = dirty.driving;
        // He may be just behind the place where he would have seen it.
        dirty.again |= somebody_drives;
        drop(dirty);
        self.writes.notify();
        if is_due && !somebody_drives {
            self.core.flusher.wake();
        }
    }

    /// Has units filled, and the write wait for them.
    fn fill_first(self: &Arc<Self>, write: Write, missing: &[(u64, Units)]) {
        CACHE_WRITE_OUT_FILLS.add(1);
        let mut claims = Claims::default();
        for (page, units) in missing {
            // It may be busy with a writer, or have been given another place: then again later.
            if let Some(found) = self.core.find(self.key(*page)) {
                let wanted = Wanted {
                    page: *page,
                    units: *units,
                    state: found.state,
                    held: self.hold(found),
                };
                self.claim(&wanted, false, false, &mut claims);
            }
        }
        let joined = std::mem::take(&mut claims.joined);
        let fills: Vec<_> = claims.runs.iter().map(|run| run.flight.clone()).collect();
        let mut dirty = self.writes.lock();
        if dirty.closed {
            self.refuse(&mut dirty, write);
        } else {
            // What was filled meanwhile lands no more.
            dirty.again |= fills.is_empty() && joined.is_empty();
            dirty.postponed.push(Postponed {
                write,
                fills,
                joined,
            });
        }
        drop(dirty);
        self.send(claims.runs, Issuer::Flusher);
    }
}
