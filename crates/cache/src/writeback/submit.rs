//! The submit loop.
//!
//! ```text
//!   submit ──> choose ──> stage ──> queue (elevator) ──> device ──> ended ──┐
//!     ^          │ a block is not whole: fill it first                      │
//!     └──────────┴──────────────────── something may go now <──────────────┘
//! ```
//!
//! Any thread submits, one at a time for an object, so that what was copied first is queued first;
//! others leave it to that one, for a bounded number of rounds.
//!
//! **Staging.** Bytes are copied under each page's lock, so no part of a write is sent alone. Large
//! buffers are kept, as fresh memory costs more than the copy.
//!
//! **Whole blocks.** Where dirty bytes end inside a block, the write is widened to its ends, after
//! a [fetch](crate::read::claim) of what is not in memory.
//!
//! **Order.** Two writes of one block are never at the device at a time: the elevator, or a request
//! made again, could bring the older one last. No read passes a write: its bytes are in memory, and
//! fills leave them alone.

use std::sync::Arc;

use pagewell_counters::names::{CACHE_STAGED_BYTES, CACHE_STAGING_BYTES, CACHE_WRITE_ERRORS};
use pagewell_device::{Buffer, Error as DeviceError, Issuer, Operation, Segment};
use pagewell_policy::elevator::Extent;
use pagewell_policy::writeback::Write;

use crate::dirty::set::{DirtySet, Postponed};
use crate::io_queue::{IoQueue, Transfer};
use crate::page::{Part, Units, parts};
use crate::read::claim::{Claims, Fetcher, Wanted, gaps};
use crate::residency::in_flight::Fetches;
use crate::residency::pins::OwnPages;
use crate::sync::Mutex;
use crate::writeback::flush::Flushes;

/// Rounds of a thread before the flusher takes over.
const ROUNDS_MAX: u32 = 8;

/// On a panic: lets others submit, and gives back what was chosen.
struct Submitting<'a> {
    dirty: &'a DirtySet,
    chosen: std::vec::IntoIter<Write>,
}

impl Drop for Submitting<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut dirty = self.dirty.lock();
            for write in self.chosen.by_ref() {
                self.dirty.refuse(&mut dirty, write);
            }
            dirty.sends.leave();
            drop(dirty);
            self.dirty.notify();
        }
    }
}

pub(crate) struct Submitter {
    fetcher: Arc<Fetcher>,
    flushes: Arc<Flushes>,
    staging: Arc<Staging>,
}

