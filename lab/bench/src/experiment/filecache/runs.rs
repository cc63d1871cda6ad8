//! The runs: both mappings of memory by turns, in every regime, by more and more threads.

use std::sync::Arc;

use pagewell_cache::{Cache, CacheOptions, CachedDevice, MappingMode, ReadMode};
use pagewell_device::Pattern;

use super::hammer::{Hammered, Plan, check, hammer};
use super::regime::{Regime, window_slots};
use crate::experiment::Result;

/// Bytes of a read that brings a file into memory.
const PREFILL_BYTES: u64 = 1 << 20;
/// Reads that are compared, in each cache.
const CHECKED_READS: u64 = 2000;
/// Random reads of each page of the cache before a file larger than it is measured.
const SETTLING_READS: u64 = 8;

/// How reads reach memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// Through a bounded number of windows.
    Window,
    /// Mapped once.
    Direct,
}

impl Cell {
    /// The runs of one mapping.
    pub(super) fn of(&self, mapping: Mapping) -> &[Hammered] {
        &self.runs[mapping as usize]
    }

    /// The mean over the runs of one mapping.
    pub(super) fn mean(&self, mapping: Mapping, of: impl Fn(&Hammered) -> f64) -> f64 {
        let runs = self.of(mapping);
        runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
    }
}

impl Mapping {
    pub(super) const ALL: [Self; 2] = [Self::Window, Self::Direct];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Direct => "direct",
        }
    }

    fn mode(self, cache_bytes: u64) -> MappingMode {
        match self {
            Self::Window => MappingMode::Window {
                slots: window_slots(cache_bytes),
            },
            Self::Direct => MappingMode::Direct,
        }
    }
}

/// All runs of one number of threads in one regime.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) regime: Regime,
    pub(super) threads: usize,
    /// In the order of [`Mapping::ALL`], one for each repeat.
    pub(super) runs: [Vec<Hammered>; Mapping::ALL.len()],
}

/// What a regime is measured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Memory of each cache.
    pub cache_bytes: u64,
    /// How many threads read, one case for each.
    pub threads: Vec<usize>,
    /// Runs of each case.
    pub repeats: u32,
    /// Reads of one run in each regime, in the order of [`Regime::ALL`]; all threads together.
    pub reads: [u64; 3],
}

/// The file of a regime, in two caches.
pub(super) struct Pair {
    regime: Regime,
    devices: [CachedDevice; Mapping::ALL.len()],
}

/// Fills both.
pub(super) fn prepare_both(regime: Regime, cache_bytes: u64) -> Result<Pair> {
    let [window, direct] = Mapping::ALL;
    let devices = [
        prepare(regime, window, cache_bytes)?,
        prepare(regime, direct, cache_bytes)?,
    ];
    Ok(Pair { regime, devices })
}

impl Pair {
    /// So many threads, both mappings by turns.
    pub(super) fn measure(&mut self, threads: usize, settings: &Settings) -> Result<Cell> {
        let mut cell = Cell {
            regime: self.regime,
            threads,
            runs: Default::default(),
        };
        for repeat in 0..settings.repeats {
            for (device, runs) in self.devices.iter().zip(&mut cell.runs) {
                let plan = Plan {
                    threads,
                    reads: settings.reads[self.regime as usize],
                    seed: u64::from(repeat) + 1,
                };
                runs.push(hammer(device, &plan)?);
            }
        }
        Ok(cell)
    }
}

/// A file in a cache of its own: all of it that there is room for in memory, and some of what was
/// read compared.
pub(super) fn prepare(regime: Regime, mapping: Mapping, cache_bytes: u64) -> Result<CachedDevice> {
    let options = CacheOptions {
        mapping: mapping.mode(cache_bytes),
        populate_bytes: u64::MAX,
        // Filling is one long stream, and what it has passed is wanted.
        free_behind: false,
        ..CacheOptions::new(cache_bytes)
    };
    let pattern = Pattern::new(regime.file_bytes(cache_bytes), 41);
    let device = Cache::new(options)?.open(Arc::new(pattern.clone()));
    let mut target = vec![0; usize::try_from(PREFILL_BYTES).unwrap_or(1)];
    let length = device.length_bytes();
    let mut at = 0;
    while at < length {
        let count = (length - at).min(PREFILL_BYTES);
        let count = usize::try_from(count).unwrap_or(target.len());
        device.read_at(at, &mut target[..count], ReadMode::WAIT)?;
        at += count as u64;
    }
    if regime == Regime::NotCached {
        let pages = cache_bytes / pagewell_cache::PAGE_BYTES as u64;
        let plan = Plan {
            threads: 1,
            reads: SETTLING_READS * pages,
            seed: 5,
        };
        hammer(&device, &plan)?;
    }
    check(&device, &pattern, CHECKED_READS)?;
    Ok(device)
}
