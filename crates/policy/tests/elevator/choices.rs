//! Where the decisions of a schedule come from: a seed or the input of a fuzzer.

use pagewell_base::mix::{STEP, mix};

/// A source of decisions.
pub(crate) trait Choices {
    /// Below `limit`, which is at least 1.
    fn below(&mut self, limit: u64) -> u64;

    /// Whether there is more to come.
    fn more(&self) -> bool;
}

/// The generator splitmix64 (Steele, Lea and Flood 2014): a counter and a mixing function.
pub(crate) struct SplitMix {
    state: u64,
}

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }
}

impl Choices for SplitMix {
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn more(&self) -> bool {
        true
    }
}

/// One byte a decision; zeros when the input is used up.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl Choices for Input<'_> {
    fn below(&mut self, limit: u64) -> u64 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        u64::from(*first) % limit
    }

    fn more(&self) -> bool {
        !self.0.is_empty()
    }
}
