//! Reads of bytes in memory beside their limit: a bare copy out of huge pages.
//!
//! Random reads of 8 KiB over a working set, by turns: memcpy,
//! [`pagewell_cache::CachedObject::read_at`], pread(2) from the kernel's page cache, a pin without
//! a copy, and `read_at` and memcpy by two threads at once; the last shows how much of two
//! processors there is. The bare copy pays for the processor's caches and address caches, too; the
//! rest is lookup.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use pagewell_cache::{Cache, CacheOptions, ReadMode};
use pagewell_layers::Pattern;
use pagewell_load::measure::median;
use pagewell_load::named;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::hammer::READ_BYTES;
use super::random::Offsets;
use crate::experiment::direct::Scratch;
use crate::experiment::{Result, system};

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// More pins than copies: else most of the time is the first touch of the page table.
pub(super) const PINS: u64 = 10;

named! {
    /// Ways to read, in the order of their turns.
    pub(super) enum Way {
        Copy = "memcpy, huge pages",
        ReadAt = "read_at",
        Pread = "pread(2)",
        Pin = "pin",
        TwoThreads = "read_at, 2 threads",
        TwoCopies = "memcpy, 2 threads",
    }
}

/// Nanoseconds of a read for each round, in the order of [`Way::ALL`].
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) bytes: u64,
    pub(super) reads: u64,
    pub(super) page_size: String,
    pub(super) rounds: [Vec<f64>; Way::ALL.len()],
}

impl Times {
    /// The median of a way.
    pub(super) fn median(&self, way: Way) -> f64 {
        median(&self.rounds[way as usize]).unwrap_or(f64::NAN)
    }

    /// The median over rounds of one way's time over another's of the same round: what slows both
    /// does not count.
    pub(super) fn ratio(&self, way: Way, of: Way) -> f64 {
        let both = self.rounds[way as usize]
            .iter()
            .zip(&self.rounds[of as usize]);
        let ratios: Vec<f64> = both.map(|(one, other)| one / other).collect();
        median(&ratios).unwrap_or(f64::NAN)
    }
}

/// Measures all ways over so many bytes.
pub(super) fn measure(
    bytes: u64,
    reads: u64,
    rounds: u32,
    directory: Option<&Path>,
) -> Result<Times> {
    // Room for what the sets of the page table cannot hold.
    let cache = Cache::new(CacheOptions::new(bytes + bytes / 8 + (64 << 20)))?;
    let device = cache.open(Arc::new(Pattern::new(bytes, 1)));
    // Afterwards all of it is in memory.
    let mut target = vec![0; READ_BYTES];
    for offset in (0..bytes).step_by(READ_BYTES) {
        device.read_at(offset, &mut target, ReadMode::WAIT)?;
    }
    let memory = HugeMemory::new(bytes).map_err(system("memory"))?;
    let scratch = Scratch::new(directory, bytes, 2).map_err(system("a scratch file"))?;
    let file = OpenOptions::new().read(true).open(scratch.path());
    let file = file.map_err(system("a scratch file"))?;
    let mut times = Times {
        bytes,
        reads,
        page_size: cache.page_size().to_string(),
        ..Times::default()
    };
    let copy = |offset, target: &mut [u8]| {
        target.copy_from_slice(memory.bytes(offset, READ_BYTES));
        Ok(())
    };
    let read_at = |offset, target: &mut [u8]| Ok(device.read_at(offset, target, ReadMode::WAIT)?);
    let pread =
        |offset, target: &mut [u8]| file.read_exact_at(target, offset).map_err(system("pread"));
    let pin = |offset, _: &mut [u8]| {
        black_box(&*device.pin(offset, READ_BYTES, ReadMode::WAIT)?);
        Ok(())
    };
    for round in 0..rounds {
        let seed = u64::from(round) + 99;
        for way in Way::ALL {
            let offsets = Offsets::new(seed, bytes, READ_BYTES as u64);
            let time = match way {
                Way::Copy => time(offsets, reads, copy)?,
                Way::ReadAt => time(offsets, reads, read_at)?,
                Way::Pread => time(offsets, reads, pread)?,
                Way::Pin => time(offsets, PINS * reads, pin)?,
                Way::TwoThreads => two_threads(bytes, reads, seed, read_at)?,
                Way::TwoCopies => two_threads(bytes, reads, seed, copy)?,
            };
            times.rounds[way as usize].push(time);
        }
    }
    Ok(times)
}

/// Nanoseconds of one of `reads`.
fn time(
    mut offsets: Offsets,
    reads: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<f64> {
    let mut target = vec![0; READ_BYTES];
    let start = Instant::now();
    for _ in 0..reads {
        read(offsets.next(), &mut target)?;
        black_box(&target);
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / reads.max(1) as f64)
}

/// Nanoseconds of a read of the slower of two threads.
fn two_threads(
    bytes: u64,
    reads: u64,
    seed: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()> + Sync,
) -> Result<f64> {
    let work = |seed| time(Offsets::new(seed, bytes, READ_BYTES as u64), reads, &read);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(2 * seed + 1));
        let here = work(2 * seed)?;
        let there = other.join().unwrap_or(Ok(f64::NAN))?;
        Ok(here.max(there))
    })
}

/// Memory in huge pages, if the system has them, filled with something.
struct HugeMemory {
    base: NonNull<u8>,
    base_bytes: usize,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: memory that is only read once `new` has filled it.
unsafe impl Sync for HugeMemory {}

impl HugeMemory {
    fn new(bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(io::Error::other)?;
        let base_bytes = length + HUGE_PAGE_BYTES;
        let (protection, null) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new private mapping at an address the system chooses.
        let base = unsafe { rustix::mm::mmap_anonymous(null, base_bytes, protection, flags)? };
        let base =
            NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        let skipped = base.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: the mapping has a huge page more than is used, so the start is inside.
        let start = unsafe { base.add(skipped) };
        let memory = Self {
            base,
            base_bytes,
            start,
            length,
        };
        // SAFETY: inside the mapping; it says which pages are preferred. Without huge pages the
        // comparison is one with ordinary ones.
        let _ =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        // SAFETY: inside the mapping, which no other code knows yet.
        unsafe { start.as_ptr().write_bytes(0xa5, length) };
        Ok(memory)
    }

    fn bytes(&self, offset: u64, length: usize) -> &[u8] {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        assert!(start <= self.length && length <= self.length - start);
        // SAFETY: inside the mapping, by the assertion; initialised by `new`, and only read since.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start), length) }
    }
}

impl Drop for HugeMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; slices of it borrow `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.base_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_time_in_every_round() {
        let directory = tempfile::tempdir().unwrap();
        let times = measure(1 << 20, 100, 3, Some(directory.path())).unwrap();
        for way in Way::ALL {
            assert_eq!(times.rounds[way as usize].len(), 3);
            assert!(times.median(way) > 0.0);
        }
        assert!((times.ratio(Way::Pin, Way::Pin) - 1.0).abs() < 1e-9);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn huge_memory_is_all_there() {
        let memory = HugeMemory::new((3 << 20) + 5).unwrap();
        assert_eq!(memory.start.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
        assert_eq!(memory.bytes(3 << 20, 5), [0xa5; 5]);
    }
}
