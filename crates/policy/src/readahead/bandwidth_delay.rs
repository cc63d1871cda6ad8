//! How far ahead a stream must be on a device that answers late but many at a time.
//!
//! # Problem
//!
//! A server 50 ms away that sends 1 GB/s needs 50 MB on their way. A stream that finds that out by
//! growing a little each time it is late has read the file before; one that asks for so much from
//! the beginning fills memory for a reader that wants the first line.
//!
//! # The delay
//!
//! How far a reader must be read ahead of depends on how long the device takes to answer. But the
//! time of a request is not that: most of it may be spent behind other requests, and those may be
//! our own. A rule that takes their sum for the distance makes the queue longer, and then the
//! distance.
//!
//! The least time of an answer lately: one request in many finds nothing before it. Lately is the
//! present minute and the one before, so that a device that has become slower is believed after at
//! most two.
//!
//! ```text
//!        before        |      present
//!   --x---x------x-----|---x-----x---- now        least = min(both)
//! ```
//!
//! # The distance
//!
//! When a stream has to wait although something was asked for, what came since the last time tells
//! how much comes in the time of one answer (Little's law), and the distance goes to eight times
//! that. So it does at each step until the reader is past what was asked for when it waited:
//!
//! ```text
//!            <--- elapsed --->
//!   position0                position          needed = 8 * (position - position0)
//!   ----|-----------------------|------> file              * latency / elapsed
//!     waits                   waits
//! ```
//!
//! - While the window is what limits the stream, all of it comes in each round trip, so it is eight
//!   times as long in the next: 50 MB after three of them, not after nine.
//! - While the device's bandwidth is the limit, what comes in the time of one answer is the
//!   same however long the window is, and growing ends. Then only the eighths of `stream.rs` are
//!   left, as far as they pay (`stream.rs`).
//! - Less than half the time of an answer is too short to judge by, and in little more what came
//!   is not well known. So no way is taken for one of more than [`RATE_MAX`]: 1 ms away nobody is
//!   more than 4 MiB ahead for that reason. (28 MiB were, for the first half millisecond.)
//! - A window is never longer than eight times what the stream has read: a reader of a little
//!   wastes little.
//! - Before any stream has needed anything, a way is taken to carry 10 Gbit/s: where eight times
//!   what that is in the time of an answer is more than the usual distance, the device is far.
//!   Mounting asks a server a few things, so that its latency is known at the first read.
//! - The device keeps what its streams needed, with the latency at which they needed it. A stream
//!   that begins on a device known to be far begins with eight times its request instead of four,
//!   and where others have needed it, it may go to 32 times what it has read when it goes on,
//!   without having been late. Waste and refused memory halve what was learnt, and a stream that
//!   has met them grows by eighths only.
//!
//! # Weaknesses
//!
//! The least latency is believed. Where answers take very different times, what is needed for the
//! late ones is found by eighths.
//!
//! A stream that never lets the queue run empty for two minutes is told its own queue. An answer
//! from the cache of a device or server is as good as any other.

use std::time::Duration;

use super::settings::FAR_TIMES;

/// Bytes that come in a second, at most, as far as is believed at once. Eight times that, which is
/// asked for, fills a way of 34 gigabits.
const RATE_MAX: u64 = 512 << 20;
const NANOSECONDS: u128 = 1_000_000_000;
/// What a way is taken to carry that nobody has read over yet.
const BYTES_PER_SECOND: u128 = 1_250_000_000;
/// Longer than a burst of requests, shorter than anybody's patience.
const EPOCH: Duration = Duration::from_mins(1);

/// The least time of an answer lately. See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeastLatency {
    /// When the present epoch began.
    began: Duration,
    present: Option<Duration>,
    before: Option<Duration>,
}

impl LeastLatency {
    /// An answer took `took`, and came at `now`, which never goes back.
    pub fn note(&mut self, took: Duration, now: Duration) {
        let age = now.saturating_sub(self.began);
        if age >= EPOCH {
            let is_next = age < EPOCH * 2;
            self.before = self.present.take().filter(|_| is_next);
            self.began = now;
        }
        self.present = Some(self.present.map_or(took, |least| least.min(took)));
    }

    /// The least time, if there was an answer.
    #[must_use]
    pub fn least(&self) -> Option<Duration> {
        match (self.present, self.before) {
            (Some(present), Some(before)) => Some(present.min(before)),
            (present, before) => present.or(before),
        }
    }
}

/// Which distance a stream may need at this latency, as long as none has shown it.
pub(super) fn supposed(latency: Duration) -> u64 {
    let way = latency.as_nanos() * BYTES_PER_SECOND / NANOSECONDS;
    u64::try_from(way * u128::from(FAR_TIMES)).unwrap_or(u64::MAX)
}

/// Where a stream was when it had to wait last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    position: u64,
    seen: Duration,
}

impl Pace {
    /// The reader is at `position` now.
    pub(super) fn new(position: u64, seen: Duration) -> Self {
        Self { position, seen }
    }

    /// Which distance a stream needs that is at `position`. `None`: it is too early to say.
    pub(super) fn needed(&self, position: u64, now: Duration, latency: Duration) -> Option<u64> {
        let came = self.came_in(latency, position, now, latency)?;
        let most = u128::from(RATE_MAX) * latency.as_nanos() / NANOSECONDS;
        let came = came.min(u64::try_from(most).unwrap_or(u64::MAX));
        Some(came.saturating_mul(FAR_TIMES))
    }

    /// How many bytes come in a second. `None`: it is too early to say.
    pub(super) fn rate(&self, position: u64, now: Duration, latency: Duration) -> Option<u64> {
        self.came_in(Duration::from_secs(1), position, now, latency)
    }

    /// How many bytes come in such a time.
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

/// What the streams of a device have needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learnt {
    bytes: u64,
    latency: Duration,
}

impl Learnt {
    /// A stream needed so much at this latency.
    pub(super) fn learn(&mut self, bytes: u64, latency: Duration) {
        if bytes > self.at(latency) {
            *self = Self { bytes, latency };
        }
    }

    /// What is needed at this latency.
    pub(super) fn at(&self, latency: Duration) -> u64 {
        if self.latency.is_zero() {
            return 0;
        }
        let bytes = u128::from(self.bytes) * latency.as_nanos() / self.latency.as_nanos();
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// There was waste, or no memory.
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
