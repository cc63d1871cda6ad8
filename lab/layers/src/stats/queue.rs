//! How many requests were outstanding for how long, and how they lay on the device.
//!
//! At each change the number of requests times the time since the last change
//! is added. A device works on as many requests as its queue depth, the *active* ones; the rest
//! is *waiting*. The seek distance is from the end of the last request to the start of the next,
//! in the order in which they were submitted.

use std::time::Duration;

/// Buckets of distances: 0, 1, 2..4, 4..8, and so on.
pub(super) const DISTANCES: usize = 65;

/// See the module's text. Times are since the beginning.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    depth: u64,
    changed: Duration,
    last_end: Option<u64>,
    pub(super) outstanding: u64,
    pub(super) outstanding_max: u64,
    pub(super) waiting_time: Duration,
    pub(super) active_time: Duration,
    pub(super) waiting_busy: Duration,
    pub(super) active_busy: Duration,
    pub(super) distances: [u64; DISTANCES],
    pub(super) backward: u64,
}

impl Queue {
    /// A device that works on `depth` requests at a time.
    pub(super) fn new(depth: u32) -> Self {
        Self {
            depth: u64::from(depth.max(1)),
            changed: Duration::ZERO,
            last_end: None,
            outstanding: 0,
            outstanding_max: 0,
            waiting_time: Duration::ZERO,
            active_time: Duration::ZERO,
            waiting_busy: Duration::ZERO,
            active_busy: Duration::ZERO,
            distances: [0; DISTANCES],
            backward: 0,
        }
    }

    /// Adds what passed until `now`; a time before the last change counts as that.
    pub(super) fn pass(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.changed);
        self.changed = self.changed.max(now);
        let active = self.outstanding.min(self.depth);
        let waiting = self.outstanding - active;
        let times = |count: u64| passed.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        self.active_time += times(active);
        self.waiting_time += times(waiting);
        self.active_busy += times(active.min(1));
        self.waiting_busy += times(waiting.min(1));
    }

    /// A request came. `place` is its first byte and its bytes; a flush has none.
    pub(super) fn enter(&mut self, now: Duration, place: Option<(u64, usize)>) {
        self.pass(now);
        self.outstanding += 1;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        let Some((offset, length)) = place else {
            return;
        };
        if let Some(end) = self.last_end {
            let distance = end.abs_diff(offset);
            let bucket = (u64::BITS - distance.leading_zeros()) as usize;
            self.distances[bucket] += 1;
            self.backward += u64::from(offset < end);
        }
        self.last_end = Some(offset.saturating_add(length as u64));
    }

    /// A request is complete.
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
        let mut queue = Queue::new(2);
        queue.enter(second(1), Some((0, 1))); // 1 active
        queue.enter(second(2), Some((1, 1))); // 2 active
        queue.enter(second(4), Some((2, 1))); // 2 active, 1 waiting
        queue.enter(second(5), Some((3, 1))); // 2 active, 2 waiting
        queue.exit(second(8)); // 2 active, 1 waiting
        queue.exit(second(7)); // the clock of another thread: no time passes
        queue.exit(second(9)); // 1 active
        queue.exit(second(10));
        queue.pass(second(20));
        assert_eq!(queue.active_time, second(1 + 2 * 2 + 2 + 2 * 3 + 2 + 1));
        assert_eq!(queue.waiting_time, second(1 + 3 * 2));
        assert_eq!(queue.active_busy, second(9));
        assert_eq!(queue.waiting_busy, second(4));
        assert_eq!((queue.outstanding, queue.outstanding_max), (0, 4));
    }

    #[test]
    fn distances_are_from_the_end_of_the_last() {
        let mut queue = Queue::new(1);
        for (offset, length) in [(0, 8), (8, 8), (17, 8), (0, 8), (u64::MAX, 1), (0, 1)] {
            queue.enter(Duration::ZERO, Some((offset, length)));
            queue.enter(Duration::ZERO, None);
        }
        let mut expected = [0; DISTANCES];
        expected[0] = 1;
        expected[1] = 1;
        expected[5] = 1; // 25
        expected[64] = 2;
        assert_eq!(queue.distances, expected);
        assert_eq!(queue.backward, 2);
    }
}
