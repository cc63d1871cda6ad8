//! Frames: the memory of the cache, mapped once, in huge pages if possible; and which are free.
//!
//! Mapping a page at each use pays for page tables and shootdowns: half of the cost of a read on
//! Solaris. Here a page's address is arithmetic, and huge pages need only some hundred TLB entries.
//!
//! Free frames are Treiber's stack over indexes; a tag in the head changes at every push and pop,
//! against ABA. What was freed last, most likely still in the processor's cache, goes first. Known
//! weakness: all threads meet at one head, once for each fetched page.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use pagewell_counters::names::{CACHE_ARENA_BYTES, CACHE_ARENA_PAGES};
use pagewell_policy::eviction::FrameIndex;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{CacheOptions, PAGE_BYTES};

/// The processor then goes on by itself.
#[cfg(target_arch = "x86_64")]
const PREFETCHED_LINES: usize = 4;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Which pages the system gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// Huge pages set aside.
    Reserved,
    /// Huge pages as memory allows.
    Transparent,
    /// Ordinary pages.
    Ordinary,
}

impl std::fmt::Display for PageSize {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Reserved => "reserved huge pages",
            Self::Transparent => "transparent huge pages",
            Self::Ordinary => "ordinary pages",
        })
    }
}

pub(crate) struct Arena {
    mapping: Arc<Mapping>,
    frames: u32,
    /// Which pages the system gave.
    page_size: PageSize,
    file: Option<OwnedFd>,
    /// Shows loom what threads do with each block.
    #[cfg(feature = "loom")]
    watched: Watched,
}

pub(crate) struct Mapping {
    base: NonNull<u8>,
    base_bytes: usize,
    start: NonNull<u8>,
}

// SAFETY: memory that any thread may use; the rules in `lib.rs` say which thread uses which bytes
// when.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

#[cfg(not(feature = "loom"))]
impl Mapping {
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length; what has an address has the mapping.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.base_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

impl Arena {
    /// Populates `populate_bytes`, as far as there is memory; [`u64::MAX`]: all, or there is no
    /// arena.
    pub(crate) fn new(frames: u32, options: &CacheOptions) -> Result<Self, Errno> {
        let populate_bytes = options.populate_bytes;
        let reserved = options.size_bytes_min.is_none();
        let bytes = frames as usize * PAGE_BYTES;
        let set_aside = reserved.then(|| map_reserved(bytes).ok()).flatten();
        let (mapping, page_size) = match set_aside {
            Some(mapping) => (mapping, PageSize::Reserved),
            None => map_transparent(bytes)?,
        };
        let pages = populate_bytes.div_ceil(PAGE_BYTES as u64);
        let populated_bytes = pages.min(frames.into()) as usize * PAGE_BYTES;
        let populated = populate(&mapping, populated_bytes);
        check_populated(populated, populate_bytes == u64::MAX)?;
        Ok(Self::of(mapping, frames, page_size, None))
    }

    fn of(mapping: Mapping, frames: u32, page_size: PageSize, file: Option<OwnedFd>) -> Self {
        count(i64::from(frames));
        Self {
            mapping: Arc::new(mapping),
            frames,
            page_size,
            file,
            #[cfg(feature = "loom")]
            watched: Watched::new(frames as usize * PAGE_BYTES),
        }
    }

    pub(crate) fn new_in_file(frames: u32) -> Result<Self, Errno> {
        let bytes = frames as usize * PAGE_BYTES;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("pagewell-cache", flags)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping of our own file at an address the system chooses.
        let base = unsafe { rustix::mm::mmap(null, bytes, protection, flags, &file, 0)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        let mapping = Mapping {
            base,
            base_bytes: bytes,
            start: base,
        };
        // Our own mapping stays writable, as it came before the seal.
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Ok(Self::of(mapping, frames, PageSize::Ordinary, Some(file)))
    }

    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }

    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        u64::from(self.frames) * PAGE_BYTES as u64
    }

    /// Bytes of a page.
    ///
    /// # Safety
    /// No thread writes to them for as long as they are used.
    pub(crate) unsafe fn bytes(&self, frame: FrameIndex, start: usize, length: usize) -> &[u8] {
        assert!(start + length <= PAGE_BYTES);
        #[cfg(feature = "loom")]
        self.watched.read(frame, start, length);
        // SAFETY: inside the page, by the assertion; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.address(frame).as_ptr().add(start), length) }
    }

