//! The program of the report: it reads and writes blocks of a small file again and again.

use std::fmt;
use std::time::Instant;

use clap::Args;
use pagewell_base::mix::{STEP, mix};
use pagewell_base::size;
use pagewell_load::measure::Latency;
use pagewell_load::named;

use super::storage::Storage;
use crate::experiment::{Error, Result};

/// Blocks of the file systems of the report.
pub(super) const BLOCK_BYTES: u64 = 8192;
/// Updates of the report.
const UPDATES: u64 = 10_000;
const BLOCKS: u64 = 8;
/// From one block to the next, in blocks; the report's order is 0, 5, 2, 7, 4, 1, 6, 3.
const STRIDE: u64 = 5;
/// The number of the update is stamped into the first bytes of each write.
const STAMP_BYTES: usize = 8;

named! {
    /// In which order blocks are updated.
    #[derive(Default)]
    pub enum Order {
        /// Five on from one to the next, or the next larger number of blocks that meets all.
        #[default]
        Stride = "stride",
        /// One after the other.
        Sequential = "sequential",
        /// As a row of random numbers says, the same in each run.
        Random = "random",
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct Program {
    /// Updates of the program
    #[arg(long = "count", value_name = "N", default_value_t = UPDATES)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub updates: u64,
    /// Blocks of the file
    #[arg(long, value_name = "N", default_value_t = BLOCKS)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub blocks: u64,
    /// In which order: stride, sequential or random
    #[arg(long, value_name = "ORDER", default_value_t)]
    pub order: Order,
    /// Bytes from block to block, and bytes read
    #[arg(long = "block-size", value_name = "SIZE", default_value_t = BLOCK_BYTES)]
    #[arg(value_parser = block_bytes)]
    pub block_bytes: u64,
    /// Bytes written
    #[arg(long = "write-size", value_name = "SIZE", default_value_t = BLOCK_BYTES)]
    #[arg(value_parser = block_bytes)]
    pub write_bytes: u64,
}

/// At least one, and so few that the file of all blocks fits.
fn block_bytes(text: &str) -> std::result::Result<u64, String> {
    size::within(text, 1..=1 << 20)
}

impl Default for Program {
    fn default() -> Self {
        Self {
            updates: UPDATES,
            blocks: BLOCKS,
            order: Order::Stride,
            block_bytes: BLOCK_BYTES,
            write_bytes: BLOCK_BYTES,
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} blocks of {}, {} written",
            self.blocks, self.block_bytes, self.write_bytes
        )
    }
}

impl Program {
    /// Bytes of the program's file, in whole blocks of a file system.
    pub fn file_bytes(&self) -> u64 {
        let longer = self.block_bytes.max(self.write_bytes);
        let end = (self.blocks.saturating_sub(1))
            .saturating_mul(self.block_bytes)
            .saturating_add(longer);
        end.max(1).next_multiple_of(BLOCK_BYTES)
    }

    /// The most device writes for dirty bytes at the end: one for each block of the file.
    pub fn file_blocks(&self) -> u64 {
        self.file_bytes() / BLOCK_BYTES
    }

    /// The place of each update.
    pub fn offsets(self) -> impl Iterator<Item = u64> {
        let blocks = self.blocks.max(1);
        let mut stride = STRIDE;
        while common_divisor(stride, blocks) > 1 {
            stride += 1;
        }
        (0..self.updates).map(move |update| {
            let block = match self.order {
                Order::Stride => {
                    (u128::from(update) * u128::from(stride) % u128::from(blocks)) as u64
                }
                Order::Sequential => update % blocks,
                Order::Random => mix(update.wrapping_add(STEP)) % blocks,
            };
            block * self.block_bytes
        })
    }

    /// Runs it, and returns the latency of the updates.
    pub(super) fn run(&self, storage: &Storage) -> Result<Latency> {
        let mut latency = Latency::default();
        let mut block = buffer(self.block_bytes)?;
        let mut source = buffer(self.write_bytes)?;
        for (update, offset) in self.offsets().enumerate() {
            let begin = Instant::now();
            storage.read(offset, &mut block)?;
            stamp(&mut source, update);
            storage.write(offset, &source)?;
            latency.record(begin.elapsed());
        }
        Ok(latency)
    }

    /// Reads each block once, so that the file is in memory.
    pub(super) fn warm(&self, storage: &Storage) -> Result<()> {
        let mut all = buffer(self.file_bytes())?;
        storage.read(0, &mut all)
    }

    /// What a file of zeros holds afterwards.
    pub(super) fn result(&self) -> Result<Vec<u8>> {
        let mut bytes = buffer(self.file_bytes())?;
        let mut source = buffer(self.write_bytes)?;
        for (update, offset) in self.offsets().enumerate() {
            stamp(&mut source, update);
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let target = bytes.get_mut(start..).unwrap_or_default();
            let target = target.get_mut(..source.len());
            let wrong = || Error::Wrong(format!("byte {offset} is outside of the file"));
            target.ok_or_else(wrong)?.copy_from_slice(&source);
        }
        Ok(bytes)
    }
}

/// Makes the bytes of an update unlike those of every other.
fn stamp(source: &mut [u8], update: usize) {
    let stamp = (update as u64 + 1).to_le_bytes();
    let count = source.len().min(STAMP_BYTES);
    if let (Some(target), Some(stamp)) = (source.get_mut(..count), stamp.get(..count)) {
        target.copy_from_slice(stamp);
    }
    if let Some(last) = source.last_mut() {
        *last = stamp[0] ^ 0x5a;
    }
}

fn buffer(bytes: u64) -> Result<Vec<u8>> {
    let count = usize::try_from(bytes).map_err(|_| too_long(bytes))?;
    let mut buffer = Vec::new();
    buffer
        .try_reserve_exact(count)
        .map_err(|_| too_long(bytes))?;
    buffer.resize(count, 0);
    Ok(buffer)
}

fn too_long(bytes: u64) -> Error {
    Error::Wrong(format!("there is no memory for {bytes} bytes"))
}

fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_order_is_that_of_the_report() {
        let program = Program {
            updates: 9,
            ..Program::default()
        };
        let blocks: Vec<u64> = program.offsets().map(|at| at / BLOCK_BYTES).collect();
        assert_eq!(blocks, [0, 5, 2, 7, 4, 1, 6, 3, 0]);
    }

    #[test]
    fn every_block_is_met_whatever_their_number() {
        for blocks in [1, 2, 5, 8, 10, 15, 16, 30] {
            for order in Order::ALL {
                let program = Program {
                    updates: blocks * 20,
                    blocks,
                    order,
                    ..Program::default()
                };
                let met: BTreeSet<u64> = program.offsets().collect();
                assert_eq!(met.len() as u64, blocks, "{blocks} {order:?}");
                assert_eq!(order.name().parse(), Ok(order));
            }
        }
    }

    #[test]
    fn the_file_holds_all_that_is_written() {
        let program = |block_bytes, write_bytes| Program {
            block_bytes,
            write_bytes,
            ..Program::default()
        };
        assert_eq!(program(8192, 8192).file_bytes(), 65_536);
        assert_eq!(program(8191, 8193).file_bytes(), 65_536);
        // The last block spills over into a ninth.
        assert_eq!(program(8192, 8193).file_blocks(), 9);
        let result = program(8193, 8193).result().unwrap();
        assert_eq!(result.len(), 73_728);
        // The last update of block 7 is the 9,996th.
        let stamp = result[7 * 8193..][..8].try_into().unwrap();
        assert_eq!(u64::from_le_bytes(stamp) % 8, 4);
    }
}
