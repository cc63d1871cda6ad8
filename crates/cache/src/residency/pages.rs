//! The parts of a cache and how a place for a page is found.
//!
//! ```text
//! key ──> table ──> state ──> frame ──> arena
//!                     │         ├──> valid: which units have been fetched
//!                  owner <──────┤
//!                               └──> flights: which units are on their way
//! ```
//!
//! A key is the number of the object (a device opened through the cache) and of the page in it.
//! A page comes into the table before its bytes do: `valid` says which units are there, and
//! [`crate::table::state::FULL`] that all are. Whoever fetches holds a pin until the bytes have come.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32 as PlainU32, AtomicU64 as PlainU64, AtomicUsize};
use std::sync::{Arc, Weak};

use pagewell_counters::names::{CACHE_CONFLICTS, CACHE_EVICTED_PAGES, CACHE_PAGES};
use pagewell_policy::eviction::{Arrival, Eviction, FrameIndex, Frames, S3Fifo};

use crate::dirty::quota::Shares;
use crate::flusher::Flusher;
use crate::frame::arena::Arena;
use crate::frame::free_list::FreeList;
use crate::frame::window::Windows;
use crate::object::Object;
use crate::options::{CacheOptions, MappingMode};
use crate::page::{PAGE_BITS, Units, device_of, mix, page_of};
use crate::residency::drop_behind::Passed;
use crate::residency::in_flight::Flight;
use crate::residency::resident::{LISTED, Resident};
use crate::sync::{AtomicU32, Guard, Mutex, Ordering, Rank, Shards};
use crate::table::lines::extent_of;
use crate::table::locality::Guesses;
use crate::table::page_table::{PageTable, Pinned, SlotIndex};
use crate::table::state::{AHEAD, DIRTY, PRESENT, State};
use crate::write::copy_on_write::Orphans;
use crate::writeback::staging::Staging;
use crate::{CreateError, PAGE_BYTES};

/// Pages evicted at a time, so that the lock of the policy is not taken for each.
const EVICTED_AT_ONCE: usize = 8;
/// How often the policy is asked again when it finds no page that can go.
const REFUSALS_MAX: u32 = 8;
const OBJECTS_MASK: u32 = (1 << (64 - PAGE_BITS)) - 1;

/// Flights by frame.
pub(crate) type Flights = HashMap<u32, Vec<Arc<Flight>>>;

/// Everything that objects of one cache share.
pub(crate) struct Core {
    pub(crate) options: CacheOptions,
    pub(crate) arena: Arena,
    pub(crate) table: PageTable,
    pub(crate) guesses: Guesses,
    pub(crate) windows: Option<Windows>,
    pub(crate) free: FreeList,
    eviction: Mutex<Box<dyn Eviction>>,
    owners: Box<[AtomicU32]>,
    valid: Box<[AtomicU32]>,
    insertions: Shards<()>,
    page_locks: Shards<()>,
    pub(crate) orphans: Orphans,
    pub(crate) staging: Staging,
    pub(crate) flusher: Flusher,
    flights: Shards<Flights>,
    /// Bytes of read-ahead on their way.
    pub(crate) ahead_bytes: PlainU64,
    /// Pages that read-ahead fetched and nobody has read.
    unread_pages: PlainU64,
    /// Pages lent to payloads.
    pub(crate) lent_pages: AtomicUsize,
    pub(crate) resident: Resident,
    pub(crate) shares: Shares,
    pub(crate) passed: Passed,
    objects: Mutex<HashMap<u32, Weak<Object>>>,
    next_object: PlainU32,
}

/// A pinned page; whoever gets it owes an unpin.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    pub(crate) slot: SlotIndex,
    pub(crate) frame: FrameIndex,
    /// Before it was pinned; of a page just made, without a unit.
    pub(crate) state: State,
}

/// What a page was when it was evicted.
struct Evicted {
    frame: FrameIndex,
    key: u64,
    state: State,
}

