//! How far ahead a stream must be on a device that answers late but many at a time.
//!
//! # Problem
//!
//! A server 50 ms away that sends 1 GB/s needs 50 MB on their way. A stream that finds that out by
//! growing a little each time it is late has read the file before; one that asks for so much from
//! the beginning fills memory for a reader who wants the first line.
//!
//! # Rule
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
//!   left.
//! - Less than half the time of an answer is too short to judge by.
//! - A window is never longer than eight times what the stream has read: who reads a little wastes
//!   little.
//! - The device keeps what its streams needed, with the latency at which they needed it. A stream
//!   that begins on a device known to be far begins with eight times its request instead of four,
//!   and when it goes on it may go to 32 times what it has read without having been late. Waste and
//!   refused memory halve what was learnt, and a stream that has met them grows by eighths only.
//!
//! # Weaknesses
//!
//! The least latency is believed. Where answers take very different times, what is needed for the
//! late ones is found by eighths.

use std::time::Duration;

use super::settings::FAR_TIMES;

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
        let elapsed = now.saturating_sub(self.seen);
        if elapsed < latency / 2 || elapsed.is_zero() {
            return None;
        }
        let came = u128::from(position.saturating_sub(self.position));
        let needed = came * u128::from(FAR_TIMES) * latency.as_nanos() / elapsed.as_nanos();
        Some(u64::try_from(needed).unwrap_or(u64::MAX))
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
    fn what_was_learnt_goes_with_the_latency_and_is_halved() {
        let mut learnt = Learnt::default();
        assert_eq!(learnt.at(LATENCY), 0);
        learnt.learn(8000, LATENCY);
        learnt.learn(100, LATENCY);
        assert_eq!((learnt.at(LATENCY), learnt.at(LATENCY / 2)), (8000, 4000));
        learnt.halve();
        assert_eq!(learnt.at(LATENCY), 4000);
    }
}
