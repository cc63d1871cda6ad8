//! One tree of an image: finds objects, reads directories, caches what it parsed.
//!
//! All reading is on demand, without path tables, which are often wrong: an image of any size opens
//! in a few reads.
//!
//! A directory's attributes and length come from its own first record, its name from its parent's.
//! Its second record gives the parent; a directory that Rock Ridge moved (CL in the old place, RE
//! in the new one) has its true parent in PL. Opening a directory that is its own ancestor fails:
//! no walk through [`Tree::enter`] is a circle. One writer makes directories their own parents:
//! then the parent is the remembered one from which it was entered.
//!
//! Weakness: the second record is not checked, so a hostile image can show a directory in two
//! places, with one identifier.

mod objects;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use pagewell_base::pieces::Pieces;
use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, FileId, Result};

use super::directory::{Directory, Item, ItemKind};
use super::file_id::{Object, TreeKind, decode, encode};
use super::names::{Name, enhanced, joliet, plain, rock_ridge};
use super::node::{ObjectReader, Recorded};
use super::options::{Case, IsoOptions};
use super::record::{Record, RecordCursor};
use super::rock_ridge::{RockRidge, Skips};
use super::susp::Continuation;
use super::volume::{SECTOR_BYTES, Volume};
use objects::{FoundNode, Group};

/// Bytes of records of the largest directory: half a million Rock Ridge names.
const DIRECTORY_BYTES_MAX: u64 = 64 << 20;
/// Only a thread that may wait parses a larger directory, and one at a time.
const DIRECTORY_BYTES_LARGE: u64 = 256 << 10;
const DEPTH_MAX: usize = 2048;
const DIRECTORY_CACHE_BYTES: usize = 16 << 20;
/// Remembered directories that are their own parents.
const ENTERED_MAX: usize = 16 << 10;
const NODE_CACHE_BYTES: usize = 8 << 20;
const NODE_CACHE_SHARDS: usize = 8;
/// Its length is one byte.
const RECORD_BYTES_MAX: usize = 256;
/// Names of directories where writers put moved ones.
const STORES: [&[u8]; 3] = [b"rr_moved", b".rr_moved", b"RR_MOVED"];
const LISTING_STEP_BYTES: usize = 32 << 10;
/// For continuation areas, which are more scattered.
const CONTINUATION_STEP_BYTES: usize = 4096;
/// Bytes of continuation areas of one record, and of a directory: a fixed part, and per byte of
/// records, of which the longest links need 17.
const CONTINUATION_BYTES: u64 = 1 << 20;
const CONTINUATION_BYTES_PER_BYTE: u64 = 32;
const CONTINUATION_BYTES_MAX: u64 = 512 << 20;
/// For an object read alone: two records, as a run's POSIX attributes may be in a later one.
const OBJECT_CONTINUATION_BYTES: u64 = 2 * CONTINUATION_BYTES;

pub(super) struct Tree {
    pub(super) volume: Volume,
    pub(super) kind: TreeKind,
    pub(super) root: u64,
    root_length: u32,
    skips: Option<Skips>,
    options: IsoOptions,
    /// Whether the root directory has plain names with small letters; it is read first.
    root_has_small: OnceLock<bool>,
    groups: Pieces<Object, Group>,
    directories: Pieces<u64, Directory>,
    /// By a directory that is its own parent, the one from which it was entered.
    entered_from: Pieces<u64, u64>,
    large: Mutex<()>,
}

impl Tree {
    /// The tree below `root`; a Rock Ridge tree with `skips`.
    pub(super) fn new(
        volume: Volume,
        kind: TreeKind,
        root: &Record,
        (skips, options): (Option<Skips>, IsoOptions),
    ) -> Self {
        Self {
            kind,
            root: root.data_position(&volume),
            root_length: root.data_length(&volume),
            skips,
            options,
            root_has_small: OnceLock::new(),
            groups: Pieces::new(NODE_CACHE_BYTES, NODE_CACHE_SHARDS),
            directories: Pieces::new(DIRECTORY_CACHE_BYTES, 1),
            entered_from: Pieces::new(ENTERED_MAX, 1),
            large: Mutex::new(()),
            volume,
        }
    }

    pub(super) fn ignores_case(&self) -> bool {
        matches!(self.kind, TreeKind::Plain | TreeKind::Joliet)
    }

    pub(super) fn id_of(&self, object: Object, shared: Option<NonZeroU32>) -> FileId {
        encode(self.volume.identity, self.kind, (object, shared))
    }

