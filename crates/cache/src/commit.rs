//! Commits: what was written before is durable afterwards, or its writer knows that it is not.
//!
//! ```text
//!   commit ──> tag ──> drive, wait ──> flush, shared by all who wait ──> told
//!               │ all that is dirty now; what comes later does not count
//! ```
//!
//! **Group flush.** A device's flush covers every write that was complete before it. So one who
//! commits flushes, the others wait, and whoever came too late for it is covered by the next one,
//! all together. Which flush a commit needs is decided once: what others write meanwhile cannot
//! make it wait for another. There is none when nothing of the range was written since the last
//! good flush. A single write with nothing else to be made durable goes as a durable write instead
//! ([`crate::write_out`]).
//!
//! **Errors.** A write that fails leaves its bytes dirty, and they are tried again. A commit tries
//! at once, without waiting for the end of the pause, and says what the device said; one that
//! succeeds says so, whatever failed before: nothing was lost. A *flush* that fails is another
//! matter. Any write since the last good flush may be gone, though the device had taken it, and no
//! later flush says more. Every commit that needed this flush, or runs meanwhile, is told, and the
//! loss epoch changes for those who do not commit. What memory still has of those bytes is dirty
//! again, so that a later commit writes it once more and can say with truth that it is durable;
//! what it has not stays lost, and commits of it fail, until it is written anew.
//!
//! **Close.** The last user of a device commits it. What cannot be written then is lost, counted,
//! and said on standard error.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_COMMIT_ERRORS, CACHE_COMMITS, CACHE_FLUSH_ERRORS, CACHE_FLUSHES, CACHE_FLUSHES_SHARED,
    CACHE_WRITE_TIMEOUTS,
};
use pagewell_device::{Error as DeviceError, Issuer, Request};
use pagewell_policy::elevator::Extent;
use pagewell_policy::writeback::TagState;

use crate::cached::CachedDevice;
use crate::dirty::FILE;
use crate::object::Object;
use crate::spans::Spans;
use crate::{Error, PAGE_BYTES, Result};

const PAGE: u64 = PAGE_BYTES as u64;
/// How often a commit looks by itself: the flusher may be busy with another device.
const TICK: Duration = Duration::from_millis(100);

/// The users of a device: when the last has gone, nobody can write any more.
pub(crate) struct Users(pub(crate) Arc<Object>);

impl Drop for Users {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl CachedDevice {
    /// Waits until everything that was written to this range before is durable. What is written
    /// meanwhile does not count. The range may reach past the end.
    ///
    /// # Errors
    /// [`Error::Device`]: not all could be written; it stays in memory and is tried again.
    /// [`Error::Lost`]: a flush failed, and what was written since the one before may be gone.
    pub fn commit(&self, offset: u64, length: u64) -> Result<()> {
        let length = length.min(self.object.length_bytes.saturating_sub(offset));
        self.object.commit_range(Extent { offset, length })
    }

    /// Waits until everything that was written to this range before is at the device, durable or
    /// not. The range may reach past the end.
    pub fn write_out(&self, offset: u64, length: u64) -> Result<()> {
        let length = length.min(self.object.length_bytes.saturating_sub(offset));
        if length == 0 || !self.object.writes.has_started() {
            return Ok(());
        }
        self.object.write_all(Extent { offset, length })
    }

    /// [`Self::commit`] of everything, and gives up what could not be written when the device has
    /// not answered for so long: it is lost. Says how many bytes that were.
    pub fn close_within(&self, patience: Duration) -> u64 {
        let _ = (self.sync(), patience);
        self.abandon()
    }

    /// Gives up at once what is not at the device: it is lost. Says how many bytes that were.
    pub fn abandon(&self) -> u64 {
        self.object.drop_dirty()
    }

    /// [`Self::commit`] of everything.
    pub fn sync(&self) -> Result<()> {
        self.commit(0, self.object.length_bytes)
    }
}

/// A commit that waits.
struct Committing<'a>(&'a Object);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.writes.lock().committers -= 1;
    }
}

/// Ends a flush when the device panics.
struct FlushGuard<'a>(&'a Object);

impl Drop for FlushGuard<'_> {
    fn drop(&mut self) {
        self.0.end_flush(Err(DeviceError::Abandoned { offset: 0 }));
    }
}

impl Object {
    pub(crate) fn commit_range(self: &Arc<Self>, extent: Extent) -> Result<()> {
        if extent.length == 0 || !self.writes.has_started() {
            return Ok(());
        }
        CACHE_COMMITS.add(1);
        let losses = self.writes.losses.load(Ordering::Acquire);
        let written = self.write_all(extent);
        // What could be written is to be durable even when other bytes could not. What is lost is
        // worse than what will be tried again.
        let mut result = self.make_durable(extent).and(written);
        // A flush that somebody else made may have failed after these bytes were written and
        // before they were looked at here.
        if result.is_ok() && self.writes.losses.load(Ordering::Acquire) != losses {
            result = Err(self.lost(self.writes.lock().loss.clone()));
        }
        CACHE_COMMIT_ERRORS.add(u64::from(result.is_err()));
        result
    }