    /// Copies bytes into a page.
    ///
    /// # Safety
    /// No other thread reads or writes them meanwhile.
    pub(crate) unsafe fn fill(&self, frame: FrameIndex, start: usize, source: &[u8]) {
        assert!(start + source.len() <= PAGE_BYTES);
        #[cfg(feature = "loom")]
        self.watched.write(frame, start, source.len());
        // SAFETY: inside the page, by the assertion; the rest is the caller's.
        unsafe {
            let target = self.address(frame).as_ptr().add(start);
            std::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len());
        }
    }

    pub(crate) fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        assert!(frame.0 < self.frames, "{frame:?} of {}", self.frames);
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.mapping.start.add(frame.0 as usize * PAGE_BYTES) }
    }

    /// Prefetches a part of a page: its beginning, and where it enters the next 4 KiB, which
    /// hardware does not look across. Any frame is fine.
    #[inline]
    pub(crate) fn prefetch(&self, frame: FrameIndex, range: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let offset = frame.0 as usize * PAGE_BYTES + range.start;
            let address = self.mapping.start.as_ptr().wrapping_add(offset);
            let ask = |offset: usize| {
                // SAFETY: a hint; it reads nothing and cannot fault, whatever the address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(offset).cast()) };
            };
            (0..PREFETCHED_LINES).for_each(|line| ask(line * 64));
            if range.len() > 4096 {
                let next = 4096 - range.start % 4096;
                (0..PREFETCHED_LINES).for_each(|line| ask(next + line * 64));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (frame, range);
    }

    pub(crate) fn memory(&self) -> pagewell_device::Memory {
        let length = self.frames as usize * PAGE_BYTES;
        // SAFETY: the keeper is the mapping, which unmaps only when it is dropped.
        unsafe { pagewell_device::Memory::new(self.mapping.start, length, self.mapping.clone()) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        count(-i64::from(self.frames));
    }
}

/// Loom fails a test where a thread writes to a block that another uses.
#[cfg(feature = "loom")]
struct Watched(Box<[loom::cell::UnsafeCell<()>]>);

// SAFETY: loom sees every access.
#[cfg(feature = "loom")]
unsafe impl Sync for Watched {}
// SAFETY: as above.
#[cfg(feature = "loom")]
unsafe impl Send for Watched {}

#[cfg(feature = "loom")]
impl Watched {
    const BLOCK_BYTES: usize = 4096;

    fn new(bytes: usize) -> Self {
        let blocks = 0..bytes / Self::BLOCK_BYTES;
        Self(blocks.map(|_| loom::cell::UnsafeCell::new(())).collect())
    }

    fn blocks(
        &self,
        frame: FrameIndex,
        start: usize,
        length: usize,
    ) -> &[loom::cell::UnsafeCell<()>] {
        let start = frame.0 as usize * PAGE_BYTES + start;
        let end = (start + length).div_ceil(Self::BLOCK_BYTES);
        &self.0[start / Self::BLOCK_BYTES..end]
    }

    fn read(&self, frame: FrameIndex, start: usize, length: usize) {
        let blocks = self.blocks(frame, start, length).iter();
        blocks.for_each(|block| block.with(|_| ()));
    }

    fn write(&self, frame: FrameIndex, start: usize, length: usize) {
        let blocks = self.blocks(frame, start, length).iter();
        blocks.for_each(|block| block.with_mut(|_| ()));
    }
}

fn populate(mapping: &Mapping, bytes: usize) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: inside the mapping. It only takes memory.
    unsafe {
        let start = mapping.start.as_ptr().cast();
        rustix::mm::madvise(start, bytes, Advice::LinuxPopulateWrite)
    }
}

fn check_populated(populated: Result<(), Errno>, is_needed: bool) -> Result<(), Errno> {
    match populated {
        // An older system: memory is taken at first use.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) if is_needed => Err(errno),
        Err(_) => Ok(()),
    }
}

fn count(pages: i64) {
    CACHE_ARENA_BYTES.add(pages * PAGE_BYTES as i64);
    CACHE_ARENA_PAGES.add(pages);
}

fn map_reserved(bytes: usize) -> Result<Mapping, Errno> {
    let bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
    let base = map(bytes, MapFlags::HUGETLB | MapFlags::HUGE_2MB)?;
    Ok(Mapping {
        base,
        base_bytes: bytes,
        start: base,
    })
}

pub(crate) fn map_transparent(bytes: usize) -> Result<(Mapping, PageSize), Errno> {
    let base_bytes = bytes + HUGE_PAGE_BYTES;
    let base = map(base_bytes, MapFlags::NORESERVE)?;
    let skipped = base.as_ptr().align_offset(HUGE_PAGE_BYTES);
    // SAFETY: the mapping is longer by the alignment.
    let start = unsafe { base.add(skipped) };
    let mapping = Mapping {
        base,
        base_bytes,
        start,
    };
    // SAFETY: inside the mapping. It only says which pages are preferred.
    let advised =
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    // A forked child would make pages copy-on-write. Not every system has it.
    // SAFETY: inside the mapping; only children are affected, which do not use the cache.
    let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontFork) };
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let enabled = enabled.is_ok_and(|text| !text.contains("[never]"));
    let page_size = if advised.is_ok() && enabled {
        PageSize::Transparent
    } else {
        PageSize::Ordinary
    };
    Ok((mapping, page_size))
}

fn map(bytes: usize, flags: MapFlags) -> Result<NonNull<u8>, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let null = std::ptr::null_mut();
    // SAFETY: a new private mapping at an address the system chooses.
    let base =
        unsafe { rustix::mm::mmap_anonymous(null, bytes, protection, MapFlags::PRIVATE | flags)? };
    NonNull::new(base.cast()).ok_or(Errno::NOMEM)
}

