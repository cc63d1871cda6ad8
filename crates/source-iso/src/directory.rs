//! A parsed directory: its names in recorded order, and an index over them.
//!
//! It keeps only the name, the inode number and the place of each record, so that it takes less
//! memory than its records in the image; attributes are read from the record on demand.
//!
//! Repeated names: with the same file version, the first is found by the name and the later ones
//! are shown as `name~2`, `name~3`..., so that all data can be reached and every listed name can be
//! looked up. Of several versions of a file the highest is shown.
//!
//! The index is open addressing with linear probing, at most half full, with keyed hashes, because
//! names come from the image.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use super::file_id::{Object, RecordPlace};
use super::names::{Name, numbered, stem};
use super::options::Case;

/// Bytes of all names of one directory. Records can share the place of a name of 255 bytes, so the
/// size of the directory is no bound.
const NAMES_BYTES_MAX: usize = 64 << 20;
const FREE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// [`pagewell_fs::Attributes::file_id`].
    pub(super) file_id: u64,
    record_offset: u32,
    name_start: u32,
    name_length: u8,
    kind: ItemKind,
    version: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// `file_id` is the first byte of its extent.
    Directory,
    EmptyDirectory,
    File,
}

/// All names of a directory except `.` and `..`.
#[derive(Debug)]
pub(super) struct Directory {
    /// First byte of its extent.
    position: u64,
    items: Vec<Item>,
    names: Vec<u8>,
    /// Places of plain names in `names`, in order, neighbours joined; until [`Self::finish`].
    plain: Vec<Range<usize>>,
    /// Positions in `items`, or [`FREE`]; the length is a power of two.
    index: Vec<u32>,
    hasher: RandomState,
    ignores_case: bool,
}

impl Directory {
    /// `ignores_case` is for lookups only.
    pub(super) fn new(position: u64, ignores_case: bool) -> Self {
        Self {
            position,
            items: Vec::new(),
            names: Vec::new(),
            plain: Vec::new(),
            index: Vec::new(),
            hasher: RandomState::new(),
            ignores_case,
        }
    }

    /// Adds a name; `None` without space for it.
    pub(super) fn push(
        &mut self,
        name: &Name,
        kind: ItemKind,
        record_offset: u32,
        file_id: u64,
    ) -> Option<()> {
        let (name_start, name_length) = self.store(&name.bytes)?;
        if name.is_plain {
            let end = self.names.len();
            match self.plain.last_mut() {
                Some(last) if last.end == name_start as usize => last.end = end,
                _ => self.plain.push(name_start as usize..end),
            }
        }
        self.items.push(Item {
            file_id,
            record_offset,
            name_start,
            name_length,
            kind,
            version: u16::try_from(name.version).unwrap_or(u16::MAX),
        });
        Some(())
    }

    /// Whether a plain name has a small letter.
    pub(super) fn has_small_letters(&self) -> bool {
        let names = self
            .plain
            .iter()
            .filter_map(|range| self.names.get(range.clone()));
        names.flatten().any(u8::is_ascii_lowercase)
    }

    /// Shows plain names so; only before [`Self::finish`].
    pub(super) fn show_plain(&mut self, case: Case) {
        let change = match case {
            Case::Lower => <[u8]>::make_ascii_lowercase,
            Case::Upper => <[u8]>::make_ascii_uppercase,
            Case::Automatic | Case::Keep => return,
        };
        for range in std::mem::take(&mut self.plain) {
            self.names.get_mut(range).map(change);
        }
    }

    /// Builds the index and renames repeated names; `None` without space. To be called once, after
    /// the last `push`.
    pub(super) fn finish(&mut self) -> Option<()> {
        let pushed = std::mem::take(&mut self.items);
        let slots = (pushed.len() * 2).next_power_of_two().max(2);
        self.index = vec![FREE; slots];
        // By the name's part before a number: long names may differ only behind it, and none should
        // try the numbers of the others again.
        let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
        for mut item in pushed {
            if let Some(first) = self.find_exact(self.name_of(&item)) {
                let held = &mut self.items[first];
                let are_files = held.kind == ItemKind::File && item.kind == ItemKind::File;
                if are_files && held.version != item.version {
                    if held.version < item.version {
                        *held = item;
                    }
                    continue;
                }
                let number = numbers.entry(stem(self.name_of(&item))).or_insert(1);
                self.rename(&mut item, number)?;
            }
            self.add(item);
        }
        self.plain = Vec::new();
        self.items.shrink_to_fit();
        self.names.shrink_to_fit();
        Some(())
    }

