//! How a read reaches the cache: as it is, or in the pieces in which HSFS made it.
//!
//! The engine knows nothing of this. What an old system did before its cache is done here, with
//! reads that anybody can make.

use pagewell_cache::{CachedDevice, ReadMode};

use crate::experiment::Result;

/// A page of the processor in the report: two sectors of a disc.
pub(super) const PAGE_BYTES: u64 = 4096;

/// The pieces of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// The cache gets the whole read.
    Whole,
    /// Page by page, each whole.
    Pages,
}

/// The reads of one job.
pub(super) struct Reader<'a> {
    device: &'a CachedDevice,
    pieces: Pieces,
}

impl<'a> Reader<'a> {
    pub(super) fn new(device: &'a CachedDevice, pieces: Pieces) -> Self {
        Self { device, pieces }
    }

    /// Fills `target` with the bytes from `offset`.
    pub(super) fn read(&mut self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        match self.pieces {
            Pieces::Whole => Ok(self.device.read_at(offset, target, mode)?),
            Pieces::Pages => self.pages(offset, target, mode),
        }
    }

    fn pages(&self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        let mut page = [0; PAGE_BYTES as usize];
        for (at, piece) in pieces(offset, target, PAGE_BYTES) {
            let start = at - at % PAGE_BYTES;
            let length = PAGE_BYTES.min(self.device.length_bytes() - start) as usize;
            if piece.len() == length {
                self.device.read_at(at, piece, mode)?;
                continue;
            }
            // Of a page of which a part is wanted all comes.
            let inside = (at - start) as usize;
            self.device.read_at(start, &mut page[..length], mode)?;
            piece.copy_from_slice(&page[inside..inside + piece.len()]);
        }
        Ok(())
    }
}

/// Cuts a target at multiples of so many bytes: each piece, and where it lies.
fn pieces(offset: u64, target: &mut [u8], bytes: u64) -> impl Iterator<Item = (u64, &mut [u8])> {
    let (mut at, mut rest) = (offset, target);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let count = rest.len().min((bytes - at % bytes) as usize);
        let (piece, behind) = std::mem::take(&mut rest).split_at_mut(count);
        rest = behind;
        let start = at;
        at += count as u64;
        Some((start, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_cache::{Cache, CacheOptions};
    use pagewell_device::{Device, Pattern};
    use pagewell_layers::Stats;
    use std::sync::Arc;

    #[test]
    fn pages_are_whole_and_one_at_a_time() {
        let pattern = Pattern::new((1 << 20) + 2048, 5);
        let stats = Arc::new(Stats::new(Arc::new(pattern.clone())));
        let options = CacheOptions::baseline(8 << 20);
        let device = Cache::new(options).unwrap().open(stats.clone());
        let mut reader = Reader::new(&device, Pieces::Pages);
        let mut sectors = 0;
        for (offset, length, new) in [
            (0, 8192, 4),
            // A part of a page brings its other sector.
            (10_240, 2048, 2),
            (8192, 2048, 0),
            (6000, 20_000, 8),
            // The last page is half of one.
            (pattern.length_bytes() - 100, 100, 1),
            (0, 0, 0),
        ] {
            let mut target = vec![0; length];
            reader.read(offset, &mut target, ReadMode::WAIT).unwrap();
            assert_eq!(pattern.check(offset, &target), Ok(()));
            sectors += new;
            assert_eq!(stats.snapshot().requests(), sectors, "{length} at {offset}");
        }
        assert_eq!(stats.snapshot().bytes(), sectors * 2048);
    }
}
