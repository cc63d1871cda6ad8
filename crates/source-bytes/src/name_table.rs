//! The names of a parsed directory, in recorded order, and an index over them.
//!
//! A name's value says where its object is; attributes are read on demand, so that the table takes
//! less memory than the directory in the image.
//!
//! The first of repeated names is found by the name, later ones as `name~2`, `name~3`..., so that
//! all data can be reached. Of versions of one file, the format chooses ([`Repeated`]).
//!
//! The index is open addressing with linear probing, at most half full, with keyed hashes, as names
//! come from the image.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::names::{numbered, stem, versioned};

/// Of one directory. Records can share the place of a name, so the directory's size is no bound.
const NAMES_BYTES_MAX: usize = 64 << 20;
const FREE: u32 = u32::MAX;

/// What becomes of a repeated name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// Another object, which gets a number.
    Numbered,
    /// A newer version, which replaces the earlier one.
    Replaces,
    /// An older version, not shown.
    Dropped,
    /// The newer version has the name, the older one with its number: `name;1`.
    Versions {
        /// The later one is the newer.
        replaces: bool,
        /// The older one's number.
        older: u16,
    },
}

/// One name.
#[derive(Clone, Copy, Debug)]
pub struct Named<T> {
    /// What it stands for.
    pub value: T,
    name_start: u32,
    name_length: u8,
}

/// See the module.
#[derive(Debug)]
pub struct NameTable<T> {
    items: Vec<Named<T>>,
    names: Vec<u8>,
    /// Positions in `items`, or [`FREE`], a power of two of them.
    index: Vec<u32>,
    hasher: RandomState,
    ignores_case: bool,
}

impl<T: Copy> NameTable<T> {
    /// Without names. `ignores_case`: in lookups.
    #[must_use]
    pub fn new(ignores_case: bool) -> Self {
        Self {
            items: Vec::new(),
            names: Vec::new(),
            index: Vec::new(),
            hasher: RandomState::new(),
            ignores_case,
        }
    }

    /// Adds a name of at most 255 bytes; `None`: no space.
    pub fn push(&mut self, name: &[u8], value: T) -> Option<()> {
        let (name_start, name_length) = self.store(name)?;
        self.items.push(Named {
            value,
            name_start,
            name_length,
        });
        Some(())
    }

    /// Lets `change` write over each name; only before [`Self::finish`].
    pub fn change(&mut self, change: impl Fn(&T, &mut [u8])) {
        for item in &self.items {
            let start = item.name_start as usize;
            let range = start..start + usize::from(item.name_length);
            if let Some(name) = self.names.get_mut(range) {
                change(&item.value, name);
            }
        }
    }

    /// Builds the index and settles repeated names: `settle` gets the earlier and the later value.
    /// `None`: no space. To be called once, after all `push`.
    pub fn finish(&mut self, settle: impl Fn(&T, &T) -> Repeated) -> Option<()> {
        let pushed = std::mem::take(&mut self.items);
        let slots = (pushed.len() * 2).next_power_of_two().max(2);
        self.index = vec![FREE; slots];
        // By what a number leaves of the name: long names may differ only behind it.
        let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
        for mut item in pushed {
            if let Some(first) = self.find_exact(self.name_of(&item)) {
                match settle(&self.items[first].value, &item.value) {
                    Repeated::Replaces => {
                        self.items[first] = item;
                        continue;
                    }
                    Repeated::Dropped => continue,
                    Repeated::Numbered => {}
                    Repeated::Versions { replaces, older } => {
                        if replaces {
                            std::mem::swap(&mut self.items[first], &mut item);
                        }
                        let name = versioned(self.name_of(&item), older);
                        self.set_name(&mut item, &name)?;
                    }
                }
                if self.find_exact(self.name_of(&item)).is_some() {
                    let number = numbers.entry(stem(self.name_of(&item))).or_insert(1);
                    self.rename(&mut item, number)?;
                }
            }
            self.add(item);
        }
        self.items.shrink_to_fit();
        self.names.shrink_to_fit();
        Some(())
    }

    /// Takes the first free name after `number`.
    fn rename(&mut self, item: &mut Named<T>, number: &mut u32) -> Option<()> {
        loop {
            *number += 1;
            let name = numbered(self.name_of(item), *number);
            if self.find_exact(&name).is_none() {
                return self.set_name(item, &name);
            }
        }
    }

    fn set_name(&mut self, item: &mut Named<T>, name: &[u8]) -> Option<()> {
        (item.name_start, item.name_length) = self.store(name)?;
        Some(())
    }

    /// All names, in recorded order.
    #[must_use]
    pub fn items(&self) -> &[Named<T>] {
        &self.items
    }

    /// The name of an item of this table.
    #[must_use]
    pub fn name_of(&self, item: &Named<T>) -> &[u8] {
        let start = item.name_start as usize;
        self.names
            .get(start..start + usize::from(item.name_length))
            .unwrap_or(&[])
    }

