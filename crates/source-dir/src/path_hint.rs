//! Where objects were last seen, for identifiers with path hints.
//!
//! A path hint has one byte for each directory above the object, a hash of that directory's inode
//! number, which survives a rename in place. Three searches find an object again, in this order:
//! 1. *table*: a bounded map from inode to (parent, name), from our own lookups and renames, leads
//!    to the root, and the names are opened downwards;
//! 2. *walk*: from the root, only into directories that match the hint's next byte (one in 256 by
//!    chance), to the object's inode number;
//! 3. *census*: one thread reads all directories, for all objects wanted by then. The disk then
//!    rests for [`REST_FACTOR`] times its duration; other calls wait, or have to try later.
//!
//! An opened object counts when inode number and birth time match. A missing one is stale for
//! [`MISSING_FOR`], or until its name is seen: clients ask for removed files that they have open.
//! An object keeps its identifier while the table knows it, also under other names.
//!
//! Weaknesses: without birth times (0), a reused inode number is not noticed. Objects that listings
//! show with other inode numbers than stat (union mounts, roots of subvolumes) are found by the
//! table alone. After a restart an object with two names may get the other name's hint.

use super::bounds::Bounds;
use super::entries::{BUFFER_BYTES, each_entry, entries, parse};
use super::identifier::{compose, hash, parse_hint};
use super::object::{Inode, Object, Status, open_directory};
use super::system::{self, unless_short};
use pagewell_base::clock::Clock;
use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, FileId, OpenFile, Result};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Objects with a remembered place: about 13 MiB.
const PLACES_MAX: usize = 1 << 16;
const DEPTH_MAX: usize = 1024;
/// How long a search in vain is remembered.
const MISSING_FOR: Duration = Duration::from_secs(3600);
/// All that one census did not find: some 6 MiB. The oldest go first.
const MISSING_MAX: usize = WANTED_MAX;

/// In durations of the census.
const REST_FACTOR: u32 = 10;
/// A thread's wait for a census.
const WAIT: Duration = Duration::from_secs(2);
const WAITING_MAX: usize = 8;
const WANTED_MAX: usize = 1 << 16;
/// Each has a descriptor; no path can have more.
const LEVELS_MAX: usize = 2048;

pub(super) struct Places {
    table: Mutex<Table>,
    /// Objects that the next census looks for, by inode number.
    wanted: Mutex<Wanted>,
    /// When the next census may begin; locked during one.
    next_census: Mutex<Instant>,
    waiting: AtomicUsize,
}

type Wanted = HashMap<u64, (Inode, FileId)>;

struct Step {
    inode: Inode,
    name: Box<[u8]>,
}

struct KnownPlace {
    name: Box<[u8]>,
    parent: Inode,
    id: FileId,
}

#[derive(Default)]
struct Table {
    root: Inode,
    places: Clock<Inode, KnownPlace>,
    missing: Clock<Inode, Instant>,
}

impl Places {
    pub(super) fn new(root: Inode) -> Self {
        Self {
            table: Mutex::new(Table {
                root,
                ..Table::default()
            }),
            wanted: Mutex::default(),
            next_census: Mutex::new(Instant::now()),
            waiting: AtomicUsize::new(0),
        }
    }

