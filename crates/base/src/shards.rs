//! A table divided among locks.
//!
//! One lock is one cache line that all threads write to. So [`COUNT`] parts, chosen by a number or
//! hash, have a lock each, on lines of its own.
//!
//! Weakness: one in [`COUNT`] pairs of keys has the same lock.

use crate::mix;
use crate::sync::{Mutex, MutexGuard};

/// As many as counters have.
pub const COUNT: usize = 64;
const PART_BITS: u32 = COUNT.ilog2();

/// Processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard<T>(Mutex<T>);

/// See the module.
#[derive(Debug)]
pub struct Shards<T>([Shard<T>; COUNT]);

impl<T> Shards<T> {
    /// Parts with the values of `make`.
    pub fn new(make: impl Fn() -> T) -> Self {
        Self(std::array::from_fn(|_| Shard(Mutex::new(make()))))
    }

    /// Locks the part of a number or hash.
    #[inline]
    pub fn lock(&self, number: u64) -> MutexGuard<'_, T> {
        // Spreads consecutive and even numbers.
        let mixed = number.wrapping_mul(mix::STEP) >> (u64::BITS - PART_BITS);
        self.0[mixed as usize].0.lock() // less than COUNT, which is a power of two
    }

    /// Locks all parts, one after the other.
    pub fn each(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(|part| part.0.lock())
    }
}

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_and_even_ones_are_spread() {
        assert!(COUNT.is_power_of_two());
        for step in [1, 2, 4096, 1 << 32] {
            let counts = Shards::<u64>::default();
            for number in 0..64_000 {
                *counts.lock(number * step) += 1;
            }
            assert_eq!(counts.each().map(|count| *count).sum::<u64>(), 64_000);
            assert!(counts.each().all(|count| (500..2000).contains(&*count)));
        }
        *Shards::<u64>::default().lock(u64::MAX) += 1;
    }
}
