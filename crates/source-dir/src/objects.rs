//! From identifiers to objects, and what is held open.
//!
//! There are two kinds of identifiers, the kernel's handles ([`super::handle`]) and path hints
//! ([`super::path_hint`]). An object that is held open is found by either in the cache, or by its
//! inode when a name has just led to it; one that is not is opened.
//!
//! Problem of the cache: an object must be found for each request without opening it again, with a
//! bound on descriptors, and no descriptor may be used after it was closed.
//!
//! Rule: a map from identifier to object in each of 16 shards, from which what was not used goes
//! first ([`Clock`]; the marks are the objects' own, as an object is found without its shard, too).
//! Users hold an `Arc`, so eviction only lets go of the object; what is in use is not evicted at
//! all, which keeps one inode from being two objects (its change counters must be one). A second
//! map from inode to object lets a lookup that just looked at an inode find its object, and with it
//! its identifier, without asking the kernel for a handle: while the object is held, its inode
//! number cannot mean anything else.
//!
//! ```text
//!   id ──> shard: clock [o][o*][o] <── weak reference ── node
//! ```
//!
//! Data that no sync has covered keeps an object from eviction, because an error that the kernel
//! reports after the last descriptor is closed would be lost. A thread that finds nothing else to
//! evict syncs one, if it may wait; a later one evicts it. It stays until then, so that a
//! commit meanwhile waits for the outcome of that sync ([`super::syncs`]).
//!
//! The bound on descriptors counts those of all exports. A descriptor that is opened when there are
//! more pushes two objects out, and so does one that the system refuses.
//!
//! Weakness: the bound may be exceeded by the number of objects in use at one moment, which the
//! number of server threads bounds, and by those that were just synced for it.

use super::object::Object;
use super::path_hint::{self, Places};
use super::status::{Node, Status};
use super::{Tree, blocking, containment, handle};
use pagewell_base::clock::Clock;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::{Attributes, Call, Error, FileId, OpenFile, Result, moment};
use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

const SHARDS: usize = 16;
/// Objects looked at for one eviction: two rounds of a small shard, a bound for a large one.
const STEPS_MAX: usize = 128;

/// How an export names its objects.
pub(super) enum Naming {
    /// By the kernel's file handles.
    Handles,
    /// By inode number, birth time and path hint.
    PathHints(Box<Places>),
}

/// How an object was reached.
pub(super) enum Place<'a> {
    /// By a name in a directory.
    Child(&'a Object, &'a [u8]),
    /// As the parent of a directory.
    ParentOf(&'a Object),
}

impl Naming {
    /// What the open-object cache finds an object by.
    pub(super) fn key_of(&self, id: &FileId) -> Result<FileId> {
        match (self, id.as_bytes().first()) {
            (Self::Handles, Some(&handle::TAG)) => Ok(*id),
            (Self::PathHints(_), Some(&path_hint::TAG)) => path_hint::key_of(id),
            // issued while the program had other privileges
            (_, Some(&(handle::TAG | path_hint::TAG))) => Err(Error::Stale),
            _ => Err(Error::BadId),
        }
    }

    /// Notes where the object of an identifier was just seen.
    pub(super) fn note(&self, id: &FileId, place: &Place<'_>) {
        if let (Self::PathHints(places), Place::Child(directory, name)) = (self, place)
            && let Ok((inode, _)) = path_hint::parse(id)
        {
            places.note(inode, directory, name);
        }
    }
}

/// An object that a call uses, which the calls of the same moment behind it may use, too.
pub(super) type Held = Rc<InUse>;

/// See [`Held`].
pub(super) struct InUse {
    object: Arc<Object>,
    /// How it is in this moment, for calls that only look.
    seen: Cell<Option<Status>>,
}

impl std::ops::Deref for InUse {
    type Target = Arc<Object>;
    fn deref(&self) -> &Arc<Object> {
        &self.object
    }
}

type Shard = Clock<FileId, Arc<Object>>;

/// The objects held open.
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    nodes: Vec<Mutex<HashMap<Node, Weak<Object>>>>,
    shard_objects_max: usize,
    descriptors_max: i64,
    /// Where room is made next.
    next_shard: AtomicUsize,
}