    pub(super) fn note(&self, inode: Inode, parent: &Object, name: &[u8]) -> FileId {
        let (above, its_hint) = parse_hint(parent.id()).unwrap_or_default();
        let mut table = self.table.lock();
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

    pub(super) fn id_of_parent(&self, inode: Inode, child: &FileId) -> FileId {
        if let Some(place) = self.table.lock().places.get(&inode) {
            return place.id;
        }
        let hint = parse_hint(child).map_or(&[][..], |(_, hint)| hint);
        let above = hint.split_last().map_or(&[][..], |(_, above)| above);
        compose(inode, above)
    }

    pub(super) fn open(&self, bounds: &Bounds, id: &FileId) -> Result<(OwnedFd, Status)> {
        let (inode, hint) = parse_hint(id)?;
        bounds.access().become_server()?;
        if let Some(found) = self.descend(bounds, inode)? {
            return Ok(found);
        }
        Error::Stale.when(self.table.lock().is_missing(inode))?;
        let root = bounds.root();
        let walk = Walk {
            places: self,
            bounds,
            id: *id,
            inode,
        };
        let found = walk.below((root.as_fd(), parse_hint(root.id())?.0), hint)?;
        if let Some(found) = found {
            return Ok(found);
        }
        self.find(bounds, inode, id)?;
        let found = self.descend(bounds, inode)?;
        // Moved again, or evicted from the table.
        let gone = self.table.lock().is_missing(inode);
        found.ok_or(if gone { Error::Stale } else { Error::TryLater })
    }

    fn find(&self, bounds: &Bounds, inode: Inode, id: &FileId) -> Result<()> {
        let is_wanted = self.want(inode, id);
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = (others < WAITING_MAX).then(|| self.next_census.lock());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut next_census = turn.ok_or(Error::TryLater)?;
        let wanted = self.wanted.lock();
        let is_done = match is_wanted {
            true => !wanted.contains_key(&inode.number),
            false => wanted.len() < WANTED_MAX,
        };
        drop(wanted);
        if is_done {
            return Ok(()); // the census of another thread had it, or made room
        }
        let rest = next_census.saturating_duration_since(Instant::now());
        Error::TryLater.when(rest > WAIT)?;
        std::thread::sleep(rest);
        let began = Instant::now();
        let asked = self.wanted.lock().clone();
        self.read_all(bounds, &asked)?;
        let (mut wanted, mut table) = (self.wanted.lock(), self.table.lock());
        for (number, (inode, _)) in asked {
            if wanted.remove(&number).is_some() {
                table.set_missing(inode);
            }
        }
        *next_census = Instant::now() + began.elapsed().saturating_mul(REST_FACTOR);
        Ok(())
    }

    /// False where too many are wanted: only a census makes room.
    fn want(&self, inode: Inode, id: &FileId) -> bool {
        let mut wanted = self.wanted.lock();
        let has_room = wanted.len() < WANTED_MAX || wanted.contains_key(&inode.number);
        if has_room {
            wanted.insert(inode.number, (inode, *id));
        }
        has_room
    }

    fn read_all(&self, bounds: &Bounds, asked: &Wanted) -> Result<()> {
        let mut levels = Vec::new();
        levels.extend(Level::open(bounds, bounds.root().as_fd(), b"")?);
        while let Some(level) = levels.last_mut() {
            if let Some(name) = level.next_directory() {
                let opened = bounds.child(level.file.as_fd(), &name, true)?;
                // None: gone meanwhile, a mount point, or not searchable.
                if let Some(opened) = opened
                    && let Some(below) = Level::open(bounds, opened.as_fd(), &name)?
                    && levels.len() < LEVELS_MAX
                {
                    levels.push(below);
                }
            } else if level.fill() {
                self.note_entries(bounds, &levels, asked)?;
            } else {
                levels.pop();
            }
        }
        Ok(())
    }

    fn note_entries(&self, bounds: &Bounds, levels: &[Level], asked: &Wanted) -> Result<()> {
        let Some(level) = levels.last() else {
            return Ok(());
        };
        for (entry, _) in entries(&level.bytes).filter(|(entry, _)| !entry.is_dots()) {
            let Some((inode, id)) = asked.get(&entry.inode) else {
                continue;
            };
            let opened = bounds.child(level.file.as_fd(), entry.name, true)?;
            let found = opened.map(|opened| bounds.inode_of(&opened, &Status::of(&opened)?));
            if found == Some(Ok(*inode)) {
                let above = levels.iter().skip(1).map(|level| &level.step);
                let (inode, name) = (*inode, entry.name.into());
                self.table
                    .lock()
                    .put_below(above, Step { inode, name }, *id);
                self.wanted.lock().remove(&inode.number);
            }
        }
        Ok(())
    }

    fn descend(&self, bounds: &Bounds, inode: Inode) -> Result<Option<(OwnedFd, Status)>> {
        let chain = self.table.lock().chain(inode).unwrap_or_default();
        let found = bounds.open_below(chain.iter().map(|(_, name)| &**name), true)?;
        Ok(found.filter(|(opened, status)| is_it(bounds, inode, opened, status)))
    }
}

fn is_it(bounds: &Bounds, inode: Inode, opened: &OwnedFd, status: &Status) -> bool {
    bounds.resolver().same_mount(status) && bounds.inode_of(opened, status) == Ok(inode)
}

struct Walk<'a> {
    places: &'a Places,
    bounds: &'a Bounds,
    id: FileId,
    inode: Inode,
}

struct Level {
    file: OpenFile,
    step: Step,
    bytes: Vec<u8>,
    at: usize,
}