    /// Renames `item` to the first free name after `number`.
    fn rename(&mut self, item: &mut Item, number: &mut u32) -> Option<()> {
        loop {
            *number += 1;
            let name = numbered(self.name_of(item), *number);
            if self.find_exact(&name).is_none() {
                (item.name_start, item.name_length) = self.store(&name)?;
                return Some(());
            }
        }
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(super) fn name_of(&self, item: &Item) -> &[u8] {
        let start = item.name_start as usize;
        self.names
            .get(start..start + usize::from(item.name_length))
            .unwrap_or(&[])
    }

    pub(super) fn object_of(&self, item: &Item) -> Object {
        let place = RecordPlace {
            position: self.position + u64::from(item.record_offset),
            directory: self.position,
        };
        match item.kind {
            ItemKind::Directory => Object::Directory(item.file_id),
            ItemKind::EmptyDirectory => Object::EmptyDirectory(place),
            ItemKind::File => Object::File(place),
        }
    }

    /// Finds a shown name; where case is ignored, an equal one before a similar one.
    pub(super) fn find(&self, name: &[u8]) -> Option<&Item> {
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

    /// Removes the name at `index` of [`Self::items`]; only before [`Self::finish`].
    pub(super) fn remove(&mut self, index: usize) {
        self.items.remove(index);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.items.len() * size_of::<Item>()
            + self.names.len()
            + self.index.len() * size_of::<u32>()
            + 64
    }

    fn find_exact(&self, name: &[u8]) -> Option<usize> {
        self.probe(name)
            .find(|candidate| self.name_of(&self.items[*candidate]) == name)
    }

    fn add(&mut self, item: Item) {
        let position = u32::try_from(self.items.len()).unwrap_or(FREE);
        let mask = self.index.len() - 1;
        let mut slot = self.slot_of(self.name_of(&item));
        // At most half of the slots are taken.
        while self.index[slot] != FREE {
            slot = (slot + 1) & mask;
        }
        self.index[slot] = position;
        self.items.push(item);
    }

    /// Positions of candidates for `name`, first added first.
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
        // Any bits serve.
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

    fn directory(names: &[(&str, u32)], ignores_case: bool) -> Directory {
        let mut directory = Directory::new(4096, ignores_case);
        for (index, (name, version)) in (1u32..).zip(names) {
            let name = Name {
                bytes: name.as_bytes().to_vec(),
                version: *version,
                is_plain: true,
            };
            let id = u64::from(index);
            directory
                .push(&name, ItemKind::File, index * 40, id)
                .unwrap();
        }
        directory.finish().unwrap();
        directory
    }

    fn shown(directory: &Directory) -> Vec<(String, u64)> {
        let all: Vec<(String, u64)> = directory
            .items()
            .iter()
            .map(|item| {
                let name = String::from_utf8(directory.name_of(item).to_vec()).unwrap();
                (name, item.file_id)
            })
            .collect();
        for (name, id) in &all {
            assert_eq!(directory.find(name.as_bytes()).unwrap().file_id, *id);
        }
        all
    }

    fn owned(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
        expected
            .iter()
            .map(|(name, id)| ((*name).to_owned(), *id))
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
        assert_eq!(shown(&directory(&names, false)), owned(&expected));
        assert_eq!(shown(&directory(&[], false)), []);
        assert!(directory(&[], false).find(b"a").is_none());
    }

    #[test]
    fn a_name_like_the_generated_one_may_come_first() {
        let names = [("a~2", 1), ("a", 1), ("a", 1)];
        let expected = [("a~2", 1), ("a", 2), ("a~3", 3)];
        assert_eq!(shown(&directory(&names, true)), owned(&expected));
    }

    #[test]
    fn the_highest_version_is_shown() {
        let names = [("a", 2), ("a", 10), ("b", 3), ("b", 1), ("a", 10)];
        let expected = [("a", 2), ("b", 3), ("a~2", 5)];
        assert_eq!(shown(&directory(&names, true)), owned(&expected));
    }

    #[test]
    fn case_is_ignored_only_where_it_should_be() {
        let names = [("Read", 1), ("READ", 1), ("x", 1)];
        let folding = directory(&names, true);
        assert_eq!(folding.find(b"READ").unwrap().file_id, 2);
        assert_eq!(folding.find(b"read").unwrap().file_id, 1);
        assert_eq!(shown(&folding).len(), 3);
        assert!(directory(&names, false).find(b"read").is_none());
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
        let all = shown(&directory(&pairs, false));
        let last = format!("{}~20001", "x".repeat(249));
        assert_eq!(all.last().unwrap().0, last);
    }

    #[test]
    fn many_equal_names_are_settled_quickly() {
        let names = vec![("same", 1); 20_000];
        let all = shown(&directory(&names, false));
        assert_eq!(all.last().unwrap().0, "same~20000");
    }
}
