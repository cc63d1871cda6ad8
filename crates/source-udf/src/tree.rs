//! The tree of an image: finds objects, reads directories, caches what it parsed.
//!
//! All reading is on demand: an image of any size opens in a few reads, and a maze of directories
//! costs only the walked part. Opening a directory that is its own ancestor fails: no walk through
//! [`Tree::enter`] is a circle. What cannot be read in a metadata partition is read in its mirror.
//!
//! Inode numbers come from the places of ICBs, so all hard links have the same; they are as small
//! as the image is.

use std::ops::Range;
use std::sync::Arc;

use pagewell_base::pieces::Pieces;
use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, FileId, Result};
use pagewell_source_bytes::{Named, Window};

use super::directory::{Directory, Value};
use super::fields::Place;
use super::file_id::{decode, encode};
use super::icb::Icb;
use super::node::Node;
use super::space::Space;

/// Only a thread that may wait parses a larger directory, and one at a time.
const DIRECTORY_BYTES_LARGE: u64 = 256 << 10;
/// Components of Linux' longest path, 4096 bytes.
const DEPTH_MAX: usize = 2048;
const DIRECTORY_CACHE_BYTES: usize = 16 << 20;
const NODE_CACHE_BYTES: usize = 8 << 20;
const NODE_CACHE_SHARDS: usize = 8;
const ENTRIES_STEP_BYTES_MAX: u64 = 128 << 10;

pub(crate) struct Tree {
    space: Space,
    root: Place,
    identity: u64,
    maps: u64,
    nodes: Pieces<Place, Node>,
    directories: Pieces<Place, Directory>,
    large: Mutex<()>,
}

/// Reads entries one after the other, expected ones that lie together at once.
pub(crate) struct Entries<'a> {
    window: Window<'a>,
    /// Places of the entries that were expected last, in order.
    expected: Vec<Range<u64>>,
}

impl Tree {
    pub(crate) fn new(space: Space, maps: usize, root: Place, identity: u64) -> Self {
        Self {
            space,
            root,
            identity,
            maps: maps.max(1) as u64,
            nodes: Pieces::new(NODE_CACHE_BYTES, NODE_CACHE_SHARDS),
            directories: Pieces::new(DIRECTORY_CACHE_BYTES, 1),
            large: Mutex::new(()),
        }
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn root(&self) -> Place {
        self.root
    }

    pub(crate) fn id_of(&self, place: Place) -> FileId {
        encode(self.identity, place)
    }

    pub(crate) fn number_of(&self, place: Place) -> u64 {
        u64::from(place.block) * self.maps + u64::from(place.partition) + 1
    }

    pub(crate) fn entries(&self, may_block: bool) -> Entries<'_> {
        Entries {
            window: Window::new(self.space.image().bytes(), may_block, 0),
            expected: Vec::new(),
        }
    }

    /// The object of an identifier; [`Error::Stale`] when its place has none.
    pub(crate) fn resolve(&self, id: &FileId, may_block: bool) -> Result<(Place, Arc<Node>)> {
        let place = decode(self.identity, id)?;
        let node = self.node(place, &mut self.entries(may_block), may_block)?;
        Ok((place, node.ok_or(Error::Stale)?))
    }

    pub(crate) fn examine(
        &self,
        place: Place,
        entries: &mut Entries<'_>,
        may_block: bool,
    ) -> Result<Arc<Node>> {
        let node = self.node(place, entries, may_block)?;
        node.ok_or_else(|| self.space.fault(place, "no file entry there"))
    }

