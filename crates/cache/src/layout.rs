//! How a device is divided: pages, units, blocks.

use pagewell_device::Device;

use crate::options::CacheOptions;
use crate::page::{LENGTH_BYTES_MAX, PAGE, Part, Units, key_of};

/// Smallest piece that is fetched.
const CHUNK_BYTES: u64 = 4096;
/// The same without page chunks: a sector of a disc.
const SECTOR_BYTES: u64 = 2048;
const UNITS_MAX: u64 = 32;
const _: () = assert!(PAGE / SECTOR_BYTES == UNITS_MAX);

/// The numbers of one device behind a cache.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// Of the device, in the names of its pages.
    pub(crate) number: u32,
    pub(crate) length_bytes: u64,
    /// Bytes of a unit: what one bit of [`Units`] stands for.
    pub(crate) unit_bytes: u64,
    /// Offsets and lengths of requests are multiples of this.
    pub(crate) block_bytes: u64,
    /// Writes are whole pieces of so many bytes: blocks, and what memory has to be aligned to.
    pub(crate) grain_bytes: u64,
    pub(crate) request_bytes_max: u64,
    file_alignment_bytes: Option<u64>,
}

impl Layout {
    /// Without a number.
    pub(crate) fn new(
        device: &dyn Device,
        options: &CacheOptions,
        file_alignment_bytes: Option<u64>,
    ) -> Self {
        let geometry = device.geometry();
        let block_bytes = u64::from(geometry.logical_block_bytes.max(1));
        let unit_bytes = if options.page_chunk {
            CHUNK_BYTES
        } else {
            SECTOR_BYTES
        };
        let alignment_bytes = u64::from(geometry.memory_alignment_bytes);
        let unit_bytes = unit_bytes.max(block_bytes).max(alignment_bytes).min(PAGE);
        let request_bytes_max = if options.merge {
            let device_max = u64::from(geometry.transfer_bytes_max).max(unit_bytes);
            options.request_bytes_max.clamp(unit_bytes, device_max)
        } else {
            unit_bytes
        };
        Self {
            number: 0,
            length_bytes: device.length_bytes().min(LENGTH_BYTES_MAX),
            unit_bytes,
            block_bytes,
            grain_bytes: block_bytes.max(alignment_bytes).min(unit_bytes),
            request_bytes_max,
            file_alignment_bytes,
        }
    }

    /// The name of a page of this device.
    pub(crate) fn key(&self, page: u64) -> u64 {
        key_of(self.number, page)
    }

    /// The units that hold `length` bytes of a page from `start`.
    pub(crate) fn units(&self, start: u64, length: u64) -> Units {
        let first = start / self.unit_bytes;
        let end = (start + length).div_ceil(self.unit_bytes);
        mask(end) & !mask(first)
    }

    /// The units that hold a part of a page.
    pub(crate) fn units_of(&self, part: &Part) -> Units {
        self.units(part.start, part.length)
    }

    /// All units of a page, fewer in the last one.
    pub(crate) fn all_units(&self, page: u64) -> Units {
        let rest = self.length_bytes.saturating_sub(page * PAGE).min(PAGE);
        mask(rest.div_ceil(self.unit_bytes))
    }

    /// Where the last block ends, which may reach past the end.
    pub(crate) fn blocks_end(&self) -> u64 {
        self.length_bytes.next_multiple_of(self.block_bytes)
    }

    /// Whether a file may begin at `offset`.
    pub(crate) fn begins_file_at(&self, offset: u64) -> bool {
        let alignment = self.file_alignment_bytes;
        alignment.is_some_and(|alignment| offset.is_multiple_of(alignment))
    }
}

/// The lowest `count` units.
fn mask(count: u64) -> Units {
    match u32::try_from(count) {
        Ok(count) if count < Units::BITS => (1 << count) - 1,
        _ => Units::MAX,
    }
}
