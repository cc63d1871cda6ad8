//! Which page goes when another comes, when the frame of one without a name is free, and what
//! read-ahead may bring.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_counters::names::{CACHE_EVICTED_PAGES, CACHE_PAGES};
use pagewell_policy::eviction::{FrameIndex, Frames, STREAM_SHARE};

use crate::page::PAGE;
use crate::residency::pages::Pages;
use crate::sync::Mutex;
use crate::table::lines::{AHEAD, DIRTY, PRESENT, STREAM, State};
use crate::table::page_table::SlotIndex;

/// Pages evicted at a time, so that the lock of the policy is not taken for each.
const EVICTED_AT_ONCE: usize = 8;
/// How often the policy is asked again when it finds no page that can go.
const REFUSALS_MAX: u32 = 8;
/// Memory is short when fewer frames than one of this many are free.
const FREE_SHARE: u32 = 8;

impl Pages {
    /// A frame without a page.
    pub(crate) fn allocate(&self) -> Option<FrameIndex> {
        let taken = self.free.pop().or_else(|| {
            self.sweep();
            self.free.pop()
        });
        taken.or_else(|| {
            self.evict();
            self.free.pop()
        })
    }

    /// Frees the frames of detached pages that nobody has pinned any more.
    pub(crate) fn sweep(&self) {
        self.detached
            .sweep(|slot, frame| self.free_detached(slot, frame));
    }

    /// Frees the frame of a detached page, now or when nobody has pinned it any more.
    pub(crate) fn free_when_unpinned(&self, slot: SlotIndex, frame: FrameIndex) {
        if !self.free_detached(slot, frame) {
            self.detached.add(slot, frame);
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

    /// Evicts some pages.
    fn evict(&self) {
        let mut evicted = Vec::with_capacity(EVICTED_AT_ONCE);
        let mut eviction = self.eviction.lock();
        let mut refusals = 0;
        while evicted.len() < EVICTED_AT_ONCE && refusals < REFUSALS_MAX {
            let Some(frame) = eviction.victim(self) else {
                refusals += 1;
                // The policy looks at some pages and then gives up; others may be free to go.
                if evicted.is_empty() {
                    continue;
                }
                break;
            };
            match self.table.remove(self.owner(frame), frame) {
                Some(page) => evicted.push(page),
                // It was pinned in the last moment.
                None => eviction.put_back(frame),
            }
        }
        drop(eviction);
        CACHE_EVICTED_PAGES.add(evicted.len() as u64);
        // What is freed last is taken first: they come out in the order they went, which is that
        // of their frames when they came in order.
        for (key, state) in evicted.into_iter().rev() {
            self.removed(key, state);
        }
    }

    /// Gives back a page that is not pinned, if all `flags` are set and it was not hit.
    pub(crate) fn release(&self, slot: SlotIndex, frame: FrameIndex, flags: u64) -> bool {
        let state = self.table.state(slot);
        if flags != 0 && (!state.has(flags) || state.heat() > 0) {
            return false;
        }
        let Some((key, state)) = self.table.remove(slot, frame) else {
            return false;
        };
        self.eviction.lock().removed(frame);
        self.removed(key, state);
        true
    }

    /// A page has left the table.
    fn removed(&self, key: u64, state: State) {
        CACHE_PAGES.add(-1);
        self.objects.page_left(key);
        self.free.push(state.frame());
        if state.has(AHEAD) {
            self.unread.remove(1);
            self.objects.wasted(key);
        }
    }

    /// Gives back a page; false when it is pinned, or must be kept.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn give_up(&self, key: u64) -> bool {
        let Some((slot, state)) = self.table.locate(key) else {
            return true;
        };
        self.release(slot, state.frame(), 0)
    }

    /// A stream has left a page behind: gives it back when memory is short, and later when the
    /// reader keeps it.
    pub(crate) fn drop_behind(&self, key: u64) {
        if self.free.len() < self.arena.frames / FREE_SHARE {
            self.release_read(key);
        } else {
            self.drop_behind
                .left_behind(key, |key| self.release_read(key));
        }
    }

    /// Gives back a page that was read once.
    fn release_read(&self, key: u64) -> bool {
        let Some(page) = self.find(key) else {
            return false;
        };
        self.table.unpin(page.slot);
        // Unread pages of another stream keep their frame.
        !page.state.has(AHEAD) && self.release(page.slot, page.frame(), STREAM)
    }

    /// Bytes of read-ahead that may be asked for now: at most an eighth of the cache in flight, and
    /// what is free, and the share of streams, unread. Of more, some would go before it is read.
    pub(crate) fn ahead_budget_bytes(&self) -> u64 {
        let size = self.arena.size_bytes();
        let unread = self.unread.get() * PAGE;
        // Memory that is free costs nothing.
        let free = u64::from(self.free.len()) * PAGE;
        let share = u64::from(self.arena.frames / STREAM_SHARE) * PAGE;
        let in_flight = (size / 8).saturating_sub(self.in_flight.ahead_bytes.get());
        in_flight.min((share + free).saturating_sub(unread))
    }
}

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

/// A cache that ends has lost no frame and nothing is pinned in it: else a thread has memory that
/// is unmapped now.
impl Drop for Pages {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.sweep();
        let (frames, free) = (self.arena.frames, self.free.len());
        let pinned = (0..frames).map(FrameIndex).filter(|frame| {
            let state = self.table.state(self.owner(*frame));
            state.has(PRESENT) && state.frame() == *frame && state.pins() > 0
        });
        assert_eq!(pinned.count(), 0, "pinned, of {frames} frames, {free} free");
    }
}

impl Frames for Pages {
    fn is_evictable(&self, frame: FrameIndex) -> bool {
        let state = self.table.state(self.owner(frame));
        state.has(PRESENT) && state.frame() == frame && state.pins() == 0 && !state.has(DIRTY)
    }

    fn heat(&self, frame: FrameIndex) -> u8 {
        self.table.state(self.owner(frame)).heat()
    }

    fn cool(&self, frame: FrameIndex, heat: u8) {
        let slot = self.owner(frame);
        let state = self.table.state(slot);
        if state.frame() == frame {
            self.table.heat(slot, state, heat);
        }
    }
}
