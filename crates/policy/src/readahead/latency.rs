//! How far away is a device?
//!
//! # Problem
//!
//! How far a reader must be read ahead of depends on how long the device takes to answer. But the
//! time of a request is not that: most of it may be spent behind other requests, and those may be
//! our own. A rule that takes their sum for the distance makes the queue longer, and then the
//! distance.
//!
//! # Rule
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
//! # Weaknesses
//!
//! A stream that never lets the queue run empty for two minutes is told its own queue. An answer
//! from the cache of a device or server is as good as any other.

use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
