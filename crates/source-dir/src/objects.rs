//! From identifiers to objects.
//!
//! There are two kinds of identifiers, the kernel's handles ([`super::handle`]) and path hints
//! ([`super::path_hint`]). An object that is held open is found by either in the cache, or by its
//! inode when a name has just led to it; one that is not is opened.

use super::object::Object;
use super::path_hint::{self, Places};
use super::status::Status;
use super::{Tree, blocking, containment, handle};
use pagewell_counters::names;
use pagewell_fs::{Attributes, Call, Entry, Error, FileId, OpenFile, Result, moment};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// How an export names its objects.
pub(super) enum Naming {
    /// By the kernel's file handles.
    Handles,
    /// By inode number, birth time and path hint.
    PathHints(Places),
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

    /// Notes where a held object was just seen.
    pub(super) fn note(&self, status: &Status, place: &Place<'_>) {
        if let (Self::PathHints(places), Place::Child(directory, name)) = (self, place) {
            places.note(status, directory, name);
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
    pub(super) fn look(&self, object: &Object) -> Result<Status> {
        let status = object.status()?;
        if self.is_gone(&status) && !object.is_held() {
            self.release(object);
            return Err(Error::Stale);
        }
        if !self.whole_mount && object.may_have_moved(&status) {
            self.check_place_of(object, &status, true)?; // a directory tells without waiting
        }
        Ok(object.settled(status))
    }

    /// The same for a call that only looks: one look serves all calls of a moment.
    pub(super) fn look_once(&self, object: &Held) -> Result<Status> {
        let status = match object.seen.get() {
            Some(status) => status,
            None => self.look(object)?,
        };
        object.seen.set(Some(status));
        Ok(status)
    }

    /// Whether the object has lost its last name. Some file systems count no names at all.
    pub(super) fn is_gone(&self, status: &Status) -> bool {
        status.attributes.link_count == 0 && self.counts_links
    }

    /// Lets go of an object that is gone.
    pub(super) fn release(&self, object: &Object) {
        if let Ok(key) = self.naming.key_of(&object.id) {
            drop(self.cache.remove(&key));
        }
        if object.is_directory() {
            self.listings.forget(object.node);
            self.ordered.forget(object.node);
        }
    }

    /// [`pagewell_fs::FileSystem::attributes`].
    pub(super) fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let object = self.object(call, id)?;
        Ok(self.attributes_of(&self.look_once(&object)?))
    }

    pub(super) fn attributes_of(&self, status: &Status) -> Attributes {
        Attributes {
            filesystem_id: self.filesystem_id,
            ..status.attributes
        }
    }

    pub(super) fn entry_of(&self, object: &Object, status: &Status) -> Entry {
        Entry {
            id: object.id,
            attributes: self.attributes_of(&object.settled(*status)),
        }
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
        self.naming.note(status, place);
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
        let (object, evicted) = self.cache.insert(key, object, may_wait);
        self.let_go(evicted);
        Ok(object)
    }

    /// The identifier of an object that was just opened.
    pub(super) fn identify(
        &self,
        opened: BorrowedFd<'_>,
        status: &Status,
        place: &Place<'_>,
    ) -> Result<FileId> {
        match (&self.naming, place) {
            (Naming::Handles, _) => handle::identify(opened),
            (Naming::PathHints(places), Place::Child(directory, name)) => {
                Ok(places.note(status, directory, name))
            }
            (Naming::PathHints(places), Place::ParentOf(child)) => {
                Ok(places.id_of_parent(status, &child.id))
            }
        }
    }
}