impl Submitter {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        flushes: Arc<Flushes>,
        staging: Arc<Staging>,
    ) -> Arc<Self> {
        Arc::new(Self {
            fetcher,
            flushes,
            staging,
        })
    }

    pub(crate) fn own(&self) -> &Arc<OwnPages> {
        self.fetcher.own()
    }

    pub(crate) fn dirty(&self) -> &DirtySet {
        self.fetcher.dirty()
    }

    pub(crate) fn queue(&self) -> &Arc<IoQueue> {
        self.fetcher.queue()
    }

    pub(crate) fn flushes(&self) -> &Arc<Flushes> {
        &self.flushes
    }

    pub(crate) fn submit(self: &Arc<Self>) {
        self.flushes.tend();
        if !self.dirty().lock().sends.enter() {
            return;
        }
        let mut guard = Submitting {
            dirty: self.dirty(),
            chosen: Vec::new().into_iter(),
        };
        for round in 1.. {
            let (chosen, is_single) = self.choose();
            guard.chosen = chosen.into_iter();
            for write in guard.chosen.by_ref() {
                self.send(write, is_single);
            }
            let mut dirty = self.dirty().lock();
            let again = dirty.sends.take_again();
            if again && (round < ROUNDS_MAX || !self.dirty().store().flusher().is_running()) {
                continue;
            }
            dirty.sends.leave();
            if self.dirty().is_abandoned() {
                // The thread that closes the device waits for this.
                self.dirty().notify();
            }
            drop(dirty);
            if again {
                self.dirty().store().flusher().wake();
            }
            return;
        }
    }

    /// All that may go now; whether it is a single write for a commit, durable by itself.
    pub(super) fn choose(&self) -> (Vec<Write>, bool) {
        let now = self.dirty().now();
        let mut dirty = self.dirty().lock();
        let dirty = &mut **dirty;
        let mut chosen = Vec::new();
        let postponed = dirty.sends.take_postponed();
        if self.dirty().is_abandoned() {
            for one in postponed {
                self.dirty().refuse(dirty, one.write);
            }
            return (chosen, false);
        }
        for one in postponed {
            if one.fetches.all().any(|(fetch, _)| !fetch.has_ended()) {
                dirty.sends.postpone(one);
                continue;
            }
            // After another thread's failed fetch, this write makes its own.
            let mut ours = one.fetches.ours.iter();
            if let Some(error) = ours.find_map(|fetch| fetch.outcome()?.err()) {
                CACHE_WRITE_ERRORS.add(1);
                dirty.sends.fail(error);
                self.dirty().refuse(dirty, one.write);
                self.dirty().notify();
            } else if dirty.sends.is_at_device(self.blocks_of(&one.write)) {
                dirty.sends.postpone(one);
            } else {
                chosen.push(one.write);
            }
        }
        while let Some(write) = dirty.policy.next(now) {
            chosen.push(write);
        }
        self.dirty().show(dirty);
        let is_alone = dirty.sends.is_empty() && dirty.unflushed.is_settled();
        let is_single = chosen.len() == 1 && dirty.waiting.commits > 0 && is_alone;
        (chosen, is_single)
    }

    fn blocks_of(&self, write: &Write) -> Extent {
        self.own().layout().widened(write.extent)
    }

    pub(super) fn send(self: &Arc<Self>, write: Write, durable: bool) {
        let mut dirty = self.dirty().lock();
        if self.dirty().is_abandoned() {
            self.dirty().refuse(&mut dirty, write);
            return;
        }
        let wide = self.blocks_of(&write);
        if dirty.sends.is_at_device(wide) {
            let fetches = Fetches::default();
            dirty.sends.postpone(Postponed { write, fetches });
            return;
        }
        drop(dirty);
        if wide.length == 0 {
            // Behind the end of an object that was cut short.
            let mut dirty = self.dirty().forget(write.extent);
            return self.dirty().put_back(&mut dirty, write);
        }
        #[allow(clippy::cast_possible_truncation)] // a request is memory that exists
        let length = wide.length as usize;
        let alignment = self.queue().memory_alignment_bytes();
        let mut staged = self.staging.take(length, alignment);
        let missing = self.stage(wide, &mut staged.bytes()[..length]);
        if missing.as_ref().is_some_and(Vec::is_empty) {
            return self.queue_write(write, wide, durable, staged);
        }
        self.staging.give(staged);
        match missing {
            Some(missing) => self.fill_first(write, &missing),
            None => self.dirty().put_back(&mut self.dirty().lock(), write),
        }
    }

    /// Copies a range out of the pages, or says which units must be filled first. `None`: a page
    /// was purged.
    #[allow(clippy::cast_possible_truncation)] // a request is memory that exists
    fn stage(&self, wide: Extent, target: &mut [u8]) -> Option<Vec<(u64, Units)>> {
        let mut missing = Vec::new();
        let end = wide.end().min(self.own().layout().length_bytes());
        for part in parts(wide.offset..end) {
            let done = (part.extent().offset - wide.offset) as usize;
            let target = &mut target[done..done + part.length as usize];
            let units = self.copy_out(&part, target)?;
            if units != 0 {
                missing.push((part.page, units));
            }
        }
        if missing.is_empty() && end > wide.offset {
            target[(end - wide.offset) as usize..].fill(0);
            CACHE_STAGED_BYTES.add(end - wide.offset);
        }
        Some(missing)
    }

    /// The units to be filled first; `None`: the page was purged.
    pub(crate) fn copy_out(&self, part: &Part, target: &mut [u8]) -> Option<Units> {
        let (pages, layout) = (self.own().pages(), self.own().layout());
        let touched = layout.units_of(part);
        let _page = pages.lock_page(layout.key(part.page));
        // Under write-back, so it is there unless it was purged.
        let pin = self.own().pin_locked(part.page)?;
        let unknown = touched & !pages.valid(pin.frame());
        let known = (unknown != 0).then(|| self.dirty().in_page(part));
        let (known, wanted) = (known.unwrap_or_default(), part.range());
        let missing = layout.each(unknown).filter(|(_, unit)| {
            let unit = unit.start.max(wanted.start)..unit.end.min(wanted.end);
            !gaps(unit, &known).is_empty()
        });
        let missing = missing.fold(0, |units, (unit, _)| units | unit);
        if missing == 0 {
            // SAFETY: the page is pinned, and its lock keeps it from being detached. Writers have
            // that lock while they change bytes. Fetches change only units that are not valid; a
            // fill leaves alone what was dirty when it was claimed, and nothing can have become
            // dirty there since.
            let bytes = unsafe { pin.bytes(part.range().start, target.len()) };
            target.copy_from_slice(bytes);
        }
        Some(missing)
    }

    fn queue_write(self: &Arc<Self>, write: Write, wide: Extent, durable: bool, staged: Staged) {
        let mut staged = staged;
        #[allow(clippy::cast_possible_truncation)] // a request is memory that exists
        let segment = staged.segment(wide.length as usize);
        let mut dirty = self.dirty().lock();
        if dirty.policy.is_cut(write.id) {
            // What was copied may be none of its bytes.
            self.dirty().put_back(&mut dirty, write);
            drop(dirty);
            self.staging.give(staged);
            return;
        }
        dirty.sends.begin(wide);
        drop(dirty);
        let this = self.clone();
        let transfer = Transfer {
            destination: self.own().destination(),
            operation: Operation::Write,
            durable,
            extent: wide,
            segments: vec![segment],
            issuer: Issuer::Flusher,
            completion: Box::new(move |transferred, result| {
                this.staging.give(staged);
                this.ended(write, wide, durable, (transferred as u64, result));
            }),
        };
        let id = self.queue().name_request();
        // SAFETY: the memory is the staging buffer's, which its completion owns, and which nothing
        // else knows.
        unsafe { self.queue().submit(vec![(id, transfer)]) };
    }

    fn ended(
        &self,
        write: Write,
        wide: Extent,
        durable: bool,
        (transferred, result): (u64, Result<(), DeviceError>),
    ) {
        // The last block may reach past the end.
        let length_bytes = self.own().layout().length_bytes();
        let needed = wide.end().min(length_bytes).saturating_sub(wide.offset);
        let is_written = transferred >= needed;
        let now = self.dirty().now();
        let mut dirty = self.dirty().lock();
        dirty.sends.end(wide);
        self.dirty().store().note_taken(is_written);
        if !is_written {
            CACHE_WRITE_ERRORS.add(1);
            let error = result.err();
            let short = || self.queue().short(wide.offset);
            let error = error.unwrap_or_else(short);
            self.dirty().store().note_failed(&error);
            dirty.sends.fail(error);
        } else if !durable {
            let (offset, length) = (wide.offset, needed);
            dirty.unflushed.written(Extent { offset, length });
        }
        if is_written && !durable && self.flushes.keeps() {
            dirty.policy.finished_unflushed(write.id, now);
        } else {
            dirty.policy.finished(write.id, is_written, now);
        }
        if !self.dirty().is_abandoned() {
            self.dirty().mark_clean(&dirty, write.extent);
        }
        self.dirty().show(&mut dirty);
        let is_due = dirty.policy.next_at(now).is_some_and(|next| next <= now);
        let is_due = is_due || dirty.sends.has_postponed();
        self.dirty().go_on(dirty, is_due);
    }

    fn fill_first(self: &Arc<Self>, write: Write, missing: &[(u64, Units)]) {
        let mut claims = Claims::default();
        for (page, units) in missing {
            if let Some(found) = self.own().pages().find(self.own().layout().key(*page)) {
                let wanted = Wanted::new(self.own(), found, *page, *units);
                self.fetcher.claim(&wanted, false, false, &mut claims);
            }
        }
        let fetches = claims.fetches();
        let mut dirty = self.dirty().lock();
        if self.dirty().is_abandoned() {
            self.dirty().refuse(&mut dirty, write);
        } else {
            // What was filled meanwhile ends no more.
            if fetches.is_empty() {
                dirty.sends.ask_again();
            }
            dirty.sends.postpone(Postponed { write, fetches });
        }
        drop(dirty);
        self.fetcher.send(claims.ours, Issuer::Flusher);
    }
}