    /// The object of an identifier; [`Error::Stale`] when its place has none.
    pub(super) fn resolve(&self, id: &FileId, may_block: bool) -> Result<(Object, FoundNode)> {
        let (object, shared) = decode(self.volume.identity, self.kind, id)?;
        let node = self.node(object, may_block)?.ok_or(Error::Stale)?;
        Error::Stale.unless(node.shared == shared)?;
        Ok((object, node))
    }

    pub(super) fn examine(&self, object: Object, may_block: bool) -> Result<FoundNode> {
        self.node(object, may_block)?.ok_or_else(|| match object {
            Object::Directory(position) => self.volume.fault(position, "no directory there"),
            Object::File(place) | Object::EmptyDirectory(place) => self
                .volume
                .fault(place.position, "no directory record there"),
        })
    }

    /// [`Self::examine`] for an object found by name in `directory`: refuses circles.
    pub(super) fn enter(
        &self,
        object: Object,
        directory: u64,
        may_block: bool,
    ) -> Result<FoundNode> {
        if let Object::Directory(child) = object {
            self.refuse_circle(child, directory, may_block)?;
            let node = self.examine(object, may_block)?;
            if node.parent != directory {
                let text = "its record of its parent leads to another directory";
                self.volume.note(child, "ECMA-119 6.8.2.2", text);
            }
            if node.parent == child && child != self.root {
                self.entered_from.insert(child, directory, 1);
            }
            return Ok(node);
        }
        self.examine(object, may_block)
    }

    pub(super) fn parent_of(&self, directory: u64, node: &FoundNode) -> u64 {
        if node.parent != directory || directory == self.root {
            return node.parent;
        }
        let entered_from = self.entered_from.get(directory);
        entered_from.map_or(directory, |parent| *parent)
    }

    pub(super) fn directory(&self, position: u64, may_block: bool) -> Result<Arc<Directory>> {
        if let Some(found) = self.directories.get(position) {
            return Ok(found);
        }
        let length = self.directory_length(position, may_block)?;
        let _one_at_a_time = if length > DIRECTORY_BYTES_LARGE {
            if !may_block {
                return Err(Error::WouldBlock);
            }
            let guard = self.large.lock();
            if let Some(found) = self.directories.get(position) {
                return Ok(found);
            }
            Some(guard)
        } else {
            None
        };
        let directory = self.parse(position, length, may_block)?;
        let bytes = directory.memory_bytes();
        Ok(self.directories.insert(position, directory, bytes))
    }

