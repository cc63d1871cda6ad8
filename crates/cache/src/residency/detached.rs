//! Frames of pages that have lost their names and stay for those that have pinned them.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_counters::names::CACHE_PAGES;
use pagewell_policy::eviction::FrameIndex;

use crate::residency::pages::Pages;
use crate::sync::Mutex;
use crate::table::page_table::SlotIndex;

/// Detached pages that were pinned when last looked at.
#[derive(Default)]
pub(crate) struct Detached {
    frames: Mutex<Vec<(SlotIndex, FrameIndex)>>,
    count: AtomicUsize,
}

impl Pages {
    /// Frees the frames of detached pages that nobody has pinned any more.
    pub(crate) fn sweep(&self) {
        if self.detached.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut frames = self.detached.frames.lock();
        frames.retain(|(slot, frame)| !self.free_detached(*slot, *frame));
        self.detached.count.store(frames.len(), Ordering::Relaxed);
    }

    /// Frees the frame of a detached page, now or when nobody has pinned it any more.
    pub(crate) fn free_when_unpinned(&self, slot: SlotIndex, frame: FrameIndex) {
        if !self.free_detached(slot, frame) {
            let mut frames = self.detached.frames.lock();
            frames.push((slot, frame));
            self.detached.count.store(frames.len(), Ordering::Relaxed);
        }
    }

    fn free_detached(&self, slot: SlotIndex, frame: FrameIndex) -> bool {
        let is_free = self.table.remove_detached(slot, frame);
        if is_free {
            CACHE_PAGES.add(-1);
            self.free.push(frame);
        }
        is_free
    }
}