    /// Finds a name; where case is ignored, an equal one before a similar one.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<&Named<T>> {
        let mut similar = None;
        for candidate in self.probe(name) {
            let item = self.items.get(candidate)?;
            let held = self.name_of(item);
            if held == name {
                return Some(item);
            }
            if similar.is_none() && self.ignores_case && held.eq_ignore_ascii_case(name) {
                similar = Some(item);
            }
        }
        similar
    }

    /// Removes one of [`Self::items`]; only before [`Self::finish`].
    pub fn remove(&mut self, index: usize) {
        self.items.remove(index);
    }

    /// About its memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.items.len() * size_of::<Named<T>>()
            + self.names.len()
            + self.index.len() * size_of::<u32>()
            + 64
    }

    fn find_exact(&self, name: &[u8]) -> Option<usize> {
        self.probe(name)
            .find(|candidate| self.name_of(&self.items[*candidate]) == name)
    }

    fn add(&mut self, item: Named<T>) {
        let position = u32::try_from(self.items.len()).unwrap_or(FREE);
        let mask = self.index.len() - 1;
        let mut slot = self.slot_of(self.name_of(&item));
        // At most half are taken.
        while self.index[slot] != FREE {
            slot = (slot + 1) & mask;
        }
        self.index[slot] = position;
        self.items.push(item);
    }

    /// Where `name` may be, first added first.
    fn probe(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        let start = self.slot_of(name);
        let mask = self.index.len().wrapping_sub(1);
        (0..self.index.len())
            .map(move |step| self.index[(start + step) & mask])
            .take_while(|position| *position != FREE)
            .map(|position| position as usize)
    }

    fn slot_of(&self, name: &[u8]) -> usize {
        let mask = self.index.len().wrapping_sub(1);
        let hash = if self.ignores_case {
            self.hasher.hash_one(&*name.to_ascii_lowercase())
        } else {
            self.hasher.hash_one(name)
        };
        hash as usize & mask
    }

    fn store(&mut self, name: &[u8]) -> Option<(u32, u8)> {
        if self.names.len() + name.len() > NAMES_BYTES_MAX {
            return None;
        }
        let start = u32::try_from(self.names.len()).ok()?;
        let length = u8::try_from(name.len()).ok()?;
        self.names.extend_from_slice(name);
        Some((start, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values are a version and the place in the list, from 1.
    fn table(names: &[(&str, u32)], ignores_case: bool) -> NameTable<(u32, u32)> {
        let mut table = NameTable::new(ignores_case);
        for (index, (name, version)) in (1u32..).zip(names) {
            table.push(name.as_bytes(), (*version, index)).unwrap();
        }
        let settle = |held: &(u32, u32), new: &(u32, u32)| match held.0.cmp(&new.0) {
            std::cmp::Ordering::Less => Repeated::Replaces,
            std::cmp::Ordering::Equal => Repeated::Numbered,
            std::cmp::Ordering::Greater => Repeated::Dropped,
        };
        table.finish(settle).unwrap();
        table
    }

    fn shown(table: &NameTable<(u32, u32)>) -> Vec<(String, u32)> {
        let all: Vec<(String, u32)> = table
            .items()
            .iter()
            .map(|item| {
                let name = String::from_utf8(table.name_of(item).to_vec()).unwrap();
                (name, item.value.1)
            })
            .collect();
        for (name, place) in &all {
            assert_eq!(table.find(name.as_bytes()).unwrap().value.1, *place);
        }
        all
    }

    fn owned(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
        expected
            .iter()
            .map(|(name, place)| ((*name).to_owned(), *place))
            .collect()
    }

    #[test]
    fn repeated_names_are_numbered_and_all_can_be_found() {
        let names = [
            ("a", 1),
            ("b", 1),
            ("a", 1),
            ("a~2", 1),
            ("a", 1),
            ("a~3", 1),
        ];
        let expected = [
            ("a", 1),
            ("b", 2),
            ("a~2", 3),
            ("a~2~2", 4),
            ("a~3", 5),
            ("a~3~2", 6),
        ];
        assert_eq!(shown(&table(&names, false)), owned(&expected));
        assert_eq!(shown(&table(&[], false)), []);
        assert!(table(&[], false).find(b"a").is_none());
    }

    #[test]
    fn a_name_like_the_generated_one_may_come_first() {
        let names = [("a~2", 1), ("a", 1), ("a", 1)];
        let expected = [("a~2", 1), ("a", 2), ("a~3", 3)];
        assert_eq!(shown(&table(&names, true)), owned(&expected));
    }

    #[test]
    fn a_newer_version_takes_the_place_of_an_older_one() {
        let names = [("a", 2), ("a", 10), ("b", 3), ("b", 1), ("a", 10)];
        let expected = [("a", 2), ("b", 3), ("a~2", 5)];
        assert_eq!(shown(&table(&names, true)), owned(&expected));
    }

    #[test]
    fn case_is_ignored_only_where_it_should_be() {
        let names = [("Read", 1), ("READ", 1), ("x", 1)];
        let folding = table(&names, true);
        assert_eq!(folding.find(b"READ").unwrap().value.1, 2);
        assert_eq!(folding.find(b"read").unwrap().value.1, 1);
        assert_eq!(shown(&folding).len(), 3);
        assert!(table(&names, false).find(b"read").is_none());
    }

    #[test]
    fn many_repeated_names_that_differ_at_their_ends_are_settled_quickly() {
        let name = |number: u32| {
            let last = char::from_u32(0x4e00 + number).unwrap();
            format!("{}{last}", "x".repeat(252))
        };
        let names: Vec<_> = (0..20_000).map(name).collect();
        let twice = names.iter().chain(&names);
        let pairs: Vec<_> = twice.map(|name| (name.as_str(), 1)).collect();
        let all = shown(&table(&pairs, false));
        let last = format!("{}~20001", "x".repeat(249));
        assert_eq!(all.last().unwrap().0, last);
    }

    #[test]
    fn many_equal_names_are_settled_quickly() {
        let names = vec![("same", 1); 20_000];
        let all = shown(&table(&names, false));
        assert_eq!(all.last().unwrap().0, "same~20000");
    }
}
