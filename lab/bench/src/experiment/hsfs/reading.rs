//! How a read reaches the cache: whole, or in the pieces of HSFS.
//!
//! The engine knows nothing of this: the work of an old system before its cache is done here, with
//! reads that every caller can make.

use pagewell_cache::{CachedDevice, ReadMode};
use pagewell_counters::names::COPIED_BYTES;

use super::read_ahead::ReadAhead;
use crate::experiment::Result;

/// A page of the report's processor: two sectors of a disc.
pub(super) const PAGE_BYTES: u64 = 4096;
/// HSFS saw so much of a file in one read.
const SEGMENT_BYTES: u64 = 8192;

/// The pieces of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// The cache gets the whole read.
    Whole,
    /// Page by page, each whole.
    Pages,
    /// Segment by segment, with the read-ahead of HSFS.
    Segments,
}

pub(super) struct Reader<'a> {
    device: &'a CachedDevice,
    pieces: Pieces,
    read_ahead: ReadAhead,
    /// The end of the last piece.
    end: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(device: &'a CachedDevice, pieces: Pieces) -> Self {
        Self {
            device,
            pieces,
            read_ahead: ReadAhead::new(device.length_bytes()),
            end: 0,
        }
    }

    pub(super) fn read(&mut self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        match self.pieces {
            Pieces::Whole => Ok(self.device.read_at(offset, target, mode)?),
            Pieces::Pages => self.pages(offset, target, mode),
            Pieces::Segments => self.segments(offset, target, mode),
        }
    }

    fn pages(&self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        for (at, piece) in pieces(offset, target, PAGE_BYTES) {
            let start = at - at % PAGE_BYTES;
            let length = PAGE_BYTES.min(self.device.length_bytes() - start) as usize;
            // All of a page comes, even if only a part is wanted.
            let page = self.device.pin(start, length, mode)?;
            let inside = (at - start) as usize;
            piece.copy_from_slice(&page[inside..inside + piece.len()]);
            COPIED_BYTES.add(piece.len() as u64);
        }
        Ok(())
    }

    fn segments(&mut self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        for (start, segment) in pieces(offset, target, SEGMENT_BYTES) {
            let (mut at, mut rest) = (start, segment);
            while !rest.is_empty() {
                let in_page = (PAGE_BYTES - at % PAGE_BYTES) as usize;
                // The first missing page brings the others along.
                let is_expected = self.is_expected(at);
                let count = match is_expected {
                    true => rest.len().min(in_page),
                    false => rest.len(),
                };
                let (piece, behind) = rest.split_at_mut(count);
                let mut waited = false;
                self.device.read_noting(at, piece, mode, &mut waited)?;
                let end = at + count as u64;
                self.tell(at, end, is_expected || !waited);
                (at, rest) = (end, behind);
            }
        }
        Ok(())
    }

    /// Whether a page must be in memory or in flight: the read-ahead has asked for it, or a part of
    /// it was read last.
    fn is_expected(&self, at: u64) -> bool {
        let page = at - at % PAGE_BYTES;
        self.read_ahead.has_asked(page) || (page < self.end && self.end < page + PAGE_BYTES)
    }

    /// Gives the read-ahead the pages that were read to their ends, as sequential readers do, and
    /// fetches what it asks for. `found` is of the first page.
    fn tell(&mut self, at: u64, end: u64, found: bool) {
        self.end = end;
        let length_bytes = self.device.length_bytes();
        let first = at - at % PAGE_BYTES;
        for page in (first..end).step_by(PAGE_BYTES as usize) {
            let page_end = (page + PAGE_BYTES).min(length_bytes);
            if page_end > end {
                break;
            }
            let found = found || page != first;
            if let Some(asked) = self.read_ahead.page(page..page_end, found) {
                self.device.prefetch(asked.start, asked.end - asked.start);
            }
        }
    }
}

/// Cuts a target at multiples of so many bytes: each piece, and its place.
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
    use pagewell_cache::Cache;
    use pagewell_device::Device;
    use pagewell_layers::Pattern;
    use pagewell_layers::Stats;
    use std::sync::Arc;

    #[test]
    fn pages_are_whole_and_one_at_a_time() {
        let pattern = Pattern::new((1 << 20) + 2048, 5);
        let stats = Arc::new(Stats::new(Arc::new(pattern.clone())));
        let options = crate::experiment::baseline(8 << 20);
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
