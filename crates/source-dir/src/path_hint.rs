//! Identifiers where the kernel gives no usable handle: without root, or on a file system that
//! makes none.
//!
//! Problem: an inode number cannot be opened. Something must lead back to the object after it was
//! closed, even after a restart, and the number may have been given to another object.
//!
//! Rule: the identifier is one byte, the inode number, the birth time as its generation,
//! and a *path hint*: one byte for each directory between the export's root and the object, a hash
//! of that directory's inode number. Inode numbers do not change when a directory is renamed in
//! place, so the hint survives that too.
//!
//! ```text
//!   /export/a/b/file   tag │ inode of file │ birth of file │ hash(a) hash(b)
//! ```
//!
//! An object is found again in three ways, the first that works:
//! 1. *table*: a bounded map from inode to (parent, name), kept by our own lookups and renames, is
//!    followed to the root and the names are opened downwards;
//! 2. *walk*: from the root, only into directories that match the hint's next byte (one in 256
//!    by chance), to the object's inode number;
//! 3. *census*: the whole export is read, once for all that are looked for ([`super::census`]).
//!
//! Whatever was opened is compared with inode number and birth time before it counts. What is not
//! found is stale, and stays so for a while ([`super::missing`]), so that a client that keeps
//! asking cannot keep the disk busy. Objects that are where their hints lead wait for nobody.
//!
//! The same object has the same identifier for as long as the table knows it, also by other names
//! and after a rename. An identifier from an earlier life is put back into the table when it is
//! resolved.
//!
//! Weaknesses: where birth times are missing (0), a reused inode number cannot be told. After a
//! restart an object that was reached by two names may be given the other name's hint. Further
//! down than a hint has bytes ([`super::path_hint_id`]), and when a file was moved to another
//! directory while the program was down, finding it takes the census. File systems whose listings
//! show other inode numbers than stat (some union mounts) can only be followed by the table.

use super::Tree;
use super::entries::each_entry;
use super::missing::Missing;
use super::naming::Naming;
use super::object::open_directory;
use super::path_hint_id::{compose, hash, key_of, parse};
use super::status::Status;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::{Error, FileId, Result};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Objects whose place is remembered: about 10 MiB.
const PLACES_MAX: usize = 1 << 16;
/// Longest way to the root that the table is followed.
const DEPTH_MAX: usize = 1024;
/// Where objects were last seen.
#[derive(Default)]
pub(super) struct Places {
    table: Mutex<Table>,
}

/// What leads to an object from the directory above it.
pub(super) struct Step {
    pub(super) inode: u64,
    pub(super) birth: u64,
    pub(super) name: Box<[u8]>,
}

struct Place {
    inode: u64,
    birth: u64,
    parent: u64,
    name: Box<[u8]>,
    id: FileId,
    marked: bool,
}

#[derive(Default)]
struct Table {
    places: HashMap<u64, usize>,
    slots: Vec<Place>,
    hand: usize,
    missing: Missing,
}

impl Places {
    /// The object just seen as `name` in a directory: notes the place and returns its identifier.
    pub(super) fn note(
        &self,
        status: &Status,
        parent: &super::object::Object,
        name: &[u8],
        root_inode: u64,
    ) -> FileId {
        let (inode, birth) = (status.node.inode, status.birth);
        let mut table = self.table.lock();
        if let Some(place) = table.get(inode)
            && place.birth == birth
        {
            place.parent = parent.node.inode;
            if *place.name != *name {
                place.name = name.into();
            }
            let id = place.id;
            table.missing.forget(&id);
            return id;
        }
        let hint = table
            .hint_of(parent.node.inode, root_inode)
            .or_else(|| {
                parse(&parent.id).ok().map(|(_, _, above)| {
                    let mut hint = above.to_vec();
                    if parent.node.inode != root_inode {
                        hint.push(hash(parent.node.inode));
                    }
                    hint
                })
            })
            .unwrap_or_default();
        let id = compose(inode, birth, &hint);
        table.put(Place {
            inode,
            birth,
            parent: parent.node.inode,
            name: name.into(),
            id,
            marked: true,
        });
        id
    }