impl Core {
    pub(crate) fn new(options: CacheOptions) -> Result<Self, CreateError> {
        let frames = options.frames()?;
        let (arena, windows) = match options.mapping {
            MappingMode::Direct => (Arena::new(frames, &options)?, None),
            MappingMode::Window { slots } => {
                let arena = Arena::new_in_file(frames)?;
                (arena, Some(Windows::new(slots)?))
            }
        };
        let zeros = || (0..frames).map(|_| AtomicU32::new(0)).collect();
        Ok(Self {
            options,
            arena,
            table: PageTable::new(frames as usize)?,
            guesses: Guesses::new(frames),
            windows,
            free: FreeList::new(frames),
            eviction: Mutex::new(Rank::Leaf, Box::new(S3Fifo::new(frames))),
            owners: zeros(),
            valid: zeros(),
            insertions: Shards::new(Rank::Insertion),
            page_locks: Shards::new(Rank::Page),
            orphans: Orphans::default(),
            staging: Staging::default(),
            flusher: Flusher::default(),
            flights: Shards::new(Rank::InFlight),
            ahead_bytes: PlainU64::new(0),
            unread_pages: PlainU64::new(0),
            lent_pages: AtomicUsize::new(0),
            resident: Resident::default(),
            shares: Shares::default(),
            passed: Passed::new(frames, options.free_behind && options.reader_keeps),
            objects: Mutex::new(Rank::Leaf, HashMap::new()),
            next_object: PlainU32::new(1),
        })
    }

    /// A number for one more object, whose pages are listed or not.
    pub(crate) fn number_object(&self, listed: bool) -> u32 {
        let flag = if listed { LISTED } else { 0 };
        loop {
            let number = self.next_object.fetch_add(1, Ordering::Relaxed);
            let number = number & OBJECTS_MASK & !LISTED | flag;
            if number & !LISTED != 0 && !self.objects.lock().contains_key(&number) {
                return number;
            }
        }
    }

    /// Makes an object known, so that it can be told what became of its pages.
    pub(crate) fn register(&self, object: &Arc<Object>) {
        self.objects
            .lock()
            .insert(object.number, Arc::downgrade(object));
    }

    /// Forgets an object and all its pages that nobody holds.
    pub(crate) fn forget(&self, number: u32) {
        self.objects.lock().remove(&number);
        for index in 0..self.arena.frames() {
            let frame = FrameIndex(index);
            let slot = self.owner(frame);
            // Nobody holds a page of it; a reader who looked for another page in this slot may
            // have a pin for a moment.
            while device_of(self.table.key(slot)) == number
                && self.table.state(slot).has(PRESENT)
                && !self.release(slot, frame, 0)
                && self.table.state(slot).frame() == frame
            {
                std::thread::yield_now();
            }
        }
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

    /// The flights to pages of one shard, locked.
    pub(crate) fn flights(&self, frame: FrameIndex) -> Guard<'_, Flights> {
        self.flights.lock(frame.0.into())
    }

    /// Pins a page that is in the table.
    pub(crate) fn find(&self, key: u64) -> Option<Page> {
        match self.table.pin(key) {
            Pinned::Yes(slot, state) => Some(Page {
                slot,
                frame: state.frame(),
                state,
            }),
            Pinned::Absent | Pinned::Refused => None,
        }
    }

    /// Pins a page, giving it a place when it has none; `None` when there is no place now.
    pub(crate) fn find_or_make(&self, key: u64, arrival: Arrival, flags: u64) -> Option<Page> {
        self.find_or_place(key, arrival, flags, || self.allocate())
    }

    /// [`Self::find_or_make`] with a place that comes from elsewhere, if one is needed.
    pub(crate) fn find_or_place(
        &self,
        key: u64,
        arrival: Arrival,
        flags: u64,
        place: impl FnOnce() -> Option<FrameIndex>,
    ) -> Option<Page> {
        if let Some(page) = self.find(key) {
            return Some(page);
        }
        let frame = place()?;
        // Before anybody can find the page and count it as read.
        let is_ahead = flags & AHEAD != 0;
        self.unread_pages
            .fetch_add(u64::from(is_ahead), Ordering::Relaxed);
        let made = loop {
            if let Some(made) = self.make(key, frame, arrival, flags) {
                break made;
            }
            // Somebody else made it and is writing to it: waits for him, without a lock.
            if let Some(page) = self.find(key) {
                break Some(page);
            }
        };
        match made {
            Some(page) if page.frame == frame => CACHE_PAGES.add(1),
            _ => {
                self.unread_pages
                    .fetch_sub(u64::from(is_ahead), Ordering::Relaxed);
                self.free.push(frame);
            }
        }
        made
    }