    /// Waits until all that is dirty now is written.
    fn write_all(self: &Arc<Self>, extent: Extent) -> Result<()> {
        let mut dirty = self.writes.lock();
        dirty.committers += 1;
        let _committing = Committing(self);
        let tag = dirty.policy.tag(FILE, extent, self.now());
        let (mut ended, mut since) = (dirty.ended, Instant::now());
        drop(dirty);
        loop {
            self.drive();
            let mut dirty = self.writes.lock();
            match dirty.policy.tag_state(tag) {
                TagState::Written => return Ok(()),
                TagState::Failed => {
                    let (device, offset) = (self.name(), extent.offset);
                    let unknown = || DeviceError::Failed {
                        device,
                        offset,
                        errno: rustix::io::Errno::IO,
                    };
                    return Err(dirty.failure.clone().unwrap_or_else(unknown).into());
                }
                TagState::Pending => {}
            }
            // A slow device is not a dead one.
            if dirty.ended != ended {
                (ended, since) = (dirty.ended, Instant::now());
            }
            if since.elapsed() >= self.settings.write_timeout {
                dirty.abandon(tag);
                return Err(self.no_answer(extent.offset).into());
            }
            drop(self.writes.wait(dirty, TICK));
        }
    }

    /// Flushes, or waits for the flush that covers what was written of the range until now.
    fn make_durable(self: &Arc<Self>, extent: Extent) -> Result<()> {
        let mut dirty = self.writes.lock();
        let needed = dirty.flush_needed(extent);
        let mut is_first = true;
        while let Some(needed) = needed.as_ref().filter(|flush| !flush.has_ended()) {
            if dirty.flushing.is_some() {
                // He who flushes gives up when the device does not answer.
                CACHE_FLUSHES_SHARED.add(u64::from(std::mem::take(&mut is_first)));
                dirty = self.writes.wait(dirty, TICK);
                continue;
            }
            // Nobody flushes, and it has not ended: it is the next one.
            debug_assert!(Arc::ptr_eq(needed, &dirty.next_flush));
            dirty.begin_flush();
            drop(dirty);
            let guard = FlushGuard(self);
            let result = self.flush_device();
            std::mem::forget(guard);
            self.end_flush(result);
            dirty = self.writes.lock();
        }
        match needed.and_then(|flush| flush.failure()) {
            None if !dirty.lost.overlaps(extent) => Ok(()),
            failure => Err(self.lost(failure.or_else(|| dirty.loss.clone()))),
        }
    }

    fn lost(&self, reason: Option<DeviceError>) -> Error {
        Error::Lost {
            device: self.name(),
            reason: reason.unwrap_or(DeviceError::Abandoned { offset: 0 }),
        }
    }

    /// Everybody learns how a flush went.
    fn end_flush(&self, result: Result<(), DeviceError>) {
        let mut dirty = self.writes.lock();
        let Some((flush, mut spans)) = dirty.flushing.take() else {
            return;
        };
        flush.end(result.clone());
        if let Err(error) = result {
            CACHE_FLUSH_ERRORS.add(1);
            // A device tells of an error once: it may have been one of a write that has ended
            // since.
            spans.extend(std::mem::take(&mut dirty.unflushed));
            dirty.loss = Some(error);
            dirty.lost.extend(spans.clone());
            self.writes.losses.fetch_add(1, Ordering::AcqRel);
            drop(dirty);
            self.write_again(spans);
        }
        self.writes.notify();
    }

    /// Makes dirty again, of what a failed flush has lost, what memory still has.
    fn write_again(&self, spans: Spans) {
        for extent in spans.extents() {
            let (mut at, end) = (extent.offset, extent.end().min(self.length_bytes));
            while at < end {
                let (page, start) = (at / PAGE, at % PAGE);
                let length = (PAGE - start).min(end - at);
                let key = self.key(page);
                let _page = self.core.page_locks.lock(key);
                if let Some(found) = self.core.find(key) {
                    let units = self.units(start, length);
                    if self.core.valid(found.frame) & units == units {
                        let offset = at;
                        self.note_written(found.slot, Extent { offset, length }, [None, None]);
                    }
                    self.core.table.unpin(found.slot);
                }
                at += length;
            }
        }
    }

    fn flush_device(self: &Arc<Self>) -> Result<(), DeviceError> {
        CACHE_FLUSHES.add(1);
        let (sender, receiver) = mpsc::sync_channel(1);
        let this = self.clone();
        let flush = Request::flush(Issuer::Flusher, move |outcome| {
            let failure = outcome.result.clone().err();
            // Who waited may have given up: then what was written meanwhile is not known either.
            if sender.send(outcome.result).is_err()
                && let Some(failure) = failure
            {
                this.failed_late(failure);
            }
        });
        self.queue.device().submit(flush);
        match receiver.recv_timeout(self.settings.write_timeout) {
            Ok(result) => result,
            Err(_) => Err(self.no_answer(0)),
        }
    }

    fn failed_late(&self, error: DeviceError) {
        CACHE_FLUSH_ERRORS.add(1);
        let mut dirty = self.writes.lock();
        let unflushed = std::mem::take(&mut dirty.unflushed);
        dirty.lost.extend(unflushed);
        dirty.loss = Some(error);
        self.writes.losses.fetch_add(1, Ordering::AcqRel);
    }

    fn name(&self) -> String {
        self.queue.device().name().to_owned()
    }

    fn no_answer(&self, offset: u64) -> DeviceError {
        CACHE_WRITE_TIMEOUTS.add(1);
        DeviceError::TimedOut {
            device: self.name(),
            offset,
            seconds: self.settings.write_timeout.as_secs(),
        }
    }

    /// Nobody can write any more: commits, and gives up what cannot be written.
    fn close(self: &Arc<Self>) {
        if !self.writes.has_started() {
            return;
        }
        let offset = 0;
        let length = self.length_bytes;
        let committed = self.commit_range(Extent { offset, length });
        let bytes = self.drop_dirty();
        if let Err(error) = committed {
            eprintln!("pagewell: {error}");
        }
        if bytes > 0 {
            eprintln!(
                "pagewell: {}: {bytes} bytes could not be written and are lost",
                self.name()
            );
        }
    }
}
