//! Lines of the page table: the words of the pages of an extent, and its name. See
//! [`crate::table::page_table`].
//!
//! What one word says about a page:
//!
//! ```text
//!  63      56 55 54    52 51  48 47            16 15      0
//! +----------+--+--------+------+----------------+---------+
//! |   flags              | heat |     frame      |  pins   |
//! +----------+--+--------+------+----------------+---------+
//! ```

use pagewell_policy::eviction::{FrameIndex, HEAT_MAX};
use rustix::io::Errno;

use crate::page::PAGE_BITS;
use crate::sync::{AtomicU64, Ordering, relax};

const FRAME_SHIFT: u32 = 16;
const HEAT_SHIFT: u32 = 48;
const HEAT_BITS: u64 = 0xf;

/// One more pin.
pub(crate) const PIN: u64 = 1;
/// A page may be pinned so often at a time; the rest of the field is room for attempts that see
/// the limit and step back.
pub(crate) const PINS_MAX: u64 = 0x7fff;
const PINS: u64 = 0xffff;

/// The slot holds a page; without it the other fields mean nothing.
pub(crate) const PRESENT: u64 = 1 << 52;
/// Every byte of the page has been fetched.
pub(crate) const FULL: u64 = 1 << 53;
/// The first touch is to be noted with the read-ahead policy.
pub(crate) const MARKER: u64 = 1 << 54;
/// Read-ahead fetched it and nobody has touched it.
pub(crate) const AHEAD: u64 = 1 << 55;
/// Read-ahead fetched it for a stream: only hits of its first byte are heat, once for each pass.
pub(crate) const STREAM: u64 = 1 << 56;

/// It holds bytes that are not on the device, or are on their way there: it stays.
pub(crate) const DIRTY: u64 = 1 << 57;
/// A writer changes bytes of it that readers may use: a thread that wants to pin it waits a moment.
pub(crate) const WRITING: u64 = 1 << 58;
/// Another page has taken its name; it stays for those that have pinned it.
pub(crate) const DETACHED: u64 = 1 << 59;

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    /// Of a page that has just come.
    pub(crate) fn new(frame: FrameIndex, flags: u64) -> Self {
        Self(PRESENT | flags | u64::from(frame.0) << FRAME_SHIFT)
    }

    /// Whether all of `flags` are set.
    pub(crate) fn has(self, flags: u64) -> bool {
        self.0 & flags == flags
    }

    /// Whether it is of a page that can be found.
    #[inline]
    pub(crate) fn is_named(self) -> bool {
        self.0 & (PRESENT | DETACHED) == PRESENT
    }

    /// Where the page is.
    #[allow(clippy::cast_possible_truncation)] // the field has 32 bits
    pub(crate) fn frame(self) -> FrameIndex {
        FrameIndex((self.0 >> FRAME_SHIFT) as u32)
    }

    /// Heat and flags.
    pub(crate) fn kept(self) -> u64 {
        self.0 >> HEAT_SHIFT << HEAT_SHIFT
    }

    /// How many have pinned it.
    pub(crate) fn pins(self) -> u64 {
        self.0 & PINS
    }

    /// Hits, at most [`HEAT_MAX`].
    #[allow(clippy::cast_possible_truncation)] // the field has 4 bits
    pub(crate) fn heat(self) -> u8 {
        ((self.0 >> HEAT_SHIFT & HEAT_BITS) as u8).min(HEAT_MAX)
    }

    /// The same with another heat.
    pub(crate) fn with_heat(self, heat: u8) -> Self {
        Self(self.0 & !(HEAT_BITS << HEAT_SHIFT) | u64::from(heat) << HEAT_SHIFT)
    }
}

/// Pages of an extent: what fits into a line beside its name. Fewer where every order is tried.
pub(crate) const EXTENT_PAGES: u64 = if cfg!(feature = "loom") { 2 } else { 7 };
/// A line that never had a name.
pub(crate) const EMPTY: u64 = 0;
/// The bits of a name that count extents of an object; two bits of the pages' are left.
const EXTENTS: u64 = (1 << (PAGE_BITS - 2)) - 1;
/// Part of every name, so that none is [`EMPTY`].
const NAMED: u64 = 1 << (PAGE_BITS - 2);
/// A thread changes the name, or adds a page.
pub(crate) const LOCKED: u64 = 1 << (PAGE_BITS - 1);
#[cfg(not(feature = "loom"))]
const _: () = assert!((1u64 << PAGE_BITS) / EXTENT_PAGES <= EXTENTS && size_of::<Line>() == 64);

#[repr(align(64))]
pub(crate) struct Line {
    pub(crate) name: AtomicU64,
    pub(crate) states: [AtomicU64; EXTENT_PAGES as usize],
}

impl Line {
    /// Whose pages these are, if there are any.
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

    /// Keeps others from adding pages; the name.
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

/// The extent of a page, as the name of a line, and which of its pages it is.
#[inline]
#[allow(clippy::cast_possible_truncation)] // less than the pages of an extent
pub(crate) fn extent_of(key: u64) -> (u64, usize) {
    let object = key >> PAGE_BITS << PAGE_BITS;
    let page = key & ((1 << PAGE_BITS) - 1);
    let extent = object | NAMED | (page / EXTENT_PAGES);
    (extent, (page % EXTENT_PAGES) as usize)
}

/// The page of an extent.
pub(crate) fn key_in(extent: u64, at: usize) -> u64 {
    let object = extent >> PAGE_BITS << PAGE_BITS;
    object | ((extent & EXTENTS) * EXTENT_PAGES + at as u64)
}

/// Lines in huge pages: a lookup misses the processor's caches for a large table, and should not
/// miss its address cache too.
#[cfg(not(feature = "loom"))]
pub(crate) struct Lines {
    mapping: crate::frame::arena::Mapping,
    count: usize,
}

#[cfg(not(feature = "loom"))]
pub(crate) fn lines(count: usize) -> Result<Lines, Errno> {
    let bytes = count * size_of::<Line>();
    let (mapping, _) = crate::frame::arena::map_transparent(bytes)?;
    Ok(Lines { mapping, count })
}

#[cfg(not(feature = "loom"))]
impl std::ops::Deref for Lines {
    type Target = [Line];
    fn deref(&self) -> &[Line] {
        let start = self.mapping.start.as_ptr().cast();
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

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn the_fields_do_not_touch_each_other() {
        let state = State::new(FrameIndex(u32::MAX), FULL | MARKER);
        assert_eq!(state.frame(), FrameIndex(u32::MAX));
        assert_eq!((state.pins(), state.heat()), (0, 0));
        let state = State(state.0 + PINS_MAX * PIN).with_heat(3);
        assert_eq!((state.pins(), state.heat()), (PINS_MAX, 3));
        assert!(state.has(PRESENT | FULL | MARKER) && !state.has(AHEAD));
        assert_eq!(state.with_heat(15).heat(), HEAT_MAX);
        assert_eq!(state.with_heat(0).frame(), FrameIndex(u32::MAX));
    }
}
