//! Commits: what was written is durable, or its writer sees an error.
//!
//! ```text
//!   commit ──> tag ──> submit, wait ──> flush, shared by all that wait ──> answered
//!               │ all that is dirty now; what comes later does not count
//! ```
//!
//! **Group flush.** A flush covers every write complete before it; all that wait share it, or the
//! next one. A single write, with nothing else to make durable, is sent as a durable write.
//!
//! **Replay.** A device that wants its writes kept ([`pagewell_device::Device::keeps_until_flush`])
//! may ask for them again. Then the commit writes and flushes again, with pauses.
//!
//! **Errors.** A failed write leaves its bytes dirty, to be tried again; a commit returns the
//! failure. When a *flush* fails, any write since the last good one may be gone, and no later flush
//! says more: commits that needed it, or run meanwhile, fail, and the loss epoch changes. What
//! memory has of those bytes becomes dirty again, as room allows; commits of the rest fail, until
//! it is written anew.
//!
//! **Close.** The last user of a device commits it. What cannot be written then is lost and logged.
//! A store's objects are given up together, when it has taken nothing for too long.
//!
//! **Known weakness.** Of failed writes only the last error is kept: a commit may name that of
//! another range.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_counters::names::CACHE_COMMIT_ERRORS;
use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::Extent;
use pagewell_policy::writeback::{Tag, TagState};
use rustix::io::Errno;

use crate::dirty::set::{DirtySet, Still, TICK, abandoned, close_wait};
use crate::dirty::written::{Active, Closing};
use crate::writeback::flush::Flushes;
use crate::writeback::submit::Submitter;
use crate::{Error, Result};

/// About a minute.
const REPLAYS_MAX: u32 = 64;
const REPLAY_PAUSE: Duration = Duration::from_millis(10);
const REPLAY_DOUBLINGS: u32 = 7;

struct Committing<'a>(&'a DirtySet);

impl<'a> Committing<'a> {
    fn new(dirty: &'a DirtySet) -> Self {
        dirty.lock().waiting.commits += 1;
        Self(dirty)
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting.commits -= 1;
    }
}

struct TagWaiter<'a>(&'a DirtySet);

impl Drop for TagWaiter<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting.others -= 1;
    }
}

pub(crate) struct Commit<'a> {
    submitter: &'a Arc<Submitter>,
    dirty: &'a DirtySet,
    flushes: &'a Arc<Flushes>,
    extent: Extent,
    patience: Duration,
    closing: Option<&'a Closing>,
}

impl<'a> Commit<'a> {
    pub(crate) fn new(
        submitter: &'a Arc<Submitter>,
        extent: Extent,
        closing: Option<&'a Closing>,
    ) -> Self {
        let flushes = submitter.flushes();
        Self {
            submitter,
            dirty: submitter.dirty(),
            flushes,
            extent,
            patience: closing.map_or(flushes.timeout(), Closing::patience),
            closing,
        }
    }

    fn is_idle(&self) -> bool {
        self.extent.length == 0 || !self.dirty.has_started()
    }

    pub(crate) fn write_out(&self) -> Result<()> {
        match self.is_idle() {
            true => Ok(()),
            false => self.write_all(self.extent),
        }
    }

    pub(crate) fn run(&self) -> Result<()> {
        if self.is_idle() {
            return Ok(());
        }
        let extent = self.extent;
        if self.dirty.has_given_up() {
            CACHE_COMMIT_ERRORS.add(1);
            return Err(abandoned(extent.offset));
        }
        let committing = Committing::new(self.dirty);
        let mut result = Ok(());
        for attempt in 0..REPLAYS_MAX {
            result = self.once();
            // The device that says so may be a part of this one.
            let Err(Error::Lost { reason, .. }) = &result else {
                break;
            };
            if !matches!(reason, DeviceError::Replay { .. }) || self.dirty.is_abandoned() {
                break;
            }
            if attempt > 0 {
                self.dirty
                    .rest(REPLAY_PAUSE * 2_u32.pow(attempt.min(REPLAY_DOUBLINGS)));
            }
        }
        drop(committing);
        // What was given up meanwhile looks as if it were written.
        if result.is_ok() && self.dirty.has_given_up() {
            result = Err(abandoned(extent.offset));
        }
        CACHE_COMMIT_ERRORS.add(u64::from(result.is_err()));
        result
    }

    fn once(&self) -> Result<()> {
        let (losses, replays) = self.settled();
        let written = self.write_all(self.extent);
        // Even if bytes could not be written: what is lost is worse.
        let is_over = || self.is_over();
        let durable = self
            .flushes
            .make_durable(self.extent, self.patience, is_over);
        durable.and(written)?;
        let dirty = self.dirty.lock();
        // Another thread's flush may have failed after these bytes were written.
        if losses != Some(self.dirty.losses()) {
            return Err(self.flushes.lost(dirty.unflushed.loss()));
        }
        if dirty.unflushed.replays() != replays {
            let device = self.submitter.queue().name().to_owned();
            return Err(self.flushes.lost(Some(DeviceError::Replay { device })));
        }
        Ok(())
    }

    /// Makes dirty again what memory has of lost bytes; without room, what is dirty is written
    /// first. How often bytes were lost (`None`: this did not end), and replayed.
    fn settled(&self) -> (Option<u64>, u64) {
        let (extent, patience) = (self.extent, self.patience);
        let all = self.submitter.own().layout().all();
        let (mut left, mut least, mut since) = (u64::MAX, u64::MAX, Instant::now());
        loop {
            self.flushes.settle();
            let dirty = self.dirty.lock();
            let losses = self.dirty.losses();
            let unrecovered = dirty.unflushed.unrecovered();
            if !unrecovered.overlaps(extent.offset, extent.end()) {
                return (Some(losses), dirty.unflushed.replays());
            }
            let before = std::mem::replace(&mut left, unrecovered.bytes());
            let replays = dirty.unflushed.replays();
            drop(dirty);
            // As long as it becomes less than ever: new losses might never end.
            if left < least {
                (least, since) = (left, Instant::now());
            } else if since.elapsed() >= patience || self.is_over() {
                return (None, replays);
            }
            let written = self.write_all(all);
            if left >= before {
                if written.is_err() {
                    return (None, replays);
                }
                self.dirty.rest(TICK);
            }
        }
    }

