//! Objects that were searched in vain: they are stale without another search.
//!
//! What has no name when the whole export was read is nearly always gone for good, and clients ask
//! for it for as long as they have it open. So it is remembered for long, or until its name is seen
//! after all: a local program may have moved it out of the export and back.

use super::status::Inode;
use pagewell_base::clock::Clock;
use std::time::{Duration, Instant};

/// How long one is remembered.
const MISSING_FOR: Duration = Duration::from_secs(3600);
/// How many are remembered: some 1.5 MiB.
const MISSING_MAX: usize = 1 << 14;

/// Such objects, and since when; the oldest go first.
#[derive(Default)]
pub(super) struct Missing(Clock<Inode, Instant>);

impl Missing {
    /// Whether it was searched in vain.
    pub(super) fn has(&self, inode: Inode) -> bool {
        let since = self.0.peek(&inode);
        since.is_some_and(|since| since.elapsed() < MISSING_FOR)
    }

    /// It was searched in vain.
    pub(super) fn put(&mut self, inode: Inode) {
        self.0.insert(inode, Instant::now(), 1);
        if self.0.len() > MISSING_MAX {
            self.0.evict(1, |_| true);
        }
    }

    /// It was seen.
    pub(super) fn forget(&mut self, inode: Inode) {
        if !self.0.is_empty() {
            self.0.remove(&inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_remembered_and_the_oldest_go() {
        let inode = |number: usize| Inode {
            number: number as u64,
            birth: 7,
        };
        let mut missing = Missing::default();
        for number in 0..MISSING_MAX + 10 {
            missing.put(inode(number));
        }
        assert!((0..10).all(|number| !missing.has(inode(number))));
        assert!((10..MISSING_MAX + 10).all(|number| missing.has(inode(number))));
        missing.forget(inode(77));
        assert!(!missing.has(inode(77)) && missing.has(inode(78)));
        assert!(missing.0.len() <= MISSING_MAX);
    }
}
