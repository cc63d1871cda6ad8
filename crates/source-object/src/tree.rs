//! The objects of a bucket as they are known: found by name or by identifier, with attributes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_fs::{Attributes, Call, Entry, Error, FileId, FileType, Result};
use pagewell_object_client::{Handling, ListPage, MetadataFrom, Version};

use super::data::Data;
use super::directory::{Asked, Directory};
use super::file::File;
use super::identifier::{Hash, Identifier, KeyHasher, Kind, Turn};
use super::listing::{Found, Item};
use super::listings::{BYTES_MAX, Listings};
use super::metadata::Marks;
use super::name::HIDDEN;
use super::node::Node;
use super::nodes::Nodes;
use super::shown::Shown;
use super::side_by_side::side_by_side;
use super::upload::Budget;

const BROUGHT_MAX: usize = 256;
const HELPERS_MAX: u32 = 15;
/// Files up to this length are fetched early: two pages.
const SMALL_BYTES_MAX: u64 = 128 << 10;
const SEARCHED_MAX: usize = 10_000;

pub(super) struct Tree {
    data: Data,
    nodes: Nodes,
    listings: Box<Listings>,
    hasher: KeyHasher,
    root: Arc<Node>,
    age: Duration,
    /// An open believes what was seen, too.
    believes_at_open: bool,
    /// Mode, owner and times are those of the metadata of each object.
    has_metadata: bool,
    owner: (u32, u32),
    file_mode: u32,
    directory_mode: u32,
    helpers: Budget,
}

impl Tree {
    pub(super) fn new(data: Data, (bucket, prefix): (&str, &str), handling: &Handling) -> Self {
        let hasher = KeyHasher::new(bucket);
        let root = (hasher.of(prefix), Turn::default());
        let root = Arc::new(Node::new(Kind::Directory, root, prefix, None));
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let defaults = handling.defaults;
        Self {
            data,
            nodes: Nodes::default(),
            listings: Box::new(Listings::new(BYTES_MAX)),
            hasher,
            root,
            age: handling.age,
            believes_at_open: handling.believes_at_open,
            has_metadata: handling.metadata == MetadataFrom::Objects,
            owner: (
                defaults.uid.unwrap_or(user.as_raw()),
                defaults.gid.unwrap_or(group.as_raw()),
            ),
            file_mode: defaults.mode,
            directory_mode: defaults.directory_mode,
            helpers: Budget::new(0, HELPERS_MAX),
        }
    }

    /// Begins with the first page of the root, which was asked for at `began`.
    pub(super) fn with_first_page(self, page: ListPage, began: Instant) -> Self {
        if let Some(directory) = self.root.directory() {
            directory.begin_root(self.root.key(), page, began);
            self.listings.count(&self.root);
        }
        self
    }

    pub(super) fn data(&self) -> &Data {
        &self.data
    }

    pub(super) fn listings(&self) -> &Listings {
        &self.listings
    }

    pub(super) fn root(&self) -> &Arc<Node> {
        &self.root
    }

    pub(super) fn has_metadata(&self) -> bool {
        self.has_metadata
    }

    /// Whether an open of a file that memory has asks for its version though it was seen lately.
    pub(super) fn asks_at_open(&self, file: &File) -> bool {
        !self.believes_at_open && !file.is_changed() && !file.was_just_silent()
    }

    pub(super) fn age(&self) -> Duration {
        self.age
    }

