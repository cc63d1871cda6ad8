//! From places to objects: reads records, and caches all objects of a directory's sector together.
//!
//! **Problem.** Objects are used in the order of the records. Cached singly, each costs a map
//! entry, an allocation and an eviction: a half of the processor time for 50,000 files read once.
//!
//! **Rule.** A record is read with its neighbours: its sector is read to the end, and the objects
//! whose records begin there are one piece of the cache. Nothing behind the sector is read, except
//! the rest of a run of records. A directory is a group of one.
//!
//! ```text
//! sector of records   |a|b|c |d|e|f   |    -> group [a b c d e f], found by the sector's place
//! ```
//!
//! Reading from the middle of a run of records meets the next object at the same record. An
//! unreadable record is read again, alone, at each use.
//!
//! Weakness: one object costs the reading of some fifteen neighbours and their continuation areas.

use std::ops::Deref;
use std::sync::Arc;

use pagewell_fs::{Error, FileType, Result};

use super::super::charset::decoded;
use super::super::checks;
use super::super::file_id::{Object, RecordPlace};
use super::super::node::{Node, Recorded, Sections, attributes};
use super::super::number::of_place;
use super::super::read::length_bytes;
use super::super::record::{IDENTIFIER_PARENT, IDENTIFIER_SELF, Record};
use super::super::volume::SECTOR_BYTES;
use super::{DIRECTORY_BYTES_MAX, OBJECT_CONTINUATION_BYTES, Tree};

const SECTOR: u64 = SECTOR_BYTES as u64;
/// Records in a sector of a Rock Ridge tree; other trees have more.
const SECTOR_OBJECTS: usize = 15;

#[derive(Debug)]
pub(super) struct Group {
    members: Vec<(Object, Node)>,
}

impl Group {
    fn new(members: Vec<(Object, Node)>) -> Self {
        Self { members }
    }

    fn find(&self, object: Object) -> Option<usize> {
        let place = object.place();
        let found = self
            .members
            .binary_search_by_key(&place, |(member, _)| member.place());
        found.ok().filter(|index| self.members[*index].0 == object)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let nodes = self.members.iter().map(|(_, node)| node.memory_bytes());
        self.members.len() * size_of::<Object>() + nodes.sum::<usize>() + 64
    }
}

/// The key of an object's group: a directory itself, else the start of its record's sector. `None`
/// when the record is not in its directory.
fn key_of(object: Object) -> Option<Object> {
    match object {
        Object::Directory(_) => Some(object),
        Object::File(place) | Object::EmptyDirectory(place) => {
            let offset = place.position.checked_sub(place.directory)?;
            Some(Object::File(RecordPlace {
                position: place.position - offset % SECTOR,
                directory: place.directory,
            }))
        }
    }
}

/// An object in a group, which it keeps in memory.
#[derive(Clone, Debug)]
pub(crate) struct FoundNode {
    group: Arc<Group>,
    index: usize,
}

impl FoundNode {
    fn alone(object: Object, node: Node) -> Self {
        Self {
            group: Arc::new(Group::new(vec![(object, node)])),
            index: 0,
        }
    }

    fn inside(group: Arc<Group>, object: Object) -> Option<Self> {
        let index = group.find(object)?;
        Some(Self { group, index })
    }

    /// Moves on to `object` if it is in the same group, probably as the next one.
    pub(super) fn go_on_to(&mut self, object: Object) -> bool {
        let next = self.index + 1;
        let behind = self.group.members.get(next);
        let index = if behind.is_some_and(|(member, _)| *member == object) {
            Some(next)
        } else {
            self.group.find(object)
        };
        self.index = index.unwrap_or(self.index);
        index.is_some()
    }
}

impl Deref for FoundNode {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.group.members[self.index].1
    }
}

