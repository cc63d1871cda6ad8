//! Names of pages, and the units that they are fetched in.

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

/// Spreads a key over all 64 bits (the finaliser of splitmix64, public domain).
pub(crate) fn mix(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}