const KEPT_BYTES_MIN: usize = 128 << 10;
const KEPT_BYTES_MAX: usize = 16 << 20;

#[derive(Default)]
pub(crate) struct Staging(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    buffers: Vec<Staged>,
    bytes: usize,
}

pub(crate) struct Staged {
    buffer: Buffer,
    alignment_bytes: usize,
    in_use: Option<InUse>,
}

struct InUse(i64);

impl InUse {
    fn new(length: usize) -> Self {
        let bytes = i64::try_from(length).unwrap_or(i64::MAX);
        CACHE_STAGING_BYTES.add(bytes);
        Self(bytes)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        CACHE_STAGING_BYTES.add(-self.0);
    }
}

impl Staging {
    pub(crate) fn take(&self, length: usize, alignment_bytes: usize) -> Staged {
        let mut kept = self.0.lock();
        let fits = |staged: &Staged| {
            let alignment = staged.alignment_bytes;
            staged.buffer.len() >= length && alignment.is_multiple_of(alignment_bytes)
        };
        let large = length >= KEPT_BYTES_MIN;
        let found = kept.buffers.iter().position(|staged| large && fits(staged));
        if let Some(index) = found {
            let mut staged = kept.buffers.swap_remove(index);
            kept.bytes -= staged.buffer.len();
            staged.in_use = Some(InUse::new(staged.buffer.len()));
            return staged;
        }
        drop(kept);
        let length = if large {
            length.next_power_of_two()
        } else {
            length
        };
        Staged {
            buffer: Buffer::new(length, alignment_bytes),
            alignment_bytes,
            in_use: Some(InUse::new(length)),
        }
    }

