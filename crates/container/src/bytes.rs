//! Numbers and pieces of foreign bytes; `None` past their end.

use pagewell_device::{Device, read_exact};

use crate::Result;

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn u16_little(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_little(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_little(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

pub(crate) fn u16_big(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

pub(crate) fn u32_big(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

pub(crate) fn u64_big(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}

/// Copies as many bytes as there are and as there is room for; how many.
pub(crate) fn copy(bytes: &[u8], target: &mut [u8]) -> usize {
    let count = bytes.len().min(target.len());
    if let (Some(to), Some(from)) = (target.get_mut(..count), bytes.get(..count)) {
        to.copy_from_slice(from);
    }
    count
}

/// `length` bytes of a device from `offset`; `None` when it ends before.
pub(crate) fn read(device: &dyn Device, offset: u64, length: usize) -> Result<Option<Vec<u8>>> {
    let end = offset.checked_add(length as u64);
    if end.is_none_or(|end| end > device.length_bytes()) {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    read_exact(device, offset, &mut bytes)?;
    Ok(Some(bytes))
}
