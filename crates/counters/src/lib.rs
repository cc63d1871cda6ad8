//! Counters of every branch that matters, all named in one file ([`names`]).
//!
//! A counter is one relaxed addition on the hot path. Counters that many threads touch are split
//! into shards, one cache line each, and summed when somebody looks.

mod histogram;
pub mod names;

pub use histogram::{Counts, Histogram, Quantiles};

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 8;

#[repr(align(64))]
struct Shard(AtomicU64);

static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static SHARD: usize = NEXT_SHARD.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

/// A count that only grows.
pub struct Counter {
    name: &'static str,
    help: &'static str,
    shards: [Shard; SHARDS],
}

impl Counter {
    /// A counter with a Prometheus name (ends in `_total`) and one sentence of help.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            shards: [const { Shard(AtomicU64::new(0)) }; SHARDS],
        }
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        SHARD.with(|shard| self.shards[*shard].0.fetch_add(count, Ordering::Relaxed));
    }

    /// The sum so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.0.load(Ordering::Relaxed))
            .sum()
    }

    /// The Prometheus name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// One sentence.
    #[must_use]
    pub fn help(&self) -> &'static str {
        self.help
    }
}

/// A value that goes up and down.
pub struct Gauge {
    name: &'static str,
    help: &'static str,
    value: AtomicI64,
}

impl Gauge {
    /// A gauge with a Prometheus name and one sentence of help.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            value: AtomicI64::new(0),
        }
    }

    /// Adds `change`, which may be negative.
    pub fn add(&self, change: i64) {
        self.value.fetch_add(change, Ordering::Relaxed);
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    /// The Prometheus name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// One sentence.
    #[must_use]
    pub fn help(&self) -> &'static str {
        self.help
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_add_up() {
        static COUNTER: Counter = Counter::new("test_total", "A test.");
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| (0..1000).for_each(|_| COUNTER.add(1)));
            }
        });
        assert_eq!(COUNTER.get(), 10_000);
    }
}
