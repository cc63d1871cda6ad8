//! The writer of an object as its store sees it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_device::Error as DeviceError;

use crate::Result;
use crate::dirty::written::Active;
use crate::writeback::Writer;

impl Active for Writer {
    fn drive(self: Arc<Self>) {
        self.submit();
        self.dirty.retire();
    }

    fn due_at(&self) -> Option<Instant> {
        self.dirty.due_at()
    }

    fn notify(&self) {
        // A thread that has looked, and is about to wait, has the lock.
        drop(self.dirty.lock());
        self.dirty.notify();
    }

    fn replay(&self, error: DeviceError) {
        self.replay_flushes(error);
    }

    fn commit_all(self: Arc<Self>, patience: Option<Duration>) -> Result<()> {
        self.commit_all_within(patience.unwrap_or(self.timeout))
    }

    fn abandon(&self) -> u64 {
        self.dirty.abandon()
    }

    fn dirty_bytes(&self) -> u64 {
        self.dirty.bytes()
    }

    fn has_uncommitted(&self) -> bool {
        let all = self.inside(0, self.own.layout.length_bytes());
        let dirty = self.dirty.lock();
        dirty.policy.is_dirty(all) || dirty.flush_needed(all).is_some()
    }
}
