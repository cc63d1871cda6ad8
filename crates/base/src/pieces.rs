//! A map of pieces made from an image, parsed or decompressed, bounded by bytes.
//!
//! Unused pieces are evicted first ([`Clock`]); a hit costs one short lock. The newest piece stays,
//! even above the limit: else a directory larger than the cache would be made again for every
//! lookup.
//!
//! Keys come from the image, so the map hashes them with a secret.

use std::hash::Hash;
use std::sync::Arc;

use crate::clock::Clock;
use crate::mix::mix;
use crate::sync::{Mutex, MutexGuard};

/// See the module.
pub struct Pieces<K, V> {
    shards: Vec<Mutex<Clock<K, Arc<V>>>>,
    shard_bytes_max: usize,
}

impl<K: Copy + Eq + Hash + Into<u64>, V> Pieces<K, V> {
    /// At most `bytes_max` bytes, in `shards` parts with a lock each.
    #[must_use]
    pub fn new(bytes_max: usize, shards: usize) -> Self {
        Self {
            shards: (0..shards.max(1)).map(|_| Mutex::default()).collect(),
            shard_bytes_max: bytes_max / shards.max(1),
        }
    }

    /// A value, which is in use again.
    pub fn get(&self, key: K) -> Option<Arc<V>> {
        let mut shard = self.shard(key);
        shard.get(&key).map(|value| value.clone())
    }

    /// Adds `value` and returns it; an earlier value of the key stays.
    pub fn insert(&self, key: K, value: V, bytes: usize) -> Arc<V> {
        let value = Arc::new(value);
        let mut shard = self.shard(key);
        if let Some(value) = shard.peek(&key) {
            return value.clone();
        }
        while shard.weight() + bytes > self.shard_bytes_max {
            if shard.evict(usize::MAX, |_| true).is_none() {
                break;
            }
        }
        shard.insert(key, value.clone(), bytes);
        value
    }

    fn shard(&self, key: K) -> MutexGuard<'_, Clock<K, Arc<V>>> {
        let index = mix(key.into()) as usize % self.shards.len();
        self.shards[index].lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bytes_and_keeps_what_is_used() {
        let pieces: Pieces<u64, u64> = Pieces::new(100, 1);
        for key in 0..1000 {
            pieces.insert(key, key, 10);
            assert_eq!(pieces.get(0).as_deref(), Some(&0), "always in use");
        }
        let held = (0..1000).filter(|key| pieces.get(*key).is_some()).count();
        assert!((2..=10).contains(&held), "{held}");
    }

    #[test]
    fn the_newest_stays_even_when_it_is_too_large() {
        let pieces: Pieces<u64, u64> = Pieces::new(100, 1);
        pieces.insert(1, 1, 10);
        pieces.insert(2, 2, 5000);
        assert!(pieces.get(2).is_some() && pieces.get(1).is_none());
        pieces.insert(3, 3, 5000);
        assert!(pieces.get(3).is_some() && pieces.get(2).is_none());
        assert_eq!(*pieces.insert(3, 4, 1), 3, "the first one wins");
    }
}
