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
//! bytes: `valid` says which units are there, [`FULL`] that all are. A fetch has a pin until the
//! bytes have come.
//!
//! What goes along with a page's name changes under three locks, so that the page is found before
//! or after: that of insertions, for threads that add pages; that of fetches into the frame, for
//! claims; and that of the dirty set, for threads that take [`DIRTY`] away.
//!
//! # Objects
//!
//! **Problem.** To find a range's pages in the table costs its length, or the cache's size. A
//! client that purges 50,000 small files can afford neither.
//!
//! **Rule.** An object that is one of many lists its pages (its number says so). A page is counted
//! from before it comes into the table until after it has left: its name may be given anew in
//! between. A device alone in its store, seldom purged, has no list: every frame is looked at,
//! while no page changes its frame. The number free for longest is given out first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};

use pagewell_base::mix::mix;
use pagewell_counters::names::{
    CACHE_AHEAD_WASTED_BYTES, CACHE_CONFLICTS, CACHE_EVICTED_PAGES, CACHE_PAGES,
};
use pagewell_policy::eviction::{Arrival, FrameIndex, Frames, STREAM_SHARE};
use pagewell_policy::readahead::{Adaptive, Feedback};
use rustix::io::Errno;

use crate::frame::{Arena, FreeList};
use crate::page::{PAGE, Units, key_of, object_of, page_of};
use crate::residency::eviction::Evictor;
use crate::residency::in_flight::InFlight;
use crate::sync::{AtomicU32, Guard, Moves, Mutex, Ordering, Rank, Shards, Tally};
use crate::table::{
    AHEAD, DETACHED, DIRTY, FULL, MARKER, PRESENT, PageTable, Pinned, STREAM, SlotIndex, State,
    extent_of,
};

pub(crate) struct Pages {
    arena: Arena,
    table: PageTable,
    in_flight: InFlight,
    objects: Objects,
    free: FreeList,
    evictor: Evictor,
    moves: Moves,
    /// Pages that streams fetched, and no reader has asked for.
    unread: Tally,
    /// The same of pages that came along with others.
    along: Tally,
    /// Pages pinned for payloads; apart from what each hit reads.
    in_payloads: Box<Tally>,
    owners: Box<[AtomicU32]>,
    valid: Box<[AtomicU32]>,
    insertions: Shards<()>,
    page_locks: Shards<()>,
}

/// Memory is short when a smaller part is free.
const FREE_SHARE: u32 = 8;

/// A pinned page; the caller that gets it owes an unpin.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub slot: SlotIndex,
    /// Before it was pinned; of a page just made, without a unit.
    pub state: State,
}

impl Found {
    pub(crate) fn frame(&self) -> FrameIndex {
        self.state.frame()
    }
}

const MOVED: u64 = DIRTY | AHEAD | MARKER;

pub(crate) struct PageCopy {
    pub frame: FrameIndex,
    pub valid: Units,
    pub is_full: bool,
}

