//! Pages: from the name of one to its frame, and how a page comes and goes.
//!
//! ```text
//! key ──> table ──> state ──> frame ──> arena
//!                     │         ├──> valid: which units have been fetched
//!                  owner <──────┤
//!                               └──> fetches: which units are in flight
//! ```
//!
//! A key is the number of the object and of the page in it. A page comes into the table before its
//! bytes do: `valid` says which units are there, and [`FULL`](crate::table::lines::FULL) that all
//! are. A thread that fetches has a pin until the bytes have come.

use pagewell_base::mix::mix;
use pagewell_counters::names::{CACHE_CONFLICTS, CACHE_PAGES};
use pagewell_policy::eviction::{Arrival, FrameIndex, S3Fifo};
use rustix::io::Errno;

use crate::frame::arena::Arena;
use crate::frame::free_list::FreeList;
use crate::page::Units;
use crate::residency::drop_behind::DropBehind;
use crate::residency::eviction::Detached;
use crate::residency::in_flight::InFlight;
use crate::residency::objects::Objects;
use crate::sync::{AtomicU32, Guard, Moves, Mutex, Ordering, Rank, Shards, Tally};
use crate::table::lines::{AHEAD, State, extent_of};
use crate::table::locality::Locality;
use crate::table::page_table::{PageTable, Pinned, SlotIndex};

/// The memory of a cache and the pages in it, of all objects.
pub(crate) struct Pages {
    pub(crate) arena: Arena,
    pub(crate) table: PageTable,
    pub(crate) locality: Locality,
    pub(crate) in_flight: InFlight,
    pub(crate) objects: Objects,
    pub(crate) free: FreeList,
    pub(super) eviction: Mutex<S3Fifo>,
    pub(super) drop_behind: DropBehind,
    pub(super) detached: Detached,
    pub(super) moves: Moves,
    /// Pages that read-ahead fetched and that nobody has read.
    pub(crate) unread: Tally,
    /// Pages that are pinned for payloads. Apart from what each hit reads.
    pub(super) in_payloads: Box<Tally>,
    owners: Box<[AtomicU32]>,
    valid: Box<[AtomicU32]>,
    insertions: Shards<()>,
    page_locks: Shards<()>,
}

/// A pinned page; the caller that gets it owes an unpin.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) slot: SlotIndex,
    /// Before it was pinned; of a page just made, without a unit.
    pub(crate) state: State,
}

impl Found {
    pub(crate) fn frame(&self) -> FrameIndex {
        self.state.frame()
    }
}

impl Pages {
    /// No page in all frames of an arena.
    pub(crate) fn new(arena: Arena, reader_keeps: bool) -> Result<Self, Errno> {
        let frames = arena.frames;
        let zeros = || (0..frames).map(|_| AtomicU32::new(0)).collect();
        Ok(Self {
            arena,
            table: PageTable::new(frames as usize)?,
            locality: Locality::new(frames),
            in_flight: InFlight::new(),
            objects: Objects::new(),
            free: FreeList::new(frames),
            eviction: Mutex::new(Rank::Leaf, S3Fifo::new(frames)),
            drop_behind: DropBehind::new(frames, reader_keeps),
            detached: Detached::default(),
            moves: Moves::default(),
            unread: Tally::default(),
            in_payloads: Box::default(),
            owners: zeros(),
            valid: zeros(),
            insertions: Shards::new(Rank::Insertion),
            page_locks: Shards::new(Rank::Page),
        })
    }

    pub(crate) fn owner(&self, frame: FrameIndex) -> SlotIndex {
        SlotIndex(self.owners[frame.0 as usize].load(Ordering::Acquire))
    }

    /// Units of a page that have been fetched.
    pub(crate) fn valid(&self, frame: FrameIndex) -> Units {
        self.valid[frame.0 as usize].load(Ordering::Acquire)
    }

    /// Marks units as fetched; those that are now.
    pub(crate) fn validate(&self, frame: FrameIndex, units: Units) -> Units {
        self.valid[frame.0 as usize].fetch_or(units, Ordering::AcqRel) | units
    }

    /// Marks units as not fetched.
    pub(crate) fn invalidate(&self, frame: FrameIndex, units: Units) {
        self.valid[frame.0 as usize].fetch_and(!units, Ordering::AcqRel);
    }

