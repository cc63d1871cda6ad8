//! Flushes: one at a time for an object, shared by all that wait.
//!
//! A thread that waits for a flush does what follows its answer; without one, the flusher does.
//! What an ordinary device took may be gone when a flush fails (see [`crate::writeback::commit`]).
//! Of one that [wants it kept](pagewell_device::Device::keeps_until_flush) memory has all until the
//! flush, and a failure costs writing again; the policy says when to flush.
//! **Known weaknesses**, of ordinary devices. A flush given up that is good in the end changes
//! nothing: what memory has not stays lost. A write at the device while a flush fails is trusted
//! when it succeeds, and so is what was read between its write and the failed flush. When 65,536
//! ranges and more are lost, they become one, with the bytes between them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::spans::Spans;
use pagewell_counters::names::{CACHE_FLUSH_ERRORS, CACHE_FLUSHES_SHARED, CACHE_TIMEOUTS};
use pagewell_device::{Error as DeviceError, Issuer, Request};
use pagewell_policy::elevator::Extent;
use pagewell_policy::writeback::Admission;

use crate::dirty::set::{Dirty, DirtySet, Flush, LazyDirty, TICK, abandoned};
use crate::page::{PAGE, Part};
use crate::read::claim::Fetcher;
use crate::residency::pins::OwnPages;
use crate::sync::Guard;
use crate::{Error, Result};

pub(crate) struct Flushes {
    fetcher: Arc<Fetcher>,
    keeps: bool,
    timeout: Duration,
}

impl Flushes {
    pub(crate) fn new(fetcher: Arc<Fetcher>, keeps: bool, timeout: Duration) -> Self {
        Self {
            fetcher,
            keeps,
            timeout,
        }
    }

    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    fn own(&self) -> &Arc<OwnPages> {
        self.fetcher.own()
    }

    fn dirty(&self) -> &DirtySet {
        self.fetcher.dirty()
    }

    /// Waits for the flush that a range needs, until `is_over`, or until it hangs for so long.
    pub(crate) fn make_durable(
        self: &Arc<Self>,
        extent: Extent,
        patience: Duration,
        is_over: impl Fn() -> bool,
    ) -> Result<()> {
        let began = Instant::now();
        let mut dirty = self.dirty().lock();
        let needed = dirty.unflushed.needed(extent);
        let mut is_first = true;
        while let Some(needed) = needed.as_ref().filter(|flush| !flush.has_ended()) {
            if self.dirty().is_abandoned() {
                return Err(abandoned(extent.offset));
            }
            if !dirty.unflushed.is_flushing() {
                is_first = false;
                self.start_flush(dirty);
            } else {
                CACHE_FLUSHES_SHARED.add(u64::from(std::mem::take(&mut is_first)));
                drop(dirty);
            }
            self.settle();
            dirty = self.dirty().lock();
            if needed.has_ended() || dirty.unflushed.has_answer() {
                continue;
            }
            let is_late = began.elapsed() >= patience;
            if is_late && dirty.unflushed.is_flushing_for(patience) || is_over() {
                return Err(self.no_answer(0, patience).into());
            }
            dirty = self.dirty().wait(dirty, TICK);
        }
        match needed.and_then(|flush| flush.failure()) {
            None if !dirty.unflushed.has_lost(extent) => Ok(()),
            failure => Err(self.lost(failure.or_else(|| dirty.unflushed.loss()))),
        }
    }

    /// Flushes though no commit waits, when that is due; ends a flush that was answered.
    pub(crate) fn tend(self: &Arc<Self>) {
        if !self.dirty().has_started() {
            return;
        }
        self.settle();
        let dirty = self.dirty().lock();
        let is_free = !dirty.unflushed.is_flushing() && !self.dirty().is_abandoned();
        let is_much = dirty.unflushed.is_much();
        if is_free && (is_much || dirty.policy.wants_flush(self.dirty().now())) {
            self.start_flush(dirty);
            self.settle();
        }
    }

    fn start_flush(self: &Arc<Self>, mut dirty: Guard<'_, LazyDirty>) {
        let flush = dirty.begin_flush();
        drop(dirty);
        let this = self.clone();
        let request = Request::flush(Issuer::Flusher, move |outcome| {
            this.flush_answered(&flush, outcome.result);
        });
        self.own().object().submit(request);
    }

    fn flush_answered(&self, flush: &Arc<Flush>, answer: Result<(), DeviceError>) {
        let mut dirty = self.dirty().lock();
        let is_waited_for = dirty.waiting.commits > 0;
        if !dirty.unflushed.answered(flush, &answer)
            && let Err(error) = answer
        {
            self.failed_late(&mut dirty, error);
        }
        let is_waited_for = is_waited_for && dirty.unflushed.unrecovered().is_empty();
        drop(dirty);
        self.dirty().notify();
        if !is_waited_for {
            self.dirty().store().flusher().wake();
        }
    }

    /// The device reports an error once, so a flush at the device may be good though what it covers
    /// is lost.
    fn failed_late(&self, dirty: &mut Dirty, error: DeviceError) {
        CACHE_FLUSH_ERRORS.add(1);
        let mut spans = dirty.unflushed.take_written();
        spans.extend(dirty.unflushed.covered());
        self.flush_failed(dirty, spans, error);
        if dirty.unflushed.is_flushing() {
            dirty.policy.flush_goes_on();
        }
    }

