//! Objects as they are kept in memory: all that one sector of a directory records, together.
//!
//! **Problem.** A program that lists a directory or reads its files asks for one object after the
//! other, in the order of the records. Kept one by one, each object costs a place in a map, a piece
//! of memory of its own and the eviction of an older one: of 50,000 files that were read once, this
//! was half of the processor's work.
//!
//! **Rule.** A record is read with its neighbours. Its sector, which had to be fetched anyway, is
//! read to the end of the sector, and the objects whose records begin there are one piece of the
//! cache. Nothing behind the sector is read, but for the rest of a run of records that begins in
//! it. A directory is named by its own extent and is a group of one.
//!
//! ```text
//! sector of records   |a|b|c |d|e|f   |    -> group [a b c d e f], found by the sector's place
//! ```
//!
//! A run of records that began in an earlier sector does no harm: what is read from the middle of
//! a run agrees with what is read from its start at the first record that is of another object.
//! A record that cannot be read is left out of the group: the others do not suffer. It alone is
//! read again, by itself, each time that it is asked for.
//!
//! Weakness: one object out of a sector that is never used again costs the reading of its
//! neighbours: about fifteen records in a Rock Ridge tree, and their continuation areas.

use std::ops::Deref;
use std::sync::Arc;

use super::file_id::{Object, RecordPlace};
use super::node::Node;
use super::volume::SECTOR_BYTES;

const SECTOR: u64 = SECTOR_BYTES as u64;

/// Objects that are kept together, in the order of their places.
#[derive(Debug)]
pub(super) struct Group {
    members: Vec<(Object, Node)>,
}

impl Group {
    pub(super) fn new(members: Vec<(Object, Node)>) -> Self {
        Self { members }
    }

    fn find(&self, object: Object) -> Option<usize> {
        let place = object.place();
        let found = self
            .members
            .binary_search_by_key(&place, |(member, _)| member.place());
        found.ok().filter(|index| self.members[*index].0 == object)
    }

    /// Bytes it takes in memory, nearly.
    pub(super) fn memory_bytes(&self) -> usize {
        let nodes = self.members.iter().map(|(_, node)| node.memory_bytes());
        self.members.len() * size_of::<Object>() + nodes.sum::<usize>() + 64
    }
}

/// What names the group of an object: a directory itself, else the start of the sector that its
/// record is in. `None` when the record is not in its directory.
pub(super) fn key_of(object: Object) -> Option<Object> {
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

/// An object in a group, which stays in memory as long as this.
#[derive(Clone, Debug)]
pub(super) struct Found {
    group: Arc<Group>,
    index: usize,
}

impl Found {
    /// An object that is kept by nobody else.
    pub(super) fn alone(object: Object, node: Node) -> Self {
        Self {
            group: Arc::new(Group::new(vec![(object, node)])),
            index: 0,
        }
    }

    /// `object`, when it is in `group`.
    pub(super) fn inside(group: Arc<Group>, object: Object) -> Option<Self> {
        let index = group.find(object)?;
        Some(Self { group, index })
    }

    /// Goes to `object` when it is in the same group, likely just behind; false when it is not.
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

impl Deref for Found {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.group.members[self.index].1
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Sections;
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
            compressed: false,
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
            let found = Found::inside(group.clone(), object(at)).unwrap();
            assert_eq!(found.attributes.file_id, at);
        }
        assert!(Found::inside(group.clone(), object(41)).is_none());
        let other_kind = Object::EmptyDirectory(place(10_040));
        assert!(Found::inside(group.clone(), other_kind).is_none());
        let mut near = Found::inside(group, object(0)).unwrap();
        for at in [40, 0, 80, 80] {
            assert!(near.go_on_to(object(at)));
            assert_eq!(near.attributes.file_id, at);
        }
        assert!(!near.go_on_to(object(120)));
        assert_eq!(near.attributes.file_id, 80, "stays where it was");
    }
}
