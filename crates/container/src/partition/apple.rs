//! Apple's partition map: a driver descriptor `ER` in block 0 with the size of a block, and an
//! entry `PM` in each block from 1 on, of which each says how many there are (Inside Macintosh:
//! Devices, 3-25). Discs for two sizes of blocks have entries of 512 bytes and say 2048.

use pagewell_device::Device;

use super::{PARTITIONS_MAX, Partition};
use crate::Result;
use crate::bytes::{self, u16_big, u32_big};

const ENTRY_BYTES: usize = 512;

pub(super) fn partitions(device: &dyn Device) -> Result<Vec<Partition>> {
    let descriptor = bytes::read(device, 0, 4)?.unwrap_or_default();
    if !descriptor.starts_with(b"ER") {
        return Ok(Vec::new());
    }
    let said = u64::from(u16_big(&descriptor, 2).unwrap_or(0));
    let mut partitions = Vec::new();
    for block in [said, ENTRY_BYTES as u64] {
        if block >= ENTRY_BYTES as u64 && partitions.is_empty() {
            partitions = entries(device, block)?;
        }
    }
    Ok(partitions)
}

fn entries(device: &dyn Device, block: u64) -> Result<Vec<Partition>> {
    let mut partitions = Vec::new();
    for number in 1..=PARTITIONS_MAX {
        let entry = bytes::read(device, number as u64 * block, ENTRY_BYTES)?.unwrap_or_default();
        let fields = (u32_big(&entry, 4), u32_big(&entry, 8), u32_big(&entry, 12));
        let (Some(count), Some(start), Some(blocks)) = fields else {
            break;
        };
        if !entry.starts_with(b"PM") {
            break;
        }
        partitions.push(Partition {
            number,
            start: u64::from(start) * block,
            length_bytes: u64::from(blocks) * block,
        });
        if number as u64 >= u64::from(count) {
            break;
        }
    }
    Ok(partitions)
}
