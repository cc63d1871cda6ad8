//! The GUID partition table (UEFI 2.10, 5.3): a header in block 1, whose blocks have 512 or 4096
//! bytes, and entries where it says.

use pagewell_device::Device;

use super::{PARTITIONS_MAX, Partition};
use crate::Result;
use crate::bytes::{self, u32_little, u64_little};

const BLOCKS_BYTES: [u64; 2] = [512, 4096];
const HEADER_BYTES: usize = 92;
/// Entries are 128 bytes, times a power of two.
const ENTRY_BYTES: std::ops::RangeInclusive<u32> = 128..=4096;

pub(super) fn partitions(device: &dyn Device) -> Result<Vec<Partition>> {
    let mut unread = None;
    for block in BLOCKS_BYTES {
        match bytes::read(device, block, HEADER_BYTES) {
            Ok(header) => {
                let header = header.unwrap_or_default();
                if header.starts_with(b"EFI PART") {
                    return entries(device, &header, block);
                }
            }
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    unread.map_or(Ok(Vec::new()), Err)
}

fn entries(device: &dyn Device, header: &[u8], block: u64) -> Result<Vec<Partition>> {
    let first = u64_little(header, 72).and_then(|first| first.checked_mul(block));
    let count = u32_little(header, 80).unwrap_or(0) as usize;
    let each = u32_little(header, 84).filter(|each| ENTRY_BYTES.contains(each));
    let (Some(first), Some(each)) = (first, each) else {
        return Ok(Vec::new());
    };
    let length = count.min(PARTITIONS_MAX) * each as usize;
    let table = bytes::read(device, first, length)?.unwrap_or_default();
    let partitions = table.chunks_exact(each as usize).enumerate();
    let partition = |(index, entry): (usize, &[u8])| {
        let first = u64_little(entry, 32)?;
        let last = u64_little(entry, 40)?;
        let blocks = last.checked_sub(first)?.checked_add(1)?;
        let is_used = entry.iter().take(16).any(|byte| *byte != 0);
        is_used.then_some(Partition {
            number: index + 1,
            start: first.checked_mul(block)?,
            length_bytes: blocks.checked_mul(block)?,
        })
    };
    Ok(partitions.filter_map(partition).collect())
}