    pub(crate) fn replay(&self, error: DeviceError) {
        let mut dirty = self.dirty().lock();
        if dirty.unflushed.is_settled() {
            return;
        }
        self.failed_late(&mut dirty, error);
        self.dirty().show(&mut dirty);
        drop(dirty);
        self.dirty().notify();
        self.dirty().store().flusher().wake();
    }

    /// Ends a flush that is over, and makes lost bytes dirty again, as room allows.
    pub(crate) fn settle(&self) {
        let mut dirty = self.dirty().lock();
        let ended = self.end_flush(&mut dirty);
        let is_lost = !dirty.unflushed.unrecovered().is_empty();
        let has_ended = ended.is_some();
        match ended {
            Some(Err(error @ DeviceError::Replay { .. })) => {
                drop(dirty);
                self.dirty()
                    .store()
                    .replay_others(self.own().layout().number(), &error);
            }
            Some(_) => self.dirty().let_others_go_on(dirty),
            None => drop(dirty),
        }
        let has_changed = is_lost && self.write_again();
        if has_ended || has_changed {
            self.dirty().notify();
        }
    }

    fn end_flush(&self, dirty: &mut Dirty) -> Option<Result<(), DeviceError>> {
        let limit = self.timeout;
        let ended = dirty.unflushed.take_ended(limit)?;
        let late = || Err(self.no_answer(0, limit));
        let answer = ended.answer.unwrap_or_else(late);
        match &answer {
            Ok(()) => {
                for extent in dirty.policy.flush_succeeded() {
                    self.dirty().mark_clean(dirty, extent);
                }
            }
            Err(error) => {
                CACHE_FLUSH_ERRORS.add(1);
                let mut spans = ended.spans;
                // It may have been an error of a write that has ended since.
                spans.extend(dirty.unflushed.take_written());
                self.flush_failed(dirty, spans, error.clone());
            }
        }
        self.dirty().store().note_taken(answer.is_ok());
        ended.flush.end(answer.clone());
        self.dirty().show(dirty);
        Some(answer)
    }

    /// Making bytes dirty again takes locks: that is left to threads that settle.
    fn flush_failed(&self, dirty: &mut Dirty, mut spans: Spans, error: DeviceError) {
        if self.keeps {
            let is_replay = matches!(error, DeviceError::Replay { .. });
            dirty.policy.flush_failed(is_replay, self.dirty().now());
            if is_replay {
                dirty.unflushed.replay();
                return;
            }
        } else {
            // What was written anew goes to the device anyway; on its way it may be lost too.
            for (start, end) in spans.clone().iter() {
                let written = dirty.policy.dirty_in(Extent::of((start, end)));
                let is_at_device = |extent: &Extent| {
                    let blocks = self.own().layout().widened(*extent);
                    dirty.sends.is_at_device(blocks)
                };
                for extent in written.filter(|extent| !is_at_device(extent)) {
                    spans.take(extent.offset, extent.end());
                }
            }
            dirty.unflushed.lose(spans);
        }
        dirty.unflushed.set_loss(error);
        self.dirty().lose();
    }

    /// Makes lost bytes dirty again, below the hard limit; whether it got further.
    fn write_again(&self) -> bool {
        let mut has_changed = false;
        loop {
            let first = self.dirty().lock().unflushed.unrecovered().iter().next();
            if !first.is_some_and(|(start, _)| self.write_page_again(start / PAGE)) {
                return has_changed;
            }
            has_changed = true;
        }
    }

    fn write_page_again(&self, page: u64) -> bool {
        let (pages, layout) = (self.own().pages(), self.own().layout());
        let extent = Part::whole(page).extent();
        let _page = pages.lock_page(layout.key(page));
        let Some(pin) = self.own().pin_locked(page) else {
            self.dirty().lock().unflushed.forget_unrecovered(extent);
            return true;
        };
        // Pauses are for writers.
        let admission = self.dirty().admit(extent, false);
        if !matches!(admission, Admission::Granted | Admission::Paused(_)) {
            return false;
        }
        let mut held = Spans::default();
        for (_, unit) in layout.each(pages.valid(pin.frame())) {
            let [start, end] = [unit.start, unit.end].map(|at| extent.offset + at as u64);
            held.insert(start, end);
        }
        // Units that were fetched meanwhile are none of it any more.
        let dirty = self.dirty().lock();
        let lost = dirty.unflushed.unrecovered();
        let lost = lost.within(extent.offset, extent.end());
        let lost: Vec<_> = lost.collect();
        drop(dirty);
        for (start, end) in lost {
            for span in held.within(start, end) {
                let extent = Extent::of(span);
                self.dirty().note_written(pin.slot(), extent, [None, None]);
            }
            let lost = Extent::of((start, end));
            self.dirty().lock().unflushed.forget_unrecovered(lost);
        }
        true
    }

    pub(crate) fn lost(&self, reason: Option<DeviceError>) -> Error {
        Error::Lost {
            device: self.fetcher.queue().name().to_owned(),
            reason: reason.unwrap_or(DeviceError::Abandoned { offset: 0 }),
        }
    }

    pub(crate) fn no_answer(&self, offset: u64, time: Duration) -> DeviceError {
        CACHE_TIMEOUTS.add(1);
        self.fetcher.queue().timed_out(offset, time)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