    pub(super) fn asked<'a>(&'a self, call: &Call<'_>, directory: &'a Node) -> Asked<'a> {
        Asked {
            remote: &**self.data.remote(),
            key: directory.key(),
            is_root: directory.hash() == self.root.hash(),
            age: self.age,
            since: Instant::now(),
            may_block: call.may_block,
        }
    }

    /// The object of an identifier, searched for where memory has it no more.
    pub(super) fn resolve(&self, call: &Call<'_>, id: &FileId) -> Result<Arc<Node>> {
        let identifier = Identifier::of_id(id)?;
        if identifier.hash() == self.root.hash() {
            return Ok(self.root.clone());
        }
        if let Some(node) = self.nodes.get(&identifier) {
            return Ok(node);
        }
        let asked = self.asked(call, &self.root);
        match self.search(asked, &identifier) {
            // Another gateway may have made it since the believed listing began.
            Err(Error::Stale) if !self.age.is_zero() => {
                let age = asked.since.elapsed();
                self.search(Asked { age, ..asked }, &identifier)
            }
            found => found,
        }
    }

    /// Searches the listings on the way to an object.
    fn search(&self, asked: Asked<'_>, identifier: &Identifier) -> Result<Arc<Node>> {
        let depth = identifier.depth().ok_or(Error::Stale)?;
        let mut searched = 0;
        let mut left = vec![(self.root.clone(), 0)];
        while let Some((node, level)) = left.pop() {
            searched += 1;
            if searched > SEARCHED_MAX {
                return Err(Error::Stale);
            }
            let Some(directory) = node.directory() else {
                continue;
            };
            let mut found = None;
            let asked = Asked {
                key: node.key(),
                is_root: node.hash() == self.root.hash(),
                ..asked
            };
            let read = directory.read(asked, 0, &mut |item, at| {
                let is_directory = item.found == Found::Directory;
                let hash = self.hash(&node, item);
                let is_it =
                    level == depth && hash == identifier.hash() && item.kind() == identifier.kind();
                if is_it {
                    found = Some(self.child(&node, item, at));
                } else if level < depth && is_directory && identifier.may_pass(level, hash) {
                    left.push((self.child(&node, item, at), level + 1));
                }
                !is_it
            });
            // It may have gone since it was listed.
            if read != Err(Error::NotFound) {
                read?;
            }
            self.listings.count(&node);
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(Error::Stale)
    }

    pub(super) fn directory(&self, call: &Call<'_>, id: &FileId) -> Result<Arc<Node>> {
        let node = self.resolve(call, id)?;
        Error::NotDirectory.unless(node.directory().is_some())?;
        Ok(node)
    }

    pub(super) fn hash(&self, directory: &Node, item: &Item) -> Hash {
        let key = item.key(directory.key());
        self.hasher.of_object(item.kind(), &key)
    }

    /// The object of a name in a directory, which was so at this time.
    pub(super) fn child(&self, parent: &Arc<Node>, item: &Item, at: Instant) -> Arc<Node> {
        let key = item.key(parent.key());
        let kind = item.kind();
        let hash = self.hasher.of_object(kind, &key);
        let make = |turn| Node::new(kind, (hash, turn), &key, Some(parent));
        let node = self.nodes.get_or_make(hash, kind, make);
        if let (Found::File(version), Some(file)) = (&item.found, node.file())
            && (!file.is_changed() || file.is_removed())
        {
            file.see(version, None, at);
        }
        node
    }

    /// A file is read from its beginning: fetches those behind it, if they are read in order.
    pub(super) fn walk(&self, node: &Arc<Node>) {
        let (Some(directory), Some(file)) = (node.parent().directory(), node.file()) else {
            return;
        };
        // An open asks for the version of what memory has, which takes as long as its bytes.
        if file.is_open() && !self.believes_at_open {
            return;
        }
        let name = node.own_key().as_bytes();
        let Some((names, at)) = directory.walk(name, file.has_pages(), self.age) else {
            return;
        };
        for item in names {
            if let Found::File(version) = &item.found
                && version.length_bytes <= SMALL_BYTES_MAX
                && let child = self.child(node.parent(), &item, at)
                && let Some(file) = child.file()
            {
                file.prefetch(child.key(), &self.data, SMALL_BYTES_MAX);
            }
        }
    }

    pub(super) fn find(
        &self,
        call: &Call<'_>,
        directory: &Arc<Node>,
        name: &[u8],
    ) -> Result<(Item, Instant)> {
        let listed = directory.directory().ok_or(Error::NotDirectory)?;
        Error::NotFound.when(self.is_hidden(directory, name))?;
        let found = listed.find(self.asked(call, directory), name);
        self.listings.count(directory);
        found
    }

    pub(super) fn is_hidden(&self, directory: &Node, name: &[u8]) -> bool {
        name == HIDDEN.as_bytes() && directory.hash() == self.root.hash()
    }

    /// Notes that an object is another one now, to which its identifier leads; what is made in its
    /// place is another object.
    pub(super) fn moved(&self, from: &Node, to: &Arc<Node>) {
        to.set(from.set_here());
        self.nodes.lead(from, to);
    }

    /// Forgets listings of a directory and of those below it: what is there was moved.
    pub(super) fn expire_below(&self, key: &str) {
        for node in self.nodes.below(key) {
            if let Some(directory) = node.directory() {
                directory.expire();
            }
        }
    }

    /// What memory knows below a directory, with itself, and what it is below another.
    pub(super) fn below(&self, from: &str, to: &str) -> Vec<(Arc<Node>, Arc<Node>)> {
        let nodes = self.nodes.below(from).into_iter();
        let moved = nodes.filter_map(|node| {
            let rest = node.key().strip_prefix(from)?;
            let new = self.at(&[to, rest].concat())?;
            Some((node, new))
        });
        moved.collect()
    }

    /// A file with this key that memory knows.
    pub(super) fn known_file(&self, key: &str) -> Option<Arc<Node>> {
        let hash = self.hasher.of_object(Kind::File, key);
        self.nodes.now(hash, Kind::File)
    }

    /// The object that an identifier leads to, if memory has it.
    pub(super) fn known(&self, id: &FileId) -> Option<Arc<Node>> {
        self.nodes.get(&Identifier::of_id(id).ok()?)
    }

    pub(super) fn orphaned(&self, node: &Arc<Node>) {
        self.nodes.lead(node, node);
    }

    pub(super) fn number(&self, directory: &Node, item: &Item) -> u64 {
        let hash = self.hash(directory, item);
        hash.number(self.nodes.turn(hash, item.kind()))
    }

    pub(super) fn made(&self, parent: &Arc<Node>, kind: Kind, key: &str) -> Arc<Node> {
        let hash = self.hasher.of_object(kind, key);
        let make = |turn| Node::new(kind, (hash, turn), key, Some(parent));
        self.nodes.get_or_make(hash, kind, make)
    }

    /// The file with this key; `None`: it is not below the root.
    pub(super) fn made_at(&self, key: &str) -> Option<Arc<Node>> {
        self.at(key).filter(|node| node.file().is_some())
    }

    /// The same, where it is this version now: another file than one that was there before, and
    /// that a program has open.
    pub(super) fn made_as(&self, key: &str, version: &Version) -> Option<Arc<Node>> {
        let node = self.made_at(key)?;
        let is_it = |known: Version| known.is_same(version);
        let before = node.file().filter(|file| file.is_open());
        let Some(before) = before.filter(|file| !file.known().is_some_and(is_it)) else {
            return Some(node);
        };
        before.remove();
        self.orphaned(&node);
        self.made_at(key)
    }

    /// The file or directory with this key.
    fn at(&self, key: &str) -> Option<Arc<Node>> {
        let mut rest = key.strip_prefix(self.root.key())?;
        let mut parent = self.root.clone();
        while let Some((segment, behind)) = rest.split_once('/') {
            let key = [parent.key(), segment, "/"].concat();
            parent = self.made(&parent, Kind::Directory, &key);
            rest = behind;
        }
        if rest.is_empty() {
            return Some(parent);
        }
        Some(self.made(&parent, Kind::File, key))
    }

    /// Attributes that are believed, or asked for now.
    pub(super) fn attributes_of(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<Attributes> {
        let Some(file) = node.file() else {
            return Ok(self.of_directory(node));
        };
        let shown = match file.is_removed() {
            true => Some(file.shown().ok_or(Error::Stale)?),
            false => file.fresh(self.age, self.has_metadata),
        };
        if let Some(shown) = shown {
            return Ok(self.of_file(node, &shown));
        }
        let parent = node.parent();
        let listed = parent
            .directory()
            .filter(|_| !self.has_metadata)
            .and_then(|directory| directory.remembered(node.own_key().as_bytes(), self.age));
        if let Some((item, at)) = listed
            && item.segment.is_none()
            && let Found::File(version) = item.found
        {
            file.see(&version, None, at);
            let shown = file.shown().unwrap_or_else(|| Shown::of(&version));
            return Ok(self.of_file(node, &shown));
        }
        Error::WouldBlock.unless(call.may_block)?;
        let shown = file.ask(node.key(), &self.data).map_err(gone)?;
        Ok(self.of_file(node, &shown))
    }

    /// The permissions of a file, without its metadata.
    pub(super) fn file_mode(&self, node: &Node) -> u32 {
        node.set_here().mode.unwrap_or(self.file_mode)
    }

    pub(super) fn of_directory(&self, node: &Node) -> Attributes {
        let changed = node.directory().map(Directory::changed);
        let changed = changed.unwrap_or_default();
        let set = node.set_here();
        Attributes {
            file_type: FileType::Directory,
            mode: set.mode.unwrap_or(self.directory_mode),
            uid: set.uid.unwrap_or(self.owner.0),
            gid: set.gid.unwrap_or(self.owner.1),
            link_count: 2,
            ..self.of_file(
                node,
                &Shown {
                    length_bytes: 0,
                    modified: changed,
                    changed,
                    marks: Marks::default(),
                    is_settled: true,
                },
            )
        }
    }

    pub(super) fn of_file(&self, node: &Node, shown: &Shown) -> Attributes {
        let marks = match self.has_metadata {
            true => shown.marks,
            false => node.set_here(),
        };
        let file_type = marks.file_type.unwrap_or(FileType::Regular);
        let modified = marks.modified.unwrap_or(shown.modified);
        Attributes {
            file_type: match file_type {
                FileType::Directory => FileType::Regular,
                other => other,
            },
            mode: marks.mode.unwrap_or(match file_type {
                FileType::Symlink => 0o777,
                _ => self.file_mode,
            }),
            link_count: 1,
            uid: marks.uid.unwrap_or(self.owner.0),
            gid: marks.gid.unwrap_or(self.owner.1),
            size: shown.length_bytes,
            used: shown.length_bytes,
            device: marks.device.unwrap_or_default(),
            filesystem_id: self.root.hash().number(Turn::default()),
            file_id: node.hash().number(node.turn()),
            accessed: marks.accessed.unwrap_or(modified),
            modified,
            changed: shown.changed,
            may_be_kept: shown.is_settled,
        }
    }

    pub(super) fn entry_of_directory(&self, node: &Node) -> Entry {
        Entry {
            id: node.id(),
            attributes: self.of_directory(node),
        }
    }

    /// What is known of an object; `None` where its metadata has to be asked for.
    pub(super) fn entry(&self, node: &Node, found: &Found) -> Option<Entry> {
        let Found::File(version) = found else {
            return Some(self.entry_of_directory(node));
        };
        let file = node.file();
        // What was seen may be newer, or know more of the same version.
        let shown = match self.has_metadata {
            true => file.and_then(|file| file.fresh(self.age, true))?,
            false => file
                .and_then(File::shown)
                .unwrap_or_else(|| Shown::of(version)),
        };
        Some(Entry {
            id: node.id(),
            attributes: self.of_file(node, &shown),
        })
    }

    /// Asks for the metadata of the next files of a directory, several at a time.
    pub(super) fn bring_metadata(
        &self,
        call: &Call<'_>,
        node: &Arc<Node>,
        cookie: u64,
    ) -> Result<()> {
        let directory = node.directory().ok_or(Error::NotDirectory)?;
        let mut files = Vec::new();
        let mut seen = 0;
        directory.read(self.asked(call, node), cookie, &mut |item, at| {
            seen += 1;
            let child = self.child(node, item, at);
            let is_unknown = |file: &File| file.fresh(self.age, true).is_none();
            if child.file().is_some_and(is_unknown) {
                files.push(child);
            }
            seen < BROUGHT_MAX
        })?;
        let Ok(()) = side_by_side(&self.helpers, &files, &|node| {
            if let Some(file) = node.file() {
                // A call that needs the metadata meets the error again.
                let _ = file.ask(node.key(), &self.data);
            }
            Ok::<(), Infallible>(())
        });
        Ok(())
    }
}

pub(super) fn gone(error: Error) -> Error {
    match error {
        Error::NotFound => Error::Stale,
        other => other,
    }
}
