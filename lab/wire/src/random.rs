//! Numbers that look random and follow from a seed. A run that failed is made again by its seed.

use pagewell_base::mix;

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Random(mix::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds are to share nothing.
        Self(mix::Random(mix::Random(seed).number()))
    }

    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// A number from 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
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
