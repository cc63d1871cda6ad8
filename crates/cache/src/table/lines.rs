//! Lines of the page table: the pages of an extent, and its name. See [`crate::table::page_table`].

use rustix::io::Errno;

use crate::page::PAGE_BITS;
use crate::sync::{AtomicU64, Ordering, relax};
use crate::table::state::{PRESENT, State};

/// Pages of an extent: what fits into a line beside its name. Fewer where every order is tried.
pub(crate) const EXTENT_PAGES: u64 = if cfg!(feature = "loom") { 2 } else { 7 };
/// A line that never had a name.
pub(crate) const EMPTY: u64 = 0;
/// The bits of a name that count extents of a device; two bits of the pages' are left.
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
    let device = key >> PAGE_BITS << PAGE_BITS;
    let page = key & ((1 << PAGE_BITS) - 1);
    let extent = device | NAMED | (page / EXTENT_PAGES);
    (extent, (page % EXTENT_PAGES) as usize)
}

/// The page of an extent.
pub(crate) fn key_in(extent: u64, at: usize) -> u64 {
    let device = extent >> PAGE_BITS << PAGE_BITS;
    device | ((extent & EXTENTS) * EXTENT_PAGES + at as u64)
}

/// Lines in huge pages: a lookup misses the processor's caches for a large table, and should not
/// miss its address cache too.
#[cfg(not(feature = "loom"))]
pub(crate) struct Lines {
    mapping: crate::frame::arena::Mapping,
    count: usize,
}

#[cfg(not(feature = "loom"))]
impl Lines {
    pub(crate) fn new(count: usize) -> Result<Self, Errno> {
        let bytes = count * size_of::<Line>();
        let (mapping, _) = crate::frame::arena::map_transparent(bytes)?;
        Ok(Self { mapping, count })
    }
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
pub(crate) struct Lines(Box<[Line]>);

#[cfg(feature = "loom")]
impl Lines {
    pub(crate) fn new(count: usize) -> Result<Self, Errno> {
        let line = |_| Line {
            name: AtomicU64::new(EMPTY),
            states: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Ok(Self((0..count).map(line).collect()))
    }
}

#[cfg(feature = "loom")]
impl std::ops::Deref for Lines {
    type Target = [Line];
    fn deref(&self) -> &[Line] {
        &self.0
    }
}