impl Cache {
    /// A cache of about this many objects and descriptors.
    pub(super) fn new(objects_max: usize, descriptors_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            nodes: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_objects_max: objects_max.div_ceil(SHARDS).max(1),
            descriptors_max: i64::try_from(descriptors_max).unwrap_or(i64::MAX),
            next_shard: AtomicUsize::new(0),
        }
    }

    fn shard(&self, key: &FileId) -> &Mutex<Shard> {
        // the last bytes vary most: generation or inode number
        let sum = key.as_bytes().iter().fold(0usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
        });
        &self.shards[sum % SHARDS]
    }

    #[allow(clippy::cast_possible_truncation)] // only the low bits count
    fn node_shard(&self, node: Node) -> &Mutex<HashMap<Node, Weak<Object>>> {
        &self.nodes[node.inode as usize % SHARDS]
    }

    /// The object of this key, if it is held.
    pub(super) fn get(&self, key: &FileId) -> Option<Arc<Object>> {
        let shard = self.shard(key).lock();
        let object = shard.peek(key)?;
        object.mark();
        Some(Arc::clone(object))
    }

    /// The object at this node, if it is held.
    pub(super) fn get_node(&self, node: Node) -> Option<Arc<Object>> {
        let object = self.node_shard(node).lock().get(&node)?.upgrade()?;
        object.mark();
        Some(object)
    }

    /// Holds `object` under `key`, unless one is held there already: returns the one that is. And
    /// where one has to go and none may, one that may after a sync.
    pub(super) fn insert(&self, key: FileId, object: Object) -> (Arc<Object>, Option<Arc<Object>>) {
        let node = object.node;
        // closed outside the lock
        let mut evicted = Vec::new();
        let mut unsynced = None;
        let mut shard = self.shard(&key).lock();
        if let Some(held) = shard.peek(&key) {
            held.mark();
            let held = Arc::clone(held);
            drop(shard);
            return (held, None);
        }
        let object = Arc::new(object);
        // while `object` is also held here, it cannot be evicted
        shard.insert(key, Arc::clone(&object), 1);
        self.node_shard(node)
            .lock()
            .insert(node, Arc::downgrade(&object));
        // two at most: an insertion never pays for a long queue of others
        for _ in 0..2 {
            let crowded = shard.len() > self.shard_objects_max || self.is_crowded();
            if !crowded {
                break;
            }
            match self.evict_from(&mut shard) {
                Ok(out) => evicted.push(out),
                Err(other) => {
                    unsynced = other;
                    break;
                }
            }
        }
        drop(shard);
        (object, unsynced)
    }

    /// Whether there are more descriptors than there should be.
    fn is_crowded(&self) -> bool {
        names::DIR_OPEN_DESCRIPTORS.get() > self.descriptors_max
    }

    /// Takes two objects out at the most, wherever they are. Where none may go, returns one that
    /// may after a sync.
    fn evict_some(&self) -> Option<Arc<Object>> {
        let first = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
        // closed outside the lock
        let mut evicted = Vec::new();
        let mut unsynced = None;
        for shard in self.shards.iter().cycle().skip(first).take(SHARDS) {
            match self.evict_from(&mut shard.lock()) {
                Ok(out) => evicted.push(out),
                Err(other) => unsynced = unsynced.or(other),
            }
            if evicted.len() == 2 {
                break;
            }
        }
        unsynced.filter(|_| evicted.is_empty())
    }

    /// Takes an object out; see [`evict`].
    fn evict_from(&self, shard: &mut Shard) -> Result<Object, Option<Arc<Object>>> {
        let out = evict(shard)?;
        self.node_shard(out.node).lock().remove(&out.node);
        Ok(out)
    }

    /// The object of this key, which a program opens.
    pub(super) fn hold(&self, key: &FileId) -> Option<Arc<Object>> {
        let shard = self.shard(key).lock();
        let object = shard.peek(key)?;
        object.hold();
        Some(Arc::clone(object))
    }

    /// Lets go of an object whose inode has no names any more. Its space is freed when its last
    /// user is done. False: a program has it open.
    pub(super) fn remove(&self, key: &FileId) -> bool {
        let mut shard = self.shard(key).lock();
        if shard.peek(key).is_some_and(|object| object.is_held()) {
            return false;
        }
        if let Some(object) = shard.remove(key) {
            self.node_shard(object.node).lock().remove(&object.node);
            drop(shard);
        }
        true
    }

    /// All objects held now, shard by shard: those of one shard are in use while they are
    /// visited.
    pub(super) fn each(&self, mut visit: impl FnMut(&Object)) {
        for shard in &self.shards {
            let objects: Vec<_> = shard.lock().values().cloned().collect();
            for object in objects {
                visit(&object);
            }
        }
    }
}

