//! Flushes: one at a time for a device, shared by all who wait, begun by them or by nobody.
//!
//! A flush is sent and answered like any request; nobody is held by it. Who waits for it looks for
//! the answer and does what follows; where nobody waits, the flusher does. There are two kinds of
//! devices:
//!
//! - An ordinary one has the bytes. When a flush fails they may be gone, see [`crate::writeback::commit`].
//! - One that [wants them kept](pagewell_device::Device::keeps_until_flush) does not promise
//!   anything before the flush, and memory has all of it until then: a failed flush costs nothing
//!   but writing again. When the device knows why ([`Replay`](DeviceError::Replay)), nobody is
//!   even told. So that memory does not fill up with what is kept, the policy says when to flush
//!   although nobody waits ([`pagewell_policy::writeback`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_FLUSH_ERRORS, CACHE_FLUSHES, CACHE_FLUSHES_SHARED, CACHE_FLUSHES_UNASKED,
    CACHE_REPLAYED_BYTES, CACHE_REPLAYS,
};
use pagewell_device::{Error as DeviceError, Issuer, Request};
use pagewell_policy::elevator::Extent;

use crate::Result;
use crate::dirty::set::{Dirty, Flush};
use crate::dirty::spans::Spans;
use crate::object::Object;
use crate::page::PAGE;
use crate::sync::Guard;
use crate::writeback::commit::TICK;

/// A flush on its way.
pub(crate) struct Flushing {
    pub(crate) flush: Arc<Flush>,
    /// What of it.
    pub(crate) spans: Spans,
    number: u64,
    since: Instant,
    answer: Option<Result<(), DeviceError>>,
}

impl Flushing {
    pub(crate) fn new(flush: Arc<Flush>, spans: Spans, number: u64) -> Self {
        Self {
            flush,
            spans,
            number,
            since: Instant::now(),
            answer: None,
        }
    }

    pub(crate) fn has_answer(&self) -> bool {
        self.answer.is_some()
    }
}

/// Whoever begins a commit waits for the end of this.
struct Recovering<'a>(&'a Object);

impl Drop for Recovering<'_> {
    fn drop(&mut self) {
        self.0.writes.lock().recovering -= 1;
    }
}

impl Object {
    /// Flushes, or waits for the flush that covers what was written of the range until now.
    pub(crate) fn make_durable(self: &Arc<Self>, extent: Extent, patience: Duration) -> Result<()> {
        let began = Instant::now();
        let mut dirty = self.writes.lock();
        let needed = dirty.flush_needed(extent);
        let mut is_first = true;
        while let Some(needed) = needed.as_ref().filter(|flush| !flush.has_ended()) {
            if dirty.closed {
                return Err(self.abandoned(extent.offset));
            }
            if dirty.flushing.is_none() {
                // It has not ended: it is the next one.
                debug_assert!(Arc::ptr_eq(needed, &dirty.next_flush));
                is_first = false;
                self.start_flush(dirty);
            } else {
                // It was begun by somebody else.
                CACHE_FLUSHES_SHARED.add(u64::from(std::mem::take(&mut is_first)));
                drop(dirty);
            }
            self.settle_flush();
            dirty = self.writes.lock();
            if needed.has_ended() || dirty.has_answer() {
                continue;
            }
            // Who has less patience than the device has time.
            let is_old = |flushing: &Flushing| flushing.since.elapsed() >= patience;
            if began.elapsed() >= patience && dirty.flushing.as_ref().is_some_and(is_old) {
                return Err(self.no_answer(0, patience).into());
            }
            dirty = self.writes.wait(dirty, TICK);
        }
        match needed.and_then(|flush| flush.failure()) {
            None if !dirty.lost.overlaps(extent) => Ok(()),
            failure => Err(self.lost(failure.or_else(|| dirty.loss.clone()))),
        }
    }

    /// Flushes when the policy wants it though nobody waits, and ends a flush that was answered.
    pub(crate) fn tend_flush(self: &Arc<Self>) {
        if !self.writes.has_started() {
            return;
        }
        self.settle_flush();
        let dirty = self.writes.lock();
        let is_free = dirty.flushing.is_none() && !dirty.closed;
        if is_free && dirty.policy.wants_flush(self.now()) {
            CACHE_FLUSHES_UNASKED.add(1);
            self.start_flush(dirty);
            // It may have been answered at once.
            self.settle_flush();
        }
    }

    fn start_flush(self: &Arc<Self>, mut dirty: Guard<'_, Dirty>) {
        let number = dirty.begin_flush();
        drop(dirty);
        CACHE_FLUSHES.add(1);
        let this = self.clone();
        let flush = Request::flush(Issuer::Flusher, move |outcome| {
            this.flush_answered(number, outcome.result);
        });
        self.queue.device().submit(flush);
    }