impl Pages {
    pub(crate) fn new(arena: Arena, reader_keeps: bool) -> Result<Self, Errno> {
        let frames = arena.frames();
        let zeros = || (0..frames).map(|_| AtomicU32::new(0)).collect();
        Ok(Self {
            arena,
            table: PageTable::new(frames as usize)?,
            in_flight: InFlight::new(),
            objects: Objects::new(),
            free: FreeList::new(frames),
            evictor: Evictor::new(frames, reader_keeps),
            moves: Moves::default(),
            unread: Tally::default(),
            along: Tally::default(),
            in_payloads: Box::default(),
            owners: zeros(),
            valid: zeros(),
            insertions: Shards::new(Rank::Insertion),
            page_locks: Shards::new(Rank::Page),
        })
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    #[inline]
    pub(crate) fn table(&self) -> &PageTable {
        &self.table
    }

    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    pub(crate) fn add_object(&self, streams: &Arc<Streams>, is_listed: bool) -> u32 {
        self.objects.add(streams, is_listed)
    }

    pub(crate) fn no_longer_ahead(&self, before: State) {
        self.unread_of(before.flags(STREAM)).remove(1);
    }

    /// Where a page fetched ahead is counted.
    fn unread_of(&self, flags: u64) -> &Tally {
        match flags & STREAM {
            0 => &self.along,
            _ => &self.unread,
        }
    }

    /// At most half of all pages: the rest is for readers.
    pub(super) fn pin_for_payload(&self, pages: u64) -> bool {
        let is_granted = self.in_payloads.add(pages) <= u64::from(self.arena.frames() / 2);
        if !is_granted {
            self.in_payloads.remove(pages);
        }
        is_granted
    }

    pub(super) fn unpin_of_payload(&self, pages: u64) {
        self.in_payloads.remove(pages);
    }

    pub(crate) fn give_back(&self, frame: FrameIndex) {
        self.free.push(frame);
    }

    fn owner(&self, frame: FrameIndex) -> SlotIndex {
        SlotIndex::of(self.owners[frame.0 as usize].load(Ordering::Acquire))
    }

    pub(crate) fn valid(&self, frame: FrameIndex) -> Units {
        self.valid[frame.0 as usize].load(Ordering::Acquire)
    }

    pub(crate) fn validate(&self, frame: FrameIndex, units: Units) -> Units {
        self.valid[frame.0 as usize].fetch_or(units, Ordering::AcqRel) | units
    }

    pub(crate) fn invalidate(&self, frame: FrameIndex, units: Units) {
        self.valid[frame.0 as usize].fetch_and(!units, Ordering::AcqRel);
    }

    pub(crate) fn lock_page(&self, key: u64) -> Guard<'_, ()> {
        self.page_locks.lock(mix(key))
    }

