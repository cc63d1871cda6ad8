//! How much must be on its way from a device that answers late but many requests at a time?
//!
//! A server 50 ms away that sends 1 GB/s needs 50 MB on their way. A stream that grows a little
//! each time ends first; one that begins so fills memory for a reader of the first line.
//!
//! **Latency** is the least time of an answer in this minute and the last: others may have queued.
//!
//! **Distance.** Eight times what comes in the time of one answer (Little's law), by what came
//! between two waits:
//!
//! ```text
//!            <--- elapsed --->
//!   position0                position          needed = 8 * (position - position0)
//!   ----|-----------------------|------> file              * latency / elapsed
//!     waits                   waits
//! ```
//!
//! - Until bandwidth limits the stream, its window is eight times as long after each round trip: 50
//!   MB after three.
//! - Less than 1/2 of an answer's time is not judged; no path is taken for a faster one than
//!   [`RATE_MAX`].
//! - A window is at most eight times what the stream has read.
//! - An unknown path is taken for one of 10 Gbit/s; where that exceeds the usual distance, streams
//!   begin with eight requests, not four.
//! - What streams needed is learnt: others may go to 32 times what they have read before they are
//!   late. Waste and refused memory halve it.
//!
//! Weaknesses: where answers take very different times, the least is too short. A stream that never
//! lets the queue run empty for two minutes measures its own queue.

use std::time::Duration;

use super::settings::LATENCY_TIMES;

/// The highest rate, in bytes per second, that one measurement shows.
const RATE_MAX: u64 = 512 << 20;
const NANOSECONDS: u128 = 1_000_000_000;
/// Of an unknown path.
const BYTES_PER_SECOND: u128 = 1_250_000_000;
const EPOCH: Duration = Duration::from_mins(1);

/// The least time of an answer lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeastLatency {
    began: Duration,
    present: Option<Duration>,
    before: Option<Duration>,
}

impl LeastLatency {
    /// An answer took `took` and came at `now`, which never goes back.
    pub fn note(&mut self, took: Duration, now: Duration) {
        let age = now.saturating_sub(self.began);
        if age >= EPOCH {
            let is_next = age < EPOCH * 2;
            self.before = self.present.take().filter(|_| is_next);
            self.began = now;
        }
        self.present = Some(self.present.map_or(took, |least| least.min(took)));
    }

    /// The least time; `None` before the first answer.
    #[must_use]
    pub fn least(&self) -> Option<Duration> {
        match (self.present, self.before) {
            (Some(present), Some(before)) => Some(present.min(before)),
            (present, before) => present.or(before),
        }
    }
}

/// The distance at a latency before a stream has shown it.
pub(super) fn supposed(latency: Duration) -> u64 {
    let way = latency.as_nanos() * BYTES_PER_SECOND / NANOSECONDS;
    u64::try_from(way * u128::from(LATENCY_TIMES)).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    position: u64,
    seen: Duration,
}

impl Pace {
    pub(super) fn new(position: u64, seen: Duration) -> Self {
        Self { position, seen }
    }

    /// The distance that a stream at `position` needs; `None`: too early to say.
    pub(super) fn needed(&self, position: u64, now: Duration, latency: Duration) -> Option<u64> {
        let came = self.came_in(latency, position, now, latency)?;
        let most = u128::from(RATE_MAX) * latency.as_nanos() / NANOSECONDS;
        let came = came.min(u64::try_from(most).unwrap_or(u64::MAX));
        Some(came.saturating_mul(LATENCY_TIMES))
    }

    /// Bytes per second; `None`: too early to say.
    pub(super) fn rate(&self, position: u64, now: Duration, latency: Duration) -> Option<u64> {
        self.came_in(Duration::from_secs(1), position, now, latency)
    }