    /// Keeps other writers, and copies for write-back, out of a page.
    pub(crate) fn lock_page(&self, key: u64) -> Guard<'_, ()> {
        self.page_locks.lock(mix(key))
    }

    /// Keeps others from adding a key.
    pub(super) fn lock_insertion(&self, key: u64) -> Guard<'_, ()> {
        self.insertions.lock(mix(extent_of(key).0))
    }

    /// Pins a page that is in the table.
    pub(crate) fn find(&self, key: u64) -> Option<Found> {
        match self.table.pin(key) {
            Pinned::Yes(slot, state) => Some(Found { slot, state }),
            Pinned::Absent | Pinned::Refused => None,
        }
    }

    /// Pins a page, giving it a frame when it has none; `None` when there is no frame now.
    pub(crate) fn find_or_make(&self, key: u64, arrival: Arrival, flags: u64) -> Option<Found> {
        self.find_or_make_in(key, arrival, flags, || self.allocate())
    }

    /// [`Self::find_or_make`] with a frame that comes from elsewhere, if one is needed.
    pub(crate) fn find_or_make_in(
        &self,
        key: u64,
        arrival: Arrival,
        flags: u64,
        frame: impl FnOnce() -> Option<FrameIndex>,
    ) -> Option<Found> {
        if let Some(page) = self.find(key) {
            return Some(page);
        }
        let frame = frame()?;
        // Before a thread can find the page and count it as read.
        let is_ahead = flags & AHEAD != 0;
        self.unread.add(u64::from(is_ahead));
        let made = loop {
            if let Some(made) = self.make(key, frame, arrival, flags) {
                break made;
            }
            // Another thread made it and is writing to it: waits for that, without a lock.
            if let Some(page) = self.find(key) {
                break Some(page);
            }
        };
        match made {
            Some(page) if page.frame() == frame => CACHE_PAGES.add(1),
            _ => {
                self.unread.remove(u64::from(is_ahead));
                self.free.push(frame);
            }
        }
        made
    }

    /// Puts a page into a frame, unless it has one by now: `Some(None)` when there is no slot for
    /// it. `None` when the page is being written: its writer may need the lock that this has.
    fn make(
        &self,
        key: u64,
        frame: FrameIndex,
        arrival: Arrival,
        flags: u64,
    ) -> Option<Option<Found>> {
        // Only one thread at a time may add a key.
        let _insertion = self.lock_insertion(key);
        match self.table.try_pin(key)? {
            Pinned::Yes(slot, state) => return Some(Some(Found { slot, state })),
            Pinned::Refused => return Some(None),
            Pinned::Absent => {}
        }
        let slot = self.insert(key, frame, flags, 0).or_else(|| {
            self.evict_rivals(key);
            self.insert(key, frame, flags, 0)
        });
        Some(slot.map(|slot| {
            // Before the page can be detached.
            self.eviction.lock().inserted(frame, mix(key), arrival);
            self.drop_behind.fetched(key);
            let state = State::new(frame, flags);
            Found { slot, state }
        }))
    }

    /// Puts a page with these valid units into the table, pinned once. The caller has the lock of
    /// insertions.
    pub(super) fn insert(
        &self,
        key: u64,
        frame: FrameIndex,
        flags: u64,
        valid: Units,
    ) -> Option<SlotIndex> {
        self.valid[frame.0 as usize].store(valid, Ordering::Release);
        self.objects.page_comes(key);
        // A thread that looks at every frame finds what is there: the frame knows its page first.
        let own = |slot: SlotIndex| self.owners[frame.0 as usize].store(slot.0, Ordering::Release);
        let Some(slot) = self.table.insert_with(key, frame, flags, own) else {
            self.objects.page_left(key);
            return None;
        };
        self.locality.learn(key, frame);
        Some(slot)
    }

    /// Evicts the pages that stand in the way of a key.
    pub(super) fn evict_rivals(&self, key: u64) {
        CACHE_CONFLICTS.add(1);
        let mut lines = self.table.rivals(key).into_iter();
        lines.any(|line| {
            line.iter()
                .all(|(slot, page)| self.release(*slot, *page, 0))
        });
    }
}
