//! One piece of file data in memory.

use std::sync::Arc;

use pagewell_fs::Result;

use super::memory::{Arena, BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Block};

/// Most bytes of one page: large enough that a 1 MiB read is 16 slices, small enough that a copy
/// made for a reader (64 KiB) costs less than the system call around it.
pub(super) const PAGE_BYTES: usize = BLOCK_BYTES_MAX;

/// The capacity a page needs to hold `bytes`: a power of two, so that a page that grows is
/// copied at most four times.
pub(super) fn capacity_for(bytes: usize) -> usize {
    bytes
        .max(BLOCK_BYTES_MIN)
        .next_power_of_two()
        .min(PAGE_BYTES)
}

/// Bytes from the start of a page of a file. Whatever follows in that page of the file is zero.
#[derive(Debug)]
pub(super) struct Page {
    block: Block,
    /// What of the block is the page's; the rest is whatever was there.
    length: usize,
}

impl Page {
    /// An empty page that can take `capacity` bytes.
    pub(super) fn new(arena: &Arc<Arena>, capacity: usize) -> Result<Self> {
        Ok(Self {
            block: arena.allocate(capacity)?,
            length: 0,
        })
    }

    /// What it is charged with.
    pub(super) fn capacity(&self) -> usize {
        self.block.len()
    }

    /// Writes `data` at `start`; what lies between the end so far and `start` becomes zero.
    pub(super) fn write(&mut self, start: usize, data: &[u8]) {
        let end = start + data.len();
        let bytes = self.block.as_mut_slice();
        assert!(end <= bytes.len(), "past the page's end");
        if self.length < start {
            bytes[self.length..start].fill(0);
        }
        bytes[start..end].copy_from_slice(data);
        self.length = self.length.max(end);
    }

    /// Forgets everything from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.block.as_slice()[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_powers_of_two_within_bounds() {
        for (bytes, capacity) in [
            (0, 4096),
            (4096, 4096),
            (4097, 8192),
            (40_000, 65_536),
            (65_536, 65_536),
        ] {
            assert_eq!(capacity_for(bytes), capacity);
        }
    }

    #[test]
    fn writes_fill_gaps_with_zeros_and_overlap() {
        let arena = Arena::new(1 << 20).unwrap();
        let mut dirty = Page::new(&arena, 4096).unwrap();
        dirty.write(0, &[9; 4096]);
        drop(dirty);
        let mut page = Page::new(&arena, 4096).unwrap();
        page.write(3, b"abc");
        assert_eq!(page.as_ref(), b"\0\0\0abc");
        page.write(4, b"XYZ");
        assert_eq!(page.as_ref(), b"\0\0\0aXYZ");
        page.write(1, b"1");
        assert_eq!(page.as_ref(), [0, b'1', 0, b'a', b'X', b'Y', b'Z']);
        page.truncate(4);
        page.write(6, b"!");
        assert_eq!(page.as_ref().len(), 7);
        assert_eq!(&page.as_ref()[4..], b"\0\0!");
    }
}
