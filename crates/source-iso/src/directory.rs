//! A parsed directory: its names in recorded order, and where their objects are. Of several
//! versions of a file the highest is shown, or all; other repeated names are numbered
//! ([`NameTable`]).

use std::ops::Deref;

use pagewell_source_bytes::{NameTable, Named, Repeated};

use super::file_id::{Object, RecordPlace};
use super::names::Name;
use super::options::Case;

#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// First byte of a directory's extent; the inode number of another object.
    place: u64,
    record_offset: u32,
    version: u16,
    kind: ItemKind,
    /// [`Name::is_plain`].
    is_plain: bool,
}

pub(super) type Item = Named<Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Directory,
    EmptyDirectory,
    File,
}

#[derive(Debug)]
pub(super) struct Directory {
    position: u64,
    names: NameTable<Value>,
}

impl Directory {
    /// `ignores_case`: in lookups.
    pub(super) fn new(position: u64, ignores_case: bool) -> Self {
        Self {
            position,
            names: NameTable::new(ignores_case),
        }
    }

    /// Adds a name; `None` without space for it. `place` is the first byte of a directory's extent,
    /// or the inode number of another object.
    pub(super) fn push(
        &mut self,
        name: &Name,
        kind: ItemKind,
        record_offset: u32,
        place: u64,
    ) -> Option<()> {
        let value = Value {
            place,
            record_offset,
            version: u16::try_from(name.version).unwrap_or(u16::MAX),
            kind,
            is_plain: name.is_plain,
        };
        self.names.push(&name.bytes, value)
    }

    /// Offset of the record of the subdirectory whose extent begins at `position`.
    pub(super) fn record_of(&self, position: u64) -> Option<u64> {
        let is_it =
            |item: &&Item| item.value.kind == ItemKind::Directory && item.value.place == position;
        let found = self.items().iter().find(is_it);
        found.map(|item| u64::from(item.value.record_offset))
    }

    pub(super) fn has_small_letters(&self) -> bool {
        let plain = self.items().iter().filter(|item| item.value.is_plain);
        let mut bytes = plain.flat_map(|item| self.name_of(item));
        bytes.any(u8::is_ascii_lowercase)
    }

    /// Changes the letters of plain names; only before [`Self::finish`].
    pub(super) fn show_plain(&mut self, case: Case) {
        let change = match case {
            Case::Lower => <[u8]>::make_ascii_lowercase,
            Case::Upper => <[u8]>::make_ascii_uppercase,
            Case::Automatic | Case::Keep => return,
        };
        self.names.change(|value, name| {
            if value.is_plain {
                change(name);
            }
        });
    }

    /// Builds the index and renames repeated names, whose records are `repeated`; `None` without
    /// space. Called once, after the last `push`.
    pub(super) fn finish(&mut self, all_versions: bool, repeated: impl Fn(u64)) -> Option<()> {
        let position = self.position;
        self.names.finish(|held, new| {
            let are_files = held.kind == ItemKind::File && new.kind == ItemKind::File;
            if !are_files || held.version == new.version {
                repeated(position + u64::from(new.record_offset));
                Repeated::Numbered
            } else if all_versions {
                Repeated::Versions {
                    replaces: held.version < new.version,
                    older: held.version.min(new.version),
                }
            } else if held.version < new.version {
                Repeated::Replaces
            } else {
                Repeated::Dropped
            }
        })
    }

    pub(super) fn object_of(&self, item: &Item) -> Object {
        let value = item.value;
        let place = RecordPlace {
            position: self.position + u64::from(value.record_offset),
            directory: self.position,
        };
        match value.kind {
            ItemKind::Directory => Object::Directory(value.place),
            ItemKind::EmptyDirectory => Object::EmptyDirectory(place),
            ItemKind::File => Object::File(place),
        }
    }

    pub(super) fn number_of(&self, item: &Item) -> u64 {
        match item.value.kind {
            ItemKind::Directory => self.object_of(item).number(),
            ItemKind::EmptyDirectory | ItemKind::File => item.value.place,
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.names.remove(index);
    }
}

impl Deref for Directory {
    type Target = NameTable<Value>;
    fn deref(&self) -> &NameTable<Value> {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_a_file_is_shown() {
        let mut directory = Directory::new(4096, true);
        let kinds = [ItemKind::File, ItemKind::File, ItemKind::Directory];
        for (index, (kind, version)) in (1u32..).zip(kinds.into_iter().zip([2, 10, 3])) {
            let name = Name {
                bytes: b"a".to_vec(),
                version,
                is_plain: true,
            };
            directory
                .push(&name, kind, index * 40, u64::from(index) * 32)
                .unwrap();
        }
        directory.finish(false, |_| ()).unwrap();
        let shown: Vec<_> = directory
            .items()
            .iter()
            .map(|item| (directory.name_of(item), directory.number_of(item)))
            .collect();
        assert_eq!(shown, [(&b"a"[..], 64), (b"a~2", 3)]);
        let file = directory.find(b"a").unwrap();
        let place = RecordPlace {
            position: 4096 + 80,
            directory: 4096,
        };
        assert_eq!(directory.object_of(file), Object::File(place));
    }
}