    fn came_in(
        &self,
        time: Duration,
        position: u64,
        now: Duration,
        latency: Duration,
    ) -> Option<u64> {
        let elapsed = now.saturating_sub(self.seen);
        if elapsed < latency / 2 || elapsed.is_zero() {
            return None;
        }
        let came = u128::from(position.saturating_sub(self.position));
        let came = came * time.as_nanos() / elapsed.as_nanos();
        Some(u64::try_from(came).unwrap_or(u64::MAX))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learnt {
    bytes: u64,
    latency: Duration,
}

impl Learnt {
    pub(super) fn learn(&mut self, bytes: u64, latency: Duration) {
        if bytes > self.at(latency) {
            *self = Self { bytes, latency };
        }
    }

    pub(super) fn at(&self, latency: Duration) -> u64 {
        if self.latency.is_zero() {
            return 0;
        }
        let bytes = u128::from(self.bytes) * latency.as_nanos() / self.latency.as_nanos();
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn halve(&mut self) {
        self.bytes /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_millis(50);

    #[test]
    fn a_window_that_limits_is_eight_times_as_long_next_time() {
        let pace = Pace::new(1000, Duration::from_millis(7));
        let needed = pace.needed(5000, Duration::from_millis(57), LATENCY);
        assert_eq!(needed, Some(32_000));
        // The same bytes in twice the time are half as many in the time of one answer.
        let needed = pace.needed(5000, Duration::from_millis(107), LATENCY);
        assert_eq!(needed, Some(16_000));
    }

    #[test]
    fn half_an_answer_is_needed_to_judge() {
        let pace = Pace::new(0, Duration::ZERO);
        assert_eq!(pace.needed(1000, Duration::from_millis(24), LATENCY), None);
        assert_eq!(
            pace.needed(1000, Duration::from_millis(25), LATENCY),
            Some(16_000)
        );
        assert_eq!(pace.needed(9000, Duration::ZERO, Duration::ZERO), None);
    }

    #[test]
    fn a_short_time_is_not_taken_for_a_wide_way() {
        let milli = Duration::from_millis(1);
        let pace = Pace::new(0, Duration::ZERO);
        let needed = pace.needed(2 << 20, milli / 2, milli);
        assert_eq!(needed, Some(8 * (RATE_MAX / 1000)));
        // That is more than there may be where it matters.
        let needed = pace.needed(1 << 30, LATENCY, LATENCY).unwrap();
        assert!(needed > 200 << 20, "{needed}");
        let second = Duration::from_secs(1);
        assert_eq!(pace.rate(2 << 20, milli, milli), Some((2 << 20) * 1000));
        assert_eq!(pace.rate(2 << 20, milli, second), None);
    }

    #[test]
    fn a_way_of_a_millisecond_is_long() {
        assert_eq!(supposed(Duration::from_micros(100)), 1_000_000);
        assert_eq!(supposed(Duration::from_millis(1)), 10_000_000);
        assert_eq!(supposed(Duration::MAX), u64::MAX);
    }

    #[test]
    fn what_was_learnt_goes_with_the_latency_and_is_halved() {
        let mut learnt = Learnt::default();
        assert_eq!(learnt.at(LATENCY), 0);
        learnt.learn(8000, LATENCY);
        learnt.learn(100, LATENCY);
        assert_eq!((learnt.at(LATENCY), learnt.at(LATENCY / 2)), (8000, 4000));
        learnt.halve();
        assert_eq!(learnt.at(LATENCY), 4000);
    }

    #[test]
    fn the_least_of_two_minutes_counts_and_no_older_one() {
        let (second, milli) = (Duration::from_secs, Duration::from_millis);
        let mut latency = LeastLatency::default();
        assert_eq!(latency.least(), None);
        latency.note(milli(9), second(1));
        latency.note(milli(3), second(2));
        latency.note(milli(7), second(3));
        assert_eq!(latency.least(), Some(milli(3)));
        latency.note(milli(50), second(61));
        assert_eq!(latency.least(), Some(milli(3)));
        latency.note(milli(40), second(122));
        assert_eq!(latency.least(), Some(milli(40)));
        // After a long silence only what comes counts.
        latency.note(milli(60), second(1000));
        assert_eq!(latency.least(), Some(milli(60)));
    }
}
