//! A store behind the page cache, on a device whose power fails.

use std::sync::Arc;

use pagewell_cache::{Cache, CacheOptions, CachedDevice, ReadMode, WriteMode};

use crate::power::{FailingPower, Medium, medium};
use crate::random::Random;
use crate::store::{Machine, Result, Store};

/// The least that a cache can have: pages are given up while they are wanted.
pub(crate) const CACHE_BYTES: u64 = 4 << 20;

/// A machine with a cache of its own in each life.
pub(crate) struct CachedMachine {
    medium: Medium,
    power: Option<Arc<FailingPower>>,
    flushes: bool,
}

impl CachedMachine {
    pub(crate) fn new() -> Self {
        Self {
            medium: medium(),
            power: None,
            flushes: true,
        }
    }

    /// Its device says that it has flushed, and has not.
    pub(crate) fn without_flushes() -> Self {
        Self {
            flushes: false,
            ..Self::new()
        }
    }
}

impl Machine for CachedMachine {
    fn power_on(&mut self, cut_after: u64, random: Random) -> Arc<dyn Store> {
        let power = FailingPower::new(&self.medium, cut_after, self.flushes, random);
        let cache = Cache::new(CacheOptions::new(CACHE_BYTES)).expect("memory for a cache");
        let device = cache.open(power.clone());
        self.power = Some(power.clone());
        Arc::new(CachedStore { power, device })
    }

    fn power_off(&mut self) {
        if let Some(power) = self.power.take() {
            power.cut();
        }
    }
}

struct CachedStore {
    power: Arc<FailingPower>,
    device: CachedDevice,
}

impl Drop for CachedStore {
    fn drop(&mut self) {
        // A process that ends in order would write what is dirty. This one has no power.
        self.power.cut();
    }
}

impl CachedStore {
    /// Without power nothing is done any more, not even from memory.
    fn check(&self) -> Result<()> {
        if self.power.is_cut() {
            return Err("no power".to_owned());
        }
        Ok(())
    }
}

impl Store for CachedStore {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.check()?;
        let read = self.device.read_at(offset, target, ReadMode::WAIT);
        read.map_err(|error| error.to_string())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check()?;
        let written = self.device.write_at(offset, data, WriteMode::WAIT);
        written.map_err(|error| error.to_string())
    }

    fn sync(&self) -> Result<()> {
        self.check()?;
        self.device.sync().map_err(|error| error.to_string())
    }

    fn sync_range(&self, offset: u64, length: u64) -> Result<()> {
        self.check()?;
        let committed = self.device.commit(offset, length);
        committed.map_err(|error| error.to_string())
    }

    fn is_cut(&self) -> bool {
        self.power.is_cut()
    }
}
