//! Memory for the pages of files, which goes back to the system when they go.
//!
//! Problem: the general allocator keeps what many threads freed between pieces still in use: after
//! 128 MiB of 4 KiB files were removed the process still held 154 MiB. A file system whose size
//! is a promise must give memory back, and quickly take it again.
//!
//! Rule: one range of addresses is reserved at the start; only what is touched takes memory. It is
//! divided into units of 64 KiB. A unit is one block of 64 KiB or is cut into equal blocks of 4,
//! 8, 16 or 32 KiB; when the last of them is freed it is whole again.
//!
//! ```text
//!   unit 0    unit 1      unit 2       next_fresh ->
//!   [64 KiB ] [8|8|8|8..] [64 KiB ]    never touched
//!              ^ free blocks: a bit each
//! ```
//!
//! A freed block is handed back (`MADV_DONTNEED`), except that up to [`RESIDENT_FREE_BYTES_MAX`]
//! stay in memory for the next that ask: a file that is written and removed over and over shall not
//! pay page faults each time. Cut units are reused from the lowest address, so that the high
//! ones run empty.
//!
//! How many addresses: a unit is cut only when all units of its kind are full, so each of the five
//! kinds holds at most the size of the file system and one unit; [`RESERVE_FACTOR`] is more than
//! that, and the rest serves copies of pages that readers hold.
//!
//! Known weaknesses: where the system's pages are larger than a block, the block goes back only
//! with its unit. One lock for all threads; it is held for some tens of nanoseconds per page.

use std::collections::{BTreeSet, HashMap};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Largest block, and the unit of the range.
pub(super) const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Smallest block: a page of most systems, the least that can be handed back.
pub(super) const BLOCK_BYTES_MIN: usize = 4 * 1024;

/// Kinds of cut units: blocks of 4, 8, 16 and 32 KiB.
const KINDS: usize = (BLOCK_BYTES_MAX / BLOCK_BYTES_MIN).trailing_zeros() as usize;

/// Free memory that is not handed back: what 64 calls in flight write in pages of 64 KiB.
const RESIDENT_FREE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Addresses reserved, as a multiple of the size of the file system.
const RESERVE_FACTOR: usize = 8;
/// Addresses reserved beyond that, so that small file systems have room for pinned pages.
const RESERVE_EXTRA_BYTES: usize = 256 * 1024 * 1024;

/// The range, and what of it is free.
pub(super) struct Arena {
    base: NonNull<u8>,
    units: usize,
    system_page_bytes: usize,
    /// Free bytes that were not handed back.
    resident_free_bytes: AtomicUsize,
    free: Mutex<Free>,
}

// SAFETY: `base` is only an address. The memory behind it is used through blocks, each of which
// owns its part alone; which parts are free is kept behind a lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// A unit cut into equal blocks.
struct Cut {
    kind: usize,
    /// Blocks that are free, a bit each.
    free: u16,
    /// Free blocks that were not handed back.
    resident: u16,
}

#[derive(Default)]
struct Free {
    /// Units from here on were never used.
    next_fresh: usize,
    /// Whole free units that were handed back.
    clean: Vec<u32>,
    /// Whole free units with the bytes in them that were not handed back.
    resident: Vec<(u32, usize)>,
    cut: HashMap<u32, Cut>,
    /// Cut units with a free block, by kind.
    open: [BTreeSet<u32>; KINDS],
}

/// A part of the range that belongs to one owner. Its content is whatever was there.
pub(super) struct Block {
    arena: Arc<Arena>,
    start: usize,
    bytes: usize,
}

impl Arena {
    /// Reserves addresses for a file system of `size_bytes`.
    pub(super) fn new(size_bytes: u64) -> Result<Arc<Self>> {
        let size = usize::try_from(size_bytes).map_err(|_| Error::Invalid)?;
        let least = size
            .checked_next_multiple_of(BLOCK_BYTES_MAX)
            .and_then(|bytes| bytes.checked_add(KINDS * BLOCK_BYTES_MAX))
            .ok_or(Error::Invalid)?;
        let mut bytes = size
            .checked_mul(RESERVE_FACTOR)
            .and_then(|bytes| bytes.checked_add(RESERVE_EXTRA_BYTES))
            .unwrap_or(least)
            .next_multiple_of(BLOCK_BYTES_MAX);
        loop {
            match reserve(bytes) {
                Ok(base) => {
                    return Ok(Arc::new(Self {
                        base,
                        units: bytes / BLOCK_BYTES_MAX,
                        system_page_bytes: rustix::param::page_size(),
                        resident_free_bytes: AtomicUsize::new(0),
                        free: Mutex::new(Free::default()),
                    }));
                }
                Err(error) if bytes <= least => return Err(error),
                Err(_) => bytes = (bytes / 2).next_multiple_of(BLOCK_BYTES_MAX).max(least),
            }
        }
    }

