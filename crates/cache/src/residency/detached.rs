//! Frames of pages that have lost their names and stay for those that have pinned them.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_policy::eviction::FrameIndex;

use crate::sync::Mutex;
use crate::table::page_table::SlotIndex;

/// Detached pages that were pinned when last looked at.
#[derive(Default)]
pub(super) struct Detached {
    frames: Mutex<Vec<(SlotIndex, FrameIndex)>>,
    count: AtomicUsize,
}

impl Detached {
    /// One more.
    pub(super) fn add(&self, slot: SlotIndex, frame: FrameIndex) {
        self.change(|frames| frames.push((slot, frame)));
    }

    /// Forgets those that `free` frees.
    pub(super) fn sweep(&self, free: impl Fn(SlotIndex, FrameIndex) -> bool) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.change(|frames| frames.retain(|(slot, frame)| !free(*slot, *frame)));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(SlotIndex, FrameIndex)>)) {
        let mut frames = self.frames.lock();
        change(&mut frames);
        self.count.store(frames.len(), Ordering::Relaxed);
    }
}
