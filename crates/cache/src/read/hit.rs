//! The hit: bytes that are in memory already, found and copied or pinned.
//!
//! Everything a cached read costs is here and in [`crate::table::page_table`]: a lookup, a pin, at
//! most one copy, a look at the heat. A hit takes no memory and no lock, and waits for one thing
//! only: a writer that is at work in the same page, for as long as it copies its bytes. The first
//! touch of what read-ahead has fetched is noted with its policy, and that takes a lock.

use std::sync::Arc;

use pagewell_policy::eviction::{FrameIndex, HEAT_MAX};
use pagewell_policy::readahead::AccessKind;

use crate::ReadMode;
use crate::layout::Layout;
use crate::page::{PAGE, Part};
use crate::read::pinned::PinnedPage;
use crate::read::prefetch::Prefetcher;
use crate::residency::pages::Pages;
use crate::table::page_table::{Pinned, SlotIndex};
use crate::table::state::{AHEAD, FULL, MARKER, PIN, STREAM, State};

/// Finds bytes of one device that are in memory.
pub(crate) struct Hits {
    pub(crate) pages: Arc<Pages>,
    pub(crate) layout: Layout,
    pub(crate) prefetcher: Arc<Prefetcher>,
}

impl Hits {
    /// The hit: pins bytes of a page that are there.
    pub(crate) fn pin(
        &self,
        page: u64,
        start: u64,
        length: usize,
        mode: &ReadMode,
    ) -> Option<PinnedPage<'_>> {
        let Pinned::Yes(slot, state) = self.pages.table.pin(self.layout.key(page)) else {
            return None;
        };
        self.accept(slot, state, (page, start, length), mode)
    }

    /// [`Self::pin`] for a reader that will read all the bytes at once: asks the processor for them
    /// before the page is found, by a guess, or else before it is pinned.
    #[inline]
    pub(crate) fn pin_to_copy(
        &self,
        page: u64,
        start: u64,
        length: usize,
        mode: &ReadMode,
    ) -> Option<PinnedPage<'_>> {
        let arena = &self.pages.arena;
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let prefetch = |frame| arena.prefetch(frame, start as usize, length);
        let key = self.layout.key(page);
        let guess = self.pages.locality.guess(key);
        guess.into_iter().for_each(prefetch);
        let hint = |state: State| match state.frame() {
            frame if guess == Some(frame) => {}
            frame => prefetch(frame),
        };
        let Pinned::Yes(slot, state) = self.pages.table.pin_with_hint(key, hint) else {
            return None;
        };
        self.accept(slot, state, (page, start, length), mode)
    }

    /// [`Self::pin`] for longer than this call: the pin is to be let go of by what gets this.
    pub(crate) fn pin_kept(&self, part: &Part, mode: &ReadMode) -> Option<(SlotIndex, FrameIndex)> {
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let length = part.length as usize;
        let pinned = self.pin(part.page, part.start, length, mode)?;
        let page = (pinned.slot, pinned.frame);
        std::mem::forget(pinned);
        Some(page)
    }

    /// Takes a pinned page if the bytes are there, else lets go of it.
    #[inline]
    fn accept(
        &self,
        slot: SlotIndex,
        state: State,
        (page, start, length): (u64, u64, usize),
        mode: &ReadMode,
    ) -> Option<PinnedPage<'_>> {
        let pinned = PinnedPage::new(&self.pages, slot, state.frame(), (start, length));
        if state.0 & (FULL | AHEAD | MARKER) != FULL {
            let units = self.layout.units(start, length as u64);
            if !state.has(FULL) && self.pages.valid(state.frame()) & units != units {
                return None;
            }
            let is_marked = state.0 & (AHEAD | MARKER) != 0;
            if is_marked && self.prefetcher.touch(slot, page) {
                let (offset, length) = (page * PAGE + start, length as u64);
                let kind = AccessKind::Marker;
                self.prefetcher.note(offset, length, kind, mode.bounds);
            }
        }
        self.warm(slot, state, start);
        Some(pinned)
    }

    /// Counts a hit for eviction: each one, but of a page that came by a stream only those that
    /// read its first byte again, so that one pass in small steps is not heat.
    #[inline]
    fn warm(&self, slot: SlotIndex, state: State, start: u64) {
        let heat = state.heat();
        if heat >= HEAT_MAX || state.has(STREAM) && (start != 0 || state.has(AHEAD)) {
            return;
        }
        // With our own pin.
        let pinned = State(state.0 + PIN);
        self.pages.table.heat(slot, pinned, heat + 1);
    }
}
