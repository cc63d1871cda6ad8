//! A cheap bijection of 64-bit numbers that looks random: the finaliser of SplitMix64
//! (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).

/// The golden ratio as a 64-bit fraction: steps by it visit all numbers and spread well.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that stands for `value`.
#[inline]
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