impl Tree {
    pub(super) fn node(&self, object: Object, may_block: bool) -> Result<Option<FoundNode>> {
        let Some(key) = key_of(object) else {
            return Ok(None);
        };
        let group = match self.groups.get(key) {
            Some(group) => group,
            None => match self.group(object, may_block)? {
                Some(group) => {
                    let bytes = group.memory_bytes();
                    self.groups.insert(key, group, bytes)
                }
                None => return Ok(None),
            },
        };
        if let Some(found) = FoundNode::inside(group, object) {
            return Ok(Some(found));
        }
        let node = match object {
            Object::Directory(_) => None,
            Object::File(place) | Object::EmptyDirectory(place) => {
                self.record_node(object, place, may_block)?
            }
        };
        Ok(node.map(|node| FoundNode::alone(object, node)))
    }

    fn group(&self, object: Object, may_block: bool) -> Result<Option<Group>> {
        match object {
            Object::Directory(position) => {
                let node = self.directory_node(position, may_block)?;
                Ok(node.map(|node| Group::new(vec![(object, node)])))
            }
            Object::File(place) | Object::EmptyDirectory(place) => {
                self.sector_group(place, may_block)
            }
        }
    }

    /// The objects whose records begin in the sector of `place`; `None` when that is not in the
    /// directory.
    fn sector_group(&self, place: RecordPlace, may_block: bool) -> Result<Option<Group>> {
        let Some((length, offset)) = self.offset_of(place, may_block)? else {
            return Ok(None);
        };
        let start = offset - offset % SECTOR;
        let mut members = Vec::with_capacity(SECTOR_OBJECTS);
        let mut reader = self.reader(place.directory, (length, start), may_block);
        loop {
            let before = reader.cursor.offset();
            // Each record has its own budget: neighbours must not change its meaning.
            reader.continuation.refill(OBJECT_CONTINUATION_BYTES);
            let recorded = match reader.next_before(start + SECTOR) {
                Ok(Some(recorded)) => recorded,
                Ok(None) => break,
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Err(error) if before == reader.cursor.offset() => return Err(error),
                // Those behind it may be readable.
                Err(_) => continue,
            };
            let object = recorded.object(&self.volume, place.directory);
            if !matches!(object, Object::Directory(_)) {
                members.push((object, self.file_node(recorded, place.directory)));
            }
        }
        members.shrink_to_fit();
        Ok(Some(Group::new(members)))
    }

    /// Calls `visit` for each system use entry of an object: of a subdirectory, in its parent.
    pub(crate) fn visit_entries(
        &self,
        object: Object,
        may_block: bool,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let place = match object {
            Object::File(place) | Object::EmptyDirectory(place) => Some(place),
            Object::Directory(position) if position == self.root => None,
            Object::Directory(position) => {
                let node = self.examine(object, may_block)?;
                let directory = self.parent_of(position, &node);
                let parent = self.directory(directory, may_block)?;
                // A parent that does not have it has no entries of it.
                let Some(offset) = parent.record_of(position) else {
                    return Ok(());
                };
                Some(RecordPlace {
                    position: directory + offset,
                    directory,
                })
            }
        };
        let (start, range) = match place {
            None => (self.root, (SECTOR, 0)),
            Some(place) => match self.offset_of(place, may_block)? {
                Some(range) => (place.directory, range),
                None => return Ok(()),
            },
        };
        let mut reader = self.reader(start, range, may_block);
        if place.is_none() {
            reader.skip = self.skips.map(|skips| skips.root);
        }
        match reader.cursor.next_before(range.1 + 1)? {
            Some((_, record)) => reader.visit(&record, visit),
            None => Ok(()),
        }
    }

    /// Calls `visit` for each system use entry of the first records of the root directory, and once
    /// without an entry for each associated file.
    pub(crate) fn visit_root(
        &self,
        records_max: usize,
        visit: &mut dyn FnMut(bool, &[u8]),
    ) -> Result<()> {
        let length = self
            .examine(Object::Directory(self.root), true)?
            .attributes
            .size;
        let mut reader = self.reader(self.root, (length, 0), true);
        reader.skip = self.skips.map(|skips| skips.root);
        for _ in 0..records_max {
            let Some((_, record)) = reader.cursor.next()? else {
                break;
            };
            if record.is_associated() {
                visit(true, &[]);
            }
            reader.visit(&record, &mut |entry| visit(false, entry))?;
            reader.skip = self.skips.map(|skips| skips.others);
        }
        Ok(())
    }