    fn flush_answered(self: &Arc<Self>, number: u64, answer: Result<(), DeviceError>) {
        let mut dirty = self.writes.lock();
        let is_waited_for = dirty.committers > 0;
        match dirty.flushing.as_mut() {
            Some(flushing) if flushing.number == number => flushing.answer = Some(answer),
            _ => {
                if let Err(error) = answer {
                    self.failed_late(&mut dirty, error);
                }
            }
        }
        let is_waited_for = is_waited_for && dirty.unrecovered.is_empty();
        drop(dirty);
        self.writes.notify();
        if !is_waited_for {
            self.core.flusher.wake();
        }
    }

    /// A flush that was given up has failed. Then what was written meanwhile is not known either;
    /// and the device tells of an error once, so a flush that is on its way may be good though what
    /// it was to cover is lost.
    fn failed_late(&self, dirty: &mut Dirty, error: DeviceError) {
        CACHE_FLUSH_ERRORS.add(1);
        let mut spans = std::mem::take(&mut dirty.unflushed);
        let is_flushing = dirty.flushing.is_some();
        if let Some(flushing) = &dirty.flushing {
            spans.extend(flushing.spans.clone());
        }
        self.flush_failed(dirty, spans, error);
        if is_flushing {
            dirty.policy.flush_goes_on();
        }
    }

    /// Ends a flush that was answered, or that was not in time: everybody learns how it went. What
    /// failed flushes have lost is made dirty again.
    pub(crate) fn settle_flush(self: &Arc<Self>) {
        let mut dirty = self.writes.lock();
        let has_ended = self.end_flush(&mut dirty);
        let again = std::mem::take(&mut dirty.unrecovered);
        let is_lost = !again.is_empty();
        dirty.recovering += usize::from(is_lost);
        drop(dirty);
        if is_lost {
            let _recovering = Recovering(self);
            self.write_again(&again);
        }
        if has_ended || is_lost {
            self.writes.notify();
        }
    }

    /// Ends the flush on its way if that is over; whether it is.
    fn end_flush(&self, dirty: &mut Dirty) -> bool {
        let limit = self.settings.write_timeout;
        let answer = dirty.flushing.as_mut().and_then(|flushing| {
            let late = || flushing.since.elapsed() >= limit;
            flushing
                .answer
                .take()
                .or_else(|| late().then(|| Err(self.no_answer(0, limit))))
        });
        let Some(answer) = answer else {
            return false;
        };
        let Some(flushing) = dirty.flushing.take() else {
            return false;
        };
        match &answer {
            Ok(()) => {
                for (_, extent) in dirty.policy.flush_succeeded() {
                    self.mark_clean(dirty, extent);
                }
            }
            Err(error) => {
                CACHE_FLUSH_ERRORS.add(1);
                let mut spans = flushing.spans;
                // A device tells of an error once: it may have been one of a write that has
                // ended since.
                spans.extend(std::mem::take(&mut dirty.unflushed));
                self.flush_failed(dirty, spans, error.clone());
            }
        }
        flushing.flush.end(answer);
        // There may be room.
        dirty.ended += 1;
        dirty.show(self);
        true
    }

    /// A flush that had to cover these bytes has failed. A device may say so at any time, and who
    /// makes them dirty again takes locks that others hold while they wait for it: it is left to
    /// who settles flushes.
    fn flush_failed(&self, dirty: &mut Dirty, spans: Spans, error: DeviceError) {
        if self.keeps {
            let is_replay = matches!(error, DeviceError::Replay { .. });
            let bytes = dirty.policy.flush_failed(is_replay, self.now());
            CACHE_REPLAYED_BYTES.add(bytes);
            if is_replay {
                CACHE_REPLAYS.add(1);
                dirty.replays += 1;
                return;
            }
        } else {
            dirty.lost.extend(spans.clone());
            dirty.unrecovered.extend(spans);
        }
        dirty.loss = Some(error);
        self.writes.losses.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes dirty again, of what a failed flush has lost, what memory still has. What was written
    /// anew or discarded meanwhile is lost no more: of that, memory has other bytes.
    fn write_again(&self, spans: &Spans) {
        for extent in spans.extents() {
            let (mut at, end) = (extent.offset, extent.end().min(self.length_bytes));
            while at < end {
                let (page, start) = (at / PAGE, at % PAGE);
                let length = (PAGE - start).min(end - at);
                self.write_page_again(page, Extent { offset: at, length });
                at += length;
            }
        }
    }

    fn write_page_again(&self, page: u64, part: Extent) {
        let key = self.key(page);
        let _page = self.core.lock_page(key);
        let Some(found) = self.core.find(key) else {
            return;
        };
        let lost = self.writes.lock().lost.within(part);
        for extent in lost {
            let units = self.units(extent.offset - page * PAGE, extent.length);
            if self.core.valid(found.frame) & units == units {
                self.note_written(found.slot, extent, [None, None]);
            }
        }
        self.core.table.unpin(found.slot);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
