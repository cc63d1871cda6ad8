//! Reading pages through a bounded number of windows: what the cache does *not* do, for
//! comparison.
//!
//! Solaris before segkpm reached its page cache through segmap: a region of windows of 8 KiB into
//! which a piece of a file was mapped, and from which it was unmapped when another piece needed
//! the window. Each change costs a system call and an interrupt on every processor that may
//! remember the old mapping. Here the memory of the cache is a file and the windows are parts of
//! one reserved region of addresses; one call takes the old mapping away, makes the new one and
//! fills its page table entries, which the kernel counts as a page fault but which costs no trap.
//!
//! A window is chosen among a set of [`WAYS`] by what it is to show, oldest use first; it is
//! kept by a count while bytes are copied out of it. Known weakness: none that matters, as it is
//! here to be beaten; but nothing in it is slower than it has to be.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use pagewell_base::mix::mix;
use pagewell_counters::names::{CACHE_WINDOW_HITS, CACHE_WINDOW_MAPS, CACHE_WINDOW_UNMAPS};
use pagewell_policy::eviction::FrameIndex;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::PAGE_BYTES;
use crate::sync::{Mutex, Rank};

/// Bytes of a window, as segmap had them.
pub(crate) const WINDOW_BYTES: usize = 8192;
const WINDOWS_PER_PAGE: u64 = (PAGE_BYTES / WINDOW_BYTES) as u64;
const WAYS: usize = 16;
/// 8 GiB of them.
const WINDOWS_MAX: u32 = 1 << 20;

#[derive(Clone, Copy, Default)]
struct Window {
    /// Number of the piece of memory it shows, plus one; 0 when it shows none.
    shows: u64,
    /// How many copy out of it.
    users: u32,
    used: u64,
}

struct Set {
    windows: [Window; WAYS],
    clock: u64,
}

/// A region of windows.
pub(crate) struct Windows {
    /// The memory that they show.
    file: OwnedFd,
    base: NonNull<u8>,
    sets: Box<[Mutex<Set>]>,
}

// SAFETY: the region is only changed at windows nobody uses, under the lock of their set.
unsafe impl Send for Windows {}
// SAFETY: as above.
unsafe impl Sync for Windows {}

impl Windows {
    /// Reserves addresses for at least `windows` windows.
    pub(crate) fn new(windows: u32, file: OwnedFd) -> Result<Self, Errno> {
        let windows = windows.min(WINDOWS_MAX) as usize;
        let sets = windows.div_ceil(WAYS).max(1);
        let bytes = sets * WAYS * WINDOW_BYTES;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address the system chooses; nothing can be read in it.
        let base = unsafe { rustix::mm::mmap_anonymous(null, bytes, ProtFlags::empty(), flags)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        let set = || {
            Mutex::new(
                Rank::Leaf,
                Set {
                    windows: [Window::default(); WAYS],
                    clock: 0,
                },
            )
        };
        Ok(Self {
            file,
            base,
            sets: (0..sets).map(|_| set()).collect(),
        })
    }

    /// Copies bytes of a page, which the caller has pinned and which are there, to `target`.
    pub(crate) fn copy(
        &self,
        frame: FrameIndex,
        start: usize,
        target: &mut [u8],
    ) -> Result<(), Errno> {
        assert!(start + target.len() <= PAGE_BYTES);
        let mut done = 0;
        while done < target.len() {
            let at = start + done;
            let inside = at % WINDOW_BYTES;
            let count = (WINDOW_BYTES - inside).min(target.len() - done);
            let piece = u64::from(frame.0) * WINDOWS_PER_PAGE + (at / WINDOW_BYTES) as u64;
            self.with(piece, |window| {
                // SAFETY: the window shows this piece while it is used, and nobody writes to
                // bytes of a page that are there; `target` is elsewhere.
                unsafe {
                    let source = window.as_ptr().add(inside);
                    std::ptr::copy_nonoverlapping(source, target[done..].as_mut_ptr(), count);
                }
            })?;
            done += count;
        }
        Ok(())
    }

    fn with(&self, piece: u64, use_it: impl FnOnce(NonNull<u8>)) -> Result<(), Errno> {
        #[allow(clippy::cast_possible_truncation)] // any bits will do
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
                    CACHE_WINDOW_HITS.add(1);
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

    /// Turns the window that was not used for longest to another piece.
    fn turn(&self, set: &mut Set, index: usize, piece: u64) -> Result<Option<usize>, Errno> {
        let free = set.windows.iter().enumerate();
        let free = free.filter(|(_, window)| window.users == 0);
        let Some((way, window)) = free.min_by_key(|(_, window)| window.used) else {
            return Ok(None);
        };
        let address = self.address(index, way).as_ptr().cast();
        let shows = window.shows;
        set.windows[way].shows = 0;
        CACHE_WINDOW_UNMAPS.add(u64::from(shows != 0));
        CACHE_WINDOW_MAPS.add(1);
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        let offset = piece * WINDOW_BYTES as u64;
        // SAFETY: the window is ours, inside the region, and nobody uses it; what it showed is
        // unmapped by the same call. The file is as long as the arena.
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
        // SAFETY: mapped by us; nobody has an address into it.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
