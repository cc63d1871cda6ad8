//! Identifiers where the kernel gives no usable handle: without root, or on a file system that
//! makes none.
//!
//! Problem: an inode number cannot be opened. Something must lead back to the object after it was
//! closed, even after a restart, and the number may have been given to another object.
//!
//! Rule: the identifier is one byte, the inode number, the birth time as its generation (of
//! another subvolume than the root's with the number of its file system), and a *path hint*: one
//! byte for each directory between the export's root and the object, a hash of that directory's
//! inode number. Inode numbers do not change when a directory is renamed in place, so the hint
//! survives that too.
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
//! found is stale, and stays so without another search for [`MISSING_FOR`], or until its name is
//! seen after all: a local program may have moved it out of the export and back. What has no name
//! when the whole export was read is nearly always gone for good, and clients ask for it for as
//! long as they have it open. Objects that are where their hints lead wait for nobody.
//!
//! The same object has the same identifier for as long as the table knows it, also by other names
//! and after a rename. An identifier from an earlier life is put back into the table when it is
//! resolved.
//!
//! Weaknesses: where birth times are missing (0), a reused inode number cannot be told. After a
//! restart an object that was reached by two names may be given the other name's hint. Further
//! down than a hint has bytes ([`HINT_BYTES_MAX`]), and when a file was moved to another
//! directory while the program was down, finding it takes the census. What listings show with other
//! inode numbers than stat (some union mounts, the roots of subvolumes) can only be followed by the
//! table.

use super::entries::each_entry;
use super::object::{Object, open_directory};
use super::objects::Naming;
use super::status::{Inode, Status, spread};
use super::{ID_BYTES_MAX, Tree, unless_short};
use pagewell_base::clock::Clock;
use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, FileId, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Objects whose place is remembered: about 13 MiB.
const PLACES_MAX: usize = 1 << 16;
/// Longest way to the root that the table is followed.
const DEPTH_MAX: usize = 1024;
/// How long it is remembered that an object was searched in vain.
const MISSING_FOR: Duration = Duration::from_secs(3600);
/// How many such objects are remembered: some 1.5 MiB; the oldest go first.
const MISSING_MAX: usize = 1 << 14;

/// First byte of an identifier of this kind.
pub(super) const TAG: u8 = 2;
/// Tag, inode number and birth time: what tells objects apart.
const KEY_BYTES: usize = 17;
/// What is left of an identifier for the path hint.
const HINT_BYTES_MAX: usize = ID_BYTES_MAX - KEY_BYTES;

/// One byte of a path hint: stands for the directory of this inode number.
pub(super) fn hash(inode: u64) -> u8 {
    spread(inode).to_be_bytes()[0]
}

/// The identifier of an object; a hint that is too long is cut.
pub(super) fn compose(inode: Inode, hint: &[u8]) -> FileId {
    let hint = hint.get(..HINT_BYTES_MAX).unwrap_or(hint);
    let (number, birth) = (inode.number.to_be_bytes(), inode.birth.to_be_bytes());
    let bytes = [&[TAG][..], &number, &birth, hint].concat();
    FileId::new(&bytes).unwrap_or_else(|| unreachable!("{} bytes fit", bytes.len()))
}

/// The object and its path hint.
pub(super) fn parse(id: &FileId) -> Result<(Inode, &[u8])> {
    let bytes = id.as_bytes();
    let number = |from: usize| -> Option<u64> {
        Some(u64::from_be_bytes(
            bytes.get(from..from + 8)?.try_into().ok()?,
        ))
    };
    match (bytes.first(), number(1), number(9), bytes.get(KEY_BYTES..)) {
        (Some(&TAG), Some(number), Some(birth), Some(hint)) => Ok((Inode { number, birth }, hint)),
        _ => Err(Error::BadId),
    }
}

/// What tells the object apart: the identifier without its path hint.
pub(super) fn key_of(id: &FileId) -> Result<FileId> {
    Ok(compose(parse(id)?.0, &[]))
}

/// Where objects were last seen.
pub(super) struct Places(Mutex<Table>);

/// What leads to an object from the directory above it.
pub(super) struct Step {
    pub(super) inode: Inode,
    pub(super) name: Box<[u8]>,
}

struct Place {
    name: Box<[u8]>,
    /// The directory above.
    parent: Inode,
    id: FileId,
}

#[derive(Default)]
struct Table {
    /// The export's root.
    root: Inode,
    places: Clock<Inode, Place>,
    /// What was searched in vain, and since when.
    missing: Clock<Inode, Instant>,
}

impl Places {
    /// Of an export with this root.
    pub(super) fn new(root: Inode) -> Self {
        Self(Mutex::new(Table {
            root,
            ..Table::default()
        }))
    }

