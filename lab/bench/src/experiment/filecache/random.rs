//! Places to read at, the same for the same seed.

use pagewell_base::mix::{Random, mix};

pub(super) struct Offsets {
    random: Random,
    blocks: u64,
    block_bytes: u64,
}

impl Offsets {
    /// Multiples of `block_bytes` inside `length_bytes`.
    pub(super) fn new(seed: u64, length_bytes: u64, block_bytes: u64) -> Self {
        Self {
            // Neighbouring seeds share nothing.
            random: Random(mix(seed)),
            blocks: (length_bytes / block_bytes).max(1),
            block_bytes,
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.random.below(self.blocks) * self.block_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_comes() {
        let mut offsets = Offsets::new(7, 100 * 8192 + 5, 8192);
        let seen: std::collections::HashSet<u64> = (0..2000).map(|_| offsets.next()).collect();
        assert_eq!(seen.len(), 100);
        assert!(
            seen.iter()
                .all(|offset| offset % 8192 == 0 && *offset < 100 * 8192)
        );
    }
}
