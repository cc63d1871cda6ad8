//! How many entries of a directory an answer has had space for.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries that are collected at least, and at most.
const ENTRIES_MIN: usize = 16;
const ENTRIES_MAX: usize = 4096;

/// How many entries fitted lately, without and with attributes.
#[derive(Default)]
pub(crate) struct Sizes([AtomicUsize; 2]);

impl Sizes {
    pub(crate) fn to_collect(&self, with_attributes: bool) -> usize {
        let fitted = self.0[usize::from(with_attributes)].load(Ordering::Relaxed);
        (fitted + fitted / 8).clamp(ENTRIES_MIN, ENTRIES_MAX)
    }

    /// `fitted` of `collected` entries fitted. When all did, there may be room for more.
    pub(crate) fn learn(&self, with_attributes: bool, fitted: usize, collected: usize) {
        let next = if fitted == collected {
            (fitted * 2).min(ENTRIES_MAX)
        } else {
            fitted
        };
        self.0[usize::from(with_attributes)].store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_collected_as_fitted_and_some_more() {
        let sizes = Sizes::default();
        assert_eq!(sizes.to_collect(true), ENTRIES_MIN);
        sizes.learn(true, 16, 16);
        sizes.learn(true, 32, 32);
        assert_eq!(sizes.to_collect(true), 72);
        sizes.learn(true, 50, 72);
        assert_eq!(sizes.to_collect(true), 56);
        assert_eq!(sizes.to_collect(false), ENTRIES_MIN);
        for _ in 0..20 {
            let all = sizes.to_collect(true);
            sizes.learn(true, all, all);
        }
        assert_eq!(sizes.to_collect(true), ENTRIES_MAX);
        sizes.learn(true, 0, 10);
        assert_eq!(sizes.to_collect(true), ENTRIES_MIN);
    }
}
