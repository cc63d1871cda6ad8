//! The dirty quota: dirty memory of all stores of a cache together.
//!
//! **Problem.** Each store may have a share of the memory dirty. Five that are stuck would have
//! all of it, and nobody could read.
//!
//! **Rule.** All together have at most half of the cache. Half of that is divided among the stores
//! that are written, as if there were four at least: so much each has for certain, whatever the
//! others do. The other half is for those that come first.
//!
//! ```text
//!   half of the cache:  | store 1  | store 2  | store 3  |        in common         |
//!                         for certain, each the same       3 3 3 1 1 1 1 1 . . . . .
//! ```
//!
//! What a store may have is given to its policy as its limit, so that it begins to write earlier
//! when there is less ([`pagewell_policy::writeback`]), and is not slowed at a limit of others.
//!
//! **Weakness.** With the fifth store and every one after it what each has for certain falls; what
//! is above it counts as common, and goes only as it is written. Until then all together have more.
//! Purged pages count until their writes end, so there can even be more than the cache has.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::page::PAGE;
use crate::sync::Mutex;

/// So many stores may begin to be written without taking anything from those before.
const STORES_MIN: u64 = 4;

/// Dirty memory by store.
pub(crate) struct Quota {
    size_bytes: u64,
    total: AtomicU64,
    stores: Mutex<HashMap<u32, u64>>,
    next: AtomicU32,
}

impl Quota {
    /// For a cache of this size.
    pub(crate) fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            total: AtomicU64::new(0),
            stores: Mutex::default(),
            next: AtomicU32::new(1),
        }
    }

    /// A number for one more store.
    pub(crate) fn add(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Most memory of pages with something dirty, of a store that wants so much.
    pub(crate) fn store_bytes_max(&self, wanted_bytes: Option<u64>) -> u64 {
        let wanted_bytes = wanted_bytes.unwrap_or(self.size_bytes / 5);
        wanted_bytes.clamp(PAGE, self.size_bytes / 2)
    }

    /// A store has so much dirty memory now; purged pages whose writes are under way count too,
    /// so it may be more than there is.
    pub(crate) fn set(&self, number: u32, bytes: u64) {
        let mut stores = self.stores.lock();
        stores.insert(number, bytes);
        self.total.store(stores.values().sum(), Ordering::Relaxed);
    }

    /// A store is gone.
    pub(crate) fn remove(&self, number: u32) {
        let mut stores = self.stores.lock();
        stores.remove(&number);
        self.total.store(stores.values().sum(), Ordering::Relaxed);
    }

    /// How much a store may have that would have `wanted_bytes` alone.
    pub(crate) fn allowance(&self, number: u32, wanted_bytes: u64) -> u64 {
        let bytes_max = self.size_bytes / 2;
        let total = self.total.load(Ordering::Relaxed);
        if total.saturating_add(wanted_bytes) <= bytes_max {
            return wanted_bytes;
        }
        let stores = self.stores.lock();
        let is_known = stores.contains_key(&number);
        let count = stores.len() as u64 + u64::from(!is_known);
        let common = bytes_max / 2;
        let certain = common / count.max(STORES_MIN);
        let others = stores.iter().filter(|(other, _)| **other != number);
        let taken: u64 = others.map(|(_, bytes)| bytes.saturating_sub(certain)).sum();
        wanted_bytes.min(certain + common.saturating_sub(taken))
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn one_has_what_it_wants_and_a_stuck_one_leaves_the_others_their_part() {
        let quota = Quota::new(2000);
        assert_eq!(quota.allowance(1, 400), 400);
        quota.set(1, 0);
        quota.set(1, 625);
        assert_eq!(quota.allowance(1, 1000), 625);
        // Nothing is left in common.
        assert_eq!(quota.allowance(2, 400), 125);
        quota.set(2, 125);
        assert_eq!(quota.allowance(1, 1000), 625);
        assert_eq!(quota.allowance(3, 400), 125);
        // With purged pages whose writes are under way.
        quota.set(1, 2100);
        assert_eq!(quota.allowance(2, 400), 125);
        quota.remove(1);
        assert_eq!(quota.allowance(2, 400), 400);
    }

    #[test]
    fn all_together_never_have_more() {
        let quota = Quota::new(8000);
        (0..5).for_each(|number| quota.set(number, 0));
        let mut random = 1_u64;
        let mut held = [0_u64; 5];
        for _ in 0..10_000 {
            random = pagewell_base::mix::mix(random.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let number = usize::try_from(random % 5).unwrap();
            let allowed = quota.allowance(u32::try_from(number).unwrap(), 4000);
            if random >> 20 & 3 == 0 {
                held[number] -= held[number].min(random >> 30 & 511);
            } else if held[number] < allowed {
                held[number] += 1.max(allowed - held[number]).min(random >> 30 & 255);
            }
            quota.set(u32::try_from(number).unwrap(), held[number]);
            assert!(held.iter().sum::<u64>() <= 4000, "{held:?}");
            assert!(quota.allowance(0, 4000) >= 400);
        }
    }
}
