//! From identifiers and names to objects.

use super::Tree;
use super::blocking;
use super::cache::Evicted;
use super::containment;
use super::naming::Place;
use super::object::Object;
use super::recent;
use super::status::Status;
use pagewell_counters::names;
use pagewell_fs::{Attributes, Call, Entry, Error, FileId, OpenFile, Result, moment};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// An object that a call uses, which the calls behind it may use, too.
pub(super) type Held = Rc<Arc<Object>>;

impl Tree {
    /// The object of an identifier, held open. Calls of one moment that are for one object look
    /// for it once.
    pub(super) fn object(&self, call: &Call<'_>, id: &FileId) -> Result<Held> {
        self.may_look(call)?;
        if let Some(object) = moment::kept(self, id) {
            return Ok(object);
        }
        let object = Rc::new(self.look_for(call, id)?);
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
        let (opened, status) = self.reopen(id)?;
        self.hold(*id, opened, &status, true)
    }

    /// [`pagewell_fs::FileSystem::path_of`]: the path of an object that is held.
    pub(super) fn path_of(&self, id: &FileId) -> Option<String> {
        let held = self
            .naming
            .key_of(id)
            .ok()
            .and_then(|key| self.cache.get(&key));
        let path = match held {
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

    /// The same, if it is a directory.
    pub(super) fn directory(&self, call: &Call<'_>, id: &FileId) -> Result<Held> {
        let object = self.object(call, id)?;
        if object.is_directory() {
            Ok(object)
        } else {
            Err(Error::NotDirectory)
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
    pub(super) fn look_once(&self, object: &Object) -> Result<Status> {
        let Some(moment) = moment::current() else {
            return self.look(object);
        };
        if let Some(status) = recent::status(moment, object) {
            return Ok(status);
        }
        let status = self.look(object)?;
        recent::seen(moment, &status);
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
        self.hold(id, opened, status, may_wait)
    }

    /// The held object that was just looked at, if it is held.
    pub(super) fn held(&self, status: &Status, place: &Place<'_>) -> Option<Arc<Object>> {
        if self.root.node == status.node {
            return Some(Arc::clone(&self.root));
        }
        let object = self.cache.get_node(status.node)?;
        self.naming.note(status, place, &self.root);
        Some(object)
    }

    pub(super) fn hold(
        &self,
        id: FileId,
        opened: OwnedFd,
        status: &Status,
        may_wait: bool,
    ) -> Result<Arc<Object>> {
        let object = Object::new(id, status, OpenFile::new(opened));
        self.hold_object(object, status, may_wait)
    }

    /// Holds an object that was just found in the export.
    pub(super) fn hold_object(
        &self,
        object: Object,
        status: &Status,
        may_wait: bool,
    ) -> Result<Arc<Object>> {
        let key = self.naming.key_of(&object.id)?;
        object.set_asked(self.turn(), status);
        let (object, evicted): (_, Evicted) = self.cache.insert(key, object, may_wait);
        self.let_go(evicted);
        Ok(object)
    }

    /// [`pagewell_fs::FileSystem::lookup`].
    pub(super) fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let directory = self.directory(call, directory)?;
        match name {
            b"." => self.lookup_itself(call, &directory),
            b".." => self.lookup_parent(call, &directory),
            _ => {
                if let Some((object, status)) = self.find_again(call, &directory, name)? {
                    return Ok(self.entry_of(&object, &status));
                }
                let (object, status) = self.find(call, &directory, name)?;
                recent::found(&directory, name, &object, &status);
                Ok(self.entry_of(&object, &status))
            }
        }
    }

    /// The object that `name` means, judged as the caller.
    pub(super) fn find(
        &self,
        call: &Call<'_>,
        directory: &Object,
        name: &[u8],
    ) -> Result<(Arc<Object>, Status)> {
        self.acting.become_caller(&self.acting.caller(call))?;
        let opened = self
            .resolver
            .child(directory.as_fd(), name, call.may_block)
            .map_err(|error| self.or_stale(directory, error))?;
        let status = Status::of(&opened)?;
        if !self.same_mount(&status) {
            names::DIR_MOUNT_POINTS_REFUSED.add(1);
            return Err(Error::AccessDenied);
        }
        let place = Place::Child(directory, name);
        let object = self.adopt(opened, &status, &place, call.may_block)?;
        Ok((object, status))
    }

    /// What `name` meant a moment ago, if it still does: one look, and in the same moment none.
    /// The object is held open, so the kernel has its name in memory and the look does not wait.
    fn find_again(
        &self,
        call: &Call<'_>,
        directory: &Arc<Object>,
        name: &[u8],
    ) -> Result<Option<(Arc<Object>, Status)>> {
        let Some((object, status)) = recent::named(directory, name) else {
            return Ok(None);
        };
        self.acting.become_caller(&self.acting.caller(call))?;
        let status = match status {
            Some(status) => {
                // another caller may not be allowed to
                let caller = self.acting.caller(call);
                let around = self.look_once(directory)?;
                if !self.permits(directory, &around, &caller, 1)? {
                    return Ok(None);
                }
                status
            }
            None => match Status::of_name(directory, name) {
                Ok(status) if object.node == status.node => status,
                _ => return Ok(None),
            },
        };
        recent::found(directory, name, &object, &status);
        object.mark();
        Ok(Some((object, status)))
    }

    /// "No such name" in a directory that is itself gone means that the directory is stale.
    pub(super) fn or_stale(&self, directory: &Object, error: Error) -> Error {
        if error == Error::NotFound && self.look(directory).is_err() {
            Error::Stale
        } else {
            error
        }
    }

    fn lookup_itself(&self, call: &Call<'_>, directory: &Object) -> Result<Entry> {
        let status = self.look_once(directory)?;
        let caller = self.acting.caller(call);
        if self.permits(directory, &status, &caller, 1)? {
            Ok(self.entry_of(directory, &status))
        } else {
            Err(Error::AccessDenied)
        }
    }

    fn lookup_parent(&self, call: &Call<'_>, directory: &Object) -> Result<Entry> {
        if directory.node == self.root.node {
            return self.lookup_itself(call, directory);
        }
        blocking::may_wait(call)?;
        self.look(directory)?;
        self.acting.become_caller(&self.acting.caller(call))?;
        let (parent, status) = self.parent_of(directory)?;
        Ok(self.entry_of(&parent, &status))
    }

    /// The parent of a directory that is not the root; stale when the directory was moved out.
    pub(super) fn parent_of(&self, directory: &Object) -> Result<(Arc<Object>, Status)> {
        let opened = match self.resolver.parent(directory.as_fd()) {
            Err(Error::AccessDenied | Error::NotFound)
                if !self.walks_to_root(directory.as_fd())? =>
            {
                return Err(Error::Stale);
            }
            opened => opened?,
        };
        let status = Status::of(&opened)?;
        let inside = self.same_mount(&status)
            && (status.node == self.root.node || self.walks_to_root(opened.as_fd())?);
        if !inside {
            names::DIR_OBJECTS_OUTSIDE.add(1);
            return Err(Error::Stale);
        }
        let object = self.adopt(opened, &status, &Place::ParentOf(directory), true)?;
        Ok((object, status))
    }
}
