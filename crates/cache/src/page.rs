//! How an object is divided: pages and their names, units that are fetched, and blocks.
//!
//! A unit with the object's end is valid with all bytes up to there, so moving the end purges it
//! afterwards.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_device::Geometry;
use pagewell_policy::elevator::Extent;

use crate::PAGE_BYTES;
use crate::options::CacheOptions;

pub(crate) const PAGE: u64 = PAGE_BYTES as u64;
pub(crate) const PAGE_BITS: u32 = 32;
/// The longest object whose pages have names: 256 TiB.
pub const LENGTH_BYTES_MAX: u64 = (1 << PAGE_BITS) * PAGE;

pub(crate) const UNIT_BYTES: u64 = 4096;
/// The least: a sector of a disc.
const UNIT_BYTES_MIN: u64 = 2048;
const _: () = assert!(PAGE / UNIT_BYTES_MIN == Units::BITS as u64);

pub(crate) type Units = u32;

pub(crate) fn key_of(object: u32, page: u64) -> u64 {
    debug_assert!(page >> PAGE_BITS == 0);
    u64::from(object) << PAGE_BITS | page
}

#[allow(clippy::cast_possible_truncation)] // the upper 32 bits
pub(crate) fn object_of(key: u64) -> u32 {
    (key >> PAGE_BITS) as u32
}

pub(crate) fn page_of(key: u64) -> u64 {
    key & ((1 << PAGE_BITS) - 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub page: u64,
    pub start: u64,
    pub length: u64,
}

impl Part {
    pub(crate) fn whole(page: u64) -> Self {
        let (start, length) = (0, PAGE);
        Self {
            page,
            start,
            length,
        }
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent {
            offset: self.page * PAGE + self.start,
            length: self.length,
        }
    }

    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

pub(crate) fn first_part(range: &Range<u64>) -> Part {
    let (page, start) = (range.start / PAGE, range.start % PAGE);
    let length = (PAGE - start).min(range.end - range.start);
    Part {
        page,
        start,
        length,
    }
}

pub(crate) fn parts(mut range: Range<u64>) -> impl Iterator<Item = Part> {
    std::iter::from_fn(move || {
        let part = (!range.is_empty()).then(|| first_part(&range))?;
        range.start += part.length;
        Some(part)
    })
}

pub(crate) struct Layout {
    number: u32,
    length_bytes: AtomicU64,
    unit_bytes: u64,
    /// Offsets and lengths of requests are multiples of this.
    block_bytes: u64,
    /// Writes are whole pieces of so many bytes.
    grain_bytes: u64,
    request_bytes_max: u64,
    /// One of many: readers of its first byte mostly read on.
    is_file: bool,
}

impl Layout {
    pub(crate) fn new(
        number: u32,
        length_bytes: u64,
        geometry: &Geometry,
        options: &CacheOptions,
        is_file: bool,
    ) -> Self {
        let block_bytes = u64::from(geometry.logical_block_bytes.max(1));
        let unit_bytes = options.unit_bytes.clamp(UNIT_BYTES_MIN, PAGE);
        let unit_bytes = unit_bytes.next_power_of_two();
        let alignment_bytes = u64::from(geometry.memory_alignment_bytes);
        let unit_bytes = unit_bytes.max(block_bytes).max(alignment_bytes).min(PAGE);
        let request_bytes_max = if options.merge {
            let device_max = u64::from(geometry.transfer_bytes_max).max(unit_bytes);
            options.request_bytes_max.clamp(unit_bytes, device_max)
        } else {
            unit_bytes
        };
        Self {
            number,
            length_bytes: AtomicU64::new(length_bytes.min(LENGTH_BYTES_MAX)),
            unit_bytes,
            block_bytes,
            grain_bytes: block_bytes.max(alignment_bytes).min(unit_bytes),
            request_bytes_max,
            is_file,
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    pub(crate) fn grain_bytes(&self) -> u64 {
        self.grain_bytes
    }

    pub(crate) fn request_bytes_max(&self) -> u64 {
        self.request_bytes_max
    }

    pub(crate) fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Acquire)
    }

    /// Moves the end; where it was.
    pub(crate) fn set_length(&self, length_bytes: u64) -> u64 {
        let length_bytes = length_bytes.min(LENGTH_BYTES_MAX);
        self.length_bytes.swap(length_bytes, Ordering::AcqRel)
    }

    pub(crate) fn key(&self, page: u64) -> u64 {
        key_of(self.number, page)
    }

    pub(crate) fn units(&self, start: u64, length: u64) -> Units {
        let first = start / self.unit_bytes;
        let end = (start + length).div_ceil(self.unit_bytes);
        mask(end) & !mask(first)
    }

    pub(crate) fn units_of(&self, part: &Part) -> Units {
        self.units(part.start, part.length)
    }

    pub(crate) fn whole_units_of(&self, part: &Part) -> Units {
        let first = part.start.div_ceil(self.unit_bytes);
        let end = part.start + part.length;
        // Behind the end of the object there are no bytes.
        let last = if part.extent().end() == self.length_bytes() {
            end.div_ceil(self.unit_bytes)
        } else {
            end / self.unit_bytes
        };
        mask(last) & !mask(first)
    }

    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn each(&self, units: Units) -> impl Iterator<Item = (Units, Range<usize>)> + use<> {
        let unit_bytes = self.unit_bytes as usize;
        let all = (0..Units::BITS).map(|unit| 1 << unit).enumerate();
        let these = all.filter(move |(_, bit)| units & bit != 0);
        these.map(move |(unit, bit)| (bit, unit * unit_bytes..(unit + 1) * unit_bytes))
    }

    pub(crate) fn all_units(&self, page: u64) -> Units {
        let rest = self.length_bytes().saturating_sub(page * PAGE).min(PAGE);
        mask(rest.div_ceil(self.unit_bytes))
    }

    /// Where the last block ends: at or behind the end.
    pub(crate) fn blocks_end(&self) -> u64 {
        self.length_bytes().next_multiple_of(self.block_bytes)
    }

    pub(crate) fn inside(&self, offset: u64, length: u64) -> Extent {
        let length = length.min(self.length_bytes().saturating_sub(offset));
        Extent { offset, length }
    }

    pub(crate) fn all(&self) -> Extent {
        self.inside(0, self.length_bytes())
    }

    pub(crate) fn widened(&self, extent: Extent) -> Extent {
        let offset = extent.offset - extent.offset % self.grain_bytes;
        let end = extent.end().next_multiple_of(self.grain_bytes);
        let length = end.min(self.blocks_end()).saturating_sub(offset);
        Extent { offset, length }
    }

    pub(crate) fn is_file(&self) -> bool {
        self.is_file
    }

    pub(crate) fn begins_file_at(&self, offset: u64) -> bool {
        self.is_file && offset == 0
    }
}

pub(crate) fn mask(count: u64) -> Units {
    match u32::try_from(count) {
        Ok(count) if count < Units::BITS => (1 << count) - 1,
        _ => Units::MAX,
    }
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
