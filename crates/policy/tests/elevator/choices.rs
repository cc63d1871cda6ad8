//! Where the decisions of a schedule come from: a seed or the input of a fuzzer.

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
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
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
