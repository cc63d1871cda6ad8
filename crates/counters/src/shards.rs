//! Sharding by thread, so that counting threads do not contend.
//!
//! A cache line with several writers moves between their processors with each write, and an atomic
//! addition locks it. So each of the first [`SHARED`] threads has a shard of its own, with unlocked
//! additions; all others share the last one. A shard outlives its thread with its counts: only sums
//! are meaningful.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The shard of all threads without their own.
const SHARED: usize = 64;
const SHARDS: usize = SHARED + 1;

/// The shards in use, one bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A thread's own shard, released when the thread ends.
struct Own(usize);

impl Own {
    fn take() -> Self {
        let taken = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            let free = taken.trailing_ones() as usize;
            (free < SHARED).then(|| taken | 1 << free)
        });
        Self(taken.map_or(SHARED, |taken| taken.trailing_ones() as usize))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Counts of an ending thread go to the shared shard.
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

/// On cache lines of its own.
#[repr(align(64))]
struct Shard<T>(T);

/// A `T` for each shard.
pub struct Sharded<T>([Shard<T>; SHARDS]);

/// The kind of addition in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adding {
    /// This thread is the only writer.
    Alone,
    /// There are other writers.
    Together,
}

impl Adding {
    /// Adds `count`.
    #[inline]
    pub fn add(self, sum: &AtomicU64, count: u64) {
        match self {
            Self::Alone => {
                let before = sum.load(Ordering::Relaxed);
                sum.store(before.wrapping_add(count), Ordering::Relaxed);
            }
            Self::Together => {
                sum.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

/// A value with all counts zero.
pub trait Empty {
    /// All counts zero.
    const EMPTY: Self;
}

impl Empty for AtomicU64 {
    const EMPTY: Self = Self::new(0);
}

impl<T: Empty, const LENGTH: usize> Empty for [T; LENGTH] {
    const EMPTY: Self = [const { T::EMPTY }; LENGTH];
}

impl<T: Empty> Sharded<T> {
    /// All counts zero.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { Shard(T::EMPTY) }; SHARDS])
    }
}

impl<T: Empty> Default for Sharded<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Sharded<T> {
    /// The shard of this thread, and its kind of addition.
    #[inline]
    pub fn own(&self) -> (&T, Adding) {
        let shard = shard();
        let adding = if shard == SHARED {
            Adding::Together
        } else {
            Adding::Alone
        };
        (&self.0[shard].0, adding)
    }

    /// All shards, to be summed.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counter;

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
        for _ in 0..10 {
            std::thread::scope(|scope| {
                for _ in 0..3 * SHARDS {
                    scope.spawn(|| (0..500).for_each(|_| COUNTER.add(1)));
                }
            });
        }
        assert_eq!(COUNTER.get(), 10 * 3 * 500 * SHARDS as u64);
    }
}
