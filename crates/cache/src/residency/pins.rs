//! Pins: a pinned page keeps its frame and its bytes.

use std::sync::Arc;

use pagewell_counters::names::{CACHE_PINNED_PAGES, CACHE_UNPINNED_PAGES};
use pagewell_device::Object;
use pagewell_policy::eviction::FrameIndex;

use crate::PAGE_BYTES;
use crate::io_queue::Destination;
use crate::page::{Layout, Part};
use crate::residency::pages::{Found, Pages};
use crate::table::{Pinned, SlotIndex};

/// The pages of one object, until its last user and the last pin are gone.
pub(crate) struct OwnPages {
    pages: Arc<Pages>,
    layout: Layout,
    object: Arc<dyn Object>,
}

impl OwnPages {
    pub(crate) fn new(pages: Arc<Pages>, layout: Layout, object: Arc<dyn Object>) -> Self {
        Self {
            pages,
            layout,
            object,
        }
    }

    pub(crate) fn pages(&self) -> &Arc<Pages> {
        &self.pages
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn object(&self) -> &Arc<dyn Object> {
        &self.object
    }

    pub(crate) fn destination(&self) -> Destination {
        Destination {
            number: self.layout.number(),
            length_bytes: self.layout.length_bytes(),
            object: self.object.clone(),
        }
    }

    pub(crate) fn own(self: &Arc<Self>, page: Found) -> OwnedPin {
        OwnedPin {
            own: self.clone(),
            slot: page.slot,
            frame: page.frame(),
        }
    }

    /// The caller has the lock of the page: no writer is at work in it.
    pub(crate) fn pin_locked(self: &Arc<Self>, page: u64) -> Option<OwnedPin> {
        loop {
            match self.pages.table().pin(self.layout.key(page)) {
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
        self.pages.forget(self.layout.number());
    }
}

pub(crate) struct OwnedPin {
    own: Arc<OwnPages>,
    slot: SlotIndex,
    frame: FrameIndex,
}

impl OwnedPin {
    pub(crate) fn slot(&self) -> SlotIndex {
        self.slot
    }

    pub(crate) fn frame(&self) -> FrameIndex {
        self.frame
    }

    pub(crate) fn again(&self) -> Self {
        self.own.pages.table().pin_again(self.slot);
        Self {
            own: self.own.clone(),
            slot: self.slot,
            frame: self.frame,
        }
    }

    /// What gets this has to unpin.
    pub(crate) fn again_kept(&self) -> (SlotIndex, FrameIndex) {
        self.own.pages.table().pin_again(self.slot);
        (self.slot, self.frame)
    }

    /// Some bytes of the page.
    ///
    /// # Safety
    /// They must have been fetched, or written.
    pub(crate) unsafe fn bytes(&self, start: usize, length: usize) -> &[u8] {
        // SAFETY: the page stays in its frame while it is pinned. No fetch writes to bytes that are
        // valid, and a writer needs to be alone in the page: while this pin is there it changes a
        // copy instead.
        unsafe { self.own.pages.arena().bytes(self.frame, start, length) }
    }
}

impl Drop for OwnedPin {
    fn drop(&mut self) {
        self.own.pages.table().unpin(self.slot);
    }
}

/// Bytes of one page, pinned for as long as this lives and only to be read.
pub struct PinnedPage<'a> {
    pages: &'a Pages,
    slot: SlotIndex,
    frame: FrameIndex,
    start: u32,
    length: u32,
}

impl<'a> PinnedPage<'a> {
    pub(crate) fn into_kept(self) -> (SlotIndex, FrameIndex) {
        let page = (self.slot, self.frame);
        std::mem::forget(self);
        page
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn new(pages: &'a Pages, slot: SlotIndex, frame: FrameIndex, part: &Part) -> Self {
        debug_assert!(part.range().end <= PAGE_BYTES);
        Self {
            pages,
            slot,
            frame,
            start: part.start as u32,
            length: part.length as u32,
        }
    }

    /// Where the bytes are in [the memory's file](crate::Cache::memory_file).
    #[must_use]
    pub fn memory_offset(&self) -> u64 {
        u64::from(self.frame.0) * PAGE_BYTES as u64 + u64::from(self.start)
    }
}

impl std::ops::Deref for PinnedPage<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let (start, length) = (self.start as usize, self.length as usize);
        let address = self.pages.arena().address(self.frame);
        // SAFETY: inside a page that is pinned, so it stays; these bytes are valid, so no fetch
        // writes to them, and a writer needs to be alone in the page: it sees this pin, and changes
        // a copy instead.
        unsafe { std::slice::from_raw_parts(address.as_ptr().add(start), length) }
    }
}

impl Drop for PinnedPage<'_> {
    fn drop(&mut self) {
        self.pages.table().unpin(self.slot);
    }
}

/// Of one payload, so that its pages touch nothing else that threads share.
pub(crate) struct PinLease {
    own: Arc<OwnPages>,
    pages: u64,
}

impl PinLease {
    pub(crate) fn take(own: &Arc<OwnPages>, pages: u64) -> Option<Arc<Self>> {
        if !own.pages.pin_for_payload(pages) {
            return None;
        }
        CACHE_PINNED_PAGES.add(pages);
        let own = own.clone();
        Some(Arc::new(Self { own, pages }))
    }
}

impl Drop for PinLease {
    fn drop(&mut self) {
        self.own.pages.unpin_of_payload(self.pages);
        CACHE_UNPINNED_PAGES.add(self.pages);
    }
}

/// Bytes of one page, pinned for as long as this lives, on any thread.
pub struct PagePin {
    lease: Arc<PinLease>,
    slot: SlotIndex,
    frame: FrameIndex,
    start: usize,
    length: usize,
}

impl PagePin {
    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn new(
        lease: &Arc<PinLease>,
        (slot, frame): (SlotIndex, FrameIndex),
        part: &Part,
    ) -> Self {
        Self {
            lease: lease.clone(),
            slot,
            frame,
            start: part.start as usize,
            length: part.length as usize,
        }
    }
}

impl AsRef<[u8]> for PagePin {
    fn as_ref(&self) -> &[u8] {
        let arena = self.lease.own.pages.arena();
        // SAFETY: the bytes were there when the page was pinned. The page stays in its frame while
        // it is pinned; no fetch writes to bytes that are valid, and a writer needs to be alone in
        // the page: while this pin is there it changes a copy instead.
        unsafe { arena.bytes(self.frame, self.start, self.length) }
    }
}

impl Drop for PagePin {
    fn drop(&mut self) {
        self.lease.own.pages.table().unpin(self.slot);
    }
}
