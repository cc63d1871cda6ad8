//! Counters of every branch that matters, all named in one file ([`names`]).
//!
//! A counter is one plain addition on the hot path. Counters are split into shards, one cache line
//! each, and summed when they are read; the first threads have one each to themselves, and need no
//! locked instruction, which would make memory wait; all others share one.

mod histogram;
pub mod names;

pub use histogram::{Counts, Histogram, Quantiles};

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The last one is for all threads that find the others taken.
const SHARDS: usize = 16;
const SHARED: usize = SHARDS - 1;

#[repr(align(64))]
struct Shard(AtomicU64);

/// Which shards belong to a thread, one bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A shard of a thread's own, given back when it ends.
struct Own(usize);

impl Own {
    fn take() -> Self {
        let taken = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            let free = taken.trailing_ones() as usize;
            (free < SHARED).then_some(taken | 1 << free)
        });
        Self(taken.map_or(SHARED, |taken| taken.trailing_ones() as usize))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // What is counted while the thread ends goes to the shared shard.
        SHARD.set(SHARED);
        if self.0 != SHARED {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

const UNKNOWN: usize = SHARDS;

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(UNKNOWN) };
    static OWN: Own = Own::take();
}

/// The shard of this thread.
#[inline]
fn shard() -> usize {
    match SHARD.get() {
        UNKNOWN => choose_shard(),
        shard => shard,
    }
}

#[cold]
fn choose_shard() -> usize {
    let shard = OWN.try_with(|own| own.0).unwrap_or(SHARED);
    SHARD.set(shard);
    shard
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
    #[inline]
    pub fn add(&self, count: u64) {
        let shard = shard();
        let sum = &self.shards[shard].0;
        if shard == SHARED {
            sum.fetch_add(count, Ordering::Relaxed);
        } else {
            // Nobody else writes to it: no locked instruction is needed.
            let before = sum.load(Ordering::Relaxed);
            sum.store(before.wrapping_add(count), Ordering::Relaxed);
        }
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

    /// Makes it `value`.
    pub fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
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

    #[test]
    fn nothing_is_lost_when_threads_come_and_go_and_are_more_than_shards() {
        static COUNTER: Counter = Counter::new("test_many_total", "A test.");
        for _ in 0..20 {
            std::thread::scope(|scope| {
                for _ in 0..3 * SHARDS {
                    scope.spawn(|| (0..500).for_each(|_| COUNTER.add(1)));
                }
            });
        }
        assert_eq!(COUNTER.get(), 20 * 3 * 500 * SHARDS as u64);
    }
}
