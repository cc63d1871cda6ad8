//! One piece of file data in memory.

use crate::{Error, Result};

/// Most bytes of one page: large enough that a 1 MiB read is 16 slices, small enough that a copy
/// made for a reader (64 KiB) costs less than the system call around it.
pub(super) const PAGE_BYTES: usize = 64 * 1024;

/// Least bytes of one page, so that small files stay small.
pub(super) const PAGE_BYTES_MIN: usize = 512;

/// The capacity a page needs to hold `bytes`: a power of two, so that a page that grows is
/// copied at most eight times.
pub(super) fn capacity_for(bytes: usize) -> usize {
    bytes
        .max(PAGE_BYTES_MIN)
        .next_power_of_two()
        .min(PAGE_BYTES)
}

/// Bytes from the start of a page of a file. Whatever follows in that page of the file is zero.
#[derive(Debug)]
pub(super) struct Page {
    bytes: Vec<u8>,
    capacity: usize,
}

impl Page {
    /// An empty page that can take `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Result<Self> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(capacity)
            .map_err(|_| Error::NoSpace)?;
        Ok(Self { bytes, capacity })
    }

    /// What it is charged with.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes `data` at `start`; what lies between the end so far and `start` becomes zero.
    pub(super) fn write(&mut self, start: usize, data: &[u8]) {
        assert!(start + data.len() <= self.capacity, "past the page's end");
        if self.bytes.len() < start {
            self.bytes.resize(start, 0);
        }
        let overlap = data.len().min(self.bytes.len() - start);
        let (over, after) = data.split_at(overlap);
        self.bytes[start..start + overlap].copy_from_slice(over);
        self.bytes.extend_from_slice(after);
    }

    /// Forgets everything from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_powers_of_two_within_bounds() {
        for (bytes, capacity) in [
            (0, 512),
            (512, 512),
            (513, 1024),
            (40_000, 65_536),
            (65_536, 65_536),
        ] {
            assert_eq!(capacity_for(bytes), capacity);
        }
    }

    #[test]
    fn writes_fill_gaps_with_zeros_and_overlap() {
        let mut page = Page::new(512).unwrap();
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
