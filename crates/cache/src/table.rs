//! The page table: from a page's name to its frame, with pins, without a lock.
//!
//! **Problem.** A hit must cost about as much as the memory it touches. A lock, a count on another
//! cache line and a list move each cost that again, and make threads wait.
//!
//! **Rule.** Seven pages side by side, an *extent*, share a cache line and a name. Finding and
//! pinning a page changes one word of one line:
//!
//! ```text
//!           +------+--------+--------+--------+- ... -+--------+
//!   a line  | name | page 0 | page 1 | page 2 |       | page 6 |     8 words of 8 bytes
//!           +------+--------+--------+--------+- ... -+--------+
//!
//!  63                    52 51  48 47            16 15      0
//! +------------------------+------+----------------+---------+
//! |         flags          | heat |     frame      |  pins   |      the word of a page
//! +------------------------+------+----------------+---------+
//!
//! pin:     name == e?  state += PIN, was it PRESENT?  name still == e?     -> pinned
//! remove:  state (PRESENT, 0 pins) -> 1 pin   which page is it?   state (1 pin) -> 0
//! insert:  a line with the name e and this page missing, or with no page at all:
//!          lock    name = e    state += PRESENT | frame | 1 pin    unlock
//! ```
//!
//! An extent may be in one of sixteen lines: eight pairs, as processors fetch lines in pairs. A
//! line keeps its name until another extent wants it; a lookup ends at one that never had one.
//!
//! All changes of a state are relative or compare-and-swap: a late thread may pin a word that is no
//! longer its page's, sees so and takes the pin back. There is no ABA: a name changes only under
//! the line's lock (a bit of the name) and when no page is PRESENT, PRESENT comes only under that
//! lock, and a pinned page stays PRESENT. So a thread that has pinned a PRESENT page and then finds
//! its name has that page. One that removes a page pins it to see which it is.
//!
//! A writer sets [`WRITING`] in the word of the pins: either a later pin sees it and is taken back,
//! or the pin comes first, and the writer sees it. A writer's only pin stays the only one. Where
//! others pin the page for long, its name goes to a copy ([`PageTable::unname`]), and its word is
//! [`DETACHED`] until all pins are gone.
//!
//! **Constants.** Three lines for two pages: where no two pages lie side by side, six of 4096 find
//! their sixteen lines taken (a conflict: the pages of one may go). That is 96 bytes for a page; a
//! file in order uses ten.
//!
//! **Known weaknesses.** The size is fixed. A lock outside must keep insertions of one key apart. A
//! page has at most 32,767 pins. A look for a missing page may take sixteen lines.
//!
//! # Locality
//!
//! **Problem.** The slot of a page in a large table is not in the processor's caches, and its bytes
//! cannot be asked for before it has come.
//!
//! **Rule.** For pages that were read in order, frame minus page is the same. One word for a run of
//! 128 pages keeps that difference, and how often it was right in a row; if it was lately, the
//! bytes are prefetched ([`PageTable::guess`]). Only insertions teach, so that hits write nothing
//! shared.
//!
//! ```text
//!  31                      2 1          0
//! +-------------------------+------------+
//! | frame of the first page | confidence |     one for each run, without a name
//! +-------------------------+------------+
//! ```
//!
//! For 4 GiB in order the words are 2 KiB, and stay in the processor's caches. Confidence goes to
//! 3, and 2 are enough: two misplaced pages end guessing, not one. **Weakness.** Pages that came at
//! random, or by two readers in turn, are not guessed.

#[cfg(all(test, feature = "loom"))]
mod orders;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU32;

use pagewell_base::mix::mix;
use pagewell_policy::eviction::{FrameIndex, HEAT_MAX};
use rustix::io::Errno;

use crate::page::PAGE_BITS;
use crate::sync::{AtomicU64, Ordering, relax};

const CHOICES: u32 = if cfg!(feature = "loom") { 2 } else { 8 };
const PAIRS_MIN: usize = 2;
/// The key of no page: objects are counted from 1.
pub(crate) const NAMELESS: u64 = 1;
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex(u32);

/// With the name; a power of two to divide by.
const SLOTS_PER_LINE: usize = 8;

