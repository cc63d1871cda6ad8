//! Memory for the pages of files, which returns to the system when they go.
//!
//! Problem: the general allocator keeps memory that many threads freed between pieces in use: after
//! 128 MiB of 4 KiB files were removed the process still held 154 MiB.
//!
//! Rule: addresses are reserved at the start, a range for each size of block: 4, 8, 16, 32 and 64
//! KiB. Only touched addresses take memory.
//!
//! ```text
//!    4 KiB  [used|free|used|used|     never touched       ]
//!    ...                        ^ next_fresh
//!   64 KiB  [   used   |   free   |     never touched     ]
//! ```
//!
//! The system makes no huge pages there (`MADV_NOHUGEPAGE`), whatever it does elsewhere: a page of
//! 2 MiB would be taken for the first of its 512 small blocks, and would stay in memory until the
//! last is freed, or until memory is short.
//!
//! A freed block returns to the system (`MADV_DONTNEED`), except that [`RESIDENT_FREE_BYTES_MAX`]
//! stay in memory: else a file that is written and removed over and over would pay page faults.
//!
//! Blocks of a size never hold more than the size of the file system; the rest of
//! [`RESERVE_FACTOR`] serves copies of pages that readers hold.
//!
//! Known weaknesses: where the system's pages are larger than a block, a freed block stays in
//! memory until its next use. One lock for all threads, held for some tens of nanoseconds per page.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Largest block, and so the most bytes of one page of a file: a 1 MiB read is 16 slices, and a
/// copy for a reader costs less than the system call around it.
pub(super) const PAGE_BYTES: usize = 64 * 1024;
/// Smallest block: a page of most systems, the least that can be returned.
const BLOCK_BYTES_MIN: usize = 4 * 1024;

const SIZES: usize = (PAGE_BYTES / BLOCK_BYTES_MIN).trailing_zeros() as usize + 1;

/// Most free memory that stays: what 64 calls in flight write in pages of 64 KiB.
const RESIDENT_FREE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Addresses reserved for all sizes, as a multiple of the size of the file system.
const RESERVE_FACTOR: usize = 8;
/// Addresses reserved beyond that: small file systems need some for pinned pages.
const RESERVE_EXTRA_BYTES: usize = 256 * 1024 * 1024;

pub(super) struct Arena {
    base: NonNull<u8>,
    /// Of the range of each size.
    range_bytes: usize,
    free: Mutex<Free>,
}

// SAFETY: `base` is only an address. The memory behind it is used through pages, each of which owns
// its block alone; which parts are free is kept behind a lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

#[derive(Default)]
struct Free {
    /// Free bytes that stay in memory.
    resident_bytes: usize,
    sizes: [OfSize; SIZES],
}

#[derive(Default)]
struct OfSize {
    /// Those that stay in memory.
    resident: Vec<usize>,
    handed_back: Vec<usize>,
    /// The range was never used from here on.
    next_fresh: usize,
}

/// Bytes from the start of a page of a file, in a block of its own. The rest of that page is zero.
pub(super) struct RamPage {
    arena: Arc<Arena>,
    /// The start of the block.
    start: usize,
    capacity: usize,
    /// The bytes of the page; the rest of the block is undefined.
    length: usize,
}

impl Arena {
    /// Reserves addresses for a file system of `size_bytes`.
    pub(super) fn new(size_bytes: u64) -> Result<Arc<Self>> {
        let size = usize::try_from(size_bytes).map_err(|_| Error::Invalid)?;
        let least = size.checked_next_multiple_of(PAGE_BYTES);
        let least = least.ok_or(Error::Invalid)?;
        let wanted = size.saturating_mul(RESERVE_FACTOR);
        let wanted = wanted.saturating_add(RESERVE_EXTRA_BYTES) / SIZES;
        let mut range_bytes = wanted.next_multiple_of(PAGE_BYTES).max(least);
        loop {
            let bytes = range_bytes.checked_mul(SIZES).ok_or(Error::Invalid);
            match bytes.and_then(reserve) {
                Ok(base) => {
                    return Ok(Arc::new(Self {
                        base,
                        range_bytes,
                        free: Mutex::default(),
                    }));
                }
                Err(error) if range_bytes <= least => return Err(error),
                Err(_) => range_bytes = (range_bytes / 2).next_multiple_of(PAGE_BYTES).max(least),
            }
        }
    }