    /// Puts a page into a place, unless it has one by now: `Some(None)` when there is none for it.
    /// `None` when the page is being written: its writer may need the lock that this has.
    fn make(
        &self,
        key: u64,
        frame: FrameIndex,
        arrival: Arrival,
        flags: u64,
    ) -> Option<Option<Page>> {
        // Only one thread at a time may add a key.
        let _insertion = self.insertions.lock(mix(extent_of(key).0));
        match self.table.try_pin(key)? {
            Pinned::Yes(slot, state) => {
                let frame = state.frame();
                return Some(Some(Page { slot, frame, state }));
            }
            Pinned::Refused => return Some(None),
            Pinned::Absent => {}
        }
        let slot = self.insert(key, frame, flags, 0).or_else(|| {
            self.make_room(key);
            self.insert(key, frame, flags, 0)
        });
        Some(slot.map(|slot| {
            // Before the page can be detached.
            self.eviction.lock().inserted(frame, mix(key), arrival);
            self.passed.fetched(key);
            let state = State::new(frame, flags);
            Page { slot, frame, state }
        }))
    }

    /// Runs something while nobody else adds a key.
    /// Keeps other writers, and copies for write-back, out of a page.
    pub(crate) fn lock_page(&self, key: u64) -> Guard<'_, ()> {
        self.page_locks.lock(mix(key))
    }

    pub(crate) fn with_insertion<T>(&self, key: u64, work: impl FnOnce() -> T) -> T {
        let _insertion = self.insertions.lock(mix(extent_of(key).0));
        work()
    }

    /// Puts a page with these valid units into the table, pinned once.
    pub(crate) fn insert(
        &self,
        key: u64,
        frame: FrameIndex,
        flags: u64,
        valid: Units,
    ) -> Option<SlotIndex> {
        self.valid[frame.0 as usize].store(valid, Ordering::Release);
        self.list(key);
        // Who looks at every place finds what is there: the place knows its page first.
        let own = |slot: SlotIndex| self.owners[frame.0 as usize].store(slot.0, Ordering::Release);
        let Some(slot) = self.table.insert_with(key, frame, flags, own) else {
            self.unlist(key);
            return None;
        };
        self.guesses.learn(key, frame);
        Some(slot)
    }

    /// Evicts the pages that stand in the way of a key.
    pub(crate) fn make_room(&self, key: u64) {
        CACHE_CONFLICTS.add(1);
        let mut lines = self.table.rivals(key).into_iter();
        lines.any(|line| {
            line.iter()
                .all(|(slot, page)| self.release(*slot, *page, 0))
        });
    }

    /// A place has lost its page.
    pub(crate) fn retire(&self, frame: FrameIndex) {
        self.eviction.lock().removed(frame);
    }

    /// A page has moved to another place.
    pub(crate) fn exchange(&self, old: FrameIndex, new: FrameIndex, key: u64) {
        let mut eviction = self.eviction.lock();
        eviction.removed(old);
        eviction.inserted(new, mix(key), Arrival::Demand);
    }

    /// A place without a page.
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

    /// Gives back a place that got no page.
    pub(crate) fn give_back(&self, frame: FrameIndex) {
        self.free.push(frame);
    }

    /// Evicts some pages.
    fn evict(&self) {
        let mut evicted = Vec::with_capacity(EVICTED_AT_ONCE);
        let mut eviction = self.eviction.lock();
        let view = View(self);
        let mut refusals = 0;
        while evicted.len() < EVICTED_AT_ONCE && refusals < REFUSALS_MAX {
            let Some(frame) = eviction.victim(&view) else {
                refusals += 1;
                // The policy looks at some pages and then gives up; others may be free to go.
                if evicted.is_empty() {
                    continue;
                }
                break;
            };
            match self.table.remove(self.owner(frame), frame) {
                Some((key, state)) => evicted.push(Evicted { frame, key, state }),
                // Somebody took hold of it in the last moment.
                None => eviction.inserted(frame, mix(u64::from(frame.0)), Arrival::Demand),
            }
        }
        drop(eviction);
        CACHE_EVICTED_PAGES.add(evicted.len() as u64);
        // What is freed last is taken first: they come out in the order they went, which is that
        // of their places when they came in order.
        for page in evicted.into_iter().rev() {
            CACHE_PAGES.add(-1);
            self.unlist(page.key);
            self.free.push(page.frame);
            self.tell_wasted(page.key, page.state);
        }
    }

    fn tell_wasted(&self, key: u64, state: State) {
        if !state.has(AHEAD) {
            return;
        }
        self.count_read();
        let object = self.objects.lock().get(&device_of(key)).cloned();
        if let Some(object) = object.and_then(|object| object.upgrade()) {
            object.wasted(page_of(key));
        }
    }

    /// Gives back a page that nobody holds, if all `flags` are set and it was not hit.
    pub(crate) fn release(&self, slot: SlotIndex, frame: FrameIndex, flags: u64) -> bool {
        let state = self.table.state(slot);
        if flags != 0 && (!state.has(flags) || state.heat() > 0) {
            return false;
        }
        let Some((key, state)) = self.table.remove(slot, frame) else {
            return false;
        };
        self.eviction.lock().removed(frame);
        CACHE_PAGES.add(-1);
        self.unlist(key);
        self.free.push(frame);
        self.tell_wasted(key, state);
        true
    }

    /// Gives back a page; false when somebody holds it, or it must be kept.
    pub(crate) fn give_up(&self, key: u64) -> bool {
        let Some((slot, state)) = self.table.locate(key) else {
            return true;
        };
        self.release(slot, state.frame(), 0)
    }

    /// A page that read-ahead fetched was read, or is gone.
    pub(crate) fn count_read(&self) {
        self.unread_pages.fetch_sub(1, Ordering::Relaxed);
    }

    /// Bytes of read-ahead that may be asked for now: at most an eighth of the cache on its way,
    /// and a quarter of it, and what is free, unread.
    pub(crate) fn ahead_budget_bytes(&self) -> u64 {
        let size = u64::from(self.arena.frames()) * PAGE_BYTES as u64;
        let flying = self.ahead_bytes.load(Ordering::Relaxed);
        let unread = self.unread_pages.load(Ordering::Relaxed) * PAGE_BYTES as u64;
        // Memory that is free costs nothing.
        let free = u64::from(self.free.len()) * PAGE_BYTES as u64;
        let room = (size / 8).saturating_sub(flying);
        room.min((size / 4 + free).saturating_sub(unread))
    }

    /// Most memory of pages with something dirty, of one device.
    pub(crate) fn dirty_bytes_max(&self, wanted: Option<u64>) -> u64 {
        let size = u64::from(self.arena.frames()) * PAGE_BYTES as u64;
        let wanted = wanted.unwrap_or(size / 5);
        wanted.clamp(PAGE_BYTES as u64, size / 2)
    }

    /// Most memory of pages with something dirty, of all devices together.
    pub(crate) fn all_dirty_bytes_max(&self) -> u64 {
        u64::from(self.arena.frames()) * PAGE_BYTES as u64 / 2
    }
}

struct View<'a>(&'a Core);

impl Frames for View<'_> {
    fn is_evictable(&self, frame: FrameIndex) -> bool {
        let state = self.0.table.state(self.0.owner(frame));
        state.has(PRESENT) && state.frame() == frame && state.pins() == 0 && !state.has(DIRTY)
    }

    fn heat(&self, frame: FrameIndex) -> u8 {
        self.0.table.state(self.0.owner(frame)).heat()
    }

    fn cool(&self, frame: FrameIndex, heat: u8) {
        let slot = self.0.owner(frame);
        let state = self.0.table.state(slot);
        if state.frame() == frame {
            self.0.table.heat(slot, state, heat);
        }
    }
}