    /// Waits until all that is dirty now is written. While the device takes anything, a commit
    /// gives up only when it stands still and its own request is out for that long.
    fn write_all(&self, extent: Extent) -> Result<()> {
        let patience = self.patience;
        let mut dirty = self.dirty.lock();
        let tag = dirty.policy.tag(extent, self.dirty.now());
        let mut taken = Still::new(self.dirty.store().taken());
        let mut left = Still::new(dirty.policy.tag_left(tag));
        dirty.waiting.others += 1;
        drop(dirty);
        let _waiting = TagWaiter(self.dirty);
        loop {
            self.submitter.submit();
            let mut dirty = self.dirty.lock();
            match dirty.policy.tag_state(tag) {
                TagState::Written => return Ok(()),
                TagState::Failed => {
                    let device = self.submitter.queue().name();
                    let unknown = || DeviceError::failed(device, extent.offset, Errno::IO);
                    return Err(dirty.sends.failure().unwrap_or_else(unknown).into());
                }
                TagState::Pending => {}
            }
            if self.dirty.is_abandoned() {
                dirty.policy.untag(tag);
                self.dirty.let_others_go_on(dirty);
                return Err(abandoned(extent.offset));
            }
            let out_since = dirty.policy.tag_waits_since(tag);
            let out = out_since.map(|since| self.dirty.now().saturating_sub(since));
            let is_hung = out.is_some_and(|out| out >= patience);
            let is_still = left.time(dirty.policy.tag_left(tag)) >= patience;
            let now = self.dirty.store().taken();
            let is_silent = taken.time(now) >= patience || self.is_over();
            if is_silent || is_hung && is_still {
                dirty.policy.untag(tag);
                self.dirty.let_others_go_on(dirty);
                return Err(self.flushes.no_answer(extent.offset, patience).into());
            }
            drop(self.dirty.wait(dirty, TICK));
        }
    }

    fn is_over(&self) -> bool {
        let store = self.dirty.store();
        self.closing.is_some_and(|closing| closing.is_over(store))
    }
}

impl Submitter {
    pub(crate) fn commit(self: &Arc<Self>, offset: u64, length: u64) -> Result<()> {
        let extent = self.own().layout().inside(offset, length);
        Commit::new(self, extent, None).run()
    }

    pub(crate) fn write_out(self: &Arc<Self>, offset: u64, length: u64) -> Result<()> {
        let extent = self.own().layout().inside(offset, length);
        Commit::new(self, extent, None).write_out()
    }

    pub(crate) fn close(self: &Arc<Self>) {
        if !self.dirty().has_started() || self.dirty().is_abandoned() {
            return;
        }
        let bytes = self.close_within(self.flushes().timeout());
        if bytes > 0 {
            let name = self.queue().name();
            tracing::error!(
                name,
                bytes,
                "{name}: {bytes} bytes could not be written and are lost"
            );
        }
    }

    /// Gives up the rest when the store takes nothing for so long; how many bytes.
    pub(crate) fn close_within(self: &Arc<Self>, patience: Duration) -> u64 {
        let closing = Closing::new(self.dirty().store(), patience);
        let committed = Commit::new(self, self.own().layout().all(), Some(&closing)).run();
        let bytes = self.dirty().abandon(close_wait());
        if let Err(error) = committed {
            tracing::error!("{error}");
        }
        bytes
    }
}

impl Active for Submitter {
    fn drive(self: Arc<Self>) {
        self.submit();
        self.dirty().retire();
    }

    fn due_at(&self) -> Option<Instant> {
        self.dirty().due_at()
    }

    fn notify(&self) {
        // A thread that has looked, and is about to wait, has the lock.
        drop(self.dirty().lock());
        self.dirty().notify();
    }

    fn replay(&self, error: DeviceError) {
        self.flushes().replay(error);
    }

    fn hand_out(self: Arc<Self>) -> Tag {
        let all = self.own().layout().all();
        // A single write is durable by itself, as that of a commit.
        let _committing = Committing::new(self.dirty());
        let now = self.dirty().now();
        let tag = self.dirty().lock().policy.tag(all, now);
        self.submit();
        tag
    }

    fn has_ended(&self, tag: Tag) -> bool {
        let mut dirty = self.dirty().lock();
        if dirty.policy.tag_left(tag) != (0, 0) {
            dirty = self.dirty().wait(dirty, TICK);
        }
        let has_ended = dirty.policy.tag_left(tag) == (0, 0);
        if has_ended {
            dirty.policy.untag(tag);
        }
        has_ended
    }

    fn commit_all(self: Arc<Self>, closing: Option<&Closing>) -> Result<()> {
        Commit::new(&self, self.own().layout().all(), closing).run()
    }

    fn abandon(&self, until: Instant) -> u64 {
        self.dirty().abandon(until)
    }

    fn dirty_bytes(&self) -> u64 {
        self.dirty().bytes()
    }

    fn has_uncommitted(&self) -> bool {
        let all = self.own().layout().all();
        let dirty = self.dirty().lock();
        dirty.policy.is_dirty(all) || dirty.unflushed.needed(all).is_some()
    }
}
