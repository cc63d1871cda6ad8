//! Latencies of one run, and their quantiles.
//!
//! Logarithmic buckets with 32 linear steps per power of two: a quantile is at most 3.2 % above
//! the true one, which is less than two runs of one server differ. One thread records, without
//! atomics, and the threads' histograms are added afterwards. The longest is kept exactly. (The
//! histogram of the counters is recorded by many threads, with a quarter of the steps.)

use std::time::Duration;

const STEPS_LOG2: u32 = 5;
const STEPS: u64 = 1 << STEPS_LOG2;
/// Longer than 2^40 ns (18 minutes) counts as that.
const POWERS: u64 = 41;
#[allow(clippy::cast_possible_truncation)] // about a thousand
const BUCKETS: usize = ((POWERS - STEPS_LOG2 as u64 + 1) * STEPS) as usize;

/// Counts of latencies.
#[derive(Clone, Debug)]
pub struct Latency {
    buckets: Vec<u64>,
    longest: Duration,
}

/// What a [`Latency`] says.
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
        Self {
            buckets: vec![0; BUCKETS],
            longest: Duration::ZERO,
        }
    }
}

impl Latency {
    /// Counts one.
    pub fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(nanoseconds)) {
            *bucket += 1;
        }
        self.longest = self.longest.max(latency);
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        for (bucket, added) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += added;
        }
        self.longest = self.longest.max(other.longest);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The quantiles; all zero when nothing was counted.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            p50: self.quantile(500),
            p99: self.quantile(990),
            p999: self.quantile(999),
            max: self.longest,
        }
    }

    fn quantile(&self, per_mille: u64) -> Duration {
        let rank = (u128::from(self.count()) * u128::from(per_mille)).div_ceil(1000);
        let mut seen = 0;
        for (index, bucket) in (0..).zip(&self.buckets) {
            seen += u128::from(*bucket);
            if *bucket > 0 && seen >= rank {
                return Duration::from_nanos(bucket_end(index)).min(self.longest);
            }
        }
        Duration::ZERO
    }
}

fn bucket_of(nanoseconds: u64) -> usize {
    let index = if nanoseconds < STEPS {
        nanoseconds
    } else {
        let shift = nanoseconds.ilog2() - STEPS_LOG2;
        u64::from(shift) * STEPS + (nanoseconds >> shift)
    };
    usize::try_from(index)
        .unwrap_or(usize::MAX)
        .min(BUCKETS - 1)
}

/// The longest that falls into a bucket.
fn bucket_end(index: u64) -> u64 {
    if index < 2 * STEPS {
        return index;
    }
    let shift = index / STEPS - 1;
    ((index - shift * STEPS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_close_above_what_falls_into_it() {
        for shift in 0..40 {
            for step in 0..50u64 {
                let value = (1u64 << shift) + step * (1u64 << shift) / 50;
                let end = bucket_end(bucket_of(value) as u64);
                assert!(end >= value && end - value <= value / 32, "{value} {end}");
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_of(STEPS), bucket_of(STEPS - 1) + 1);
        assert_eq!(bucket_of(2 * STEPS), bucket_of(2 * STEPS - 1) + 1);
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
                value >= expected && value <= expected.mul_f64(1.032),
                "{value:?}"
            );
        }
        assert_eq!(found.max, Duration::from_millis(1));
        assert_eq!(Latency::default().quantiles(), Quantiles::default());
    }
}