    /// The object just seen as `name` in a directory: notes the place and returns its identifier.
    pub(super) fn note(&self, inode: Inode, parent: &Object, name: &[u8]) -> FileId {
        let (above, its_hint) = parse(&parent.id).unwrap_or_default();
        let mut table = self.0.lock();
        if let Some(place) = table.places.get(&inode) {
            place.parent = above;
            if *place.name != *name {
                place.name = name.into();
            }
            let id = place.id;
            table.missing.remove(&inode);
            return id;
        }
        let is_root = above == table.root;
        let hint = table.hint_of(above).unwrap_or_else(|| {
            let mut hint = its_hint.to_vec();
            if !is_root {
                hint.push(hash(above.number));
            }
            hint
        });
        let id = compose(inode, &hint);
        let name = name.into();
        table.put(Step { inode, name }, above, id);
        id
    }

    /// An identifier for the parent of an object, which was reached by `..`.
    pub(super) fn id_of_parent(&self, inode: Inode, child: &FileId) -> FileId {
        if let Some(place) = self.0.lock().places.get(&inode) {
            return place.id;
        }
        let hint = parse(child).map_or(&[][..], |(_, hint)| hint);
        let above = hint.split_last().map_or(&[][..], |(_, above)| above);
        compose(inode, above)
    }
}

impl Table {
    /// Puts a place in, for one that was not used when there are too many.
    fn put(&mut self, Step { inode, name }: Step, parent: Inode, id: FileId) {
        self.missing.remove(&inode);
        if self.places.len() >= PLACES_MAX {
            self.places.evict(usize::MAX, |_| true);
        }
        self.places.insert(inode, Place { name, parent, id }, 1);
    }

    fn is_missing(&self, inode: Inode) -> bool {
        let since = self.missing.peek(&inode);
        since.is_some_and(|since| since.elapsed() < MISSING_FOR)
    }

    fn set_missing(&mut self, inode: Inode) {
        self.missing.insert(inode, Instant::now(), 1);
        if self.missing.len() > MISSING_MAX {
            self.missing.evict(1, |_| true);
        }
    }

    /// Inodes and names from below the root down to `inode`.
    fn chain(&mut self, inode: Inode) -> Option<Vec<(u64, Box<[u8]>)>> {
        let mut chain = Vec::new();
        let mut at = inode;
        while at != self.root {
            if chain.len() > DEPTH_MAX {
                return None;
            }
            let place = self.places.get(&at)?;
            chain.push((at.number, place.name.clone()));
            at = place.parent;
        }
        chain.reverse();
        Some(chain)
    }

    /// The path hint of what lies in the directory `parent`.
    fn hint_of(&mut self, parent: Inode) -> Option<Vec<u8>> {
        let chain = self.chain(parent)?;
        Some(chain.iter().map(|(inode, _)| hash(*inode)).collect())
    }
}

impl Tree {
    /// Opens the object of an identifier of this kind, only to name it.
    pub(super) fn open_by_hint(&self, places: &Places, id: &FileId) -> Result<(OwnedFd, Status)> {
        let (inode, hint) = parse(id)?;
        self.acting.become_server()?;
        if let Some(found) = self.descend_known(places, inode)? {
            return Ok(found);
        }
        Error::Stale.when(self.is_missing(inode))?;
        let root = (self.root.as_fd(), parse(&self.root.id)?.0);
        if let Some(found) = self.walk(places, id, root, hint)? {
            return Ok(found);
        }
        if !self.find_listed(id, inode)? {
            return Err(Error::Stale);
        }
        // moved again, or forgotten among many others
        self.descend_known(places, inode)?.ok_or(Error::TryLater)
    }

    fn descend_known(&self, places: &Places, inode: Inode) -> Result<Option<(OwnedFd, Status)>> {
        let chain = places.0.lock().chain(inode).unwrap_or_default();
        let found = self.open_below(chain.iter().map(|(_, name)| &**name), true)?;
        Ok(found.filter(|(opened, status)| self.is_it(inode, opened, status)))
    }

    /// Whether what was opened is the object that was looked for.
    fn is_it(&self, inode: Inode, opened: &OwnedFd, status: &Status) -> bool {
        self.resolver.same_mount(status) && self.inode_of(opened, status) == Ok(inode)
    }

    pub(super) fn inode_of(&self, opened: impl AsFd, status: &Status) -> Result<Inode> {
        Inode::of(opened, status, self.root.node.device)
    }

    /// An identifier without its path hint of what a name means, where places are noted.
    pub(super) fn key_at(&self, directory: &Object, name: &[u8]) -> Option<FileId> {
        if matches!(self.naming, Naming::Handles) {
            return None;
        }
        let opened = self.child_if_any(directory.as_fd(), name, true).ok()??;
        let status = Status::of(&opened).ok()?;
        Some(compose(self.inode_of(&opened, &status).ok()?, &[]))
    }

