//! Numbers that look random and follow from a seed. A run that failed is made again by its seed.

use pagewell_base::mix::{STEP, mix};

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        // Neighbouring seeds are to share nothing.
        Self(random.number())
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number from 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn of<T: Copy>(&mut self, several: &[T]) -> T {
        several[usize::try_from(self.below(several.len() as u64)).unwrap_or(0)]
    }

    /// Fills memory.
    pub fn fill(&mut self, target: &mut [u8]) {
        for chunk in target.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_le_bytes()[..chunk.len()]);
        }
    }
}