impl SlotIndex {
    pub(crate) fn of(number: u32) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    #[allow(clippy::cast_possible_truncation)] // a table has at most 2^32 slots
    fn new(line: usize, at: usize) -> Self {
        Self((line * SLOTS_PER_LINE + at) as u32)
    }
}

enum Attempt {
    Pinned(State),
    /// Not in this line, or about to leave or to come.
    Elsewhere,
    Nowhere,
    Changed,
    Writing,
    Refused,
}

pub(crate) enum Pinned {
    Yes(SlotIndex, State),
    Absent,
    Refused,
}

pub(crate) struct PageTable {
    lines: Lines,
    pairs: u64,
    locality: Locality,
}

impl PageTable {
    pub(crate) fn new(pages: usize) -> Result<Self, Errno> {
        let pairs = (pages * 3).div_ceil(4).max(PAIRS_MIN);
        Ok(Self {
            lines: lines(2 * pairs)?,
            pairs: pairs as u64,
            locality: Locality::new(pages),
        })
    }

    /// Where a page may be; any frame, there or not.
    #[inline]
    pub(crate) fn guess(&self, key: u64) -> Option<FrameIndex> {
        self.locality.guess(key)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // fewer than lines
    pub(crate) fn home(&self, extent: u64) -> usize {
        let spread = (extent >> 1).wrapping_mul(SPREAD) >> 32;
        // A share of the pairs, as large as the hash is of 2^32.
        2 * ((spread * self.pairs) >> 32) as usize + (extent & 1) as usize
    }

    /// May give a line twice.
    #[allow(clippy::cast_possible_truncation)] // any bits will do
    fn others(&self, extent: u64) -> impl Iterator<Item = usize> + use<> {
        let (pairs, hash) = (self.pairs, mix(extent >> 1));
        let (start, step) = (hash as u32, (hash >> 32) as u32);
        let side = (extent & 1) as usize;
        let elsewhere = (2..2 * CHOICES).map(move |choice| {
            let spread = start.wrapping_add(step.wrapping_mul(choice / 2));
            let pair = (u64::from(spread) * pairs) >> 32;
            2 * pair as usize + (side ^ (choice & 1) as usize)
        });
        std::iter::once(self.home(extent) ^ 1).chain(elsewhere)
    }

    fn choices(&self, extent: u64) -> impl Iterator<Item = usize> + use<> {
        std::iter::once(self.home(extent)).chain(self.others(extent))
    }

    fn word(&self, index: SlotIndex) -> (&Line, usize) {
        let index = index.0 as usize;
        (&self.lines[index / SLOTS_PER_LINE], index % SLOTS_PER_LINE)
    }

    #[inline]
    fn slot(&self, index: SlotIndex) -> &AtomicU64 {
        let (line, at) = self.word(index);
        &line.states[at]
    }

    pub(crate) fn pin(&self, key: u64) -> Pinned {
        self.pin_with_hint(key, |_| {})
    }

    /// [`Self::pin`]; `hint` gets the state, perhaps of another page, before the pin: a locked
    /// instruction.
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

    /// `None` while the page is being written: for threads with a lock that the writer may need.
    pub(crate) fn try_pin(&self, key: u64) -> Option<Pinned> {
        self.try_pin_with_hint(key, &|_| {})
    }

    #[inline]
    fn try_pin_with_hint(&self, key: u64, hint: &impl Fn(State)) -> Option<Pinned> {
        let (extent, at) = extent_of(key);
        loop {
            let home = self.home(extent);
            let attempt = match self.try_line(home, extent, at, hint) {
                // Nearly always it is there.
                Attempt::Elsewhere => self.try_others(extent, at, hint),
                attempt => (attempt, home),
            };
            match attempt {
                (Attempt::Pinned(state), index) => {
                    return Some(Pinned::Yes(SlotIndex::new(index, at), state));
                }
                (Attempt::Elsewhere | Attempt::Nowhere, _) => return Some(Pinned::Absent),
                (Attempt::Changed, _) => {}
                (Attempt::Writing, _) => return None,
                (Attempt::Refused, _) => return Some(Pinned::Refused),
            }
        }
    }

    #[cold]
    fn try_others(&self, extent: u64, at: usize, hint: &impl Fn(State)) -> (Attempt, usize) {
        for index in self.others(extent) {
            match self.try_line(index, extent, at, hint) {
                Attempt::Elsewhere => {}
                attempt => return (attempt, index),
            }
        }
        (Attempt::Nowhere, 0)
    }

    #[inline]
    fn try_line(&self, index: usize, extent: u64, at: usize, hint: &impl Fn(State)) -> Attempt {
        let line = &self.lines[index];
        let name = line.name.load(Ordering::Acquire);
        if name & !LOCKED != extent {
            return if name == EMPTY {
                Attempt::Nowhere
            } else {
                Attempt::Elsewhere
            };
        }
        let slot = &line.states[at];
        let seen = State(slot.load(Ordering::Relaxed));
        if !seen.is_named() {
            return Attempt::Elsewhere;
        }
        hint(seen);
        let before = State(slot.fetch_add(PIN, Ordering::AcqRel));
        let attempt = if !before.is_named() {
            Attempt::Elsewhere
        } else if line.name() != extent {
            Attempt::Changed
        } else if before.has(WRITING) {
            Attempt::Writing
        } else if before.pins() >= PINS_MAX {
            Attempt::Refused
        } else {
            return Attempt::Pinned(before);
        };
        slot.fetch_sub(PIN, Ordering::Release);
        attempt
    }

    pub(crate) fn pin_again(&self, index: SlotIndex) {
        let before = State(self.slot(index).fetch_add(PIN, Ordering::Relaxed));
        debug_assert!(before.pins() > 0 && before.has(PRESENT), "{before:?}");
    }

    #[inline]
    pub(crate) fn unpin(&self, index: SlotIndex) {
        let before = State(self.slot(index).fetch_sub(PIN, Ordering::Release));
        debug_assert!(before.pins() > 0 && before.has(PRESENT), "{before:?}");
    }

    #[cfg(test)]
    pub(crate) fn insert(&self, key: u64, frame: FrameIndex, flags: u64) -> Option<SlotIndex> {
        self.insert_with(key, frame, flags, |_| {})
    }

    /// Adds a page, pinned once; `None` when its lines are taken. `note` gets the slot before the
    /// page can be found. The caller keeps others from adding the key, which is not in the table.
    pub(crate) fn insert_with(
        &self,
        key: u64,
        frame: FrameIndex,
        flags: u64,
        note: impl Fn(SlotIndex),
    ) -> Option<SlotIndex> {
        let (extent, at) = extent_of(key);
        let state = State::new(frame, flags).0 + PIN;
        // Beside its neighbours, else where no page is.
        let beside = |line: &Line| line.name() == extent && !line.state(at).has(PRESENT);
        let put = |index: usize| {
            let slot = SlotIndex::new(index, at);
            let is_put = Self::put(&self.lines[index], extent, at, state, || note(slot));
            is_put.then_some(slot)
        };
        let mut near = self.choices(extent).filter(|&i| beside(&self.lines[i]));
        let mut free = self.choices(extent).filter(|&i| self.lines[i].is_empty());
        let slot = near.find_map(put).or_else(|| free.find_map(put))?;
        self.locality.learn(key, frame);
        Some(slot)
    }

    fn put(line: &Line, extent: u64, at: usize, state: u64, note: impl Fn()) -> bool {
        let name = line.lock();
        let fits = if name == extent {
            !line.state(at).has(PRESENT)
        } else {
            line.is_empty()
        };
        if !fits {
            line.unlock(name);
            return false;
        }
        if name != extent {
            // Before the page: a thread that pins it must not find the old name.
            line.name.store(extent | LOCKED, Ordering::Release);
        }
        note();
        line.states[at].fetch_add(state, Ordering::AcqRel);
        line.unlock(extent);
        true
    }

    /// Removes a page that is not pinned or dirty: its key and last state.
    pub(crate) fn remove(&self, index: SlotIndex, frame: FrameIndex) -> Option<(u64, State)> {
        self.remove_if(index, frame, |state| state.0 & (DIRTY | DETACHED) == 0)
    }

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
        let (line, at) = self.word(index);
        let slot = &line.states[at];
        let change = |from: u64, to: u64| {
            slot.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        loop {
            let state = State(slot.load(Ordering::Acquire));
            let is_free = state.has(PRESENT) && state.pins() == 0 && state.frame() == frame;
            if !is_free || !may_go(state) {
                return None;
            }
            let pinned = state.0 + PIN;
            if !change(state.0, pinned) {
                continue;
            }
            let key = key_in(line.name(), at);
            if change(pinned, 0) {
                return Some((key, state));
            }
            slot.fetch_sub(PIN, Ordering::Release);
            return None;
        }
    }

    /// The pages in the lines of a key, line by line, the fewest first.
    pub(crate) fn rivals(&self, key: u64) -> Vec<Vec<(SlotIndex, FrameIndex)>> {
        let (extent, _) = extent_of(key);
        let pages = |index: usize| {
            let line = &self.lines[index];
            let states =
                (0..line.states.len()).map(|at| (SlotIndex::new(index, at), line.state(at)));
            let here = states.filter(|(_, state)| state.has(PRESENT));
            here.map(|(slot, state)| (slot, state.frame())).collect()
        };
        let mut rivals: Vec<Vec<_>> = self.choices(extent).map(pages).collect();
        rivals.sort_by_key(Vec::len);
        rivals
    }

    pub(crate) fn state(&self, index: SlotIndex) -> State {
        State(self.slot(index).load(Ordering::Acquire))
    }

    /// [`NAMELESS`] of a page without a name, 0 where there is none.
    pub(crate) fn key(&self, index: SlotIndex) -> u64 {
        let (line, at) = self.word(index);
        match line.state(at) {
            state if state.is_named() => key_in(line.name(), at),
            state if state.has(DETACHED) => NAMELESS,
            _ => EMPTY,
        }
    }

    pub(crate) fn set(&self, index: SlotIndex, flags: u64) -> State {
        State(self.slot(index).fetch_or(flags, Ordering::AcqRel))
    }

    pub(crate) fn clear(&self, index: SlotIndex, flags: u64) -> State {
        State(self.slot(index).fetch_and(!flags, Ordering::AcqRel))
    }

    /// Where a page is, without a pin; the caller keeps it from leaving. A line may become another
    /// extent's, so its name is read again behind the state.
    pub(crate) fn locate(&self, key: u64) -> Option<(SlotIndex, State)> {
        let (extent, at) = extent_of(key);
        self.choices(extent).find_map(|index| {
            let line = &self.lines[index];
            let is_same = line.name() == extent;
            let state = line.state(at);
            let is_here = is_same && state.is_named() && line.name() == extent;
            is_here.then_some((SlotIndex::new(index, at), state))
        })
    }

    /// Takes a flag from a page, under a pin, so that no other page loses it. The caller keeps the
    /// page from leaving, and others from setting the flag.
    pub(crate) fn clear_of(&self, key: u64, flag: u64) {
        let (extent, at) = extent_of(key);
        for index in self.choices(extent) {
            let line = &self.lines[index];
            if line.name() != extent || !line.state(at).has(PRESENT | flag) {
                continue;
            }
            let slot = &line.states[at];
            let before = State(slot.fetch_add(PIN, Ordering::AcqRel));
            let is_it = before.is_named() && line.name() == extent;
            if is_it {
                slot.fetch_and(!flag, Ordering::AcqRel);
            }
            slot.fetch_sub(PIN, Ordering::Release);
            if is_it {
                return;
            }
        }
    }

    /// The caller has a pin, and keeps others from adding the key.
    pub(crate) fn unname(&self, index: SlotIndex) {
        debug_assert!(self.state(index).has(PRESENT | WRITING));
        self.slot(index).fetch_or(DETACHED, Ordering::AcqRel);
    }

    pub(crate) fn rename(&self, index: SlotIndex) {
        self.slot(index).fetch_and(!DETACHED, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn warm(&self, index: SlotIndex, before: State) {
        let heat = before.heat();
        if heat < HEAT_MAX {
            self.heat(index, State(before.0 + PIN), heat + 1);
        }
    }

    /// Does nothing when anything has changed since `state`.
    pub(crate) fn heat(&self, index: SlotIndex, state: State, heat: u8) {
        let slot = self.slot(index);
        let changed = state.with_heat(heat).0;
        // A lost hit costs nothing: the next one counts.
        let _ = slot.compare_exchange(state.0, changed, Ordering::Relaxed, Ordering::Relaxed);
    }
}

const FRAME_SHIFT: u32 = 16;
const HEAT_SHIFT: u32 = 48;
const HEAT_BITS: u64 = 0xf;

pub(crate) const PIN: u64 = 1;
/// The rest is for attempts that step back.
pub(crate) const PINS_MAX: u64 = 0x7fff;
const PINS: u64 = 0xffff;

pub(crate) const PRESENT: u64 = 1 << 52;
pub(crate) const FULL: u64 = 1 << 53;
/// The first touch is noted with the read-ahead policy.
pub(crate) const MARKER: u64 = 1 << 54;
pub(crate) const AHEAD: u64 = 1 << 55;
/// Fetched for a stream: only hits of its first byte are heat.
pub(crate) const STREAM: u64 = 1 << 56;

/// Bytes are dirty, on their way, or kept: the page stays.
pub(crate) const DIRTY: u64 = 1 << 57;
/// A writer changes readable bytes: pins wait.
pub(crate) const WRITING: u64 = 1 << 58;
/// The page has lost its name, and stays for those that pinned it.
pub(crate) const DETACHED: u64 = 1 << 59;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    pub(crate) fn new(frame: FrameIndex, flags: u64) -> Self {
        Self(PRESENT | flags | u64::from(frame.0) << FRAME_SHIFT)
    }

    pub(crate) fn has(self, flags: u64) -> bool {
        self.0 & flags == flags
    }

    #[inline]
    pub(crate) fn flags(self, flags: u64) -> u64 {
        self.0 & flags
    }

    #[inline]
    pub(crate) fn is_named(self) -> bool {
        self.0 & (PRESENT | DETACHED) == PRESENT
    }

    #[allow(clippy::cast_possible_truncation)] // the field has 32 bits
    pub(crate) fn frame(self) -> FrameIndex {
        FrameIndex((self.0 >> FRAME_SHIFT) as u32)
    }

    pub(crate) fn kept(self) -> u64 {
        self.0 >> HEAT_SHIFT << HEAT_SHIFT
    }

    pub(crate) fn pins(self) -> u64 {
        self.0 & PINS
    }

    #[allow(clippy::cast_possible_truncation)] // the field has 4 bits
    pub(crate) fn heat(self) -> u8 {
        ((self.0 >> HEAT_SHIFT & HEAT_BITS) as u8).min(HEAT_MAX)
    }

    pub(crate) fn with_heat(self, heat: u8) -> Self {
        Self(self.0 & !(HEAT_BITS << HEAT_SHIFT) | u64::from(heat) << HEAT_SHIFT)
    }
}

/// What fits into a line beside its name; fewer for loom.
pub(crate) const EXTENT_PAGES: u64 = if cfg!(feature = "loom") { 2 } else { 7 };
pub(crate) const EMPTY: u64 = 0;
/// The bits of a name that count extents of an object; two of the page's bits are left.
const EXTENTS: u64 = (1 << (PAGE_BITS - 2)) - 1;
const NAMED: u64 = 1 << (PAGE_BITS - 2);
pub(crate) const LOCKED: u64 = 1 << (PAGE_BITS - 1);
#[cfg(not(feature = "loom"))]
const _: () = assert!((1u64 << PAGE_BITS) / EXTENT_PAGES <= EXTENTS && size_of::<Line>() == 64);

#[repr(align(64))]
pub(crate) struct Line {
    name: AtomicU64,
    states: [AtomicU64; EXTENT_PAGES as usize],
}

impl Line {
    #[inline]
    pub(crate) fn name(&self) -> u64 {
        self.name.load(Ordering::Acquire) & !LOCKED
    }

    pub(crate) fn state(&self, at: usize) -> State {
        State(self.states[at].load(Ordering::Acquire))
    }

    pub(crate) fn is_empty(&self) -> bool {
        (0..self.states.len()).all(|at| !self.state(at).has(PRESENT))
    }

    pub(crate) fn lock(&self) -> u64 {
        let mut round = 0;
        loop {
            let name = self.name.load(Ordering::Relaxed) & !LOCKED;
            let locked = name | LOCKED;
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            let changed = self
                .name
                .compare_exchange_weak(name, locked, success, failure);
            if changed.is_ok() {
                return name;
            }
            relax(round);
            round += 1;
        }
    }

    pub(crate) fn unlock(&self, name: u64) {
        self.name.store(name, Ordering::Release);
    }
}

/// The extent of a page, as the name of a line, and the page's place in it.
#[inline]
#[allow(clippy::cast_possible_truncation)] // less than the pages of an extent
pub(crate) fn extent_of(key: u64) -> (u64, usize) {
    let object = key >> PAGE_BITS << PAGE_BITS;
    let page = key & ((1 << PAGE_BITS) - 1);
    let extent = object | NAMED | (page / EXTENT_PAGES);
    (extent, (page % EXTENT_PAGES) as usize)
}

pub(crate) fn key_in(extent: u64, at: usize) -> u64 {
    let object = extent >> PAGE_BITS << PAGE_BITS;
    object | ((extent & EXTENTS) * EXTENT_PAGES + at as u64)
}

/// In huge pages: a lookup should not miss the TLB too.
#[cfg(not(feature = "loom"))]
pub(crate) struct Lines {
    mapping: crate::frame::Mapping,
    count: usize,
}

#[cfg(not(feature = "loom"))]
pub(crate) fn lines(count: usize) -> Result<Lines, Errno> {
    let bytes = count * size_of::<Line>();
    let (mapping, _) = crate::frame::map_transparent(bytes)?;
    Ok(Lines { mapping, count })
}

#[cfg(not(feature = "loom"))]
impl std::ops::Deref for Lines {
    type Target = [Line];
    fn deref(&self) -> &[Line] {
        let start = self.mapping.start().as_ptr().cast();
        // SAFETY: mapped with room for them, aligned to more than a line, and zeroed, which is an
        // empty line; they are changed through atomics only.
        unsafe { std::slice::from_raw_parts(start, self.count) }
    }
}

#[cfg(feature = "loom")]
pub(crate) type Lines = Box<[Line]>;

#[cfg(feature = "loom")]
pub(crate) fn lines(count: usize) -> Result<Lines, Errno> {
    let line = |_| Line {
        name: AtomicU64::new(EMPTY),
        states: std::array::from_fn(|_| AtomicU64::new(0)),
    };
    Ok((0..count).map(line).collect())
}

const RUN_PAGES: u64 = 128;
/// Words for more runs than there is memory, so that few share one.
const FRAMES_PER_WORD: usize = 32;
const WORDS_MIN: usize = 64;
const CONFIDENCE_BITS: u32 = 2;
const CONFIDENCE_MAX: u32 = (1 << CONFIDENCE_BITS) - 1;
const CONFIDENT: u32 = 2;
/// Frames count round at this, below zero too; so many pages are 64 TiB.
const FRAME_MASK: u32 = u32::MAX >> CONFIDENCE_BITS;

struct Locality(Box<[AtomicU32]>);

impl Locality {
    fn new(pages: usize) -> Self {
        let words = (pages / FRAMES_PER_WORD).max(WORDS_MIN);
        let words = words.next_power_of_two();
        Self((0..words).map(|_| AtomicU32::new(0)).collect())
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // any bits will do
    fn word(&self, key: u64) -> &AtomicU32 {
        let device = (key >> PAGE_BITS).wrapping_mul(SPREAD) >> 32;
        let run = key / RUN_PAGES;
        &self.0[run.wrapping_add(device) as usize & (self.0.len() - 1)]
    }

    #[inline]
    fn guess(&self, key: u64) -> Option<FrameIndex> {
        let word = self.word(key).load(Ordering::Relaxed);
        let first = word >> CONFIDENCE_BITS;
        let is_confident = word & CONFIDENCE_MAX >= CONFIDENT;
        is_confident.then(|| FrameIndex(first.wrapping_add(inside(key)) & FRAME_MASK))
    }

    /// Of two at the same time one may be lost: it is a hint.
    fn learn(&self, key: u64, frame: FrameIndex) {
        let word = self.word(key);
        let known = word.load(Ordering::Relaxed);
        let confidence = known & CONFIDENCE_MAX;
        let first = frame.0.wrapping_sub(inside(key)) << CONFIDENCE_BITS;
        let learned = if known & !CONFIDENCE_MAX == first {
            first | (confidence + 1).min(CONFIDENCE_MAX)
        } else if confidence > 0 {
            known - 1
        } else {
            first
        };
        if learned != known {
            word.store(learned, Ordering::Relaxed);
        }
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // less than a run
fn inside(key: u64) -> u32 {
    (key % RUN_PAGES) as u32
}
