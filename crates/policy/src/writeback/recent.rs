//! Which pages were written lately?
//!
//! Two generations of page sets, as in the least-recently-used filter of nbdkit: what is written
//! goes into the young one; after an expiry interval the young one becomes the old one, and what
//! was the old one is forgotten. So a page is known for at least one interval, and at most two.
//! Sequential writes melt into one span. Should there be too many spans, the set is given up, and
//! for one interval every page is taken for a recent one: write-behind rests, nothing is wrong.

use std::time::Duration;

use pagewell_base::spans::Spans;

/// Spans of one generation: 64 KiB of memory or so.
const SPANS_MAX: usize = 2048;

/// The two generations, of one file.
#[derive(Debug, Default)]
pub(super) struct Recent {
    young: Spans,
    old: Spans,
    turned: Duration,
    /// Until then every page counts as recent.
    blind_until: Duration,
}

impl Recent {
    /// Nothing is known of what happened before; until then every page counts as recent.
    pub(super) fn blind(until: Duration) -> Self {
        Self {
            blind_until: until,
            ..Self::default()
        }
    }

    fn turn(&mut self, now: Duration, interval: Duration) {
        let age = now.saturating_sub(self.turned);
        if age < interval {
            return;
        }
        let young = std::mem::take(&mut self.young);
        self.old = match age < interval.saturating_mul(2) {
            true => young,
            false => Spans::default(),
        };
        self.turned = now;
    }

    /// The pages `first..end` are being written. Says whether that was too much.
    pub(super) fn note(&mut self, first: u64, end: u64, now: Duration, interval: Duration) -> bool {
        self.turn(now, interval);
        self.young.insert(first, end);
        if self.young.count() <= SPANS_MAX {
            return false;
        }
        self.young.clear();
        self.blind_until = now.saturating_add(interval);
        true
    }

    /// Whether a page was written within the last interval.
    pub(super) fn contains(&mut self, page: u64, now: Duration, interval: Duration) -> bool {
        self.turn(now, interval);
        let end = page.saturating_add(1);
        now < self.blind_until || self.young.overlaps(page, end) || self.old.overlaps(page, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_page_is_known_for_one_interval_at_least_and_two_at_most() {
        for second in 0..30 {
            let mut recent = Recent::default();
            recent.note(1, 2, at(0), INTERVAL);
            recent.note(7, 9, at(second), INTERVAL);
            assert!(recent.contains(8, at(second + 29), INTERVAL));
            assert!(!recent.contains(9, at(second + 29), INTERVAL));
            assert!(!recent.contains(8, at(second + 60), INTERVAL));
        }
    }

    #[test]
    fn after_a_long_silence_nothing_is_recent() {
        let mut recent = Recent::default();
        recent.note(7, 8, at(1), INTERVAL);
        assert!(!recent.contains(7, at(100), INTERVAL));
    }

    #[test]
    fn too_many_spans_make_blind_for_an_interval() {
        let mut recent = Recent::default();
        let overflows =
            (0..3000).filter(|page| recent.note(2 * page, 2 * page + 1, at(9), INTERVAL));
        assert_eq!(overflows.count(), 1);
        assert!(recent.contains(1, at(38), INTERVAL));
        assert!(!recent.contains(1, at(39), INTERVAL));
    }
}
