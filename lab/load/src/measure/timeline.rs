//! How much was done when, in a bounded number of equal intervals.
//!
//! The length of a run is unknown at first, so intervals begin short, and when there are too many,
//! each two neighbours become one.

use std::time::Duration;

/// The most intervals.
const INTERVALS_MAX: usize = 128;
/// The first length of an interval.
const INTERVAL_MIN: Duration = Duration::from_micros(500);

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    interval: Duration,
    amounts: Vec<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            interval: INTERVAL_MIN,
            amounts: Vec::new(),
        }
    }
}

impl Timeline {
    /// Counts `amount` at a time since the beginning.
    pub fn record(&mut self, at: Duration, amount: u64) {
        while self.place(at) >= INTERVALS_MAX {
            self.merge_pairs();
        }
        let place = self.place(at);
        if self.amounts.len() <= place {
            self.amounts.resize(place + 1, 0);
        }
        if let Some(sum) = self.amounts.get_mut(place) {
            *sum = sum.saturating_add(amount);
        }
    }

    /// Adds another one with the same beginning.
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        self.make_equal(&mut other);
        if self.amounts.len() < other.amounts.len() {
            self.amounts.resize(other.amounts.len(), 0);
        }
        for (sum, amount) in self.amounts.iter_mut().zip(&other.amounts) {
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Makes the shorter intervals as long as the others.
    pub fn make_equal(&mut self, other: &mut Self) {
        while self.interval < other.interval {
            self.merge_pairs();
        }
        while other.interval < self.interval {
            other.merge_pairs();
        }
    }

    /// The length of each interval.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The amount in each interval.
    pub fn amounts(&self) -> &[u64] {
        &self.amounts
    }

    fn place(&self, at: Duration) -> usize {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let place = nanoseconds(at) / nanoseconds(self.interval).max(1);
        usize::try_from(place).unwrap_or(usize::MAX)
    }

    fn merge_pairs(&mut self) {
        self.interval = self.interval.saturating_mul(2);
        let add = |sum: u64, one: &u64| sum.saturating_add(*one);
        let pairs = self.amounts.chunks(2).map(|pair| pair.iter().fold(0, add));
        self.amounts = pairs.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_and_the_number_of_intervals_is_bounded() {
        let mut line = Timeline::default();
        for millisecond in 0..10_000 {
            line.record(Duration::from_millis(millisecond), 3);
        }
        assert!(line.amounts().len() <= INTERVALS_MAX);
        assert!(line.amounts().len() > INTERVALS_MAX / 2);
        assert_eq!(line.amounts().iter().sum::<u64>(), 30_000);
        assert_eq!(line.interval(), INTERVAL_MIN * 256);
        let full = line.amounts()[1];
        assert_eq!(full, 128 * 3, "128 ms of three each");
        line.record(Duration::MAX, 1);
        assert_eq!(line.amounts().iter().sum::<u64>(), 30_001);
    }

    #[test]
    fn lines_of_several_threads_add_up() {
        let (mut short, mut long) = (Timeline::default(), Timeline::default());
        short.record(Duration::from_micros(100), 5);
        long.record(Duration::from_micros(900), 7);
        long.record(Duration::from_secs(1), 1);
        short.add(&long);
        assert_eq!(short.interval(), long.interval());
        assert_eq!(short.amounts()[0], 12);
        assert_eq!(short.amounts().iter().sum::<u64>(), 13);
        let empty = Timeline::default();
        short.add(&empty);
        assert_eq!(short.amounts().iter().sum::<u64>(), 13);
    }
}
