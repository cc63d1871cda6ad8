//! The runs: both mappings by turns, in every regime, by more and more threads.

use pagewell_layers::Pattern;
use pagewell_load::measure::Runs;

use super::file::{File, Mapping};
use super::hammer::{Hammered, Plan, check, hammer};
use super::regime::Regime;
use crate::experiment::Result;

/// Bytes of a read that brings a file into memory.
const PREFILL_BYTES: u64 = 1 << 20;
/// Compared reads, in each cache.
const CHECKED_READS: u64 = 2000;
/// Random reads of each page of the cache before a larger file is measured.
const SETTLING_READS: u64 = 8;

impl Cell {
    /// The runs of one mapping.
    pub(super) fn of(&self, mapping: Mapping) -> &[Hammered] {
        &self.runs[mapping as usize]
    }

    /// The mean over the runs of one mapping.
    pub(super) fn mean(&self, mapping: Mapping, of: impl Fn(&Hammered) -> f64) -> f64 {
        self.of(mapping).mean(of)
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

/// The settings of a regime's runs.
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
    files: [File; Mapping::ALL.len()],
}

pub(super) fn prepare_both(regime: Regime, cache_bytes: u64) -> Result<Pair> {
    let [window, direct] = Mapping::ALL;
    let files = [
        prepare(regime, window, cache_bytes)?,
        prepare(regime, direct, cache_bytes)?,
    ];
    Ok(Pair { regime, files })
}

impl Pair {
    pub(super) fn measure(&mut self, threads: usize, settings: &Settings) -> Result<Cell> {
        let mut cell = Cell {
            regime: self.regime,
            threads,
            runs: Default::default(),
        };
        for repeat in 0..settings.repeats {
            for (file, runs) in self.files.iter().zip(&mut cell.runs) {
                let plan = Plan {
                    threads,
                    reads: settings.reads[self.regime as usize],
                    seed: u64::from(repeat) + 1,
                };
                runs.push(hammer(file, &plan)?);
            }
        }
        Ok(cell)
    }
}

/// A file in a cache of its own, filled as far as there is room, with some reads compared.
pub(super) fn prepare(regime: Regime, mapping: Mapping, cache_bytes: u64) -> Result<File> {
    let pattern = Pattern::new(regime.file_bytes(cache_bytes), 41);
    let file = File::new(&pattern, mapping, cache_bytes)?;
    let mut target = vec![0; usize::try_from(PREFILL_BYTES).unwrap_or(1)];
    let length = file.device.length_bytes();
    let mut at = 0;
    while at < length {
        let count = (length - at).min(PREFILL_BYTES);
        let count = usize::try_from(count).unwrap_or(target.len());
        file.read(at, &mut target[..count])?;
        at += count as u64;
    }
    if regime == Regime::NotCached {
        let pages = cache_bytes / pagewell_cache::PAGE_BYTES as u64;
        let plan = Plan {
            threads: 1,
            reads: SETTLING_READS * pages,
            seed: 5,
        };
        hammer(&file, &plan)?;
    }
    check(&file, &pattern, CHECKED_READS)?;
    Ok(file)
}