    /// An identifier for the parent of an object, which was reached by `..`.
    pub(super) fn id_of_parent(&self, status: &Status, child: &FileId) -> FileId {
        let (inode, birth) = (status.node.inode, status.birth);
        if let Some(place) = self.table.lock().get(inode)
            && place.birth == birth
        {
            return place.id;
        }
        let hint = parse(child).map_or(&[][..], |(_, _, hint)| hint);
        let above = hint.split_last().map_or(&[][..], |(_, above)| above);
        compose(inode, birth, above)
    }

    fn put(&self, place: Place) {
        self.table.lock().put(place);
    }

    fn chain(&self, inode: u64, root_inode: u64) -> Option<Vec<(u64, Box<[u8]>)>> {
        self.table.lock().chain(inode, root_inode)
    }
}

impl Table {
    fn get(&mut self, inode: u64) -> Option<&mut Place> {
        let slot = *self.places.get(&inode)?;
        let place = self.slots.get_mut(slot)?;
        place.marked = true;
        Some(place)
    }

    /// Puts a place in, over one that was not used since the hand last passed (CLOCK).
    fn put(&mut self, place: Place) {
        self.missing.forget(&place.id);
        if let Some(slot) = self.places.get(&place.inode).copied() {
            if let Some(held) = self.slots.get_mut(slot) {
                *held = place;
            }
            return;
        }
        if self.slots.len() < PLACES_MAX {
            self.places.insert(place.inode, self.slots.len());
            self.slots.push(place);
            return;
        }
        loop {
            // ends after one round at the latest: the first round clears all marks
            let at = self.hand % PLACES_MAX;
            self.hand = at + 1;
            let Some(held) = self.slots.get_mut(at) else {
                return;
            };
            if !std::mem::take(&mut held.marked) {
                self.places.remove(&held.inode);
                self.places.insert(place.inode, at);
                *held = place;
                return;
            }
        }
    }

    /// Inodes and names from below the root down to `inode`.
    fn chain(&mut self, inode: u64, root_inode: u64) -> Option<Vec<(u64, Box<[u8]>)>> {
        let mut chain = Vec::new();
        let mut at = inode;
        while at != root_inode {
            if chain.len() > DEPTH_MAX {
                return None;
            }
            let place = self.get(at)?;
            chain.push((at, place.name.clone()));
            at = place.parent;
        }
        chain.reverse();
        Some(chain)
    }

    /// The path hint of what lies in the directory `parent`.
    fn hint_of(&mut self, parent: u64, root_inode: u64) -> Option<Vec<u8>> {
        let chain = self.chain(parent, root_inode)?;
        Some(chain.iter().map(|(inode, _)| hash(*inode)).collect())
    }
}

/// What a walk looks for.
struct Walk<'a> {
    tree: &'a Tree,
    inode: u64,
    birth: u64,
}

/// An object that was found, where it was.
struct Found {
    opened: OwnedFd,
    status: Status,
    parent: u64,
    name: Box<[u8]>,
}

impl Tree {
    /// Opens the object of an identifier of this kind, only to name it.
    pub(super) fn open_by_hint(&self, places: &Places, id: &FileId) -> Result<(OwnedFd, Status)> {
        let (inode, birth, bytes) = parse(id)?;
        let key = key_of(id)?;
        self.acting.become_server()?;
        let root_inode = self.root.node.inode;
        if let Some(found) = self.descend_known(places, inode, birth) {
            names::DIR_PATH_HINT_TABLE_HITS.add(1);
            return Ok(found);
        }
        if self.is_missing(&key) {
            return Err(Error::Stale);
        }
        names::DIR_PATH_HINT_WALKS.add(1);
        let walk = Walk {
            tree: self,
            inode,
            birth,
        };
        if let Some(found) = walk.walk(self.root.as_fd(), root_inode, bytes)? {
            places.put(Place {
                inode,
                birth,
                parent: found.parent,
                name: found.name,
                id: *id,
                marked: true,
            });
            return Ok((found.opened, found.status));
        }
        names::DIR_PATH_HINT_SEARCHES.add(1);
        if !self.find_listed(id, inode, birth)? {
            names::DIR_PATH_HINT_SEARCHES_FAILED.add(1);
            return Err(Error::Stale);
        }
        // moved again, or forgotten among many others
        self.descend_known(places, inode, birth)
            .ok_or(Error::TryLater)
    }

