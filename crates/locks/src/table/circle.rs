//! Whether a wait would end in itself.

use std::collections::HashSet;

use crate::table::{Table, Wish};

/// Owners that are looked at: programs on clients that wait for each other are few.
const OWNERS_MAX: usize = 64;
/// Locks that are looked at.
const STEPS_MAX: usize = 4096;

impl<C: Clone> Table<C> {
    /// Whether an owner in the way of `wish` waits, through others, for its owner. When the search
    /// reaches a bound, the answer is no.
    pub(super) fn would_wait_for_itself(&self, wish: &Wish) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![wish];
        let mut steps = 0;
        while let Some(wanted) = open.pop() {
            let Some(locks) = self.files.get(&wanted.file) else {
                continue;
            };
            for (holder, _) in locks.conflicts(&wanted.owner, wanted.range, wanted.kind) {
                steps += 1;
                if *holder == wish.owner {
                    return true;
                }
                if steps >= STEPS_MAX || seen.len() >= OWNERS_MAX {
                    return false;
                }
                if seen.insert(holder) {
                    let waits = self.waiters.values();
                    let waits = waits.filter(|waiter| waiter.offered.is_none());
                    let wishes = waits.map(|waiter| &waiter.wish);
                    open.extend(wishes.filter(|wish| wish.owner == *holder));
                }
            }
        }
        false
    }
}