const NONE: u32 = u32::MAX;

pub(crate) struct FreeList {
    /// A tag, and the index of the first free frame or `NONE`.
    head: AtomicU64,
    next: Box<[AtomicU32]>,
    count: AtomicU32,
}

impl FreeList {
    /// All frames `0..frames` are free; they come out in ascending order.
    pub(crate) fn new(frames: u32) -> Self {
        let next = (1..=frames).map(|next| if next == frames { NONE } else { next });
        Self {
            head: AtomicU64::new(u64::from(if frames == 0 { NONE } else { 0 })),
            next: next.map(AtomicU32::new).collect(),
            count: AtomicU32::new(frames),
        }
    }

    pub(crate) fn pop(&self) -> Option<FrameIndex> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = index_of(head);
            let next = self.next.get(first as usize)?.load(Ordering::Relaxed);
            match self.replace(head, next) {
                Ok(()) => {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                    return Some(FrameIndex(first));
                }
                Err(current) => head = current,
            }
        }
    }

    /// The frame must not be in the list.
    pub(crate) fn push(&self, frame: FrameIndex) {
        let Some(next) = self.next.get(frame.0 as usize) else {
            debug_assert!(false, "{frame:?}");
            return;
        };
        // Counted first: the count never falls below what can be taken.
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            next.store(index_of(head), Ordering::Relaxed);
            match self.replace(head, frame.0) {
                Ok(()) => return,
                Err(current) => head = current,
            }
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    fn replace(&self, head: u64, first: u32) -> Result<(), u64> {
        let tag = (head >> 32).wrapping_add(1) << 32;
        let new = tag | u64::from(first);
        self.head
            .compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }
}

#[allow(clippy::cast_possible_truncation)] // the lower half
fn index_of(head: u64) -> u32 {
    head as u32
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn options(populate_bytes: u64, size_bytes_min: Option<u64>) -> CacheOptions {
        CacheOptions {
            size_bytes_min,
            populate_bytes,
            ..CacheOptions::new(64 * PAGE_BYTES as u64)
        }
    }

    #[test]
    fn pages_lie_side_by_side_on_a_huge_page_boundary() {
        for arena in [
            Arena::new(64, &options(u64::MAX, None)).unwrap(),
            Arena::new(64, &options(0, Some(1 << 20))).unwrap(),
            Arena::new_in_file(64).unwrap(),
        ] {
            let first = arena.address(FrameIndex(0)).as_ptr();
            let last = arena.address(FrameIndex(63)).as_ptr();
            assert_eq!(last as usize - first as usize, 63 * PAGE_BYTES);
            if arena.file.is_none() {
                assert_eq!(first as usize % HUGE_PAGE_BYTES, 0);
            }
            // SAFETY: the last byte of the arena, which is ours alone.
            unsafe {
                last.add(PAGE_BYTES - 1).write(1);
                assert_eq!(last.add(PAGE_BYTES - 1).read(), 1);
            }
            assert_eq!(arena.memory().segment().len(), 64 * PAGE_BYTES);
        }
    }

    #[test]
    fn huge_pages_that_were_set_aside_are_for_caches_that_ask() {
        let arena = Arena::new(64, &options(0, Some(1 << 20))).unwrap();
        assert_ne!(arena.page_size, PageSize::Reserved);
    }

    #[test]
    fn only_all_of_the_memory_has_to_be_there_at_once() {
        assert_eq!(check_populated(Err(Errno::NOMEM), false), Ok(()));
        let needed = check_populated(Err(Errno::NOMEM), true);
        assert_eq!(needed, Err(Errno::NOMEM));
        assert_eq!(check_populated(Err(Errno::INVAL), true), Ok(()));
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod free_list_tests {
    use super::*;

    #[test]
    fn each_frame_is_taken_once() {
        let list = FreeList::new(64);
        let taken = crate::sync::Mutex::<Vec<u32>>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Some(frame) = list.pop() {
                            list.push(frame);
                        }
                    }
                    while let Some(frame) = list.pop() {
                        taken.lock().push(frame.0);
                    }
                });
            }
        });
        let mut taken = std::mem::take(&mut *taken.lock());
        taken.sort_unstable();
        assert_eq!(taken, (0..64).collect::<Vec<_>>());
        assert_eq!(list.len(), 0);
        assert_eq!(FreeList::new(0).pop(), None);
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn no_frame_is_lost_or_taken_twice() {
        loom::model(|| {
            let list = Arc::new(FreeList::new(2));
            let other = list.clone();
            let thread = loom::thread::spawn(move || {
                let first = other.pop();
                if let Some(frame) = first {
                    other.push(frame);
                }
                other.pop()
            });
            let here = list.pop();
            let there = thread.join().unwrap();
            assert!(here.is_none() || here != there, "{here:?} {there:?}");
            let mut left = 0;
            while list.pop().is_some() {
                left += 1;
            }
            let taken = usize::from(here.is_some()) + usize::from(there.is_some());
            assert_eq!(left + taken, 2);
        });
    }
}