    /// A block of `bytes`, a power of two between the smallest and the largest.
    pub(super) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Block> {
        assert!(
            bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&bytes),
            "{bytes} bytes are no block"
        );
        let mut free = self.free.lock();
        let found = if bytes == BLOCK_BYTES_MAX {
            free.take_unit(self.units)
                .map(|(unit, resident)| (unit as usize * BLOCK_BYTES_MAX, resident))
        } else {
            free.take_part(bytes, self.units)
        };
        let (start, resident) = found.ok_or(Error::NoSpace)?;
        self.resident_free_bytes
            .fetch_sub(resident, Ordering::Relaxed);
        drop(free);
        Ok(Block {
            arena: self.clone(),
            start,
            bytes,
        })
    }

    /// Hands memory back to the system, or decides to keep it; returns the bytes kept.
    fn hand_back(&self, start: usize, bytes: usize) -> usize {
        let kept =
            self.resident_free_bytes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| {
                    (kept + bytes <= RESIDENT_FREE_BYTES_MAX).then_some(kept + bytes)
                });
        if kept.is_ok() {
            return bytes;
        }
        if bytes >= self.system_page_bytes && self.discard(start, bytes) {
            return 0;
        }
        self.resident_free_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    /// Tells the system that nobody needs what is there; false when it does not take it.
    fn discard(&self, start: usize, bytes: usize) -> bool {
        assert!(
            start + bytes <= self.units * BLOCK_BYTES_MAX,
            "out of range"
        );
        // SAFETY: the part lies in the range that was reserved, and nobody owns it: it belonged
        // to a block that is being dropped and is not yet among the free ones.
        let advised = unsafe {
            let at = self.base.as_ptr().add(start).cast::<c_void>();
            rustix::mm::madvise(at, bytes, Advice::LinuxDontNeed)
        };
        advised.is_ok()
    }

    fn give(&self, start: usize, bytes: usize) {
        let kept = self.hand_back(start, bytes);
        let unit = unit_of(start);
        let mut free = self.free.lock();
        if bytes == BLOCK_BYTES_MAX {
            free.put_unit(unit, kept);
        } else {
            free.put_part(unit, start % BLOCK_BYTES_MAX / bytes, kept);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `reserve`; every block holds the arena, so none is left.
        let unmapped = unsafe {
            rustix::mm::munmap(
                self.base.as_ptr().cast::<c_void>(),
                self.units * BLOCK_BYTES_MAX,
            )
        };
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
    NonNull::new(base.cast::<u8>()).ok_or_else(|| Error::Io("mapping at address 0".to_owned()))
}

fn unit_of(start: usize) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // Free::take_unit gives no number above u32
    let unit = (start / BLOCK_BYTES_MAX) as u32;
    unit
}

/// The kind of unit that is cut into blocks of `bytes`.
fn kind_of(bytes: usize) -> usize {
    (bytes / BLOCK_BYTES_MIN).trailing_zeros() as usize
}

fn block_bytes(kind: usize) -> usize {
    BLOCK_BYTES_MIN << kind
}

/// A bit for each block of a unit of this kind.
fn all_blocks(kind: usize) -> u16 {
    let count = BLOCK_BYTES_MAX / block_bytes(kind);
    u16::MAX >> (16 - count)
}

impl Free {
    /// A whole unit and the bytes in it that are resident.
    fn take_unit(&mut self, units: usize) -> Option<(u32, usize)> {
        if let Some(found) = self.resident.pop() {
            return Some(found);
        }
        if let Some(unit) = self.clean.pop() {
            return Some((unit, 0));
        }
        let unit = u32::try_from(self.next_fresh).ok()?;
        (self.next_fresh < units).then(|| {
            self.next_fresh += 1;
            (unit, 0)
        })
    }

    fn put_unit(&mut self, unit: u32, resident: usize) {
        if resident == 0 {
            self.clean.push(unit);
        } else {
            self.resident.push((unit, resident));
        }
    }

    /// The start of a free block smaller than a unit, and how many bytes there are resident.
    fn take_part(&mut self, bytes: usize, units: usize) -> Option<(usize, usize)> {
        let kind = kind_of(bytes);
        let mut resident = 0;
        let unit = match self.open[kind].first() {
            Some(unit) => *unit,
            None => {
                let (unit, in_unit) = self.take_unit(units)?;
                resident = in_unit; // is counted as in use from here on
                let free = all_blocks(kind);
                let cut = Cut {
                    kind,
                    free,
                    resident: 0,
                };
                self.cut.insert(unit, cut);
                self.open[kind].insert(unit);
                unit
            }
        };
        let cut = self.cut.get_mut(&unit)?;
        let place = cut.free.trailing_zeros();
        let bit = 1 << place;
        cut.free &= !bit;
        if cut.resident & bit != 0 {
            cut.resident &= !bit;
            resident += bytes;
        }
        if cut.free == 0 {
            self.open[kind].remove(&unit);
        }
        Some((
            unit as usize * BLOCK_BYTES_MAX + place as usize * bytes,
            resident,
        ))
    }