    /// Whether the object was searched in vain.
    pub(super) fn is_missing(&self, inode: Inode) -> bool {
        match &self.naming {
            Naming::PathHints(places) => places.0.lock().is_missing(inode),
            Naming::Handles => false,
        }
    }

    /// The object was searched in vain.
    pub(super) fn set_missing(&self, inode: Inode) {
        if let Naming::PathHints(places) = &self.naming {
            places.0.lock().set_missing(inode);
        }
    }

    /// Notes where an object was found: in the last of these directories, from the root down.
    pub(super) fn note_path<'a>(
        &self,
        above: impl Iterator<Item = &'a Step>,
        found: Step,
        id: FileId,
    ) {
        let Naming::PathHints(places) = &self.naming else {
            return;
        };
        let mut table = places.0.lock();
        let (mut parent, mut hashes) = (table.root, Vec::new());
        for Step { inode, name } in above {
            let known = table.places.get(inode).map(|place| place.id);
            let id = known.unwrap_or_else(|| compose(*inode, &hashes));
            let (inode, name) = (*inode, name.clone());
            table.put(Step { inode, name }, parent, id);
            hashes.push(hash(inode.number));
            parent = inode;
        }
        table.put(found, parent, id);
    }

    /// Reads a directory, notes and returns the object if it is there, and else goes down wherever
    /// the hint leads.
    fn walk(
        &self,
        places: &Places,
        id: &FileId,
        (directory, parent): (BorrowedFd<'_>, Inode),
        hint: &[u8],
    ) -> Result<Option<(OwnedFd, Status)>> {
        let Some(listing) = unless_short(self.with_room(true, || open_directory(directory)))?
        else {
            return Ok(None); // not ours to read, or no directory
        };
        let (inode, _) = parse(id)?;
        let mut matches: Vec<Box<[u8]>> = Vec::new();
        let mut candidates: Vec<Box<[u8]>> = Vec::new();
        each_entry(listing.as_fd(), &mut |entry| {
            if entry.is_dots() {
                return true;
            }
            if entry.inode == inode.number {
                matches.push(entry.name.into());
            }
            if entry.may_be_directory && hint.first() == Some(&hash(entry.inode)) {
                candidates.push(entry.name.into());
            }
            true
        })?;
        drop(listing);
        for name in matches {
            let Some(opened) = self.child_if_any(directory, &name, true)? else {
                continue;
            };
            let status = Status::of(&opened)?;
            if self.is_it(inode, &opened, &status) {
                places.0.lock().put(Step { inode, name }, parent, *id);
                return Ok(Some((opened, status)));
            }
        }
        let below = hint.get(1..).unwrap_or(&[]);
        for name in candidates {
            let Some(child) = self.child_if_any(directory, &name, true)? else {
                continue;
            };
            let inode = self.inode_of(&child, &Status::of(&child)?)?;
            let found = self.walk(places, id, (child.as_fd(), inode), below)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot has the numbers and births of what it was made of.
    #[test]
    fn objects_of_one_number_and_birth_on_two_devices_are_two() {
        let top = tempfile::tempdir().unwrap();
        let opened = std::fs::File::open(top.path()).unwrap();
        let live = Status::of(&opened).unwrap();
        let device = live.node.device;
        let mut copy = live;
        copy.node.device += 1;
        let [live, copy] = [live, copy].map(|status| {
            assert!(status.birth > 0);
            Inode::of(&opened, &status, device).unwrap()
        });
        assert_ne!(compose(live, &[]), compose(copy, &[]));
        let mut table = Table::default();
        for (inode, name) in [(live, b"live"), (copy, b"copy")] {
            let name = Box::from(&name[..]);
            table.put(Step { inode, name }, Inode::default(), compose(inode, &[]));
        }
        for (inode, name) in [(live, b"live"), (copy, b"copy")] {
            assert_eq!(*table.chain(inode).unwrap()[0].1, *name);
        }
    }

    #[test]
    fn many_are_remembered_and_the_oldest_go() {
        let inode = |number: usize| Inode {
            number: number as u64,
            birth: 7,
        };
        let mut table = Table::default();
        for number in 0..MISSING_MAX + 10 {
            table.set_missing(inode(number));
        }
        assert!((0..10).all(|number| !table.is_missing(inode(number))));
        assert!((10..MISSING_MAX + 10).all(|number| table.is_missing(inode(number))));
        table.missing.remove(&inode(77));
        assert!(!table.is_missing(inode(77)) && table.is_missing(inode(78)));
        assert!(table.missing.len() <= MISSING_MAX);
    }
}
