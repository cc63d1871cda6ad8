//! A map that evicts unused entries: second chance (CLOCK).
//!
//! **Problem.** Most entries are never used again, and a hit must cost next to nothing.
//!
//! **Rule.** A hit only sets a mark. Eviction takes the oldest entry without one that may go; older
//! ones lose their marks and become the youngest.
//!
//! ```text
//!   oldest ──> [a*] [b] [c*] ──> youngest
//!              evict: b goes; a, without its mark, is behind c
//! ```
//!
//! Each entry has a *turn* in a queue. A removed entry's turn is skipped; a majority of these is
//! removed. The owner evicts by count or by weight.
//!
//! **Weakness.** A walk over more entries than fit evicts all unmarked ones.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Fewer unused turns are not worth removing.
const TURNS_SPARE: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct Clock<K, V> {
    entries: HashMap<K, ClockEntry<V>>,
    /// Oldest first, with those of removed entries.
    turns: VecDeque<(u64, K)>,
    next_turn: u64,
    weight: usize,
}

#[derive(Debug)]
struct ClockEntry<V> {
    value: V,
    weight: usize,
    turn: u64,
    is_marked: bool,
}

impl<K, V> Default for Clock<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            turns: VecDeque::new(),
            next_turn: 0,
            weight: 0,
        }
    }
}

impl<K: Copy + Eq + Hash, V> Clock<K, V> {
    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sum of all weights.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// All values, in any order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Finds a value and marks it.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        entry.is_marked = true;
        Some(&mut entry.value)
    }

    /// Finds a value without marking it.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Inserts a value as the youngest, without a mark; replaces an equal key's.
    pub fn insert(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        self.weight += weight;
        let entry = ClockEntry {
            value,
            weight,
            turn: self.next_turn,
            is_marked: false,
        };
        self.entries.insert(key, entry);
        self.turns.push_back((self.next_turn, key));
        self.next_turn += 1;
    }

    /// Removes a value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let gone = self.entries.remove(key)?;
        self.weight -= gone.weight;
        if self.turns.len() > 2 * self.entries.len() + TURNS_SPARE {
            let entries = &self.entries;
            let is_of =
                |(turn, key): &(u64, K)| entries.get(key).is_some_and(|it| it.turn == *turn);
            self.turns.retain(is_of);
        }
        Some(gone.value)
    }

    /// Removes the oldest entry without a mark that may go, of so many turns: twice [`Self::len`]
    /// suffice.
    pub fn evict(
        &mut self,
        turns_max: usize,
        mut may_go: impl FnMut(&V) -> bool,
    ) -> Option<(K, V)> {
        let mut left = turns_max;
        while left > 0 {
            let (turn, key) = self.turns.pop_front()?;
            let Some(entry) = self.entries.get_mut(&key).filter(|it| it.turn == turn) else {
                continue;
            };
            left -= 1;
            if std::mem::take(&mut entry.is_marked) || !may_go(&entry.value) {
                self.turns.push_back((turn, key));
                continue;
            }
            return self.remove(&key).map(|value| (key, value));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Key, value, weight, mark; the oldest first.
    type Model = Vec<(u8, u32, usize, bool)>;

    fn evict_of(
        model: &mut Model,
        turns_max: usize,
        may_go: impl Fn(u32) -> bool,
    ) -> Option<(u8, u32)> {
        for _ in 0..turns_max.min(2 * model.len()) {
            let (key, value, weight, is_marked) = model.remove(0);
            if !is_marked && may_go(value) {
                return Some((key, value));
            }
            model.push((key, value, weight, false));
        }
        None
    }

    proptest! {
        #[test]
        fn it_is_a_queue_in_which_marks_are_a_second_chance(
            steps in proptest::collection::vec((0u8..6, 0u8..12, 0usize..40), 1..400),
        ) {
            let mut clock: Clock<u8, u32> = Clock::default();
            let mut model = Model::new();
            for (number, (what, key, size)) in (0u32..).zip(steps) {
                let at = model.iter().position(|entry| entry.0 == key);
                match what {
                    0 | 1 => {
                        clock.insert(key, number, size);
                        at.map(|at| model.remove(at));
                        model.push((key, number, size, false));
                    }
                    2 => {
                        let found = at.map(|at| {
                            model[at].3 = true;
                            model[at].1
                        });
                        prop_assert_eq!(clock.get(&key).copied(), found);
                    }
                    3 => {
                        let found = at.map(|at| model[at].1);
                        prop_assert_eq!(clock.peek(&key).copied(), found);
                    }
                    4 => {
                        let gone = at.map(|at| model.remove(at).1);
                        prop_assert_eq!(clock.remove(&key), gone);
                    }
                    _ => {
                        let may_go = |value: u32| key < 8 || !value.is_multiple_of(3);
                        let gone = evict_of(&mut model, size, may_go);
                        let turns_max = size.min(2 * clock.len());
                        prop_assert_eq!(clock.evict(turns_max, |value| may_go(*value)), gone);
                    }
                }
                prop_assert_eq!((clock.len(), clock.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(clock.weight(), model.iter().map(|entry| entry.2).sum::<usize>());
                let mut values: Vec<u32> = clock.values().copied().collect();
                let mut expected: Vec<u32> = model.iter().map(|entry| entry.1).collect();
                values.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(values, expected);
                prop_assert!(clock.turns.len() <= 2 * (clock.len() + 1) + TURNS_SPARE);
            }
        }
    }

    #[test]
    fn what_comes_and_goes_leaves_nothing() {
        let mut clock: Clock<u32, ()> = Clock::default();
        for key in 0..10_000 {
            clock.insert(key % 3, (), 1);
            clock.remove(&(key % 3));
        }
        assert!(clock.is_empty() && clock.turns.len() <= TURNS_SPARE);
        assert_eq!(clock.evict(usize::MAX, |()| true), None);
    }
}
