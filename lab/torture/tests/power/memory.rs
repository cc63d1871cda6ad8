//! The simplest machine: memory, and a list of the writes that were not synchronised. It proves
//! the harness itself, because a mistake here is easy to rule out, and it can be made to lie:
//! when syncs do not work the harness has to find losses.

use std::collections::HashMap;
use std::sync::Arc;

use pagewell_base::sync::Mutex;

use crate::random::Random;
use crate::store::{Machine, Result, SECTOR_BYTES, Store};

/// The machine.
pub(crate) struct MemoryMachine {
    store: Arc<MemoryStore>,
}

/// What a sync does, once the volume has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// What it must.
    Works,
    /// Nothing.
    Nothing,
    /// What it must, but for one in so many.
    Skips(u64),
}

struct MemoryStore {
    state: Mutex<State>,
    sync: Sync,
}

struct State {
    /// What a read sees.
    current: Vec<u8>,
    /// For each sector that differs from the medium, its contents since the last sync in their
    /// order, the medium's own first. A power cut leaves any of them.
    versions: HashMap<u64, Vec<Vec<u8>>>,
    /// Writes and syncs until the power fails.
    operations_left: u64,
    is_cut: bool,
    /// Times it was switched on.
    lives: u64,
    random: Random,
}

impl MemoryMachine {
    pub(crate) fn new(length_bytes: usize, sync: Sync) -> Self {
        let state = State {
            current: vec![0; length_bytes],
            versions: HashMap::new(),
            operations_left: 0,
            is_cut: true,
            lives: 0,
            random: Random::new(0),
        };
        let state = Mutex::new(state);
        Self {
            store: Arc::new(MemoryStore { state, sync }),
        }
    }
}

impl Machine for MemoryMachine {
    fn power_on(&mut self, cut_after: u64, random: Random) -> Arc<dyn Store> {
        let mut state = self.store.state.lock();
        state.operations_left = cut_after;
        state.random = random;
        state.is_cut = false;
        state.lives += 1;
        self.store.clone()
    }

    fn power_off(&mut self) {
        self.store.state.lock().cut();
    }
}

impl State {
    /// Counts an operation; the one at which the power fails fails, and all later ones.
    fn step(&mut self) -> Result<()> {
        if self.operations_left == 0 {
            self.cut();
        }
        self.operations_left = self.operations_left.saturating_sub(1);
        if self.is_cut {
            Err("no power".to_owned())
        } else {
            Ok(())
        }
    }

    fn cut(&mut self) {
        if std::mem::replace(&mut self.is_cut, true) {
            return;
        }
        let mut versions: Vec<_> = self.versions.drain().collect();
        // A map has no order of its own, and the same seed is to leave the same bytes.
        versions.sort_unstable();
        for (sector, versions) in versions {
            let last = versions.len() as u64;
            let chosen = usize::try_from(self.random.below(last + 1)).unwrap_or(0);
            // The number behind the last stored version is the current content.
            if let Some(version) = versions.get(chosen) {
                let start = usize::try_from(sector * SECTOR_BYTES).unwrap_or(usize::MAX);
                self.current[start..start + version.len()].copy_from_slice(version);
            }
        }
    }

    fn remember(&mut self, offset: u64, length: usize) {
        let end = offset + length as u64;
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let start = usize::try_from(sector * SECTOR_BYTES).unwrap_or(usize::MAX);
            let stop = (start + SECTOR_BYTES as usize).min(self.current.len());
            let before = self.current[start..stop].to_vec();
            self.versions.entry(sector).or_default().push(before);
        }
    }
}

/// The bytes of a range as indexes, if it is inside.
fn range(offset: u64, length: usize, whole: usize) -> Result<std::ops::Range<usize>> {
    let start = usize::try_from(offset).map_err(|_| "far past the end".to_owned())?;
    let end = start.saturating_add(length);
    if end > whole {
        return Err(format!("{length} bytes at {offset} reach past the end"));
    }
    Ok(start..end)
}

impl Store for MemoryStore {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let state = self.state.lock();
        if state.is_cut {
            return Err("no power".to_owned());
        }
        let range = range(offset, target.len(), state.current.len())?;
        target.copy_from_slice(&state.current[range]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        let range = range(offset, data.len(), state.current.len())?;
        // The write at which the power fails may be on the medium, in any part.
        let fails = state.operations_left == 0 && !state.is_cut;
        if !fails {
            state.step()?;
        }
        state.remember(offset, data.len());
        state.current[range].copy_from_slice(data);
        if fails { state.step() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.step()?;
        let works = match self.sync {
            _ if state.lives < 2 => true,
            Sync::Works => true,
            Sync::Nothing => false,
            Sync::Skips(times) => !state.random.one_in(times),
        };
        if works {
            state.versions.clear();
        }
        Ok(())
    }

    fn is_cut(&self) -> bool {
        self.state.lock().is_cut
    }
}