    /// The sections of a file's associated file, whose records come directly before.
    pub(crate) fn associated_sections(
        &self,
        place: RecordPlace,
        may_block: bool,
    ) -> Result<Option<Sections>> {
        let Some((length, offset)) = self.offset_of(place, may_block)? else {
            return Ok(None);
        };
        // In its sector or the one before.
        let start = (offset - offset % SECTOR).saturating_sub(SECTOR);
        let mut reader = self.reader(place.directory, (length, start), may_block);
        let mut found: Option<(Record, Sections)> = None;
        while let Some((_, record)) = reader.cursor.next_before(offset)? {
            if !record.is_associated() {
                found = None;
                continue;
            }
            let (first, mut sections) = match found.take() {
                Some((first, sections)) if first.identifier() == record.identifier() => {
                    (first, sections)
                }
                _ => (record.clone(), Sections::None),
            };
            let file_offset = length_bytes(&sections);
            sections.push(reader.section(&record, file_offset));
            found = Some((first, sections));
        }
        let own = reader.cursor.next_before(offset + 1)?;
        let is_own = |(first, _): &(Record, Sections)| {
            own.is_some_and(|(_, own)| own.identifier() == first.identifier())
        };
        Ok(found.filter(is_own).map(|(_, sections)| sections))
    }

    /// The length of the directory of `place`, and the offset there; `None` when it is not inside,
    /// or the directory is unreadable.
    fn offset_of(&self, place: RecordPlace, may_block: bool) -> Result<Option<(u64, u64)>> {
        let Some(parent) = self.node(Object::Directory(place.directory), may_block)? else {
            return Ok(None);
        };
        let length = parent.attributes.size;
        let readable =
            length <= DIRECTORY_BYTES_MAX && self.volume.contains(place.directory, length);
        let inside = |offset: &u64| readable && *offset < length;
        let offset = place.position.checked_sub(place.directory).filter(inside);
        Ok(offset.map(|offset| (length, offset)))
    }

    /// The directory whose own record is at `position`, if there is one. Some writers' own records
    /// lead elsewhere, and are right otherwise.
    fn directory_node(&self, position: u64, may_block: bool) -> Result<Option<Node>> {
        let volume = &self.volume;
        let there = volume.length_bytes.saturating_sub(position);
        let mut reader = self.reader(position, (there.min(SECTOR_BYTES as u64), 0), may_block);
        let Some((0, own)) = reader.cursor.next()? else {
            return Ok(None);
        };
        let is_root = position == self.root;
        let refers_to_itself = own.data_position(volume) == position;
        let may_be_its_own = refers_to_itself || is_root || own.is_directory();
        if own.identifier() != IDENTIFIER_SELF || !may_be_its_own {
            return Ok(None);
        }
        if volume.is_checked() {
            checks::record(volume, position, &own);
            if !refers_to_itself {
                let text = "a directory's record of itself leads elsewhere";
                volume.note(position, "ECMA-119 6.8.2.2", text);
            }
        }
        let length = if is_root && !refers_to_itself {
            self.root_length
        } else {
            own.data_length(volume)
        };
        if is_root {
            reader.skip = self.skips.map(|skips| skips.root);
        }
        let found = reader.rock_ridge(&own)?;
        let mut shape = attributes(
            volume,
            &own,
            found.as_ref(),
            (of_place(position), u64::from(length)),
        );
        shape.file_type = FileType::Directory;
        shape.size = u64::from(length);
        let parent = match reader.cursor.next()? {
            _ if is_root => self.root,
            Some((_, second)) if second.identifier() == IDENTIFIER_PARENT => {
                let moved = reader.rock_ridge(&second)?;
                moved
                    .and_then(|found| found.parent)
                    .map_or(second.data_position(volume), |block| {
                        volume.block_position(block)
                    })
            }
            _ => position,
        };
        Ok(Some(Node {
            attributes: shape,
            sections: Sections::None,
            target: None,
            defect: None,
            compression: None,
            shared: None,
            parent,
        }))
    }

