//! From places to objects: reads the records that a place names, and keeps what it read.

use pagewell_fs::{Error, FileType, Result};

use super::super::file_id::{Object, RecordPlace};
use super::super::group::{self, Found, Group};
use super::super::node::{Node, Recorded, Sections, attributes};
use super::super::record::{IDENTIFIER_PARENT, IDENTIFIER_SELF};
use super::super::volume::SECTOR_BYTES;
use super::{DIRECTORY_BYTES_MAX, OBJECT_CONTINUATION_BYTES, Tree};

/// Records in a sector of a Rock Ridge tree, about: a first guess, others have more.
const SECTOR_OBJECTS: usize = 15;

impl Tree {
    /// The object at a place; `None` when there is none.
    pub(super) fn node(&self, object: Object, may_block: bool) -> Result<Option<Found>> {
        let Some(key) = group::key_of(object) else {
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
        if let Some(found) = Found::inside(group, object) {
            return Ok(Some(found));
        }
        // No record begins there, or it is one that cannot be read.
        let node = match object {
            Object::Directory(_) => None,
            Object::File(place) | Object::EmptyDirectory(place) => {
                self.record_node(object, place, may_block)?
            }
        };
        Ok(node.map(|node| Found::alone(object, node)))
    }

    /// All that is kept together with `object`.
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

    /// The objects whose records begin in the sector in which `place` is; `None` when that is
    /// not in the directory.
    fn sector_group(&self, place: RecordPlace, may_block: bool) -> Result<Option<Group>> {
        const SECTOR: u64 = SECTOR_BYTES as u64;
        let Some((length, offset)) = self.offset_of(place, may_block)? else {
            return Ok(None);
        };
        let start = offset - offset % SECTOR;
        let mut members = Vec::with_capacity(SECTOR_OBJECTS);
        let mut reader = self.reader(place.directory, (length, start), may_block);
        loop {
            let before = reader.cursor.offset();
            // Each has its own, as when it is read alone: what a record says must not depend on
            // its neighbours.
            reader.continuation.refill(OBJECT_CONTINUATION_BYTES);
            let recorded = match reader.next_before(start + SECTOR) {
                Ok(Some(recorded)) => recorded,
                Ok(None) => break,
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Err(error) if before == reader.cursor.offset() => return Err(error),
                // It cannot be read; those behind it may.
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

    /// The length of the directory of `place`, and how far in `place` is; `None` when it is not
    /// inside, or when there is no directory that can be read.
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

    /// The directory whose own record is at `position`; `None` when no such record is there.
    fn directory_node(&self, position: u64, may_block: bool) -> Result<Option<Node>> {
        let volume = &self.volume;
        let there = volume.length_bytes.saturating_sub(position);
        let mut reader = self.reader(position, (there.min(SECTOR_BYTES as u64), 0), may_block);
        let Some((0, own)) = reader.cursor.next()? else {
            return Ok(None);
        };
        let is_root = position == self.root;
        let refers_to_itself = own.data_position(volume) == position;
        if own.identifier() != IDENTIFIER_SELF || !(refers_to_itself || is_root) {
            return Ok(None);
        }
        let length = if refers_to_itself {
            own.data_length(volume)
        } else {
            self.root_length
        };
        if is_root {
            reader.skip = self.skips.map(|skips| skips.root);
        }
        let found = reader.rock_ridge(&own)?;
        let mut shape = attributes(volume, &own, found.as_ref(), (position, u64::from(length)));
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
            compressed: false,
            parent,
        }))
    }

    /// The `object` whose record is at `place`; `None` when it is not there.
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
        let file_id = recorded.file_id(directory);
        let found = recorded.rock_ridge.as_ref();
        let attributes = attributes(
            &self.volume,
            &recorded.record,
            found,
            (file_id, recorded.size()),
        );
        let target = found
            .filter(|_| attributes.file_type == FileType::Symlink)
            .and_then(|found| found.target()?.map(<[u8]>::to_vec));
        Node {
            attributes,
            target,
            defect: recorded.defect,
            compressed: found.is_some_and(|found| found.compressed),
            parent: directory,
            sections: recorded.sections,
        }
    }
}
