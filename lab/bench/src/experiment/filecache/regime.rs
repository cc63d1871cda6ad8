//! How large a file is against the windows and the cache.

use pagewell_cache::PAGE_BYTES;
use pagewell_load::named;

named! {
    /// One of the three situations of the report.
    pub enum Regime {
        /// The file is smaller than all windows together.
        Small = "small in-memory",
        /// It is larger than the windows and smaller than the cache: the common case.
        Large = "large in-memory",
        /// It is larger than the cache.
        NotCached = "large non-cached",
    }
}

/// The part of memory that segmap had on SPARC, in percent.
const WINDOW_PERCENT: u64 = 12;
/// Bytes of a window.
const WINDOW_BYTES: u64 = 8192;

impl Regime {
    /// Bytes of the file. A third of the windows, so that no set of them overflows; nearly all of
    /// the cache, so that as few reads find their window mapped as with a larger file, and the two
    /// differ in device reads alone; twice the cache.
    pub fn file_bytes(self, cache_bytes: u64) -> u64 {
        let bytes = match self {
            Self::Small => u64::from(window_slots(cache_bytes)) * WINDOW_BYTES / 3,
            Self::Large => cache_bytes / 16 * 15,
            Self::NotCached => 2 * cache_bytes,
        };
        (bytes / PAGE_BYTES as u64).max(1) * PAGE_BYTES as u64
    }

    /// Processor time of a read in the report, in microseconds: through windows, and with all
    /// memory mapped. Other hardware.
    pub const fn reference(self) -> (f64, f64) {
        match self {
            Self::Small => (89.0, 83.0),
            Self::Large => (181.0, 98.0),
            Self::NotCached => (236.0, 153.0),
        }
    }
}

/// Windows of a cache of this size.
pub fn window_slots(cache_bytes: u64) -> u32 {
    let slots = cache_bytes * WINDOW_PERCENT / 100 / WINDOW_BYTES;
    u32::try_from(slots).unwrap_or(u32::MAX).max(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_between_windows_and_cache() {
        for cache_bytes in [4 << 20, 256 << 20, 1 << 30] {
            let windows = u64::from(window_slots(cache_bytes)) * WINDOW_BYTES;
            let [small, large, more] = Regime::ALL.map(|regime| regime.file_bytes(cache_bytes));
            assert!(small < windows && windows < large);
            assert!(large < cache_bytes && cache_bytes < more);
            assert!(small.is_multiple_of(WINDOW_BYTES) && large.is_multiple_of(WINDOW_BYTES));
        }
        assert_eq!(window_slots(1 << 30), 15_728);
    }
}
