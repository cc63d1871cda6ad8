//! Pages that are lent: while somebody has one of these, its bytes stay as they are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pagewell_counters::names::CACHE_RETURNED_PAGES;
use pagewell_policy::eviction::FrameIndex;

use crate::PAGE_BYTES;
use crate::object::Held;
use crate::residency::pages::Core;
use crate::table::page_table::SlotIndex;

/// Bytes of one page, lent for as long as this lives and only to be read.
pub struct PinnedPage<'a> {
    core: &'a Core,
    pub(crate) slot: SlotIndex,
    pub(crate) frame: FrameIndex,
    pub(crate) start: u32,
    length: u32,
}

impl<'a> PinnedPage<'a> {
    /// Some bytes of a pinned page: where they begin, and how many.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn new(
        core: &'a Core,
        slot: SlotIndex,
        frame: FrameIndex,
        (start, length): (u64, usize),
    ) -> Self {
        debug_assert!(start as usize + length <= PAGE_BYTES);
        Self {
            core,
            slot,
            frame,
            start: start as u32,
            length: length as u32,
        }
    }
}

impl std::ops::Deref for PinnedPage<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let address = self.core.arena.address(self.frame);
        // SAFETY: inside a page that is pinned, so it stays; these bytes are valid, so no fetch
        // writes to them, and a writer needs to be alone in the page: he sees this pin, and
        // changes a copy instead (`copy_on_write.rs`).
        unsafe {
            std::slice::from_raw_parts(
                address.as_ptr().add(self.start as usize),
                self.length as usize,
            )
        }
    }
}

impl Drop for PinnedPage<'_> {
    fn drop(&mut self) {
        self.core.table.unpin(self.slot);
    }
}

/// Bytes of one page, lent for as long as this lives, anywhere.
pub struct LentPage {
    pub(crate) held: Held,
    pub(crate) core: Arc<Core>,
    pub(crate) start: usize,
    pub(crate) length: usize,
}

impl AsRef<[u8]> for LentPage {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the bytes were there when the page was lent, and stay while it is held.
        unsafe { self.held.bytes(self.start, self.length) }
    }
}

impl Drop for LentPage {
    fn drop(&mut self) {
        self.core.lent_pages.fetch_sub(1, Ordering::Relaxed);
        CACHE_RETURNED_PAGES.add(1);
    }
}