/// Takes out an object that nothing uses and that is synced. An error when none was met: one that
/// only has to be synced for that, if there was one.
fn evict(shard: &mut Shard) -> Result<Object, Option<Arc<Object>>> {
    let turns_max = (shard.len() * 2).min(STEPS_MAX);
    let mut unsynced = None;
    let met = shard.evict(turns_max, |object| {
        if object.unmark() || Arc::strong_count(object) > 1 {
            return false;
        }
        if object.is_unsynced() {
            unsynced.get_or_insert_with(|| Arc::clone(object));
            return false;
        }
        true
    });
    let (key, object) = met.ok_or(unsynced)?;
    Arc::try_unwrap(object).map_err(|object| {
        // It was found by its inode just now.
        shard.insert(key, object, 1);
        None
    })
}

impl Tree {
    /// The object of an identifier, held open. Calls of one moment that are for one object look
    /// for it once.
    pub(super) fn object(&self, call: &Call<'_>, id: &FileId) -> Result<Held> {
        self.may_look(call)?;
        if let Some(object) = moment::kept(self, id) {
            return Ok(object);
        }
        let object = Rc::new(InUse {
            object: self.look_for(call, id)?,
            seen: Cell::new(None),
        });
        moment::keep(self, id, &object);
        Ok(object)
    }

    fn look_for(&self, call: &Call<'_>, id: &FileId) -> Result<Arc<Object>> {
        if *id == self.root.id {
            return Ok(Arc::clone(&self.root));
        }
        let key = self.naming.key_of(id)?;
        if let Some(object) = self.cache.get(&key) {
            self.check_place(&object, call.may_block)?;
            names::DIR_OBJECTS_HIT.add(1);
            return Ok(object);
        }
        blocking::may_wait(call)?;
        names::DIR_OBJECTS_MISSED.add(1);
        let (opened, status) = match &self.naming {
            Naming::Handles => self.open_handle(id)?,
            Naming::PathHints(places) => self.open_by_hint(places, id)?,
        };
        let object = Object::new(*id, &status, OpenFile::new(opened));
        self.hold_open(object, &status, true)
    }

    /// Lets go of objects, for their descriptors: after a sync where no other may go, if the caller
    /// may wait for it.
    pub(super) fn make_room(&self, may_wait: bool) {
        if let Some(unsynced) = self.cache.evict_some()
            && may_wait
        {
            self.sync_unused(&unsynced);
            drop(unsynced);
            self.cache.evict_some();
        }
    }

    /// Opens something; lets go of objects first when there are many descriptors, or else when the
    /// program may have no more. [`Error::WouldBlock`] where that does not help, and the caller
    /// must not wait. What says [`Error::TryLater`] for another reason does
    /// not belong in `open`.
    pub(super) fn with_room<T>(&self, may_wait: bool, open: impl Fn() -> Result<T>) -> Result<T> {
        if self.cache.is_crowded() {
            self.make_room(may_wait);
        }
        let opened = match open() {
            Err(Error::TryLater) => {
                self.make_room(may_wait);
                open()
            }
            opened => opened,
        };
        opened.map_err(|error| match error {
            Error::TryLater if !may_wait => Error::WouldBlock,
            error => error,
        })
    }

    /// The same, if it is a directory.
    pub(super) fn directory(&self, call: &Call<'_>, id: &FileId) -> Result<Held> {
        let object = self.object(call, id)?;
        Error::NotDirectory.unless(object.is_directory())?;
        Ok(object)
    }

