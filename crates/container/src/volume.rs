//! Whether a device holds the volume of a disc: a file system that a reader of discs may know.
//!
//! Each of them has a volume recognition sequence from byte 32768, whatever its sectors are
//! (ECMA-119 clause 8, ECMA-167 2/9.1): a type, and an identifier of five bytes. High Sierra has
//! its identifier eight bytes later.

use pagewell_device::Device;

use crate::{Result, bytes};

/// The sector of the first descriptor.
pub(crate) const FIRST_SECTOR: u64 = 16;
/// Bytes of user data in a sector.
pub(crate) const SECTOR_BYTES: u64 = 2048;
/// Where the first descriptor begins, in bytes.
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

/// Whether the device holds one.
pub(crate) fn is_in(device: &dyn Device) -> Result<bool> {
    is_at(device, 0)
}

/// Whether it holds one that begins at this byte.
pub(crate) fn is_at(device: &dyn Device, start: u64) -> Result<bool> {
    let Some(position) = start.checked_add(MARK_POSITION) else {
        return Ok(false);
    };
    let descriptor = bytes::read(device, position, MARK_BYTES)?;
    Ok(descriptor.is_some_and(|descriptor| begins(&descriptor)))
}
