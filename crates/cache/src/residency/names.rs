//! How a page loses its name while others have it pinned: to a copy, or to nothing.
//!
//! What goes along with the name changes under three locks, so that each of those that look for a
//! page by its name finds it before or after, and never in between:
//!
//! - a thread that adds pages, under that of insertions;
//! - a claim, under that of the fetches into the frame: it comes before, and what it fetches is
//!   lost with the old frame, or sees that there is no name any more;
//! - a thread that takes [`DIRTY`] away, under that of the dirty set.

use pagewell_base::mix::mix;
use pagewell_counters::names::CACHE_PAGES;
use pagewell_policy::eviction::{Arrival, FrameIndex};

use crate::page::Units;
use crate::residency::pages::{Found, Pages};
use crate::table::lines::{AHEAD, DETACHED, DIRTY, FULL, MARKER, PRESENT, State};
use crate::table::page_table::SlotIndex;

/// What goes along with the name.
const MOVED: u64 = DIRTY | AHEAD | MARKER;

/// Bytes of a page in a frame that nobody else knows.
pub(crate) struct PageCopy {
    pub(crate) frame: FrameIndex,
    pub(crate) valid: Units,
    /// All units of the page are.
    pub(crate) is_full: bool,
}

impl Pages {
    /// Gives the name of a page that is being written to its copy, pinned and being written too.
    /// The caller has the lock of the page and its pin; `lock_dirty` takes that of the dirty set.
    /// `None` when there is no slot: then nothing has changed, and the frame of the copy is free.
    pub(crate) fn detach<L>(
        &self,
        key: u64,
        old: (SlotIndex, FrameIndex),
        copy: &PageCopy,
        lock_dirty: impl Fn() -> L,
    ) -> Option<Found> {
        let insertion = self.lock_insertion(key);
        let moved = || self.move_name(key, old, copy, &lock_dirty);
        let slot = moved().or_else(|| {
            self.evict_rivals(key);
            moved()
        });
        drop(insertion);
        let frame = copy.frame;
        let Some(slot) = slot else {
            self.free.push(frame);
            return None;
        };
        CACHE_PAGES.add(1);
        // The name is in the list once more than it was.
        self.objects.page_left(key);
        let mut eviction = self.eviction.lock();
        eviction.removed(old.1);
        eviction.inserted(frame, mix(key), Arrival::Demand);
        drop(eviction);
        let state = State::new(frame, 0);
        Some(Found { slot, state })
    }

    /// Takes the name from a page and gives it to another, or changes nothing.
    fn move_name<L>(
        &self,
        key: u64,
        (slot, frame): (SlotIndex, FrameIndex),
        copy: &PageCopy,
        lock_dirty: &impl Fn() -> L,
    ) -> Option<SlotIndex> {
        let _moving = self.moves.moving();
        let _fetches = self.in_flight.lock(frame);
        let _dirty = lock_dirty();
        self.table.unname(slot);
        let before = self.table.clear(slot, MOVED);
        let mut flags = before.kept() & !(PRESENT | FULL | DETACHED);
        if copy.is_full {
            flags |= FULL;
        }
        let moved = self.insert(key, copy.frame, flags, copy.valid);
        if moved.is_none() {
            self.table.rename(slot);
            self.table.set(slot, before.0 & MOVED);
        }
        moved
    }

    /// Takes the name from a page that is being written. `lock_dirty` takes the lock of the dirty
    /// set and forgets what is dirty of the page.
    pub(crate) fn unname<L>(
        &self,
        key: u64,
        (slot, frame): (SlotIndex, FrameIndex),
        lock_dirty: impl FnOnce() -> L,
    ) {
        let insertion = self.lock_insertion(key);
        let fetches = self.in_flight.lock(frame);
        let dirty = lock_dirty();
        self.table.unname(slot);
        let before = self.table.clear(slot, MOVED);
        drop(dirty);
        drop(fetches);
        drop(insertion);
        self.objects.page_left(key);
        if before.has(AHEAD) {
            self.unread.remove(1);
        }
        self.eviction.lock().removed(frame);
    }
}
