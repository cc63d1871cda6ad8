//! Settings of a cache.

use std::time::Duration;

use pagewell_counters::names::CACHE_HALVED;
use pagewell_policy::elevator::READ_DEADLINE;
use pagewell_policy::writeback::settings::DEVICE_TIME_MAX;

use rustix::io::Errno;

use crate::error::{CreateError, SizeError};
use crate::memory_limit::{memory_available_bytes, memory_bytes};
use crate::page::UNIT_BYTES;
use crate::{BYTES_MIN, PAGE_BYTES};

/// Which rule guesses what will be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAheadRule {
    /// Streams from offsets, with constants for the medium.
    #[default]
    Adaptive,
    /// The same with constants for a server that is 0.1 to 50 ms away.
    Server {
        /// The length of requests that it answers best.
        request_bytes: u64,
    },
    /// So many blocks ahead of a stream that has read a quarter as much, as NFS clients do.
    Blocks {
        /// Of a block, rounded up to pages.
        block_bytes: u64,
        /// Blocks.
        count: u32,
    },
    /// None.
    Off,
}

/// Settings of a cache. Each mechanism can be switched off, to see what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Memory for pages; a multiple of [`PAGE_BYTES`], rounded down.
    pub size_bytes: u64,
    /// The size was not asked for: it is halved down to this, and reserved huge pages are left
    /// alone.
    pub size_bytes_min: Option<u64>,
    /// Memory to take at once, as far as there is; [`u64::MAX`]: all of it, or there is no cache.
    pub populate_bytes: u64,
    /// Which rule guesses what will be read.
    pub read_ahead: ReadAheadRule,
    /// Order requests by address, with deadlines.
    pub elevator: bool,
    /// Join adjacent requests.
    pub merge: bool,
    /// When memory is short, give back what a stream has left behind.
    pub free_behind: bool,
    /// The reader keeps what it read, as the kernel does for a mount: `free_behind` gives back at
    /// once, until that is asked for again.
    pub reader_keeps: bool,
    /// Least bytes of a fetch: at least a block of the device, at most a page; a power of two from
    /// 2 KiB on.
    pub unit_bytes: u64,
    /// The memory is a file too ([`crate::Cache::memory_file`]), in ordinary pages, taken at first
    /// use.
    pub memory_is_file: bool,
    /// Longest request to a device; the device's own limit holds too.
    pub request_bytes_max: u64,
    /// With the elevator: reads that waited this long go next. `None`: never.
    pub read_deadline: Option<Duration>,
    /// Reads that wait longer fail.
    pub read_timeout: Duration,
    /// Writes and commits that wait longer fail.
    pub write_timeout: Duration,
    /// Memory of dirty pages, for each device; `None`: a fifth of the cache. At most half of it.
    pub dirty_bytes_max: Option<u64>,
    /// The same in time of a device.
    pub dirty_time_max: Duration,
}

/// A device that does not answer for this long is taken for dead.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// A remote export's part of the machine's memory, and the most.
const REMOTE_SHARE: u64 = 6;
const REMOTE_BYTES_MAX: u64 = 16 << 30;
/// A page costs a server little more than a block, and blocks fill in time.
const REMOTE_TIME_MAX: Duration = Duration::from_secs(6);
/// At most one in so many parts of what other programs leave.
const AVAILABLE_SHARE: u64 = 4;
/// Enough for any device; readers that join do not wait long.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