    /// An empty page in a block of `bytes`, a power of two between the smallest and the largest.
    pub(super) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<RamPage> {
        assert!(
            bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=PAGE_BYTES).contains(&bytes),
            "{bytes} bytes are no block"
        );
        let size = size_of(bytes);
        let mut guard = self.free.lock();
        let free = &mut *guard;
        let of_size = &mut free.sizes[size];
        let start = if let Some(start) = of_size.resident.pop() {
            free.resident_bytes -= bytes;
            start
        } else if let Some(start) = of_size.handed_back.pop() {
            start
        } else if of_size.next_fresh < self.range_bytes {
            let start = size * self.range_bytes + of_size.next_fresh;
            of_size.next_fresh += bytes;
            start
        } else {
            return Err(Error::NoSpace);
        };
        drop(guard);
        Ok(RamPage {
            arena: self.clone(),
            start,
            capacity: bytes,
            length: 0,
        })
    }

    /// The memory returns to the system, unless it may stay.
    fn give(&self, start: usize, bytes: usize) {
        let mut free = self.free.lock();
        let is_kept = free.resident_bytes + bytes <= RESIDENT_FREE_BYTES_MAX;
        if !is_kept {
            drop(free);
            let is_handed_back = self.discard(start, bytes);
            free = self.free.lock();
            if is_handed_back {
                free.sizes[size_of(bytes)].handed_back.push(start);
                return;
            }
        }
        free.resident_bytes += bytes;
        free.sizes[size_of(bytes)].resident.push(start);
    }

    /// False on failure.
    fn discard(&self, start: usize, bytes: usize) -> bool {
        assert!(start + bytes <= self.range_bytes * SIZES, "out of range");
        // It would discard whole pages, with the neighbours of the block.
        if bytes < rustix::param::page_size() {
            return false;
        }
        // SAFETY: the part lies in the range that was reserved, and has no owner: it belonged
        // to a page that is being dropped and is not yet among the free ones.
        let advised = unsafe {
            let at = self.base.as_ptr().add(start).cast::<c_void>();
            rustix::mm::madvise(at, bytes, Advice::LinuxDontNeed)
        };
        advised.is_ok()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let base = self.base.as_ptr().cast::<c_void>();
        // SAFETY: the range was mapped by `reserve`; every page holds the arena, so none is left.
        let unmapped = unsafe { rustix::mm::munmap(base, self.range_bytes * SIZES) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

fn reserve(bytes: usize) -> Result<NonNull<u8>> {
    // SAFETY: a new anonymous mapping at an address the system chooses touches nothing that is
    // there. Not reserving swap means that only touched pages count.
    let base = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    let base = base.map_err(|errno| Error::Io(format!("cannot reserve {bytes} bytes: {errno}")))?;
    // A system without huge pages refuses, and needs it not.
    // SAFETY: the whole new mapping. It only says which pages are preferred.
    let _ = unsafe { rustix::mm::madvise(base, bytes, Advice::LinuxNoHugepage) };
    NonNull::new(base.cast::<u8>()).ok_or_else(|| Error::Io("mapping at address 0".to_owned()))
}

fn size_of(bytes: usize) -> usize {
    (bytes / BLOCK_BYTES_MIN).trailing_zeros() as usize
}

/// A power of two, so that a page that grows is copied at most four times.
pub(super) fn capacity_for(bytes: usize) -> usize {
    bytes
        .max(BLOCK_BYTES_MIN)
        .next_power_of_two()
        .min(PAGE_BYTES)
}

impl RamPage {
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes `data` at `start`; what lies between the end so far and `start` becomes zero.
    pub(super) fn write(&mut self, start: usize, data: &[u8]) {
        // SAFETY: the block lies in the range, which is mapped as long as the arena lives, and is
        // zero or was written: always initialised. It belongs to this page alone, which is borrowed
        // alone, so that nothing else reads or writes.
        let bytes = unsafe {
            let first = self.arena.base.as_ptr().add(self.start);
            std::slice::from_raw_parts_mut(first, self.capacity)
        };
        let end = start + data.len();
        assert!(end <= bytes.len(), "past the page's end");
        if self.length < start {
            bytes[self.length..start].fill(0);
        }
        bytes[start..end].copy_from_slice(data);
        self.length = self.length.max(end);
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl AsRef<[u8]> for RamPage {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `write`; nothing writes while the page is borrowed.
        unsafe { std::slice::from_raw_parts(self.arena.base.as_ptr().add(self.start), self.length) }
    }
}

impl Drop for RamPage {
    fn drop(&mut self) {
        self.arena.give(self.start, self.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(page: &mut RamPage, byte: u8) {
        page.write(0, &vec![byte; page.capacity()]);
    }

    /// What the bookkeeping says is in use, and whether it agrees with itself.
    fn used_bytes(arena: &Arena) -> usize {
        let free = arena.free.lock();
        let (mut used, mut resident) = (0, 0);
        for (size, of_size) in free.sizes.iter().enumerate() {
            let bytes = BLOCK_BYTES_MIN << size;
            resident += of_size.resident.len() * bytes;
            let handed_back = of_size.handed_back.len() * bytes;
            used += of_size.next_fresh - handed_back;
        }
        assert_eq!(resident, free.resident_bytes, "resident free bytes");
        used - resident
    }

    #[test]
    fn no_huge_page_holds_blocks() {
        let are_there = std::fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap();
        let arena = Arena::new(1 << 24).unwrap();
        let address = arena.base.as_ptr().addr();
        let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let holds = |line: &str| {
            let range = line.split(' ').next()?.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some((number(range.0)?..number(range.1)?).contains(&address))
        };
        let mut lines = mappings
            .lines()
            .skip_while(|line| holds(line) != Some(true));
        let flags = lines
            .find_map(|line| line.strip_prefix("VmFlags:"))
            .unwrap();
        let is_without = flags.split(' ').any(|flag| flag == "nh");
        assert_eq!(is_without, are_there, "{flags}");
    }

    #[test]
    fn blocks_do_not_overlap_and_all_come_back() {
        let arena = Arena::new(1 << 24).unwrap();
        let mut blocks: Vec<(RamPage, u8)> = Vec::new();
        let mut seed = 7_u64;
        for round in 0..20_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = usize::try_from(seed >> 40).unwrap();
            if random.is_multiple_of(2) && blocks.len() < 300 {
                let mut block = arena.allocate(BLOCK_BYTES_MIN << (random / 2 % 5)).unwrap();
                let mark = u8::try_from(round % 255).unwrap();
                fill(&mut block, mark);
                blocks.push((block, mark));
            } else if !blocks.is_empty() {
                let (block, mark) = blocks.swap_remove(random % blocks.len());
                assert!(block.as_ref().iter().all(|byte| *byte == mark));
            }
            if round.is_multiple_of(500) {
                let expected: usize = blocks.iter().map(|(block, _)| block.capacity()).sum();
                assert_eq!(used_bytes(&arena), expected);
            }
        }
        blocks.clear();
        assert_eq!(used_bytes(&arena), 0);
    }

    #[test]
    fn what_is_handed_back_is_zero_again() {
        let arena = Arena::new(1 << 24).unwrap();
        let mut blocks: Vec<RamPage> = (0..200)
            .map(|_| arena.allocate(PAGE_BYTES).unwrap())
            .collect();
        blocks.iter_mut().for_each(|block| fill(block, 1));
        blocks.clear();
        let kept = arena.free.lock().resident_bytes;
        assert_eq!(kept, RESIDENT_FREE_BYTES_MAX);
        let again: Vec<RamPage> = (0..200)
            .map(|_| {
                let mut block = arena.allocate(PAGE_BYTES).unwrap();
                block.length = PAGE_BYTES; // what was there shows
                block
            })
            .collect();
        let zero = |block: &&RamPage| block.as_ref().iter().all(|byte| *byte == 0);
        let handed_back = 200 - RESIDENT_FREE_BYTES_MAX / PAGE_BYTES;
        assert_eq!(again.iter().filter(zero).count(), handed_back);
        assert_eq!(
            arena.free.lock().sizes[size_of(PAGE_BYTES)].next_fresh,
            200 * PAGE_BYTES,
            "free blocks are used first"
        );
    }

    #[test]
    fn an_arena_that_is_used_up_refuses() {
        let arena = Arena::new(1).unwrap();
        for bytes in [PAGE_BYTES, BLOCK_BYTES_MIN] {
            let blocks: Vec<RamPage> = (0..arena.range_bytes / bytes)
                .map(|_| arena.allocate(bytes).unwrap())
                .collect();
            assert_eq!(arena.allocate(bytes).err(), Some(Error::NoSpace));
            drop(blocks);
            assert!(arena.allocate(bytes).is_ok());
        }
        assert!(Arena::new(u64::MAX).is_err());
    }

    #[test]
    fn threads_share_an_arena() {
        let arena = Arena::new(1 << 24).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let arena = &arena;
                scope.spawn(move || {
                    for round in 0..2000_usize {
                        let mut block = arena.allocate(BLOCK_BYTES_MIN << (round % 5)).unwrap();
                        fill(&mut block, thread);
                        assert!(block.as_ref().iter().all(|byte| *byte == thread));
                    }
                });
            }
        });
        assert_eq!(used_bytes(&arena), 0);
    }

    #[test]
    fn capacities_are_powers_of_two_within_bounds() {
        for (bytes, capacity) in [
            (0, 4096),
            (4096, 4096),
            (4097, 8192),
            (40_000, 65_536),
            (65_536, 65_536),
        ] {
            assert_eq!(capacity_for(bytes), capacity);
        }
    }

    #[test]
    fn writes_fill_gaps_with_zeros_and_overlap() {
        let arena = Arena::new(1 << 20).unwrap();
        let mut dirty = arena.allocate(4096).unwrap();
        dirty.write(0, &[9; 4096]);
        drop(dirty);
        let mut page = arena.allocate(4096).unwrap();
        page.write(3, b"abc");
        assert_eq!(page.as_ref(), b"\0\0\0abc");
        page.write(4, b"XYZ");
        assert_eq!(page.as_ref(), b"\0\0\0aXYZ");
        page.write(1, b"1");
        assert_eq!(page.as_ref(), [0, b'1', 0, b'a', b'X', b'Y', b'Z']);
        page.truncate(4);
        page.write(6, b"!");
        assert_eq!(page.as_ref().len(), 7);
        assert_eq!(&page.as_ref()[4..], b"\0\0!");
    }
}
