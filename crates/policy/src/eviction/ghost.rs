//! Remembers pages that have gone, without their data.
//!
//! Problem: a page that comes back soon after it went should not have gone. To know it, the names
//! of as many pages as the main queue holds are kept, in fixed memory and without a list.
//!
//! Rule: a table of buckets of [`WAYS`] slots. A slot holds a fingerprint of the name and the
//! number of the entry, counted up. An entry is old when `capacity` others came after it, which
//! is what a ring of that size forgets; nothing is ever moved or cleaned. A new entry takes the
//! oldest slot of its bucket. There are twice as many slots as entries, so that seldom a bucket
//! forgets one that is not old.
//!
//! Weakness: fingerprints have 32 bits; about one lookup in a thousand million is wrong, and costs
//! one page a place in the wrong queue.

use pagewell_base::mix::{STEP, mix};

const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// 0 for an empty slot.
    fingerprint: u32,
    number: u32,
}

/// Names of pages that went lately.
#[derive(Debug)]
pub struct Ghost {
    slots: Vec<Slot>,
    bucket_mask: usize,
    capacity: u32,
    next: u32,
}

impl Ghost {
    /// Remembers so many at most. Memory is taken here and never again.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let buckets = (capacity as usize * 2).div_ceil(WAYS).next_power_of_two();
        Self {
            slots: vec![Slot::default(); buckets * WAYS],
            bucket_mask: buckets - 1,
            capacity,
            next: 0,
        }
    }

    fn find(&mut self, key: u64) -> (u32, &mut [Slot]) {
        // The caller may give any hash, or none at all.
        let mixed = mix(key.wrapping_add(STEP));
        let first = (mixed as usize & self.bucket_mask) * WAYS;
        let fingerprint = ((mixed >> 32) as u32).max(1);
        (fingerprint, &mut self.slots[first..first + WAYS])
    }

    /// Remembers a page.
    pub fn insert(&mut self, key: u64) {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let (fingerprint, bucket) = self.find(key);
        let age = |slot: &Slot| match slot.fingerprint {
            0 => u32::MAX,
            _ => number.wrapping_sub(slot.number),
        };
        let same = bucket
            .iter()
            .position(|slot| slot.fingerprint == fingerprint);
        let place = match same {
            Some(same) => bucket.get_mut(same),
            None => bucket.iter_mut().max_by_key(|slot| age(slot)),
        };
        if let Some(slot) = place {
            *slot = Slot {
                fingerprint,
                number,
            };
        }
    }

    /// Whether the page is remembered; it is forgotten by that.
    pub fn take(&mut self, key: u64) -> bool {
        let (next, capacity) = (self.next, self.capacity);
        let (fingerprint, bucket) = self.find(key);
        let found = bucket
            .iter_mut()
            .find(|slot| slot.fingerprint == fingerprint);
        found.is_some_and(|slot| {
            let remembered = next.wrapping_sub(slot.number) <= capacity;
            *slot = Slot::default();
            remembered
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_once_and_the_others_forgotten() {
        let mut ghost = Ghost::new(100);
        for key in 0..1000 {
            ghost.insert(key);
        }
        let remembered: Vec<u64> = (0..1000).filter(|key| ghost.take(*key)).collect();
        assert!(remembered.iter().all(|key| *key >= 900), "{remembered:?}");
        assert!(remembered.len() >= 95, "{remembered:?}");
        assert!((0..2000).all(|key| !ghost.take(key)));
    }

    #[test]
    fn nothing_is_remembered_without_room() {
        let mut ghost = Ghost::new(0);
        ghost.insert(1);
        assert!(!ghost.take(1));
    }
}