    /// [`Self::enter`] for objects in sequence: starts at `near`, the last one, and updates it.
    pub(super) fn enter_next<'a>(
        &self,
        object: Object,
        near: &'a mut Option<FoundNode>,
        (directory, may_block): (u64, bool),
    ) -> Result<&'a FoundNode> {
        if !near.as_mut().is_some_and(|near| near.go_on_to(object)) {
            *near = None;
            *near = Some(self.enter(object, directory, may_block)?);
        }
        near.as_ref().ok_or(Error::Stale)
    }

    fn directory_length(&self, position: u64, may_block: bool) -> Result<u64> {
        let node = self.examine(Object::Directory(position), may_block)?;
        let length = node.attributes.size;
        // Its parent says otherwise, or it would have no place.
        if length == 0 {
            return Err(self.volume.fault(position, "directory of no length"));
        }
        if !self.volume.contains(position, length) {
            return Err(self
                .volume
                .fault(position, "directory reaches past the end of the image"));
        }
        if length > DIRECTORY_BYTES_MAX {
            return Err(self.volume.fault(position, "directory larger than 64 MiB"));
        }
        Ok(length)
    }

    fn parse(&self, position: u64, length: u64, may_block: bool) -> Result<Directory> {
        let too_many = || {
            let what = "directory with more than 64 MiB of names";
            self.volume.fault(position, what)
        };
        let mut directory = Directory::new(position, self.ignores_case());
        let mut reader = self.listing_reader(position, length, may_block);
        while let Some(recorded) = reader.next()? {
            if recorded.moved_here() {
                continue;
            }
            let object = recorded.object(&self.volume, position);
            let (kind, place) = match object {
                Object::Directory(extent) => (ItemKind::Directory, extent),
                Object::EmptyDirectory(_) => (ItemKind::EmptyDirectory, object.number()),
                Object::File(_) => {
                    let shared = recorded.shared(&self.volume);
                    let number = shared.map_or(object.number(), |shared| shared.number);
                    (ItemKind::File, number)
                }
            };
            let offset = u32::try_from(recorded.offset).unwrap_or(u32::MAX);
            let pushed = directory.push(&self.name(&recorded), kind, offset, place);
            pushed.ok_or_else(too_many)?;
        }
        if position == self.root && self.kind == TreeKind::RockRidge {
            self.hide_stores(&mut directory, may_block)?;
        }
        directory.show_plain(self.case_in(&directory));
        let repeated = |record| {
            let text = "an earlier record has the same name: this is shown under another";
            self.volume.note(record, "ECMA-119 9.3", text);
        };
        let finished = directory.finish(self.options.all_versions, repeated);
        finished.ok_or_else(too_many)?;
        Ok(directory)
    }

    /// How to show plain names in a directory (rule in `names`).
    fn case_in(&self, directory: &Directory) -> Case {
        let has_small = directory.has_small_letters();
        let root_has_small = *self.root_has_small.get_or_init(|| has_small);
        match self.options.case {
            Case::Automatic if has_small || root_has_small => Case::Keep,
            Case::Automatic => Case::Lower,
            case => case,
        }
    }

    /// Hides the store of moved directories (RRIP 1.12 clause 4.1.5) if it holds only those. An
    /// empty one is a user's.
    fn hide_stores(&self, root: &mut Directory, may_block: bool) -> Result<()> {
        for name in STORES {
            let is_named = |item: &Item| {
                let is_other =
                    matches!(root.object_of(item), Object::Directory(it) if it != self.root);
                is_other && root.name_of(item) == name
            };
            let Some(index) = root.items().iter().position(is_named) else {
                continue;
            };
            let position = root.object_of(&root.items()[index]).place();
            match self.is_store(position, may_block) {
                Ok(true) => root.remove(index),
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                // An unreadable one is shown; opening it gives the error.
                Ok(false) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Whether a directory holds something, and all of it is shown elsewhere.
    fn is_store(&self, position: u64, may_block: bool) -> Result<bool> {
        let length = self.directory_length(position, may_block)?;
        if length > DIRECTORY_BYTES_LARGE && !may_block {
            return Err(Error::WouldBlock);
        }
        let mut reader = self.listing_reader(position, length, may_block);
        let mut holds_moved = false;
        while let Some(recorded) = reader.next()? {
            if !recorded.moved_here() {
                return Ok(false);
            }
            holds_moved = true;
        }
        Ok(holds_moved)
    }

    fn name(&self, recorded: &Recorded) -> Name {
        let (identifier, charset) = (recorded.record.identifier(), self.options.charset);
        match self.kind {
            TreeKind::Joliet => return joliet(identifier),
            TreeKind::Enhanced => return enhanced(identifier, charset),
            TreeKind::Plain | TreeKind::RockRidge => {}
        }
        match recorded.rock_ridge.as_ref().and_then(RockRidge::name) {
            Some(name) => rock_ridge(name, charset),
            None => plain(identifier, charset),
        }
    }

    fn refuse_circle(&self, child: u64, directory: u64, may_block: bool) -> Result<()> {
        let mut ancestor = directory;
        for _ in 0..DEPTH_MAX {
            if ancestor == child {
                return Err(self.volume.fault(child, "directory inside itself"));
            }
            if ancestor == self.root {
                return Ok(());
            }
            // An ancestor that is no directory proves nothing about the child.
            let Some(node) = self.node(Object::Directory(ancestor), may_block)? else {
                return Ok(());
            };
            match self.parent_of(ancestor, &node) {
                parent if parent == ancestor => return Ok(()),
                parent => ancestor = parent,
            }
        }
        Err(self.volume.fault(child, "directories nested too deep"))
    }

    fn reader(
        &self,
        position: u64,
        (length, offset): (u64, u64),
        may_block: bool,
    ) -> ObjectReader<'_> {
        let volume = &self.volume;
        ObjectReader {
            volume,
            cursor: RecordCursor::new(
                volume,
                (position, length, offset),
                (may_block, RECORD_BYTES_MAX),
            ),
            continuation: Continuation::new(
                volume,
                may_block,
                (SECTOR_BYTES, OBJECT_CONTINUATION_BYTES),
            ),
            skip: self.skips.map(|skips| skips.others),
        }
    }

    fn listing_reader(&self, position: u64, length: u64, may_block: bool) -> ObjectReader<'_> {
        let volume = &self.volume;
        let budget = CONTINUATION_BYTES + CONTINUATION_BYTES_PER_BYTE * length;
        let budget = budget.min(CONTINUATION_BYTES_MAX);
        ObjectReader {
            volume,
            cursor: RecordCursor::new(
                volume,
                (position, length, 0),
                (may_block, LISTING_STEP_BYTES),
            ),
            continuation: Continuation::new(volume, may_block, (CONTINUATION_STEP_BYTES, budget)),
            skip: self.skips.map(|skips| skips.others),
        }
    }
}
