//! Latencies of one run, and their quantiles.
//!
//! Two digits of each latency are kept: a quantile is at most 1 % above the true one, less than the
//! difference of two runs. One thread records, without atomics, and the threads' histograms are
//! added afterwards. The longest is kept exactly.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::number::number;

/// 18 minutes in nanoseconds; longer ones count as this.
const NANOSECONDS_MAX: u64 = 1 << 40;
const DIGITS: u8 = 2;

/// Counts of latencies.
#[derive(Clone, Debug)]
pub struct Latency {
    nanoseconds: Histogram<u64>,
    longest: Duration,
}

/// The quantiles of a [`Latency`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Half take at most this.
    pub p50: Duration,
    /// 99 in 100 take at most this.
    pub p99: Duration,
    /// 999 in 1000 take at most this.
    pub p999: Duration,
    /// All take at most this.
    pub max: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        let nanoseconds = Histogram::new_with_bounds(1, NANOSECONDS_MAX, DIGITS);
        #[allow(clippy::expect_used)] // of constants, which any test would see
        let nanoseconds = nanoseconds.expect("the bounds are in order and the digits few");
        Self {
            nanoseconds,
            longest: Duration::ZERO,
        }
    }
}

impl<'a> std::iter::Sum<&'a Self> for Latency {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        let mut sum = Self::default();
        all.for_each(|one| sum.add(one));
        sum
    }
}

impl Latency {
    /// Counts one.
    pub fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.saturating_record(nanoseconds);
        self.longest = self.longest.max(latency);
    }

    /// Adds those of another one.
    pub fn add(&mut self, other: &Self) {
        self.nanoseconds += &other.nanoseconds;
        self.longest = self.longest.max(other.longest);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// The quantiles; all zero without latencies.
    pub fn quantiles(&self) -> Quantiles {
        let quantile = |part| {
            let most = self.nanoseconds.value_at_quantile(part);
            Duration::from_nanos(most).min(self.longest)
        };
        Quantiles {
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.longest,
        }
    }

    /// The most that this `part` of all latencies takes, 0 to 1; none when fewer were counted than
    /// the rest stands for.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let beyond = (1.0 - part) * number(self.count());
        if self.count() == 0 || (part < 1.0 && beyond < 1.0) {
            return None;
        }
        let most = Duration::from_nanos(self.nanoseconds.value_at_quantile(part));
        Some(if part < 1.0 {
            most.min(self.longest)
        } else {
            self.longest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_the_bound_counts_and_is_kept() {
        let mut latency = Latency::default();
        latency.record(Duration::ZERO);
        latency.record(Duration::MAX);
        assert_eq!(latency.count(), 2);
        let found = latency.quantiles();
        assert!(found.p50 <= Duration::from_nanos(1), "{found:?}");
        assert!(found.p99 > Duration::from_secs(1000), "{found:?}");
        assert_eq!(found.max, Duration::MAX);
    }

    #[test]
    fn quantiles_of_two_halves() {
        let (mut low, mut high) = (Latency::default(), Latency::default());
        (1..=500).for_each(|micro| low.record(Duration::from_micros(micro)));
        (501..=1000).for_each(|micro| high.record(Duration::from_micros(micro)));
        low.add(&high);
        assert_eq!(low.count(), 1000);
        let found = low.quantiles();
        for (value, expected) in [(found.p50, 500), (found.p99, 990), (found.p999, 999)] {
            let expected = Duration::from_micros(expected);
            assert!(
                value >= expected && value <= expected.mul_f64(1.01),
                "{value:?}"
            );
        }
        assert_eq!(found.max, Duration::from_millis(1));
        assert_eq!(Latency::default().quantiles(), Quantiles::default());
        assert_eq!(low.quantile(1.0), Some(Duration::from_millis(1)));
        assert_eq!(low.quantile(0.999), Some(found.p999));
        assert_eq!(low.quantile(0.9999), None, "of a thousand no one is beyond");
        assert_eq!(Latency::default().quantile(1.0), None);
    }
}
