//! The page table: from a page's name to its place, with pins, without a lock.
//!
//! **Problem.** A hit must cost about as much as the memory it touches. A lock, a reference count
//! on another cache line and a list move each cost as much again, and make threads wait for each
//! other.
//!
//! **Rule.** Buckets of four slots, one cache line each; a page lives in one of two buckets or
//! in the neighbour of one. A slot is two words, the key and a [`State`] with frame, flags, heat
//! and pins in it, so that finding and pinning a page touch one line, and rarely the next, which
//! processors fetch along with it. The keys of a bucket are compared without a branch for each,
//! which would be mispredicted about once a lookup:
//!
//! ```text
//! pin:     key == k?   state += PIN, was it PRESENT?   key still == k?   -> pinned
//! remove:  state (PRESENT, 0 pins) -> 0   then key -> 0
//! insert:  key 0 -> k                      then state += PRESENT | frame | 1 pin
//! ```
//!
//! All changes of a state are relative or compare-and-swap: a reader that came too late may add a
//! pin to a slot that is no longer its page's, sees so and takes it back, and nobody overwrites
//! that. A pinned slot cannot be removed, so its key cannot change.
//!
//! A writer of bytes that readers may use sets [`WRITING`] in the same word as the pins: either
//! his change comes first, and who pins afterwards sees it, takes the pin back and tries again; or
//! the pin comes first, and the writer sees it. When he sees that he alone holds the page, nobody
//! else does or will. Where others hold it for long, he gives its name to a copy instead
//! ([`PageTable::unname`]); the slot stays theirs, without a name, until all pins are gone.
//!
//! **Constants.** Twice as many slots as pages: with sixteen slots to choose from, an insertion
//! finds all of them taken so rarely that one of their pages may go for it (counted as a
//! conflict).
//!
//! **Known weaknesses.** The size is fixed. Insertions of one key must be kept apart by a lock
//! outside. A page can be pinned 32,767 times at most.

use pagewell_policy::eviction::FrameIndex;
use rustix::io::Errno;

use crate::state::{DETACHED, DIRTY, PIN, PINS_MAX, PRESENT, State, WRITING};
use crate::sync::{AtomicU64, Ordering, relax};

const SLOTS_PER_BUCKET: usize = 4;
/// For two different choices.
const PAIRS_MIN: usize = 2;
/// No page has this name.
const EMPTY: u64 = 0;
/// Nor this one: objects are counted from 1.
pub(crate) const NAMELESS: u64 = 1;

struct Slot {
    key: AtomicU64,
    state: AtomicU64,
}

#[repr(align(64))]
struct Bucket([Slot; SLOTS_PER_BUCKET]);

/// Which slot of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex(pub(crate) u32);

impl SlotIndex {
    #[allow(clippy::cast_possible_truncation)] // a table has at most 2^32 slots
    fn new(bucket: usize, at: usize) -> Self {
        Self((bucket * SLOTS_PER_BUCKET + at) as u32)
    }
}

/// How a pin of one slot went.
enum Attempt {
    Pinned(State),
    Leaving,
    Writing,
    Another,
    Refused,
}

/// How a pin went.
pub(crate) enum Pinned {
    /// Pinned; the state before that.
    Yes(SlotIndex, State),
    /// Not in the table.
    Absent,
    /// Pinned too often at this moment.
    Refused,
}

/// The page table.
pub(crate) struct PageTable {
    buckets: Buckets,
    /// Buckets and their neighbours.
    pairs: u64,
}

/// Buckets in huge pages: a lookup misses the processor's caches for a large table, and should not
/// miss its address cache too.
#[cfg(not(feature = "loom"))]
struct Buckets {
    mapping: crate::arena::Mapping,
    count: usize,
}

#[cfg(not(feature = "loom"))]
impl Buckets {
    fn new(count: usize) -> Result<Self, Errno> {
        let bytes = count * size_of::<Bucket>();
        let (mapping, _) = crate::arena::map_transparent(bytes)?;
        Ok(Self { mapping, count })
    }
}

#[cfg(not(feature = "loom"))]
impl std::ops::Deref for Buckets {
    type Target = [Bucket];
    fn deref(&self) -> &[Bucket] {
        let start = self.mapping.start().as_ptr().cast();
        // SAFETY: mapped with room for them, aligned to more than a bucket, and zeroed, which is
        // an empty bucket; they are changed through atomics only.
        unsafe { std::slice::from_raw_parts(start, self.count) }
    }
}

#[cfg(feature = "loom")]
struct Buckets(Box<[Bucket]>);

#[cfg(feature = "loom")]
impl Buckets {
    fn new(count: usize) -> Result<Self, Errno> {
        let slot = || Slot {
            key: AtomicU64::new(EMPTY),
            state: AtomicU64::new(0),
        };
        let bucket = |_| Bucket(std::array::from_fn(|_| slot()));
        Ok(Self((0..count).map(bucket).collect()))
    }
}

#[cfg(feature = "loom")]
impl std::ops::Deref for Buckets {
    type Target = [Bucket];
    fn deref(&self) -> &[Bucket] {
        &self.0
    }
}

