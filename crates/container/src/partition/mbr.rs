//! The table of the master boot record: four entries from byte 446 of the first sector.

use pagewell_device::Device;

use super::Partition;
use crate::Result;
use crate::bytes::{self, u32_little};

const SECTOR_BYTES: u64 = 512;
const TABLE: usize = 446;
const ENTRY_BYTES: usize = 16;
const ENTRIES: usize = 4;

/// The partitions; none without a boot record.
pub(super) fn partitions(device: &dyn Device) -> Result<Vec<Partition>> {
    let record = bytes::read(device, 0, SECTOR_BYTES as usize)?.unwrap_or_default();
    if !record.ends_with(b"\x55\xaa") {
        return Ok(Vec::new());
    }
    let table = record.get(TABLE..).unwrap_or_default();
    let entries = table.chunks_exact(ENTRY_BYTES).take(ENTRIES);
    let partitions = entries.enumerate().filter_map(|(index, entry)| {
        let start = u64::from(u32_little(entry, 8)?);
        let sectors = u64::from(u32_little(entry, 12)?);
        let is_used = *entry.get(4)? != 0 && start != 0;
        is_used.then_some(Partition {
            number: index + 1,
            start: start * SECTOR_BYTES,
            length_bytes: sectors * SECTOR_BYTES,
        })
    });
    Ok(partitions.collect())
}
