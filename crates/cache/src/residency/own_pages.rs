//! The pages of one device, and pins on them that keep them.

use std::sync::Arc;

use crate::page::Layout;
use crate::residency::pages::{Found, Pages};
use crate::table::page_table::{Pinned, SlotIndex};
use pagewell_policy::eviction::FrameIndex;

/// The pages of one device. They go when the last user of the device and the last pin are gone.
pub(crate) struct OwnPages {
    pub(crate) pages: Arc<Pages>,
    pub(crate) layout: Layout,
}

impl OwnPages {
    /// Takes a pinned page over.
    pub(crate) fn own(self: &Arc<Self>, page: Found) -> OwnedPin {
        OwnedPin {
            own: self.clone(),
            slot: page.slot,
            frame: page.frame(),
        }
    }

    /// Pins a page if it is in memory. The caller has the lock of the page, so that no writer is at
    /// work in it.
    pub(crate) fn pin_locked(self: &Arc<Self>, page: u64) -> Option<OwnedPin> {
        loop {
            match self.pages.table.pin(self.layout.key(page)) {
                Pinned::Yes(slot, state) => return Some(self.own(Found { slot, state })),
                Pinned::Absent => return None,
                // So many readers at this moment.
                Pinned::Refused => std::thread::yield_now(),
            }
        }
    }
}

impl Drop for OwnPages {
    fn drop(&mut self) {
        self.pages.forget(self.layout.number);
    }
}

/// A pin on a page, anywhere and for as long as this lives.
pub(crate) struct OwnedPin {
    own: Arc<OwnPages>,
    pub(crate) slot: SlotIndex,
    pub(crate) frame: FrameIndex,
}

impl OwnedPin {
    /// One more pin on the same page.
    pub(crate) fn again(&self) -> Self {
        self.own.pages.table.pin_again(self.slot);
        Self {
            own: self.own.clone(),
            slot: self.slot,
            frame: self.frame,
        }
    }

    /// One more pin, to be let go of by what gets this.
    pub(crate) fn again_kept(&self) -> (SlotIndex, FrameIndex) {
        self.own.pages.table.pin_again(self.slot);
        (self.slot, self.frame)
    }

    /// Some bytes of the page.
    ///
    /// # Safety
    /// They must have been fetched.
    pub(crate) unsafe fn bytes(&self, start: usize, length: usize) -> &[u8] {
        // SAFETY: the page stays in its frame while it is pinned. No fetch writes to bytes that are
        // valid, and a writer needs to be alone in the page: while this pin is there it changes a
        // copy instead.
        unsafe { self.own.pages.arena.bytes(self.frame, start, length) }
    }
}

impl Drop for OwnedPin {
    fn drop(&mut self) {
        self.own.pages.table.unpin(self.slot);
    }
}