    /// [`Self::examine`] for an object found by name below `ancestors`: refuses circles.
    pub(crate) fn enter(
        &self,
        value: Value,
        ancestors: &[Place],
        (entries, may_block): (&mut Entries<'_>, bool),
    ) -> Result<Arc<Node>> {
        let place = value.place;
        if value.is_damaged {
            return Err(self.space.fault(place, "its file identifier is damaged"));
        }
        let node = self.examine(place, entries, may_block)?;
        if node.attributes.file_type.is_directory() {
            if ancestors.contains(&place) {
                return Err(self.space.fault(place, "directory inside itself"));
            }
            if self.space.image().is_checked() {
                self.check_parent(place, ancestors, may_block)?;
            }
        }
        Ok(node)
    }

    fn check_parent(&self, place: Place, ancestors: &[Place], may_block: bool) -> Result<()> {
        let parent = self.parent_of(place, may_block)?;
        if ancestors.first().is_some_and(|found| *found != parent) {
            let position = self.space.locate(place, may_block)?.position;
            let what = "a directory says that its parent is another one";
            self.space.image().note(position, "ECMA-167 4/8.6", what);
        }
        Ok(())
    }

    pub(crate) fn ancestors(&self, directory: Place, may_block: bool) -> Result<Vec<Place>> {
        let mut ancestors = vec![directory];
        let mut place = directory;
        while place != self.root {
            if ancestors.len() >= DEPTH_MAX {
                return Err(self.space.fault(place, "directories nested too deep"));
            }
            let parent = self.parent_of(place, may_block)?;
            // A parent that is none proves nothing.
            if parent == place || ancestors.contains(&parent) {
                break;
            }
            ancestors.push(parent);
            place = parent;
        }
        Ok(ancestors)
    }

    /// The parent of a directory: itself where none is recorded, or what is recorded is none.
    pub(crate) fn parent_of(&self, place: Place, may_block: bool) -> Result<Place> {
        if place == self.root {
            return Ok(place);
        }
        let parent = match self.directories.get(place) {
            Some(directory) => directory.parent(),
            None => {
                let node = self.node(place, &mut self.entries(may_block), may_block)?;
                match node.filter(|node| node.attributes.file_type.is_directory()) {
                    Some(node) => Directory::first_parent(&self.space, &node.data, may_block)?,
                    None => None,
                }
            }
        };
        Ok(parent.unwrap_or(place))
    }

    pub(crate) fn directory(&self, place: Place, may_block: bool) -> Result<Arc<Directory>> {
        if let Some(found) = self.directories.get(place) {
            return Ok(found);
        }
        let node = self.examine(place, &mut self.entries(may_block), may_block)?;
        if !node.attributes.file_type.is_directory() {
            return Err(Error::NotDirectory);
        }
        let _one_at_a_time = if node.data.size > DIRECTORY_BYTES_LARGE {
            if !may_block {
                return Err(Error::WouldBlock);
            }
            let guard = self.large.lock();
            if let Some(found) = self.directories.get(place) {
                return Ok(found);
            }
            Some(guard)
        } else {
            None
        };
        let directory = self.read_directory(place, &node, may_block)?;
        let bytes = directory.memory_bytes();
        Ok(self.directories.insert(place, directory, bytes))
    }

    fn read_directory(&self, place: Place, node: &Node, may_block: bool) -> Result<Directory> {
        let first = Directory::read(&self.space, &node.data, may_block);
        let is_sound = |directory: &Directory| !directory.is_damaged();
        let Some(mirror) = self.space.mirror_of(place) else {
            return first;
        };
        if first.as_ref().is_ok_and(is_sound) || matches!(first, Err(Error::WouldBlock)) {
            return first;
        }
        let entries = &mut self.entries(may_block);
        let number = node.attributes.file_id;
        let second = match self.read_node(mirror, number, (entries, may_block)) {
            Ok(Some(node)) => Directory::read(&self.space, &node.data, may_block),
            Err(Error::WouldBlock) => return Err(Error::WouldBlock),
            Ok(None) | Err(_) => return first,
        };
        match second {
            Ok(second) if is_sound(&second) || first.is_err() => {
                self.note_mirror(place);
                Ok(second)
            }
            Err(Error::WouldBlock) => Err(Error::WouldBlock),
            _ => first,
        }
    }

    fn node(
        &self,
        place: Place,
        entries: &mut Entries<'_>,
        may_block: bool,
    ) -> Result<Option<Arc<Node>>> {
        // No image may name the number of a mirror, whose objects have another place.
        if u64::from(place.partition) >= self.maps {
            return Ok(None);
        }
        if let Some(node) = self.nodes.get(place) {
            return Ok(Some(node));
        }
        let number = self.number_of(place);
        let first = self.read_node(place, number, (entries, may_block));
        let node = match (first, self.space.mirror_of(place)) {
            (Ok(Some(node)), _) => Some(node),
            (Err(Error::WouldBlock), _) => return Err(Error::WouldBlock),
            (first, None) => first?,
            (first, Some(mirror)) => match self.read_node(mirror, number, (entries, may_block)) {
                Ok(Some(node)) => {
                    self.note_mirror(place);
                    Some(node)
                }
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Ok(None) | Err(_) => first?,
            },
        };
        Ok(node.map(|node| {
            let bytes = node.memory_bytes();
            self.nodes.insert(place, node, bytes)
        }))
    }

    /// Reads the entry at a place, as the object with an inode number; `None` when none is there.
    fn read_node(
        &self,
        place: Place,
        number: u64,
        (entries, may_block): (&mut Entries<'_>, bool),
    ) -> Result<Option<Node>> {
        entries.approach(self.space.locate(place, may_block)?.position);
        let icb = Icb::read(&self.space, &mut entries.window, place, may_block)?;
        let Some(icb) = icb else {
            return Ok(None);
        };
        Node::read(&self.space, &icb, (number, self.identity), may_block).map(Some)
    }

    fn note_mirror(&self, place: Place) {
        let position = self.space.locate(place, true).map(|span| span.position);
        let position = position.unwrap_or_default();
        let what = "damaged metadata; the mirror is used";
        self.space.image().note(position, "UDF 2.2.13", what);
    }
}

impl Entries<'_> {
    /// Begins to read the entries of these names, which are examined next.
    pub(crate) fn expect<'n>(
        &mut self,
        tree: &Tree,
        names: impl Iterator<Item = &'n Named<Value>>,
    ) {
        let space = &tree.space;
        let sound = names.filter(|name| !name.value.is_damaged);
        let places = sound.map(|name| name.value.place);
        let unknown = places.filter(|place| tree.nodes.get(*place).is_none());
        let parts = unknown.filter_map(|place| {
            let span = space.locate(place, false).ok()?;
            let length = span.length.min(space.block_bytes());
            Some(span.position..span.position.saturating_add(length))
        });
        self.expected = space.image().bytes().read_ahead(parts);
    }

    /// Prepares to read the entry at a position.
    fn approach(&mut self, position: u64) {
        let after = self.expected.partition_point(|run| run.end <= position);
        let run = self.expected.get(after).filter(|run| run.start <= position);
        let rest = run.map_or(0, |run| run.end - position);
        self.window
            .set_step(rest.min(ENTRIES_STEP_BYTES_MAX) as usize);
    }
}