    fn record_node(
        &self,
        object: Object,
        place: RecordPlace,
        may_block: bool,
    ) -> Result<Option<Node>> {
        let Some((length, offset)) = self.offset_of(place, may_block)? else {
            return Ok(None);
        };
        let mut reader = self.reader(place.directory, (length, offset), may_block);
        let Some(recorded) = reader.next_before(offset + 1)? else {
            return Ok(None);
        };
        if recorded.object(&self.volume, place.directory) != object {
            return Ok(None);
        }
        Ok(Some(self.file_node(recorded, place.directory)))
    }

    fn file_node(&self, recorded: Recorded, directory: u64) -> Node {
        let shared = recorded.shared(&self.volume);
        let own = of_place(directory + recorded.offset);
        let number = shared.map_or(own, |shared| shared.number);
        let found = recorded.rock_ridge.as_ref();
        let recorded_bytes = recorded.size();
        let mut attributes = attributes(
            &self.volume,
            &recorded.record,
            found,
            (number, recorded_bytes),
        );
        let compression = found.and_then(|found| found.compression).filter(|found| {
            let is_file = attributes.file_type == FileType::Regular;
            is_file && found.fits(recorded_bytes) && !self.options.keeps_compressed
        });
        attributes.size = compression.map_or(attributes.size, |found| found.size());
        let unknown = compression.filter(|found| !found.is_known());
        let unknown = unknown.map(|_| "its compression is not zlib's, and not supported");
        let target = found
            .filter(|_| attributes.file_type == FileType::Symlink)
            .and_then(|found| found.target()?)
            .map(|target| decoded(target, self.options.charset).into_owned());
        if let Some(target) = &target {
            attributes.size = target.len() as u64;
        }
        Node {
            attributes,
            target,
            defect: recorded.defect.or(unknown),
            compression,
            parent: directory,
            shared: shared.map(|shared| shared.key),
            sections: recorded.sections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::{Attributes, FileType, Timestamp};

    fn node(file_id: u64) -> Node {
        let never = Timestamp::default();
        Node {
            attributes: Attributes {
                file_type: FileType::Regular,
                mode: 0,
                link_count: 1,
                uid: 0,
                gid: 0,
                size: 0,
                used: 0,
                device: (0, 0),
                filesystem_id: 0,
                file_id,
                accessed: never,
                modified: never,
                changed: never,
                may_be_kept: true,
            },
            sections: Sections::default(),
            target: None,
            defect: None,
            compression: None,
            shared: None,
            parent: 0,
        }
    }

    fn place(position: u64) -> RecordPlace {
        let directory = 5 * SECTOR + 512;
        RecordPlace {
            position,
            directory,
        }
    }

    #[test]
    fn records_of_one_sector_of_a_directory_have_one_group() {
        let start = place(0).directory;
        let key = |position| key_of(Object::File(place(position)));
        let first = key(start);
        assert_eq!(first, Some(Object::File(place(start))));
        assert_eq!(key(start + SECTOR - 1), first);
        assert_eq!(key_of(Object::EmptyDirectory(place(start + 40))), first);
        assert_eq!(
            key(start + SECTOR),
            Some(Object::File(place(start + SECTOR)))
        );
        assert_eq!(key(start - 1), None, "before its directory");
        let own = Object::Directory(7);
        assert_eq!(key_of(own), Some(own));
    }

    #[test]
    fn members_are_found_by_place_and_kind() {
        let member = |at: u64| (Object::File(place(10_000 + at)), node(at));
        let group = Arc::new(Group::new([0, 40, 80].map(member).into()));
        let object = |at| member(at).0;
        for at in [0, 40, 80] {
            let found = FoundNode::inside(group.clone(), object(at)).unwrap();
            assert_eq!(found.attributes.file_id, at);
        }
        assert!(FoundNode::inside(group.clone(), object(41)).is_none());
        let other_kind = Object::EmptyDirectory(place(10_040));
        assert!(FoundNode::inside(group.clone(), other_kind).is_none());
        let mut near = FoundNode::inside(group, object(0)).unwrap();
        for at in [40, 0, 80, 80] {
            assert!(near.go_on_to(object(at)));
            assert_eq!(near.attributes.file_id, at);
        }
        assert!(!near.go_on_to(object(120)));
        assert_eq!(near.attributes.file_id, 80, "stays where it was");
    }
}
