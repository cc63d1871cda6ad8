//! Counters of this process between two moments.

use pagewell_counters::Counter;
use pagewell_counters::names::counters;

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Counting(Vec<(&'static str, u64)>);

impl Counting {
    /// Reads all counters.
    pub fn begin() -> Self {
        let read = counters().map(|counter| (counter.name, counter.get()));
        Self(read.collect())
    }

    /// The growth of one counter since.
    pub fn of(&self, counter: &Counter) -> u64 {
        let before = self.0.iter().find(|(name, _)| *name == counter.name);
        counter
            .get()
            .saturating_sub(before.map_or(0, |found| found.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_counters::names::CACHE_HALVED;

    #[test]
    fn only_what_has_grown_is_told() {
        CACHE_HALVED.add(5);
        let counting = Counting::begin();
        assert_eq!(counting.of(&CACHE_HALVED), 0);
        CACHE_HALVED.add(3);
        assert_eq!(counting.of(&CACHE_HALVED), 3);
    }
}
