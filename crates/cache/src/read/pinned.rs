//! Pages that are pinned for a caller: while it has one of these, its bytes stay as they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_counters::names::{CACHE_PINNED_PAGES, CACHE_UNPINNED_PAGES};
use pagewell_policy::eviction::FrameIndex;

use crate::PAGE_BYTES;
use crate::page::Part;
use crate::residency::own_pages::OwnPages;
use crate::residency::pages::Pages;
use crate::table::page_table::SlotIndex;

/// Bytes of one page, pinned for as long as this lives and only to be read.
pub struct PinnedPage<'a> {
    pages: &'a Pages,
    pub(crate) slot: SlotIndex,
    pub(crate) frame: FrameIndex,
    start: u32,
    length: u32,
}

impl<'a> PinnedPage<'a> {
    /// Some bytes of a pinned page: where they begin, and how many.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn new(
        pages: &'a Pages,
        slot: SlotIndex,
        frame: FrameIndex,
        (start, length): (u64, usize),
    ) -> Self {
        debug_assert!(start as usize + length <= PAGE_BYTES);
        Self {
            pages,
            slot,
            frame,
            start: start as u32,
            length: length as u32,
        }
    }

    /// Where the bytes begin in the memory of the cache, and so in
    /// [its file](crate::Cache::memory_file).
    #[must_use]
    pub fn memory_offset(&self) -> u64 {
        u64::from(self.frame.0) * PAGE_BYTES as u64 + u64::from(self.start)
    }
}

impl std::ops::Deref for PinnedPage<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let (start, length) = (self.start as usize, self.length as usize);
        let address = self.pages.arena.address(self.frame);
        // SAFETY: inside a page that is pinned, so it stays; these bytes are valid, so no fetch
        // writes to them, and a writer needs to be alone in the page: it sees this pin, and
        // changes a copy instead.
        unsafe { std::slice::from_raw_parts(address.as_ptr().add(start), length) }
    }
}

impl Drop for PinnedPage<'_> {
    fn drop(&mut self) {
        self.pages.table.unpin(self.slot);
    }
}

/// How many pages may be pinned for payloads at a time: the rest is for those that read.
pub(crate) struct PinBudget {
    pages_max: usize,
    pages: AtomicUsize,
}

impl PinBudget {
    /// Half of so many pages.
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            pages_max: frames as usize / 2,
            pages: AtomicUsize::new(0),
        }
    }

    /// Takes so many, or none.
    #[inline]
    pub(crate) fn take(&self, pages: usize) -> bool {
        let before = self.pages.fetch_add(pages, Ordering::Relaxed);
        let fits = before + pages <= self.pages_max;
        if !fits {
            self.give(pages);
        }
        fits
    }

    #[inline]
    pub(crate) fn give(&self, pages: usize) {
        let before = self.pages.fetch_sub(pages, Ordering::Relaxed);
        // Else everything would be refused from now on.
        assert!(before >= pages, "{pages} of {before} pinned pages");
    }
}

/// What the pages that are pinned for one payload need as long as one of them is pinned. All of
/// them share it, and nothing else that other threads use is touched for each page.
pub(crate) struct PinLease {
    own: Arc<OwnPages>,
    budget: Arc<PinBudget>,
    pages: usize,
}

impl PinLease {
    /// For so many pages, if as many may be pinned.
    pub(crate) fn take(
        own: &Arc<OwnPages>,
        budget: &Arc<PinBudget>,
        pages: usize,
    ) -> Option<Arc<Self>> {
        let taken = budget.take(pages);
        taken.then(|| {
            CACHE_PINNED_PAGES.add(pages as u64);
            Arc::new(Self {
                own: own.clone(),
                budget: budget.clone(),
                pages,
            })
        })
    }
}

impl Drop for PinLease {
    fn drop(&mut self) {
        self.budget.give(self.pages);
        CACHE_UNPINNED_PAGES.add(self.pages as u64);
    }
}

/// Bytes of one page, pinned for as long as this lives, anywhere.
pub struct PagePin {
    lease: Arc<PinLease>,
    slot: SlotIndex,
    frame: FrameIndex,
    start: usize,
    length: usize,
}

impl PagePin {
    /// Takes over a pin on a page of which these bytes have been fetched.
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
        let arena = &self.lease.own.pages.arena;
        // SAFETY: the bytes were there when the page was pinned. The page stays in its frame while
        // it is pinned; no fetch writes to bytes that are valid, and a writer needs to be alone in
        // the page: while this pin is there it changes a copy instead.
        unsafe { arena.bytes(self.frame, self.start, self.length) }
    }
}

impl Drop for PagePin {
    fn drop(&mut self) {
        self.lease.own.pages.table.unpin(self.slot);
    }
}
