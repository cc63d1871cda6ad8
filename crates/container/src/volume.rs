//! Whether a device holds the volume of a disc.
//!
//! Each has a volume recognition sequence from byte 32768 (ECMA-119 clause 8, ECMA-167 2/9.1): a
//! type, and an identifier of five bytes, which High Sierra has eight bytes later.

use pagewell_device::Device;

use crate::{Result, bytes};

/// The sector of the first descriptor.
pub(crate) const FIRST_SECTOR: u64 = 16;
/// Bytes of user data in a sector.
pub const SECTOR_BYTES: u64 = 2048;
/// The first byte of the first descriptor.
pub const MARK_POSITION: u64 = FIRST_SECTOR * SECTOR_BYTES;
/// As many bytes of a descriptor as tell what it is.
pub const MARK_BYTES: usize = 16;

/// Whether these bytes, at least [`MARK_BYTES`], begin a volume recognition sequence.
#[must_use]
pub fn begins(descriptor: &[u8]) -> bool {
    const IDENTIFIERS: [&[u8]; 5] = [b"CD001", b"BEA01", b"NSR02", b"NSR03", b"CDW02"];
    let at = |position: usize| descriptor.get(position..position + 5);
    at(1).is_some_and(|identifier| IDENTIFIERS.contains(&identifier)) || at(9) == Some(b"CDROM")
}

/// As many bytes of a root directory as tell what it is.
pub const ROOT_BYTES: usize = 34;

/// The sector of the root directory, by a primary descriptor (ECMA-119 clause 8.4) whose blocks are
/// sectors.
#[must_use]
pub fn root_sector(descriptor: &[u8]) -> Option<u64> {
    const BLOCK_BYTES: usize = 128;
    const ROOT_EXTENT: usize = 156 + 2;
    let is_primary = descriptor.starts_with(b"\x01CD001");
    let block_bytes = bytes::u16_little(descriptor, BLOCK_BYTES)?;
    let is_known = is_primary && u64::from(block_bytes) == SECTOR_BYTES;
    bytes::u32_little(descriptor, ROOT_EXTENT)
        .map(u64::from)
        .filter(|_| is_known)
}

/// Sectors of the volume of a primary descriptor whose blocks are sectors.
pub(crate) fn sectors(descriptor: &[u8]) -> Option<u64> {
    const VOLUME_BLOCKS: usize = 80;
    root_sector(descriptor)?;
    bytes::u32_little(descriptor, VOLUME_BLOCKS).map(u64::from)
}

/// Whether a sector of this number, of which at least [`ROOT_BYTES`] are given, begins a directory:
/// its first record is that of itself (ECMA-119 clause 6.8.2.2).
#[must_use]
pub fn is_root(sector: &[u8], number: u64) -> bool {
    let Some(record) = sector.get(..ROOT_BYTES) else {
        return false;
    };
    let extent = bytes::u32_little(record, 2).map(u64::from);
    let is_directory = record.get(25).is_some_and(|flags| flags & 2 != 0);
    let is_long = record
        .first()
        .is_some_and(|length| usize::from(*length) >= ROOT_BYTES);
    is_long && is_directory && extent == Some(number) && record.ends_with(&[1, 0])
}

/// The sector behind the descriptors.
pub(crate) fn descriptors_end(device: &dyn Device) -> u64 {
    const DESCRIPTORS_MAX: u64 = 64;
    // The last descriptor of UDF.
    let is_last = |bytes: &[u8]| bytes.get(1..6) == Some(b"TEA01");
    let is_one = |sector: &u64| {
        let read = bytes::read(device, sector * SECTOR_BYTES, MARK_BYTES);
        let bytes = read.ok().flatten().unwrap_or_default();
        begins(&bytes) || is_last(&bytes)
    };
    let sectors = FIRST_SECTOR..FIRST_SECTOR + DESCRIPTORS_MAX;
    FIRST_SECTOR + sectors.take_while(is_one).count() as u64
}

pub(crate) fn is_in(device: &dyn Device) -> Result<bool> {
    is_at(device, 0)
}

pub(crate) fn is_at(device: &dyn Device, start: u64) -> Result<bool> {
    let Some(position) = start.checked_add(MARK_POSITION) else {
        return Ok(false);
    };
    let descriptor = bytes::read(device, position, MARK_BYTES)?;
    Ok(descriptor.is_some_and(|descriptor| begins(&descriptor)))
}
