//! How many requests were outstanding for how long, which went back, and the places of the first.
//!
//! Each change adds the number of requests times the time since the last change.

use std::time::Duration;

/// Places that are kept: a picture shows no more.
pub(super) const PLACES_MAX: usize = 256;

/// See the module's text. Times are since the beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    changed: Duration,
    last_end: u64,
    outstanding: u32,
    pub(super) outstanding_time: Duration,
    pub(super) backward: u64,
    pub(super) places: Vec<(u64, usize)>,
}

impl Queue {
    /// Adds the time until `now`; a time before the last change counts as that.
    pub(super) fn pass(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.changed);
        self.changed = self.changed.max(now);
        self.outstanding_time += passed.saturating_mul(self.outstanding);
    }

    /// A request came. `place` is its first byte and its bytes; none for a flush.
    pub(super) fn enter(&mut self, now: Duration, place: Option<(u64, usize)>) {
        self.pass(now);
        self.outstanding += 1;
        if let Some((offset, length)) = place {
            self.backward += u64::from(offset < self.last_end);
            self.last_end = offset.saturating_add(length as u64);
            if self.places.len() < PLACES_MAX {
                self.places.push((offset, length));
            }
        }
    }

    pub(super) fn exit(&mut self, now: Duration) {
        self.pass(now);
        self.outstanding = self.outstanding.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_sums_of_requests_and_seconds() {
        let second = Duration::from_secs;
        let mut queue = Queue::default();
        for (number, time) in [1, 2, 4, 5].into_iter().enumerate() {
            queue.enter(second(time), Some((number as u64, 1)));
        }
        queue.exit(second(8));
        queue.exit(second(7)); // the clock of another thread: no time passes
        queue.exit(second(9));
        queue.exit(second(10));
        queue.pass(second(20));
        assert_eq!(
            queue.outstanding_time,
            second(1 + 2 * 2 + 3 + 4 * 3 + 2 + 1)
        );
        assert_eq!(queue.backward, 0);
    }

    #[test]
    fn backward_is_before_the_end_of_the_last() {
        let mut queue = Queue::default();
        for (offset, length) in [(0, 8), (8, 8), (17, 8), (0, 8), (u64::MAX, 1), (0, 1)] {
            queue.enter(Duration::ZERO, Some((offset, length)));
            queue.enter(Duration::ZERO, None);
        }
        assert_eq!(queue.backward, 2);
    }
}
