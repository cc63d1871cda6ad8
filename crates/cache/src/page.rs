//! Names of pages, parts of them, and the units that they are fetched in.

use std::ops::Range;

use pagewell_policy::elevator::Extent;

use crate::PAGE_BYTES;

/// Bytes of a page, as offsets are counted.
pub(crate) const PAGE: u64 = PAGE_BYTES as u64;
/// The lower bits of a key are the page, the others the number of the device.
pub(crate) const PAGE_BITS: u32 = 40;
/// Bytes of the longest device whose pages have names; what is behind that cannot be read.
pub(crate) const LENGTH_BYTES_MAX: u64 = (1 << PAGE_BITS) * PAGE;

/// Units of one page, one bit each, first unit lowest.
pub(crate) type Units = u32;

/// The name of a page.
pub(crate) fn key_of(device: u32, page: u64) -> u64 {
    debug_assert!(page >> PAGE_BITS == 0);
    u64::from(device) << PAGE_BITS | page
}

#[allow(clippy::cast_possible_truncation)] // the upper 24 bits
pub(crate) fn device_of(key: u64) -> u32 {
    (key >> PAGE_BITS) as u32
}

pub(crate) fn page_of(key: u64) -> u64 {
    key & ((1 << PAGE_BITS) - 1)
}

/// Bytes of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) page: u64,
    /// First byte in the page.
    pub(crate) start: u64,
    pub(crate) length: u64,
}

impl Part {
    /// All bytes that a page can have.
    pub(crate) fn whole(page: u64) -> Self {
        let (start, length) = (0, PAGE);
        Self {
            page,
            start,
            length,
        }
    }

    /// The bytes of the device.
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            offset: self.page * PAGE + self.start,
            length: self.length,
        }
    }

    /// The bytes of the page.
    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

/// The first page's part of a range that is not empty.
pub(crate) fn first_part(range: &Range<u64>) -> Part {
    let (page, start) = (range.start / PAGE, range.start % PAGE);
    let length = (PAGE - start).min(range.end - range.start);
    Part {
        page,
        start,
        length,
    }
}

/// What a range has of each page.
pub(crate) fn parts(mut range: Range<u64>) -> impl Iterator<Item = Part> {
    std::iter::from_fn(move || {
        let part = (!range.is_empty()).then(|| first_part(&range))?;
        range.start += part.length;
        Some(part)
    })
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_of_a_range_and_lie_inside_pages() {
        assert_eq!(parts(7..7).next(), None);
        let range = PAGE - 3..2 * PAGE + 5;
        let parts: Vec<_> = parts(range).map(|part| (part.page, part.range())).collect();
        assert_eq!(
            parts,
            [
                (0, PAGE_BYTES - 3..PAGE_BYTES),
                (1, 0..PAGE_BYTES),
                (2, 0..5)
            ]
        );
    }
}