    /// Frees block `place` of a cut unit, of which `kept` bytes are resident.
    fn put_part(&mut self, unit: u32, place: usize, kept: usize) {
        let Some(cut) = self.cut.get_mut(&unit) else {
            unreachable!("unit {unit} is not cut")
        };
        let bit = 1 << place;
        assert!(
            cut.free & bit == 0,
            "block {place} of unit {unit} freed twice"
        );
        cut.free |= bit;
        if kept > 0 {
            cut.resident |= bit;
        }
        let kind = cut.kind;
        if cut.free == all_blocks(kind) {
            let resident = cut.resident.count_ones() as usize * block_bytes(kind);
            self.cut.remove(&unit);
            self.open[kind].remove(&unit);
            self.put_unit(unit, resident);
        } else {
            self.open[kind].insert(unit);
        }
    }
}

impl Block {
    /// Bytes of it.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: the part lies in the range, which is mapped as long as the arena lives, and is
        // zero or was written: always initialised. It belongs to this block alone, which is
        // borrowed, so nobody writes.
        unsafe { std::slice::from_raw_parts(self.arena.base.as_ptr().add(self.start), self.bytes) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; this block is borrowed alone, so nobody else reads or writes.
        unsafe {
            std::slice::from_raw_parts_mut(self.arena.base.as_ptr().add(self.start), self.bytes)
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.give(self.start, self.bytes);
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Block({}..{})",
            self.start,
            self.start + self.bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the bookkeeping says is in use, and whether it agrees with itself.
    fn used_bytes(arena: &Arena) -> usize {
        let free = arena.free.lock();
        let cut_free: usize = free
            .cut
            .values()
            .map(|cut| cut.free.count_ones() as usize * block_bytes(cut.kind))
            .sum();
        let resident: usize = free
            .cut
            .values()
            .map(|cut| cut.resident.count_ones() as usize * block_bytes(cut.kind))
            .chain(free.resident.iter().map(|(_, bytes)| *bytes))
            .sum();
        assert_eq!(
            resident,
            arena.resident_free_bytes.load(Ordering::Relaxed),
            "resident free bytes"
        );
        let whole = free.clean.len() + free.resident.len();
        (free.next_fresh - whole) * BLOCK_BYTES_MAX - cut_free
    }

    #[test]
    fn blocks_do_not_overlap_and_all_come_back() {
        let arena = Arena::new(1 << 24).unwrap();
        let mut blocks: Vec<(Block, u8)> = Vec::new();
        let mut seed = 7_u64;
        for round in 0..20_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = usize::try_from(seed >> 40).unwrap();
            if random.is_multiple_of(2) && blocks.len() < 300 {
                let mut block = arena.allocate(BLOCK_BYTES_MIN << (random / 2 % 5)).unwrap();
                let mark = u8::try_from(round % 255).unwrap();
                block.as_mut_slice().fill(mark);
                blocks.push((block, mark));
            } else if !blocks.is_empty() {
                let (block, mark) = blocks.swap_remove(random % blocks.len());
                assert!(block.as_slice().iter().all(|byte| *byte == mark));
            }
            if round.is_multiple_of(500) {
                let expected: usize = blocks.iter().map(|(block, _)| block.len()).sum();
                assert_eq!(used_bytes(&arena), expected);
            }
        }
        blocks.clear();
        assert_eq!(used_bytes(&arena), 0);
        let free = arena.free.lock();
        assert!(free.cut.is_empty() && free.open.iter().all(BTreeSet::is_empty));
    }

    #[test]
    fn what_is_handed_back_is_zero_again() {
        let arena = Arena::new(1 << 24).unwrap();
        let mut blocks: Vec<Block> = (0..200)
            .map(|_| arena.allocate(BLOCK_BYTES_MAX).unwrap())
            .collect();
        blocks
            .iter_mut()
            .for_each(|block| block.as_mut_slice().fill(1));
        blocks.clear();
        let kept = arena.resident_free_bytes.load(Ordering::Relaxed);
        assert_eq!(kept, RESIDENT_FREE_BYTES_MAX);
        let again: Vec<Block> = (0..200)
            .map(|_| arena.allocate(BLOCK_BYTES_MAX).unwrap())
            .collect();
        let zero = |block: &&Block| block.as_slice().iter().all(|byte| *byte == 0);
        let handed_back = 200 - RESIDENT_FREE_BYTES_MAX / BLOCK_BYTES_MAX;
        assert_eq!(again.iter().filter(zero).count(), handed_back);
        assert_eq!(
            arena.free.lock().next_fresh,
            200,
            "free units are used first"
        );
    }

    #[test]
    fn an_arena_that_is_used_up_refuses() {
        let arena = Arena::new(1).unwrap();
        let units = arena.units;
        let blocks: Vec<Block> = (0..units)
            .map(|_| arena.allocate(BLOCK_BYTES_MAX).unwrap())
            .collect();
        assert_eq!(arena.allocate(BLOCK_BYTES_MIN).err(), Some(Error::NoSpace));
        drop(blocks);
        assert!(arena.allocate(BLOCK_BYTES_MIN).is_ok());
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
                        block.as_mut_slice().fill(thread);
                        assert!(block.as_slice().iter().all(|byte| *byte == thread));
                    }
                });
            }
        });
        assert_eq!(used_bytes(&arena), 0);
    }
}
