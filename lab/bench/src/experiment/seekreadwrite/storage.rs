//! The storage of the program: the page cache, or the blocks of an old system.

use std::sync::{Arc, mpsc};

use pagewell_cache::{Cache, CacheOptions, CachedDevice, ReadAheadRule, ReadMode, WriteMode};
use pagewell_device::{Buffer, Device, Issuer, Operation, Request, read_exact};

use super::program::BLOCK_BYTES;
use crate::experiment::blocks::{BlockBuffers, Ended, Rule, Store};
use crate::experiment::{Error, Result};

const CACHE_BYTES: u64 = 16 << 20;

/// A device under a rule.
pub(super) enum Storage {
    /// The page cache, with the rule after each write.
    Pages(CachedDevice, Rule),
    /// An old system's buffer cache.
    Blocks(BlockBuffers<OnDevice>),
}

impl Storage {
    pub(super) fn new(device: Arc<dyn Device>, rule: Rule) -> Result<Self> {
        if rule.is_by_block() {
            let grain_bytes = u64::from(device.geometry().logical_block_bytes.max(1));
            let store = OnDevice(device);
            let buffers = BlockBuffers::new(rule, BLOCK_BYTES, grain_bytes, store);
            return Ok(Self::Blocks(buffers));
        }
        let mut options = CacheOptions::new(CACHE_BYTES);
        // It would read the whole file ahead as soon as the order shows, which is of no interest
        // here.
        options.read_ahead = ReadAheadRule::Off;
        Ok(Self::Pages(Cache::new(options)?.open(device), rule))
    }

    pub(super) fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        match self {
            Self::Pages(device, _) => Ok(device.read_at(offset, target, ReadMode::WAIT)?),
            Self::Blocks(blocks) => blocks.read(offset, target),
        }
    }

    pub(super) fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let (device, rule) = match self {
            Self::Blocks(blocks) => return blocks.write(offset, source),
            Self::Pages(device, rule) => (device, *rule),
        };
        device.write_at(offset, source, WriteMode::WAIT)?;
        let length = source.len() as u64;
        if rule != Rule::Delayed {
            device.commit(offset, length)?;
        }
        if rule == Rule::BugReplica {
            let first = offset / BLOCK_BYTES * BLOCK_BYTES;
            let end = (offset + length).next_multiple_of(BLOCK_BYTES);
            device.discard(first, end - first);
        }
        Ok(())
    }

    /// Waits until all started writes are on the device.
    pub(super) fn settle(&self) -> Result<()> {
        match self {
            Self::Pages(..) => Ok(()),
            Self::Blocks(blocks) => blocks.settle(),
        }
    }

    pub(super) fn sync(&self) -> Result<()> {
        match self {
            Self::Pages(device, _) => Ok(device.sync()?),
            Self::Blocks(blocks) => blocks.sync(),
        }
    }

    /// How many calls waited for a write of the same block.
    pub(super) fn busy_waits(&self) -> u64 {
        match self {
            Self::Pages(..) => 0,
            Self::Blocks(blocks) => blocks.busy_waits(),
        }
    }
}

pub(super) struct OnDevice(Arc<dyn Device>);

impl Store for OnDevice {
    const KEEPS: bool = true;

    fn load(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        Ok(read_exact(&*self.0, offset, target)?)
    }

    fn start(&self, offset: u64, bytes: &[u8], ended: Ended) {
        let alignment = self.0.geometry().memory_alignment_bytes.max(1);
        let mut buffer = Buffer::new(bytes.len(), alignment as usize);
        buffer.copy_from_slice(bytes);
        let done = |outcome: pagewell_device::Outcome, _| {
            ended(outcome.result.map_err(|error| error.to_string()));
        };
        let (operation, issuer) = (Operation::Write, Issuer::Flusher);
        let request = Request::owned(operation, offset, buffer, issuer, done);
        self.0.submit(request);
    }

    fn flush(&self) -> Result<()> {
        let (sender, answer) = mpsc::sync_channel(1);
        // The receiver waits below.
        let done = move |outcome: pagewell_device::Outcome| drop(sender.send(outcome.result));
        self.0.submit(Request::flush(Issuer::Flusher, done));
        let answer = answer.recv();
        let lost = |_| Error::Wrong(format!("{}: no answer to a flush", self.0.name()));
        Ok(answer.map_err(lost)??)
    }
}
