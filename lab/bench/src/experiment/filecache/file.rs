//! A file in a cache of its own, read directly or through windows.
//!
//! Both ways pin the page and copy the wanted bytes. Directly, the cache has the page at a fixed
//! address. Through windows, the copy comes from a second mapping of the same memory, which may
//! have to be made first. The difference is the cost of a window; misses cost the same, as each
//! page is asked for alone.

use std::sync::Arc;

use pagewell_cache::{Cache, CacheOptions, CachedDevice, ReadMode};
use pagewell_layers::Pattern;
use pagewell_load::named;

use super::regime::window_slots;
use super::window::{WindowCounts, Windows};
use crate::experiment::{Error, Result, system};

named! {
    /// How reads reach memory.
    pub(super) enum Mapping {
        /// Through a bounded number of windows.
        Window = "window",
        /// Mapped once.
        Direct = "direct",
    }
}

pub(super) struct File {
    pub(super) device: CachedDevice,
    windows: Option<Windows>,
}

impl File {
    /// A file in a new cache of so many bytes.
    pub(super) fn new(pattern: &Pattern, mapping: Mapping, cache_bytes: u64) -> Result<Self> {
        let options = CacheOptions {
            memory_is_file: mapping == Mapping::Window,
            populate_bytes: u64::MAX,
            // Filling is one long stream, and its pages are wanted.
            free_behind: false,
            ..CacheOptions::new(cache_bytes)
        };
        let cache = Cache::new(options)?;
        let windows = cache.memory_file().map(|file| {
            let windows = Windows::new(window_slots(cache_bytes), file);
            windows.map_err(system("windows"))
        });
        Ok(Self {
            windows: windows.transpose()?,
            device: cache.open(Arc::new(pattern.clone())),
        })
    }

    /// Fills `target` with the bytes from `offset`.
    pub(super) fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, target);
        while !rest.is_empty() {
            let pinned = self.device.pin(at, rest.len(), ReadMode::WAIT)?;
            let (piece, behind) = rest.split_at_mut(pinned.len());
            match &self.windows {
                None => piece.copy_from_slice(&pinned),
                Some(windows) => {
                    // SAFETY: windows and device are of the same cache.
                    let copied = unsafe { windows.copy(&pinned, piece) };
                    copied.map_err(system("a window"))?;
                }
            }
            at += piece.len() as u64;
            rest = behind;
        }
        Ok(())
    }

    /// The use of windows so far.
    pub(super) fn window_counts(&self) -> WindowCounts {
        let counts = self.windows.as_ref().map(Windows::counts);
        counts.unwrap_or_default()
    }

    /// Reads, and compares every byte.
    pub(super) fn check(&self, pattern: &Pattern, offset: u64, target: &mut [u8]) -> Result<()> {
        self.read(offset, target)?;
        let checked = pattern.check(offset, target);
        checked.map_err(|at| Error::Wrong(format!("the byte at {at} was read wrong")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn both_ways_show_what_the_pages_hold() {
        let pattern = Pattern::new(3 * MIB, 9);
        let mut target = vec![0; 8192];
        let both = Mapping::ALL.map(|mapping| File::new(&pattern, mapping, 4 * MIB).unwrap());
        for file in &both {
            for _ in 0..2 {
                for offset in (0..3 * MIB - 8192).step_by(8192) {
                    // Parts of two windows, and of two pages at times.
                    file.check(&pattern, offset + 100, &mut target).unwrap();
                }
            }
        }
        let [windows, direct] = both.map(|file| file.window_counts());
        // The second part of a read is the first of the next.
        assert!(windows.hits >= 700 && windows.maps >= 700, "{windows:?}");
        assert!(windows.unmaps >= 600, "{windows:?}");
        assert_eq!(direct, WindowCounts::default());
    }
}