impl Level {
    /// `None` when it is none or unreadable.
    fn open(bounds: &Bounds, directory: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Self>> {
        let status = Status::of(directory)?;
        if !status.attributes.file_type.is_directory() {
            return Ok(None);
        }
        let opened = bounds.table().with_room(true, || open_directory(directory));
        let Some(file) = unless_short(opened)? else {
            return Ok(None);
        };
        let (inode, name) = (bounds.inode_of(directory, &status)?, name.into());
        Ok(Some(Self {
            file,
            step: Step { inode, name },
            bytes: Vec::with_capacity(BUFFER_BYTES),
            at: 0,
        }))
    }

    /// False at the end or at an error.
    fn fill(&mut self) -> bool {
        self.bytes.clear();
        self.at = 0;
        system::read_entries(self.file.as_fd(), &mut self.bytes).unwrap_or(false)
    }

    /// The next name that may be a directory's.
    fn next_directory(&mut self) -> Option<Box<[u8]>> {
        while let Some((entry, next)) = parse(&self.bytes, self.at) {
            self.at = next;
            if entry.may_be_directory && !entry.is_dots() {
                return Some(entry.name.into());
            }
        }
        None
    }
}

impl Table {
    /// In the last of these directories, from the root down.
    fn put_below<'a>(&mut self, above: impl Iterator<Item = &'a Step>, found: Step, id: FileId) {
        let (mut parent, mut hashes) = (self.root, Vec::new());
        for Step { inode, name } in above {
            let known = self.places.get(inode).map(|place| place.id);
            let id = known.unwrap_or_else(|| compose(*inode, &hashes));
            let (inode, name) = (*inode, name.clone());
            self.put(Step { inode, name }, parent, id);
            hashes.push(hash(inode.number));
            parent = inode;
        }
        self.put(found, parent, id);
    }

    /// Evicts an unused place when there are too many.
    fn put(&mut self, Step { inode, name }: Step, parent: Inode, id: FileId) {
        self.missing.remove(&inode);
        if self.places.len() >= PLACES_MAX {
            self.places.evict(usize::MAX, |_| true);
        }
        self.places
            .insert(inode, KnownPlace { name, parent, id }, 1);
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

    /// From below the root down to `inode`.
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

    fn hint_of(&mut self, parent: Inode) -> Option<Vec<u8>> {
        let chain = self.chain(parent)?;
        Some(chain.iter().map(|(inode, _)| hash(*inode)).collect())
    }
}

impl Walk<'_> {
    /// Searches a directory for the object and notes its place; else descends along the hint.
    fn below(
        &self,
        (directory, parent): (BorrowedFd<'_>, Inode),
        hint: &[u8],
    ) -> Result<Option<(OwnedFd, Status)>> {
        let Self { bounds, inode, .. } = *self;
        let open = || open_directory(directory);
        let Some(listing) = unless_short(bounds.table().with_room(true, open))? else {
            return Ok(None); // not ours to read, or no directory
        };
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
            let Some(opened) = bounds.child(directory, &name, true)? else {
                continue;
            };
            let status = Status::of(&opened)?;
            if is_it(bounds, inode, &opened, &status) {
                let mut table = self.places.table.lock();
                table.put(Step { inode, name }, parent, self.id);
                return Ok(Some((opened, status)));
            }
        }
        let below = hint.get(1..).unwrap_or(&[]);
        for name in candidates {
            let Some(child) = bounds.child(directory, &name, true)? else {
                continue;
            };
            let inode = bounds.inode_of(&child, &Status::of(&child)?)?;
            let found = self.below((child.as_fd(), inode), below)?;
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
    use crate::directory::Directory;
    use crate::objects::Naming;
    use crate::options::Options;

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

    /// Clients need not come back for what they asked for.
    #[test]
    fn when_too_many_are_wanted_the_next_call_makes_room() {
        let top = tempfile::tempdir().unwrap();
        let options = Options {
            force_trails: true,
            ..Options::default()
        };
        let directory = Directory::open(top.path(), options).unwrap();
        let objects = directory.tree().objects();
        let Naming::PathHints(places) = objects.naming() else {
            panic!("objects are named by handles");
        };
        let missing = |number: usize| Inode {
            number: u64::MAX - number as u64,
            birth: 7,
        };
        for number in 0..WANTED_MAX {
            let inode = missing(number);
            assert!(places.want(inode, &compose(inode, &[])));
        }
        let id = compose(missing(WANTED_MAX), &[]);
        let open = || places.open(objects.bounds(), &id).map(drop);
        assert_eq!(open(), Err(Error::TryLater));
        assert!(places.wanted.lock().is_empty());
        let table = places.table.lock();
        let is_missing = |number| table.is_missing(missing(number));
        assert!((0..WANTED_MAX).all(is_missing), "none is looked for again");
        drop(table);
        *places.next_census.lock() = Instant::now(); // it rests no longer
        assert_eq!(open(), Err(Error::Stale));
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