impl PageTable {
    /// A table for `pages` pages.
    pub(crate) fn new(pages: usize) -> Result<Self, Errno> {
        let pairs = (pages * 2).div_ceil(2 * SLOTS_PER_BUCKET).max(PAIRS_MIN);
        Ok(Self {
            buckets: Buckets::new(2 * pairs)?,
            pairs: pairs as u64,
        })
    }

    /// The buckets of a key: one and its neighbour, another and its neighbour.
    #[allow(clippy::cast_possible_truncation)] // any bits will do
    fn choices(&self, key: u64) -> [usize; 4] {
        let hash = mix(key);
        // A share of the pairs, as large as each half of the hash is of 2^32.
        let pair = |half: u64| (half * self.pairs) >> 32;
        let (first, mut second) = (pair(hash & u64::from(u32::MAX)), pair(hash >> 32));
        if second == first {
            // A pair that is met twice would make a slot appear twice.
            second = first.checked_sub(1).unwrap_or(self.pairs - 1);
        }
        let first = (2 * first + (hash & 1)) as usize;
        let second = 2 * second as usize;
        [first, first ^ 1, second, second ^ 1]
    }

    fn slot(&self, index: SlotIndex) -> &Slot {
        let index = index.0 as usize;
        &self.buckets[index / SLOTS_PER_BUCKET].0[index % SLOTS_PER_BUCKET]
    }

    fn candidates(&self, key: u64) -> impl Iterator<Item = (SlotIndex, &Slot)> {
        self.choices(key).into_iter().flat_map(move |bucket| {
            let slots = &self.buckets[bucket].0;
            let slots = slots.iter().enumerate();
            slots.map(move |(at, slot)| (SlotIndex::new(bucket, at), slot))
        })
    }

    /// Which slots of a bucket seem to have a key, a bit each.
    #[inline]
    fn matches(&self, bucket: usize, key: u64) -> u32 {
        let slots = self.buckets[bucket].0.iter().enumerate();
        slots.fold(0, |mask, (at, slot)| {
            mask | u32::from(slot.key.load(Ordering::Relaxed) == key) << at
        })
    }

    /// Finds a page and pins it.
    pub(crate) fn pin(&self, key: u64) -> Pinned {
        self.pin_with_hint(key, |_| {})
    }

    /// [`Self::pin`]; `hint` learns the state a little earlier, when it may still be of another
    /// page. A pin is a locked instruction, which what follows it has to wait for: memory that is
    /// asked for before it comes while it is made.
    #[inline]
    pub(crate) fn pin_with_hint(&self, key: u64, hint: impl Fn(State)) -> Pinned {
        let mut round = 0;
        loop {
            if let Some(pinned) = self.try_pin_with_hint(key, &hint) {
                return pinned;
            }
            relax(round);
            round += 1;
        }
    }

    /// [`Self::pin`] that does not wait for a writer: `None` while the page is being written. For
    /// those who have a lock that the writer may need.
    pub(crate) fn try_pin(&self, key: u64) -> Option<Pinned> {
        self.try_pin_with_hint(key, &|_| {})
    }