    pub(super) fn lock_insertion(&self, key: u64) -> Guard<'_, ()> {
        self.insertions.lock(mix(extent_of(key).0))
    }

    pub(crate) fn find(&self, key: u64) -> Option<Found> {
        match self.table.pin(key) {
            Pinned::Yes(slot, state) => Some(Found { slot, state }),
            Pinned::Absent | Pinned::Refused => None,
        }
    }

    pub(crate) fn find_or_make(&self, key: u64, arrival: Arrival, flags: u64) -> Option<Found> {
        self.find_or_make_in(key, arrival, flags, || self.allocate())
    }

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
        self.unread_of(flags).add(u64::from(is_ahead));
        let made = loop {
            if let Some(made) = self.make(key, frame, arrival, flags) {
                break made;
            }
            // Another thread is writing to it: waits without a lock.
            if let Some(page) = self.find(key) {
                break Some(page);
            }
        };
        match made {
            Some(page) if page.frame() == frame => CACHE_PAGES.add(1),
            _ => {
                self.unread_of(flags).remove(u64::from(is_ahead));
                self.free.push(frame);
            }
        }
        made
    }

    /// `Some(None)`: there is no slot. `None`: the page is being written, and its writer may need
    /// the insertion lock.
    fn make(
        &self,
        key: u64,
        frame: FrameIndex,
        arrival: Arrival,
        flags: u64,
    ) -> Option<Option<Found>> {
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
            self.evictor.inserted(frame, key, arrival);
            let state = State::new(frame, flags);
            Found { slot, state }
        }))
    }

    /// The page is pinned once. The caller has the lock of insertions.
    pub(super) fn insert(
        &self,
        key: u64,
        frame: FrameIndex,
        flags: u64,
        valid: Units,
    ) -> Option<SlotIndex> {
        self.valid[frame.0 as usize].store(valid, Ordering::Release);
        self.objects.page_comes(key);
        // First the frame knows its page, for threads that look at every frame.
        let own =
            |slot: SlotIndex| self.owners[frame.0 as usize].store(slot.number(), Ordering::Release);
        let Some(slot) = self.table.insert_with(key, frame, flags, own) else {
            self.objects.page_left(key);
            return None;
        };
        Some(slot)
    }

    pub(super) fn evict_rivals(&self, key: u64) {
        CACHE_CONFLICTS.add(1);
        let mut lines = self.table.rivals(key).into_iter();
        lines.any(|line| {
            line.iter()
                .all(|(slot, page)| self.release(*slot, *page, 0))
        });
    }

    /// Gives the name of a page that is being written to its copy, pinned and being written too.
    /// The caller has the page's lock and a pin; `lock_dirty` takes the dirty set's. `None`: no
    /// slot, nothing changed, and the copy's frame is free.
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
        // The name is in the list twice.
        self.objects.page_left(key);
        self.evictor.moved(old.1, frame, key);
        let state = State::new(frame, 0);
        Some(Found { slot, state })
    }

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
            self.table.set(slot, before.flags(MOVED));
        }
        moved
    }

    /// Takes the name from a page that is being written. `lock_dirty` takes the dirty set's lock
    /// and forgets what is dirty of the page.
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
            self.no_longer_ahead(before);
        }
        self.evictor.removed(frame);
    }

    fn of_object(&self, number: u32) -> impl Iterator<Item = (u64, State)> {
        (0..self.arena.frames()).filter_map(move |index| {
            let slot = self.owner(FrameIndex(index));
            let (key, state) = (self.table.key(slot), self.table.state(slot));
            let is_here = state.has(PRESENT) && state.frame().0 == index;
            (is_here && object_of(key) == number).then(|| (page_of(key), state))
        })
    }

    /// All pages of a range that are in memory, and perhaps some that are not.
    pub(crate) fn resident(&self, number: u32, range: Range<u64>) -> Vec<u64> {
        if number & LISTED != 0 {
            return self.objects.pages(number, range);
        }
        if range.end - range.start <= u64::from(self.arena.frames()) {
            return range.collect();
        }
        // Else a page may change its frame behind this look.
        let _still = self.moves.still();
        let pages = self.of_object(number).map(|(page, _)| page);
        pages.filter(|page| range.contains(page)).collect()
    }

    /// The caller has the lock under which pages get the flag.
    pub(crate) fn clean_all(&self, number: u32) {
        if number & LISTED != 0 {
            for page in self.objects.pages(number, 0..u64::MAX) {
                self.table.clear_of(key_of(number, page), DIRTY);
            }
            return;
        }
        for index in 0..self.arena.frames() {
            let slot = self.owner(FrameIndex(index));
            // A page with the flag stays where it is; another may be another object's by now.
            let key = self.table.key(slot);
            if self.table.state(slot).has(DIRTY) && object_of(key) == number {
                self.table.clear_of(key, DIRTY);
            }
        }
    }

    pub(crate) fn residency(&self, number: u32) -> (u64, u64) {
        let states = self.of_object(number).map(|(_, state)| state);
        states.fold((0, 0), |(pages, full), state| {
            (pages + 1, full + u64::from(state.has(FULL)))
        })
    }

    pub(crate) fn has_pages(&self, number: u32) -> bool {
        self.objects.has_pages(number)
    }

    /// Frees the number of an object without pins.
    pub(crate) fn forget(&self, number: u32) {
        if number & LISTED != 0 {
            for page in self.objects.pages(number, 0..u64::MAX) {
                // A reader that looked for another page in its slot may have a pin for a moment.
                let key = key_of(number, page);
                while let Some((slot, state)) = self.table.locate(key)
                    && !self.release(slot, state.frame(), 0)
                {
                    std::thread::yield_now();
                }
            }
            // A thread that evicts one may have taken it from the table, and not from the list yet.
            while self.objects.has_pages(number) {
                std::thread::yield_now();
            }
        } else {
            self.forget_unlisted(number);
        }
        self.objects.remove(number);
    }

    fn forget_unlisted(&self, number: u32) {
        for index in 0..self.arena.frames() {
            let frame = FrameIndex(index);
            let slot = self.owner(frame);
            while object_of(self.table.key(slot)) == number
                && self.table.state(slot).has(PRESENT)
                && !self.release(slot, frame, 0)
                && self.table.state(slot).frame() == frame
            {
                std::thread::yield_now();
            }
        }
    }

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

    pub(crate) fn sweep(&self) {
        self.evictor
            .sweep(|slot, frame| self.free_detached(slot, frame));
    }

    pub(crate) fn free_when_unpinned(&self, slot: SlotIndex, frame: FrameIndex) {
        if !self.free_detached(slot, frame) {
            self.evictor.add_detached(slot, frame);
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

    fn evict(&self) {
        let remove = |frame| self.table.remove(self.owner(frame), frame);
        let evicted = self.evictor.evict(self, remove);
        CACHE_EVICTED_PAGES.add(evicted.len() as u64);
        // What is freed last is taken first: frames are taken in the order of eviction.
        for (key, state) in evicted.into_iter().rev() {
            self.removed(key, state);
        }
    }

    /// Gives back a page that is not pinned; with `flags` only if all are set and it was not hit.
    pub(crate) fn release(&self, slot: SlotIndex, frame: FrameIndex, flags: u64) -> bool {
        let state = self.table.state(slot);
        if flags != 0 && (!state.has(flags) || state.heat() > 0) {
            return false;
        }
        let Some((key, state)) = self.table.remove(slot, frame) else {
            return false;
        };
        self.evictor.removed(frame);
        self.removed(key, state);
        true
    }

    fn removed(&self, key: u64, state: State) {
        CACHE_PAGES.add(-1);
        self.objects.page_left(key);
        self.free.push(state.frame());
        if state.has(AHEAD) {
            self.no_longer_ahead(state);
            self.objects.wasted(key);
        }
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn drops_behind(&self) -> bool {
        self.evictor.drops_behind()
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn give_up(&self, key: u64) -> bool {
        let Some((slot, state)) = self.table.locate(key) else {
            return true;
        };
        self.release(slot, state.frame(), 0)
    }

    /// Gives a page back when memory is short, or when the reader keeps it.
    pub(crate) fn drop_behind(&self, key: u64) {
        if self.free.len() < self.arena.frames() / FREE_SHARE {
            self.release_read(key);
        } else {
            self.evictor.left_behind(key, |key| self.release_read(key));
        }
    }

    fn release_read(&self, key: u64) -> bool {
        let Some(page) = self.find(key) else {
            return false;
        };
        self.table.unpin(page.slot);
        // Unread pages of another stream keep their frame.
        !page.state.has(AHEAD) && self.release(page.slot, page.frame(), STREAM)
    }

    /// Bytes that may be fetched ahead now: in flight, an eighth of the cache; unread, what is free
    /// and the share of streams. Of more, some would go unread.
    pub(crate) fn ahead_budget_bytes(&self) -> u64 {
        let size = self.arena.size_bytes();
        let unread = self.unread.get() * PAGE;
        let free = u64::from(self.free.len()) * PAGE;
        let share = u64::from(self.arena.frames() / STREAM_SHARE) * PAGE;
        let in_flight = (size / 8).saturating_sub(self.in_flight.ahead_bytes());
        in_flight.min((share + free).saturating_sub(unread))
    }

    /// What random reads may bring along while nothing is fetched ahead: at most half of the cache,
    /// with what is unread of it.
    pub(crate) fn spare_bytes(&self) -> u64 {
        if self.in_flight.ahead_bytes() > 0 {
            return 0;
        }
        (self.arena.size_bytes() / 2).saturating_sub(self.along.get() * PAGE)
    }
}

/// Else a thread has memory that is unmapped now.
impl Drop for Pages {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.sweep();
        let (frames, free) = (self.arena.frames(), self.free.len());
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

#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub(crate) type Streams = Mutex<Adaptive>;

/// The bit of the number of an object whose pages are listed.
pub(crate) const LISTED: u32 = 1 << 31;
/// So many objects have places of their own, of so many bytes, for read-ahead.
const SEEN_BITS: u32 = 15;
pub(crate) const SEEN_BYTES: u64 = 1 << 48;
pub(crate) const SEEN_FROM_BYTES_MAX: u64 = SEEN_BYTES << SEEN_BITS;

/// Where read-ahead, in its one address space, sees the first byte of an object. Of more than
/// 32,768 objects some share a place, which costs a guess.
pub(crate) fn seen_from(number: u32) -> u64 {
    match number & LISTED {
        0 => 0,
        _ => u64::from(number & ((1 << SEEN_BITS) - 1)) * SEEN_BYTES,
    }
}

pub(crate) struct Objects {
    known: Shards<HashMap<u32, Known>>,
    numbers: Mutex<Numbers>,
}

struct Known {
    streams: Weak<Streams>,
    pages: BTreeMap<u64, u32>,
}

#[derive(Default)]
struct Numbers {
    next: u32,
    free: VecDeque<u32>,
}

impl Objects {
    pub(crate) fn new() -> Self {
        Self {
            known: Shards::new(Rank::Leaf),
            numbers: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, streams: &Arc<Streams>, is_listed: bool) -> u32 {
        let mut numbers = self.numbers.lock();
        let number = numbers.free.pop_front().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next
        });
        drop(numbers);
        // Each takes some hundred bytes of memory.
        assert!(number & LISTED == 0, "more objects than memory can hold");
        let number = if is_listed { number | LISTED } else { number };
        let known = Known {
            streams: Arc::downgrade(streams),
            pages: BTreeMap::new(),
        };
        self.known.lock(number.into()).insert(number, known);
        number
    }

    pub(crate) fn remove(&self, number: u32) {
        let known = self.known.lock(number.into()).remove(&number);
        debug_assert!(known.as_ref().is_some_and(|known| known.pages.is_empty()));
        // Before its number may be given to another.
        if let Some(streams) = known.and_then(|known| known.streams.upgrade()) {
            streams.lock().gone(seen_from(number));
        }
        self.numbers.lock().free.push_back(number & !LISTED);
    }

    pub(crate) fn wasted(&self, key: u64) {
        let number = object_of(key);
        let known = self.known.lock(number.into());
        let streams = known.get(&number).map(|known| known.streams.clone());
        drop(known);
        if let Some(streams) = streams.and_then(|streams| streams.upgrade()) {
            CACHE_AHEAD_WASTED_BYTES.add(PAGE);
            let (offset, length) = (seen_from(number) + page_of(key) * PAGE, PAGE);
            streams.lock().feedback(Feedback::Wasted { offset, length });
        }
    }

    pub(crate) fn page_comes(&self, key: u64) {
        let number = object_of(key);
        if number & LISTED != 0
            && let Some(known) = self.known.lock(number.into()).get_mut(&number)
        {
            *known.pages.entry(page_of(key)).or_default() += 1;
        }
    }

    pub(crate) fn page_left(&self, key: u64) {
        let (number, page) = (object_of(key), page_of(key));
        if number & LISTED == 0 {
            return;
        }
        let mut known = self.known.lock(number.into());
        let pages = known.get_mut(&number).map(|known| &mut known.pages);
        let count = pages.and_then(|pages| {
            let count = pages.get_mut(&page)?;
            *count -= 1;
            if *count == 0 {
                pages.remove(&page);
            }
            Some(())
        });
        // Else a purge would pass over a page that is in memory.
        assert!(count.is_some(), "{key:#x} was never listed");
    }

    pub(crate) fn pages(&self, number: u32, range: Range<u64>) -> Vec<u64> {
        let known = self.known.lock(number.into());
        let pages = known.get(&number).map(|known| known.pages.range(range));
        pages.into_iter().flatten().map(|(page, _)| *page).collect()
    }

    pub(crate) fn has_pages(&self, number: u32) -> bool {
        let known = self.known.lock(number.into());
        known
            .get(&number)
            .is_some_and(|known| !known.pages.is_empty())
    }
}