impl CacheOptions {
    /// A cache of this size with everything on.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            size_bytes_min: None,
            populate_bytes: 0,
            read_ahead: ReadAheadRule::Adaptive,
            elevator: true,
            merge: true,
            free_behind: true,
            reader_keeps: false,
            unit_bytes: UNIT_BYTES,
            memory_is_file: false,
            request_bytes_max: REQUEST_BYTES_MAX,
            read_deadline: Some(READ_DEADLINE),
            read_timeout: READ_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            dirty_bytes_max: None,
            dirty_time_max: DEVICE_TIME_MAX,
        }
    }

    /// For a remote mount: this size, or a sixth of [the memory](crate::memory_bytes), or less.
    /// Five sixteenths may be dirty, for longer than on a device.
    #[must_use]
    pub fn remote(size_bytes: Option<u64>) -> Self {
        let usual = || Self::usual_bytes(REMOTE_BYTES_MAX, REMOTE_SHARE);
        let size_bytes_min = size_bytes.is_none().then_some(BYTES_MIN);
        let size_bytes = size_bytes.unwrap_or_else(usual);
        Self {
            size_bytes_min,
            dirty_bytes_max: Some(size_bytes / 2),
            dirty_time_max: REMOTE_TIME_MAX,
            ..Self::new(size_bytes)
        }
    }

    /// `most`, but at most one part of `share` of [the memory](crate::memory_bytes), and a part of
    /// [what is left](crate::memory_available_bytes).
    #[must_use]
    pub fn usual_bytes(most: u64, share: u64) -> u64 {
        let left = memory_available_bytes() / AVAILABLE_SHARE;
        most.min(memory_bytes() / share.max(1))
            .min(left)
            .max(BYTES_MIN)
    }

    /// Whether this size can be had; takes no memory.
    pub fn check(&self) -> Result<(), SizeError> {
        self.frames().map(|_| ())
    }

    /// Halves the size until `make` works, down to [`Self::size_bytes_min`].
    pub(crate) fn make<T>(
        mut self,
        make: impl Fn(Self) -> Result<T, CreateError>,
    ) -> Result<T, CreateError> {
        loop {
            let made = make(self);
            let half = self.size_bytes / 2;
            let is_enough = self.size_bytes_min.is_some_and(|least| half >= least);
            if !is_enough || !matches!(made, Err(CreateError::Memory(Errno::NOMEM))) {
                return made;
            }
            CACHE_HALVED.add(1);
            self.size_bytes = half;
            self.dirty_bytes_max = self.dirty_bytes_max.map(|bytes| bytes.min(half / 2));
        }
    }

    pub(crate) fn frames(&self) -> Result<u32, SizeError> {
        let memory_bytes = memory_bytes();
        let refused = |reason| SizeError::new(self.size_bytes, memory_bytes, reason);
        if self.size_bytes < BYTES_MIN {
            return Err(refused("is too small"));
        }
        if self.size_bytes > memory_bytes {
            return Err(refused("is more memory than this process may have"));
        }
        // The page table counts twelve slots for each.
        let frames = u32::try_from(self.size_bytes / PAGE_BYTES as u64);
        match frames {
            Ok(frames) if frames < u32::MAX / 16 => Ok(frames),
            _ => Err(refused("is too large")),
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn impossible_sizes_are_refused_with_the_numbers() {
        let small = CacheOptions::new(1 << 20).frames().unwrap_err();
        let text = small.to_string();
        assert!(text.contains("1 MiB") && text.contains("4 MiB"), "{text}");
        let large = CacheOptions::new(1 << 60).frames().unwrap_err().to_string();
        assert!(
            large.contains("more memory than this process may have"),
            "{large}"
        );
        assert_eq!(CacheOptions::new(8 << 20).frames().unwrap(), 128);
    }

    /// Says no to what is larger, and which sizes were tried.
    fn tried(options: CacheOptions, free_bytes: u64) -> (Option<CacheOptions>, Vec<u64>) {
        let sizes = std::cell::RefCell::new(Vec::new());
        let made = options.make(|options| {
            sizes.borrow_mut().push(options.size_bytes);
            match options.size_bytes <= free_bytes {
                true => Ok(options),
                false => Err(CreateError::Memory(Errno::NOMEM)),
            }
        });
        (made.ok(), sizes.into_inner())
    }

    #[test]
    fn a_size_that_nobody_asked_for_is_halved_until_there_is_memory() {
        let usual = CacheOptions {
            size_bytes: 64 << 20,
            dirty_bytes_max: Some(32 << 20),
            ..CacheOptions::remote(None)
        };
        let (made, sizes) = tried(usual, 20 << 20);
        let made = made.unwrap();
        assert_eq!(sizes, [64 << 20, 32 << 20, 16 << 20]);
        assert_eq!(made.dirty_bytes_max, Some(8 << 20));
        let (made, sizes) = tried(usual, 0);
        assert_eq!((made, sizes.last()), (None, Some(&BYTES_MIN)));
        // One that was asked for is not.
        let asked = CacheOptions::remote(Some(64 << 20));
        assert_eq!(tried(asked, 20 << 20), (None, vec![64 << 20]));
        assert_eq!(tried(CacheOptions::new(64 << 20), 0).1.len(), 1);
        // Nor is what fails for another reason tried again.
        let errno = CreateError::Memory(Errno::PERM);
        let refused: Result<(), _> = usual.make(|_| Err(errno.clone()));
        assert_eq!(refused, Err(errno));
    }
}
