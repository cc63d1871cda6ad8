//! A histogram of durations with a fixed size and a known error.
//!
//! Buckets are logarithmic with eight linear steps per power of two, so a quantile is at most 12.5
//! % too high. Range: 1 ns to 2^43 ns (2.4 hours); longer durations count as longest. The quantiles
//! of an interval come from the difference of two [`Counts`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Adding;

const STEPS_LOG2: u32 = 3;
const STEPS: usize = 1 << STEPS_LOG2;
const POWERS: usize = 41;
const BUCKETS: usize = POWERS * STEPS;

/// Counts of durations.
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_nanoseconds: AtomicU64,
}

/// Quantiles of a histogram, read once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Durations recorded.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The median.
    pub p50: Duration,
    /// 99 in 100 are at most this.
    pub p99: Duration,
    /// 999 in 1000 are at most this.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum_nanoseconds: AtomicU64::new(0),
        }
    }

    /// Counts one duration.
    pub fn record(&self, duration: Duration) {
        self.record_by(Adding::Together, duration);
    }

    /// Counts one duration in a shard ([`crate::Sharded`]).
    pub fn record_by(&self, adding: Adding, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        adding.add(&self.buckets[bucket_of(nanoseconds)], 1);
        adding.add(&self.sum_nanoseconds, nanoseconds);
    }

    /// Reads all of it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let buckets = self.buckets.iter();
        Counts {
            buckets: buckets
                .map(|bucket| bucket.load(Ordering::Relaxed))
                .collect(),
            sum_nanoseconds: self.sum_nanoseconds.load(Ordering::Relaxed),
        }
    }
}

/// The buckets of a histogram, read once. The default is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Durations by bucket; those behind the last are zero.
    pub buckets: Vec<u64>,
    /// Sum of all durations.
    pub sum_nanoseconds: u64,
}

impl Counts {
    /// Durations recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Durations below so many nanoseconds, to the precision of a bucket; exact for powers of two.
    #[must_use]
    pub fn count_below(&self, nanoseconds: u64) -> u64 {
        self.buckets.iter().take(bucket_of(nanoseconds)).sum()
    }

    /// The durations since `earlier` of the same histogram.
    #[must_use]
    pub fn difference(&self, earlier: &Self) -> Self {
        let before = earlier.buckets.iter().chain(std::iter::repeat(&0));
        let buckets = self.buckets.iter().zip(before);
        Self {
            buckets: buckets
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
            sum_nanoseconds: self.sum_nanoseconds.saturating_sub(earlier.sum_nanoseconds),
        }
    }

    /// Adds the durations of another histogram.
    pub fn add(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.saturating_add(*count);
        }
        self.sum_nanoseconds = self.sum_nanoseconds.saturating_add(other.sum_nanoseconds);
    }

    /// Quantiles of what was recorded.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        let count = self.count();
        let at = |per_mille: u64| {
            let rank = (u128::from(count) * u128::from(per_mille))
                .div_ceil(1000)
                .max(1);
            let mut seen = 0u128;
            for (index, bucket) in self.buckets.iter().take(BUCKETS).enumerate() {
                seen += u128::from(*bucket);
                if seen >= rank {
                    return Duration::from_nanos(bucket_end(index));
                }
            }
            Duration::ZERO
        };
        Quantiles {
            count,
            sum: Duration::from_nanos(self.sum_nanoseconds),
            p50: at(500),
            p99: at(990),
            p999: at(999),
            max: at(1000),
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket_of(nanoseconds: u64) -> usize {
    if nanoseconds < STEPS as u64 {
        // Below STEPS.
        return nanoseconds as usize;
    }
    let power = nanoseconds.ilog2();
    let step = (nanoseconds >> (power - STEPS_LOG2)) as usize & (STEPS - 1);
    ((power - STEPS_LOG2 + 1) as usize * STEPS + step).min(BUCKETS - 1)
}

/// The largest duration that falls into a bucket.
fn bucket_end(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let power = index / STEPS - 1;
    let step = (index % STEPS + STEPS) as u64;
    ((step + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_contains_what_is_put_into_it() {
        for shift in 0..39 {
            for add in 0..20u64 {
                let value = (1u64 << shift) + add * ((1u64 << shift) / 20);
                let end = bucket_end(bucket_of(value));
                assert!(
                    end >= value && end - value <= value / 8 + 1,
                    "{value} {end}"
                );
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_thousand() {
        let histogram = Histogram::new();
        (1..=1000).for_each(|micro| histogram.record(Duration::from_micros(micro)));
        let quantiles = histogram.counts().quantiles();
        assert_eq!(quantiles.count, 1000);
        assert_eq!(quantiles.sum, Duration::from_micros(500_500));
        for (value, expected) in [
            (quantiles.p50, 500),
            (quantiles.p99, 990),
            (quantiles.max, 1000),
        ] {
            let expected = Duration::from_micros(expected);
            assert!(
                value >= expected && value <= expected.mul_f64(1.126),
                "{value:?}"
            );
        }
        assert_eq!(Histogram::new().counts().quantiles(), Quantiles::default());
        let counts = histogram.counts();
        for (power, expected) in [(0, 0), (10, 1), (17, 131), (20, 1000), (63, 1000)] {
            assert_eq!(counts.count_below(1 << power), expected, "2^{power} ns");
        }
    }

    #[test]
    fn the_difference_is_what_came_between() {
        let histogram = Histogram::new();
        (1..=100).for_each(|micro| histogram.record(Duration::from_micros(micro)));
        let before = histogram.counts();
        histogram.record(Duration::from_millis(7));
        let between = histogram.counts().difference(&before);
        assert_eq!(between.count(), 1);
        assert_eq!(between.sum_nanoseconds, 7_000_000);
        assert!(between.quantiles().p50 >= Duration::from_millis(7));
        let mut sum = Counts::default();
        sum.add(&before);
        sum.add(&between);
        assert_eq!(sum, histogram.counts());
        assert_eq!(Counts::default().quantiles(), Quantiles::default());
    }
}
