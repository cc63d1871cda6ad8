//! Counters, all named in one place ([`names`]).
//!
//! A counter costs a plain addition on the hot path, to a cache line of the thread ([`Sharded`]);
//! reading sums the shards.

mod histogram;
pub mod names;
pub mod procedures;
pub mod served;
mod shards;

pub use histogram::{Counts, Histogram, Quantiles};
pub use shards::{Adding, Empty, Sharded};

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A count that only grows.
pub struct Counter {
    /// The Prometheus name.
    pub name: &'static str,
    /// One sentence of help.
    pub help: &'static str,
    shards: Sharded<AtomicU64>,
}

impl Counter {
    /// A counter with a Prometheus name (ends in `_total`) and one sentence of help.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            shards: Sharded::new(),
        }
    }

    /// Adds to the sum.
    #[inline]
    pub fn add(&self, count: u64) {
        let (sum, adding) = self.shards.own();
        adding.add(sum, count);
    }

    /// The sum so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        let shards = self.shards.all();
        shards.map(|sum| sum.load(Ordering::Relaxed)).sum()
    }
}

/// A value that goes up and down.
pub struct Gauge {
    /// The Prometheus name.
    pub name: &'static str,
    /// One sentence of help.
    pub help: &'static str,
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

    /// Sets the value.
    pub fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// Makes the value one higher until what is returned is dropped.
    #[must_use]
    pub fn hold(&'static self) -> Held {
        self.add(1);
        Held(self)
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// One in a gauge.
pub struct Held(&'static Gauge);

impl Held {
    /// The gauge.
    #[must_use]
    pub fn gauge(&self) -> &'static Gauge {
        self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        static GAUGE: Gauge = Gauge::new("pagewell_held", "Held.");
        let (one, other) = (GAUGE.hold(), GAUGE.hold());
        assert_eq!((GAUGE.get(), other.gauge().name), (2, "pagewell_held"));
        drop(one);
        assert_eq!(GAUGE.get(), 1);
    }
}