    fn descend_known(&self, places: &Places, inode: u64, birth: u64) -> Option<(OwnedFd, Status)> {
        let chain = places.chain(inode, self.root.node.inode)?;
        self.descend(&chain, inode, birth)
    }

    /// Whether the object of this key was searched in vain.
    pub(super) fn is_missing(&self, key: &FileId) -> bool {
        match &self.naming {
            Naming::PathHints(places) => places.table.lock().missing.has(key),
            Naming::Handles => false,
        }
    }

    /// The object of this key was searched in vain.
    pub(super) fn set_missing(&self, key: FileId) {
        if let Naming::PathHints(places) = &self.naming {
            places.table.lock().missing.put(key);
        }
    }

    /// Notes where an object was found: in the last of these directories, from the root down.
    pub(super) fn note_path(&self, above: &[&Step], found: Step, id: FileId) {
        let Naming::PathHints(places) = &self.naming else {
            return;
        };
        let mut table = places.table.lock();
        let (mut parent, mut hashes) = (self.root.node.inode, Vec::new());
        for step in above {
            let known = table
                .get(step.inode)
                .filter(|place| place.birth == step.birth);
            let id = known.map_or_else(
                || compose(step.inode, step.birth, &hashes),
                |place| place.id,
            );
            table.put(Place {
                inode: step.inode,
                birth: step.birth,
                parent,
                name: step.name.clone(),
                id,
                marked: true,
            });
            hashes.push(hash(step.inode));
            parent = step.inode;
        }
        table.put(Place {
            inode: found.inode,
            birth: found.birth,
            parent,
            name: found.name,
            id,
            marked: true,
        });
    }

    fn descend(
        &self,
        chain: &[(u64, Box<[u8]>)],
        inode: u64,
        birth: u64,
    ) -> Option<(OwnedFd, Status)> {
        let mut at: Option<OwnedFd> = None;
        for (_, name) in chain {
            let directory = at.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            at = Some(self.resolver.child(directory, name, true).ok()?);
        }
        let opened = at?;
        let status = Status::of(&opened).ok()?;
        let same = status.node.inode == inode && status.birth == birth;
        (same && self.same_mount(&status)).then_some((opened, status))
    }
}

impl Walk<'_> {
    /// Goes down from `directory` wherever the hint leads.
    fn walk(
        &self,
        directory: BorrowedFd<'_>,
        directory_inode: u64,
        hint: &[u8],
    ) -> Result<Option<Found>> {
        let mut candidates = Vec::new();
        let next = hint.first().copied();
        let found = self.scan(directory, directory_inode, &mut |name, inode| {
            if Some(hash(inode)) == next {
                candidates.push((Box::<[u8]>::from(name), inode));
            }
        })?;
        if found.is_some() {
            return Ok(found);
        }
        let below = hint.get(1..).unwrap_or(&[]);
        for (name, inode) in candidates {
            let Ok(child) = self.tree.resolver.child(directory, &name, true) else {
                continue;
            };
            let found = self.walk(child.as_fd(), inode, below)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads one directory: returns the object if it is there, gives its directories to `visit`.
    fn scan(
        &self,
        directory: BorrowedFd<'_>,
        directory_inode: u64,
        visit: &mut dyn FnMut(&[u8], u64),
    ) -> Result<Option<Found>> {
        let Ok(listing) = open_directory(directory) else {
            return Ok(None); // not ours to read, or no directory
        };
        let mut matches: Vec<Box<[u8]>> = Vec::new();
        let wanted = self.inode;
        each_entry(listing.as_fd(), &mut |entry| {
            if entry.name == b"." || entry.name == b".." {
                return true;
            }
            if entry.inode == wanted {
                matches.push(entry.name.into());
            }
            if entry.may_be_directory {
                visit(entry.name, entry.inode);
            }
            true
        })?;
        for name in matches {
            let Ok(opened) = self.tree.resolver.child(directory, &name, true) else {
                continue;
            };
            let status = Status::of(&opened)?;
            let same = status.node.inode == self.inode && status.birth == self.birth;
            if same && self.tree.same_mount(&status) {
                return Ok(Some(Found {
                    opened,
                    status,
                    parent: directory_inode,
                    name,
                }));
            }
        }
        Ok(None)
    }
}