    pub(crate) fn give(&self, mut staged: Staged) {
        staged.in_use = None;
        let length = staged.buffer.len();
        let mut kept = self.0.lock();
        if length >= KEPT_BYTES_MIN && kept.bytes + length <= KEPT_BYTES_MAX {
            kept.bytes += length;
            kept.buffers.push(staged);
        }
    }
}

impl Staged {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The caller sees to it that this outlives the request.
    pub(crate) fn segment(&mut self, length: usize) -> Segment {
        assert!(length <= self.buffer.len());
        Segment::new(self.buffer.as_segment().start(), length)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_kept_and_aligned() {
        let staging = Staging::default();
        let mut first = staging.take(200_000, 512);
        let address = first.bytes().as_ptr();
        staging.give(first);
        let address_of_other = staging.take(200_000, 4096).bytes().as_ptr() as usize;
        assert!(address_of_other.is_multiple_of(4096));
        let mut again = staging.take(150_000, 512);
        assert_eq!(again.bytes().as_ptr(), address);
        staging.give(staging.take(4096, 512));
        let kept: Vec<_> = (0..100).map(|_| staging.take(1 << 20, 1)).collect();
        kept.into_iter().for_each(|staged| staging.give(staged));
        assert_eq!(staging.0.lock().bytes, KEPT_BYTES_MAX);
    }
}
