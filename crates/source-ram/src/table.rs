//! Inodes by number, in shards by the low bits, so that threads rarely meet at one lock.
//!
//! Directories name their entries by number, not by pointer: a chain of a million nested
//! directories then needs no recursion to free.
//!
//! As the general allocator keeps freed memory, the table returns it to the system
//! ([`Table::trim_if_due`]) each time that half of the objects have gone.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_base::mix::NumberHasher;
use pagewell_base::sync::RwLock;

use super::inode::{Inode, InodeState};

/// Locks; a power of two, several times the processors of a usual machine.
const SHARDS: usize = 64;

/// Fewest removals between two trims: some 12 MiB of inodes and names.
const TRIM_REMOVALS_MIN: u64 = 16 * 1024;

/// The numbers are consecutive, and no client chooses them: no hash against collisions.
type Shard = RwLock<HashMap<u64, Arc<Inode>, BuildHasherDefault<NumberHasher>>>;

pub(super) struct Table {
    shards: Vec<Shard>,
    next_number: AtomicU64,
    count: AtomicU64,
    /// Removals since the last trim.
    removals: AtomicU64,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            next_number: AtomicU64::new(1),
            count: AtomicU64::new(0),
            removals: AtomicU64::new(0),
        }
    }

    fn shard(&self, number: u64) -> &Shard {
        &self.shards[(number % SHARDS as u64) as usize]
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        self.shard(number).read().get(&number).cloned()
    }

    pub(super) fn insert(&self, state: InodeState) {
        let inode = Arc::new(Inode::new(state));
        self.shard(inode.number).write().insert(inode.number, inode);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, number: u64) {
        let mut shard = self.shard(number).write();
        if shard.remove(&number).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.removals.fetch_add(1, Ordering::Relaxed);
            if shard.capacity() > 64 && shard.len() < shard.capacity() / 8 {
                shard.shrink_to_fit();
            }
        }
    }

    /// Returns the memory of removed inodes and names to the system, when it is worth it. To be
    /// called without locks, as it may take milliseconds.
    pub(super) fn trim_if_due(&self) {
        let due = TRIM_REMOVALS_MIN.max(self.count());
        let order = Ordering::Relaxed;
        let take_all = |removals| (removals >= due).then_some(0);
        let taken = self.removals.fetch_update(order, order, take_all);
        if taken.is_ok() {
            pagewell_fs::trim::give_back();
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