    /// [`pagewell_fs::FileSystem::path_of`]: the path of an object that is held.
    pub(super) fn path_of(&self, id: &FileId) -> Option<String> {
        let key = self.naming.key_of(id).ok();
        let path = match key.and_then(|key| self.cache.get(&key)) {
            Some(object) => containment::path_of(object.as_fd())?,
            None if *id == self.root.id => b"/".to_vec(),
            None => return Some(format!("{}/...", self.path.display())),
        };
        let path = String::from_utf8_lossy(&path);
        if self.original.is_some() || *id == self.root.id {
            Some(format!("{}{path}", self.path.display())) // as its own mount shows it
        } else {
            Some(path.into_owned())
        }
    }

    /// One look at an object. One that has no names any more is let go, so that its space is freed,
    /// unless a program has it open.
    pub(super) fn look(&self, object: &Object, may_wait: bool) -> Result<Status> {
        let status = object.status()?;
        if self.is_gone(&status) && self.release(object) {
            return Err(Error::Stale);
        }
        if !self.whole_mount && object.may_have_moved(&status) {
            self.check_place_of(object, &status, may_wait)?;
        }
        Ok(object.settled(status))
    }

    /// The same for a call that only looks: one look serves all calls of a moment.
    pub(super) fn look_once(&self, call: &Call<'_>, object: &Held) -> Result<Status> {
        let status = match object.seen.get() {
            Some(status) => status,
            None => self.look(object, call.may_block)?,
        };
        object.seen.set(Some(status));
        Ok(status)
    }

    /// Whether the object has lost its last name. Some file systems count no names at all.
    pub(super) fn is_gone(&self, status: &Status) -> bool {
        status.attributes.link_count == 0 && self.counts_links
    }

    /// Lets go of a held object. False: a program has it open.
    pub(super) fn release(&self, object: &Object) -> bool {
        let key = self.naming.key_of(&object.id);
        if object.is_held() || key.is_ok_and(|key| !self.cache.remove(&key)) {
            return false;
        }
        if object.is_directory() {
            self.listings.forget(object.node);
            self.ordered.forget(object.node);
        }
        true
    }

    /// [`pagewell_fs::FileSystem::attributes`].
    pub(super) fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let object = self.object(call, id)?;
        Ok(self.look_once(call, &object)?.attributes)
    }

    /// Holds what was just opened and looked at.
    pub(super) fn adopt(
        &self,
        opened: OwnedFd,
        status: &Status,
        place: &Place<'_>,
        may_wait: bool,
    ) -> Result<Arc<Object>> {
        if let Some(object) = self.held(status, place) {
            return Ok(object);
        }
        let id = self.identify(opened.as_fd(), status, place)?;
        let object = Object::new(id, status, OpenFile::new(opened));
        self.hold_open(object, status, may_wait)
    }

    /// The held object that was just looked at, if it is held.
    pub(super) fn held(&self, status: &Status, place: &Place<'_>) -> Option<Arc<Object>> {
        if self.root.node == status.node {
            return Some(Arc::clone(&self.root));
        }
        let object = self.cache.get_node(status.node)?;
        self.naming.note(&object.id, place);
        Some(object)
    }

    /// Holds an object that was just found in the export.
    pub(super) fn hold_open(
        &self,
        object: Object,
        status: &Status,
        may_wait: bool,
    ) -> Result<Arc<Object>> {
        let key = self.naming.key_of(&object.id)?;
        object.set_asked(self.turn(), status);
        let (object, unsynced) = self.cache.insert(key, object);
        if let Some(unsynced) = unsynced.filter(|_| may_wait) {
            self.sync_unused(&unsynced);
        }
        Ok(object)
    }

    /// The identifier of an object that was just looked at and is open; to note its place, any
    /// other on its device may be open instead.
    pub(super) fn identify(
        &self,
        opened: BorrowedFd<'_>,
        status: &Status,
        place: &Place<'_>,
    ) -> Result<FileId> {
        match (&self.naming, place) {
            (Naming::Handles, _) => handle::identify(opened),
            (Naming::PathHints(places), Place::Child(directory, name)) => {
                Ok(places.note(self.inode_of(opened, status)?, directory, name))
            }
            (Naming::PathHints(places), Place::ParentOf(child)) => {
                Ok(places.id_of_parent(self.inode_of(opened, status)?, &child.id))
            }
        }
    }
}
