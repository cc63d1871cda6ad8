//! A bounded map that forgets what was not used for long.
//!
//! **Rule.** There are two maps, the young and the old. What is put in or found goes to the young
//! one. When that holds half of the limit, the old one is forgotten and the young one becomes old.
//! So whatever was used within the last half of the limit's insertions is there, at the cost of one
//! map operation and without lists. What may not be forgotten is carried over, and does not count:
//! until the next time half of the limit has to come anew, so that each is paid for.
//!
//! ```text
//!   put, found ──> young ──half full──> old ──half full──> forgotten
//!                    ^                   │ found, or may not go
//!                    └───────────────────┘
//! ```
//!
//! **Known weakness.** Forgetting is done at once for half of all entries, and those that may not
//! go are moved each time.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
    /// Those of the young ones that may not go and were carried over.
    carried: usize,
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// At most so many entries, those that may not go left out.
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            half: (entries_max / 2).max(1),
            carried: 0,
        }
    }

    /// Entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Finds an entry, which stays for longer now.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some((key, value)) = self.old.remove_entry(key) {
            // It takes a place that an entry of its own had: nothing grows.
            self.young.insert(key, value);
        }
        self.young.get_mut(key)
    }

    /// Puts an entry in; those of the old generation for which `may_go` are forgotten when there
    /// are too many. Returns how many were.
    pub(super) fn put(&mut self, key: K, value: V, may_go: impl Fn(&V) -> bool) -> usize {
        self.old.remove(&key);
        let mut forgotten = 0;
        if self.young.len() >= self.half + self.carried {
            let aged = std::mem::take(&mut self.young);
            let before = std::mem::replace(&mut self.old, aged);
            forgotten = before.len();
            let kept = before.into_iter().filter(|(_, value)| !may_go(value));
            self.young.extend(kept);
            self.carried = self.young.len();
            forgotten -= self.carried;
        }
        self.young.insert(key, value);
        forgotten
    }

    /// Takes an entry out.
    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut map = Generations::new(100);
        for number in 0..1000u32 {
            map.put(number, number, |_| true);
            assert!(map.len() <= 100);
            assert_eq!(map.get(&0), Some(&mut 0), "{number}");
            assert!(map.get(&number.saturating_sub(20)).is_some());
        }
        assert_eq!(map.get(&500), None);
        assert_eq!(map.remove(&0), Some(0));
        assert_eq!(map.get(&0), None);
    }

    /// Else each new one would move all of them, once half of the limit may not go.
    #[test]
    fn those_that_may_not_go_are_seldom_moved() {
        let mut map = Generations::new(100);
        for number in 0..200u32 {
            map.put(number, number, |_| false);
        }
        let asked = std::cell::Cell::new(0);
        for number in 200..300u32 {
            map.put(number, number, |_| {
                asked.set(asked.get() + 1);
                false
            });
        }
        assert_eq!(map.len(), 300);
        assert!(asked.get() <= 500, "{}", asked.get());
    }

    #[test]
    fn what_may_not_go_stays() {
        let mut map = Generations::new(10);
        for number in 0..1000u32 {
            map.put(number, number, |number| number % 100 != 0);
        }
        for number in (0..1000).step_by(100) {
            assert_eq!(map.get(&number), Some(&mut { number }));
        }
        assert!(map.len() <= 30, "{}", map.len());
    }
}