    #[inline]
    fn try_pin_with_hint(&self, key: u64, hint: &impl Fn(State)) -> Option<Pinned> {
        'again: loop {
            for bucket in self.choices(key) {
                let mut matches = self.matches(bucket, key);
                while matches != 0 {
                    let at = matches.trailing_zeros() as usize;
                    matches &= matches - 1;
                    let index = SlotIndex::new(bucket, at);
                    let slot = self.slot(index);
                    hint(State(slot.state.load(Ordering::Relaxed)));
                    match Self::pin_slot(slot, key) {
                        Attempt::Pinned(state) => return Some(Pinned::Yes(index, state)),
                        Attempt::Leaving => {}
                        Attempt::Another => continue 'again,
                        Attempt::Writing => return None,
                        Attempt::Refused => return Some(Pinned::Refused),
                    }
                }
            }
            return Some(Pinned::Absent);
        }
    }

    #[inline]
    fn pin_slot(slot: &Slot, key: u64) -> Attempt {
        let before = State(slot.state.fetch_add(PIN, Ordering::AcqRel));
        let attempt = if !before.has(PRESENT) {
            // It is leaving, or not quite there; another slot may have it.
            Attempt::Leaving
        } else if slot.key.load(Ordering::Acquire) != key {
            Attempt::Another
        } else if before.has(WRITING) {
            Attempt::Writing
        } else if before.pins() >= PINS_MAX {
            Attempt::Refused
        } else {
            return Attempt::Pinned(before);
        };
        slot.state.fetch_sub(PIN, Ordering::Release);
        attempt
    }

    /// One more pin on a page that is pinned.
    pub(crate) fn pin_again(&self, index: SlotIndex) {
        let before = State(self.slot(index).state.fetch_add(PIN, Ordering::Relaxed));
        debug_assert!(before.pins() > 0 && before.has(PRESENT), "{before:?}");
    }

    /// Takes a pin back.
    pub(crate) fn unpin(&self, index: SlotIndex) {
        let before = State(self.slot(index).state.fetch_sub(PIN, Ordering::Release));
        debug_assert!(before.pins() > 0 && before.has(PRESENT), "{before:?}");
    }

    /// Adds a page, pinned once, and says where; `None` when its buckets are full. The caller
    /// sees to it that nobody else adds the same key and that it is not in the table.
    pub(crate) fn insert(&self, key: u64, frame: FrameIndex, flags: u64) -> Option<SlotIndex> {
        debug_assert_ne!(key, EMPTY);
        for (index, slot) in self.candidates(key) {
            let claimed =
                slot.key
                    .compare_exchange(EMPTY, key, Ordering::AcqRel, Ordering::Relaxed);
            if claimed.is_ok() {
                let state = State::new(frame, flags).0 + PIN;
                slot.state.fetch_add(state, Ordering::AcqRel);
                return Some(index);
            }
        }
        None
    }

    /// Removes the page of a slot if nobody holds it and it has nothing that must be kept: its
    /// key, and its last state.
    pub(crate) fn remove(&self, index: SlotIndex, frame: FrameIndex) -> Option<(u64, State)> {
        self.remove_if(index, frame, |state| state.0 & (DIRTY | DETACHED) == 0)
    }

    /// Removes a page without a name if nobody holds it.
    pub(crate) fn remove_detached(&self, index: SlotIndex, frame: FrameIndex) -> bool {
        let removed = self.remove_if(index, frame, |state| state.has(DETACHED));
        removed.is_some()
    }

    fn remove_if(
        &self,
        index: SlotIndex,
        frame: FrameIndex,
        may_go: impl Fn(State) -> bool,
    ) -> Option<(u64, State)> {
        let slot = self.slot(index);
        loop {
            let state = State(slot.state.load(Ordering::Acquire));
            let is_free = state.has(PRESENT) && state.pins() == 0 && state.frame() == frame;
            if !is_free || !may_go(state) {
                return None;
            }
            let key = slot.key.load(Ordering::Relaxed);
            let removed =
                slot.state
                    .compare_exchange_weak(state.0, 0, Ordering::AcqRel, Ordering::Relaxed);
            if removed.is_ok() {
                slot.key.store(EMPTY, Ordering::Release);
                return Some((key, state));
            }
        }
    }

    /// The pages that stand in the way of a key whose buckets are full.
    pub(crate) fn rivals(&self, key: u64) -> impl Iterator<Item = (SlotIndex, FrameIndex)> {
        self.candidates(key).map(|(index, slot)| {
            let state = State(slot.state.load(Ordering::Relaxed));
            (index, state.frame())
        })
    }

    /// The state of a slot now.
    pub(crate) fn state(&self, index: SlotIndex) -> State {
        State(self.slot(index).state.load(Ordering::Acquire))
    }

    /// The key of a slot now.
    pub(crate) fn key(&self, index: SlotIndex) -> u64 {
        self.slot(index).key.load(Ordering::Acquire)
    }

    /// Sets flags of a pinned page; the state before.
    pub(crate) fn set(&self, index: SlotIndex, flags: u64) -> State {
        State(self.slot(index).state.fetch_or(flags, Ordering::AcqRel))
    }

    /// Clears flags of a pinned page; the state before.
    pub(crate) fn clear(&self, index: SlotIndex, flags: u64) -> State {
        State(self.slot(index).state.fetch_and(!flags, Ordering::AcqRel))
    }

    /// Where a page is, without a pin; `None` when it is not in the table. The caller keeps it
    /// from leaving.
    pub(crate) fn locate(&self, key: u64) -> Option<(SlotIndex, State)> {
        let mut slots = self.candidates(key);
        slots.find_map(|(index, slot)| {
            let is_same = slot.key.load(Ordering::Acquire) == key;
            let state = State(slot.state.load(Ordering::Acquire));
            (is_same && state.has(PRESENT)).then_some((index, state))
        })
    }

    /// Takes the name away from a page that is being written; it stays for those who hold it.
    /// The caller has a pin, and sees to it that nobody adds the same key meanwhile.
    pub(crate) fn unname(&self, index: SlotIndex) {
        debug_assert!(self.state(index).has(PRESENT | WRITING));
        let slot = self.slot(index);
        // First the name: who pins after WRITING is gone must not find it.
        slot.key.store(NAMELESS, Ordering::Release);
        slot.state.fetch_or(DETACHED, Ordering::AcqRel);
    }

    /// Gives the name back, when the copy found no place.
    pub(crate) fn rename(&self, index: SlotIndex, key: u64) {
        let slot = self.slot(index);
        slot.state.fetch_and(!DETACHED, Ordering::AcqRel);
        slot.key.store(key, Ordering::Release);
    }

    /// Changes the heat from what it was in `state`; lost when anything changed meanwhile.
    pub(crate) fn heat(&self, index: SlotIndex, state: State, heat: u8) {
        let slot = &self.slot(index).state;
        let changed = state.with_heat(heat).0;
        // A lost hit costs nothing: the next one is counted.
        let _ = slot.compare_exchange(state.0, changed, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Spreads a key over all 64 bits (the finaliser of splitmix64, public domain).
pub(crate) fn mix(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}
