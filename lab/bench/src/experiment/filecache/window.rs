//! Reads through a bounded number of windows: what the cache does *not* do, for comparison.
//!
//! Solaris before segkpm reached its page cache through segmap: windows of 8 KiB into which a piece
//! of a file was mapped, and from which it was unmapped when another piece needed the window. Each
//! change costs a system call and an interrupt on every processor that may remember the old
//! mapping. Here the memory of the cache is a file and the windows are parts of one reserved region
//! of addresses; one call removes the old mapping, makes the new one and fills its page table
//! entries, which the kernel counts as a page fault but which costs no trap.
//!
//! A piece chooses among a set of [`WAYS`] windows, oldest use first; a count keeps a window while
//! bytes are copied out of it. As a baseline it is no slower than it has to be.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use pagewell_base::mix::mix;
use pagewell_base::sync::Mutex;
use pagewell_cache::PinnedPage;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of a window, as in segmap.
const WINDOW_BYTES: usize = 8192;
const WAYS: usize = 16;
/// 8 GiB of them.
const WINDOWS_MAX: u32 = 1 << 20;

#[derive(Clone, Copy, Default)]
struct Window {
    /// Number of the piece of memory it shows, plus one; 0 when it shows none.
    shows: u64,
    /// How many copies use it.
    users: u32,
    used: u64,
}

#[derive(Default)]
struct Set {
    windows: [Window; WAYS],
    clock: u64,
    counts: WindowCounts,
}

/// The use of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowCounts {
    /// Reads that found their window mapped.
    pub(super) hits: u64,
    pub(super) maps: u64,
    pub(super) unmaps: u64,
}

pub(super) struct Windows {
    /// The memory of the cache.
    file: OwnedFd,
    base: NonNull<u8>,
    sets: Box<[Mutex<Set>]>,
}

// SAFETY: the region is only changed at windows without users, under the lock of their set.
unsafe impl Send for Windows {}
// SAFETY: as above.
unsafe impl Sync for Windows {}

impl Windows {
    /// Reserves addresses for at least `windows` windows into the memory of a cache.
    pub(super) fn new(windows: u32, memory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let windows = windows.min(WINDOWS_MAX) as usize;
        let sets = windows.div_ceil(WAYS).max(1);
        let bytes = sets * WAYS * WINDOW_BYTES;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address the system chooses; nothing can be read in it.
        let base = unsafe { rustix::mm::mmap_anonymous(null, bytes, ProtFlags::empty(), flags)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self {
            file: rustix::io::fcntl_dupfd_cloexec(memory, 0)?,
            base,
            sets: (0..sets).map(|_| Mutex::default()).collect(),
        })
    }

    /// Copies all pinned bytes to `target`.
    ///
    /// # Safety
    /// It is pinned in the cache whose memory these windows show.
    pub(super) unsafe fn copy(
        &self,
        pinned: &PinnedPage<'_>,
        target: &mut [u8],
    ) -> Result<(), Errno> {
        assert_eq!(pinned.len(), target.len());
        let mut done = 0;
        while done < target.len() {
            let at = pinned.memory_offset() + done as u64;
            let inside = (at % WINDOW_BYTES as u64) as usize;
            let count = (WINDOW_BYTES - inside).min(target.len() - done);
            self.with(at / WINDOW_BYTES as u64, |window| {
                // SAFETY: the window shows this piece while it is used, so `count` bytes from
                // `inside` are mapped. By the caller they are bytes of the pinned page, and while
                // that is pinned they do not change. `target` is ours alone, has as many bytes
                // from `done`, and is not in the window.
                unsafe {
                    let source = window.as_ptr().add(inside);
                    std::ptr::copy_nonoverlapping(source, target[done..].as_mut_ptr(), count);
                }
            })?;
            done += count;
        }
        Ok(())
    }

    pub(super) fn counts(&self) -> WindowCounts {
        let mut all = WindowCounts::default();
        for set in &self.sets {
            let WindowCounts { hits, maps, unmaps } = set.lock().counts;
            all.hits += hits;
            all.maps += maps;
            all.unmaps += unmaps;
        }
        all
    }

    fn with(&self, piece: u64, use_it: impl FnOnce(NonNull<u8>)) -> Result<(), Errno> {
        let index = mix(piece) as usize % self.sets.len();
        let (way, address) = loop {
            let mut set = self.sets[index].lock();
            set.clock += 1;
            let clock = set.clock;
            let shown = set
                .windows
                .iter()
                .position(|window| window.shows == piece + 1);
            let way = match shown {
                Some(way) => {
                    set.counts.hits += 1;
                    way
                }
                None => match self.turn(&mut set, index, piece)? {
                    Some(way) => way,
                    None => {
                        drop(set);
                        std::thread::yield_now();
                        continue;
                    }
                },
            };
            set.windows[way].users += 1;
            set.windows[way].used = clock;
            break (way, self.address(index, way));
        };
        use_it(address);
        self.sets[index].lock().windows[way].users -= 1;
        Ok(())
    }

    /// Maps another piece at the window with the oldest use.
    fn turn(&self, set: &mut Set, index: usize, piece: u64) -> Result<Option<usize>, Errno> {
        let free = set.windows.iter().enumerate();
        let free = free.filter(|(_, window)| window.users == 0);
        let Some((way, window)) = free.min_by_key(|(_, window)| window.used) else {
            return Ok(None);
        };
        let address = self.address(index, way).as_ptr().cast();
        let shows = window.shows;
        set.windows[way].shows = 0;
        set.counts.unmaps += u64::from(shows != 0);
        set.counts.maps += 1;
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        let offset = piece * WINDOW_BYTES as u64;
        // SAFETY: the window is ours, inside the region, and without users; what it showed is
        // unmapped by the same call. The file cannot shrink, and a pinned page is inside.
        let mapped = unsafe {
            let protection = ProtFlags::READ;
            rustix::mm::mmap(address, WINDOW_BYTES, protection, flags, &self.file, offset)
        };
        if let Err(errno) = mapped {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
            let none = ProtFlags::empty();
            // SAFETY: as above. The old mapping may be gone and the addresses must stay reserved.
            unsafe { rustix::mm::mmap_anonymous(address, WINDOW_BYTES, none, flags)? };
            return Err(errno);
        }
        set.windows[way].shows = piece + 1;
        Ok(Some(way))
    }

    fn address(&self, index: usize, way: usize) -> NonNull<u8> {
        // SAFETY: inside the region.
        unsafe { self.base.add((index * WAYS + way) * WINDOW_BYTES) }
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        let bytes = self.sets.len() * WAYS * WINDOW_BYTES;
        // SAFETY: mapped by us; no address into it is left.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
