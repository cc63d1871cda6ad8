//! A cheap bijection of 64-bit numbers that looks random: the finaliser of SplitMix64 (Steele, Lea
//! and Flood, "Fast splittable pseudorandom number generators", 2014).

use std::hash::Hasher;

/// The golden ratio as a 64-bit fraction: steps by it visit all numbers, well spread.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The image of `value`.
#[inline]
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// SplitMix64; the same numbers for the same seed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }
}

/// Hashes numbers that no attacker chooses: a multiplication spreads them over the high bits, a
/// rotation brings those where a map looks.
#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(STEP).rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_paper() {
        // The first of its generator for the seed 1234567, as commonly published.
        let mut random = Random(1_234_567);
        assert_eq!(random.number(), 6_457_827_717_110_365_317);
        assert_eq!(random.number(), 3_203_168_211_198_807_973);
        assert!((0..100).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
