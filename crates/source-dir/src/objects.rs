//! From identifiers and names to objects.
//!
//! A held object is found in the table by its identifier, or by its inode after a lookup; others
//! are opened.
//!
//! An object that a program has open survives its last name ([`Hold`]): for NFS its identifier is
//! stale. Each hold counts at the object and keeps it in the table.

use super::access::Access;
use super::bounds::{Bounds, path_of};
use super::identifier::{self, HANDLE_TAG, HINT_TAG, compose, hint_key_of, parse_hint};
use super::listings::OpenListings;
use super::object::{Exclusion, Object, Status};
use super::path_hint::Places;
use super::system::{self, error_of};
use super::table::Table;
use pagewell_counters::names;
use pagewell_fs::{Call, Error, FileId, OpenFile, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Retries for an object whose inode number is just being reused. Linux reports "out of memory"
/// then (`iget_locked` has no other way to fail); microseconds later the old identifier is stale.
const REUSE_RETRIES: usize = 100;

pub(super) enum Naming {
    Handles,
    /// By inode number, birth time and path hint.
    PathHints(Box<Places>),
}

pub(super) enum Reached<'a> {
    Child(&'a Object, &'a [u8]),
    ParentOf(&'a Object),
}

impl Naming {
    pub(super) fn key_of(&self, id: &FileId) -> Result<FileId> {
        match (self, id.as_bytes().first()) {
            (Self::Handles, Some(&HANDLE_TAG)) => Ok(*id),
            (Self::PathHints(_), Some(&HINT_TAG)) => hint_key_of(id),
            // Issued while the program had other privileges.
            (_, Some(&(HANDLE_TAG | HINT_TAG))) => Err(Error::Stale),
            _ => Err(Error::BadId),
        }
    }

    pub(super) fn note(&self, id: &FileId, reached: &Reached<'_>) {
        if let (Self::PathHints(places), Reached::Child(directory, name)) = (self, reached)
            && let Ok((inode, _)) = parse_hint(id)
        {
            places.note(inode, directory, name);
        }
    }
}

/// An object in use by a call and by later calls of its receive batch.
pub(super) type Held = Rc<InUse>;

pub(super) struct InUse {
    object: Arc<Object>,
    /// For the reading calls of this batch.
    seen: Cell<Option<Status>>,
}

impl std::ops::Deref for InUse {
    type Target = Arc<Object>;
    fn deref(&self) -> &Arc<Object> {
        &self.object
    }
}

pub(super) struct Objects {
    root: Arc<Object>,
    /// No object can leave the export.
    is_whole: bool,
    bounds: Bounds,
    naming: Naming,
    access: Arc<Access>,
    table: Arc<Table>,
    listings: Arc<OpenListings>,
    /// The file system counts links: an object with none is gone.
    counts_links: bool,
    knows_inodes: bool,
    turns: AtomicU64,
}

impl Objects {
    pub(super) fn new(
        bounds: Bounds,
        naming: Naming,
        (access, table): (&Arc<Access>, &Arc<Table>),
        listings: &Arc<OpenListings>,
        (counts_links, knows_inodes): (bool, bool),
    ) -> Self {
        Self {
            root: Arc::clone(bounds.root()),
            is_whole: bounds.is_whole(),
            bounds,
            naming,
            access: Arc::clone(access),
            table: Arc::clone(table),
            listings: Arc::clone(listings),
            counts_links,
            knows_inodes,
            turns: AtomicU64::new(1),
        }
    }

    pub(super) fn root(&self) -> &Arc<Object> {
        &self.root
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn naming(&self) -> &Naming {
        &self.naming
    }

    pub(super) fn knows_inodes(&self) -> bool {
        self.knows_inodes
    }

    /// Whether a call may use the file system: without waiting, only if the kernel knows its
    /// inodes.
    pub(super) fn may_look(&self, call: &Call<'_>) -> Result<()> {
        Error::WouldBlock.unless(call.may_block || self.knows_inodes)
    }

    fn turn(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    pub(super) fn end_turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    fn check_place(&self, object: &Object, may_wait: bool) -> Result<()> {
        if self.is_whole || object.was_asked(self.turn()) {
            return Ok(());
        }
        self.check_place_of(object, &object.status()?, may_wait)
    }

    /// The same with a fresh status, also when it was checked in this turn.
    fn check_place_of(&self, object: &Object, status: &Status, may_wait: bool) -> Result<()> {
        let turn = self.turn();
        let stays = object.is_held() || self.is_gone(status);
        if stays || self.bounds.is_inside(object.as_fd(), status, may_wait)? {
            object.set_asked(turn, status);
            return Ok(());
        }
        self.release(object);
        Err(Error::Stale)
    }

    pub(super) fn sweep(&self) {
        self.each(|object| {
            let _ = self.look(object, true); // releases it if it has no name
        });
    }

    pub(super) fn release_all(&self) {
        self.each(|object| {
            self.release(object);
        });
    }

    pub(super) fn each(&self, visit: impl FnMut(&Object)) {
        self.table.each(visit);
    }

    pub(super) fn begin_change<'a>(
        &self,
        object: &'a Object,
        may_wait: bool,
    ) -> Result<(Exclusion<'a>, Status)> {
        let exclusion = object.exclude(may_wait)?;
        Ok((exclusion, self.look(object, may_wait)?))
    }

    /// The caller has checked the permission; a sync needs none.
    pub(super) fn readable<'a>(&self, object: &'a Object, may_wait: bool) -> Result<&'a OpenFile> {
        if let Some(file) = object.read_if_open() {
            return Ok(file);
        }
        self.access.become_server()?;
        self.table.with_room(may_wait, || object.open_to_read())
    }

    pub(super) fn writable<'a>(&self, object: &'a Object) -> Result<&'a OpenFile> {
        if let Some(file) = object.write_if_open() {
            return Ok(file);
        }
        self.access.become_server()?;
        self.table.with_room(true, || object.open_to_write())
    }

    pub(super) fn find(
        &self,
        call: &Call<'_>,
        directory: &Object,
        name: &[u8],
    ) -> Result<(Arc<Object>, Status)> {
        self.access.act_for(call)?;
        let (directory_fd, may_wait) = (directory.as_fd(), call.may_block);
        let open = || self.bounds.resolver().child(directory_fd, name, may_wait);
        let opened = match self.table.with_room(may_wait, open) {
            Err(Error::NotFound) => {
                // A removed directory makes it stale instead.
                self.look(directory, may_wait)?;
                return Err(Error::NotFound);
            }
            opened => opened?,
        };
        let status = Status::of(&opened)?;
        self.bounds.resolver().check_mount(&status)?;
        let reached = Reached::Child(directory, name);
        let object = self.adopt(opened, &status, &reached, call.may_block)?;
        Ok((object, status))
    }

    /// Of a directory other than the root; stale when the directory was moved out.
    pub(super) fn parent_of(&self, directory: &Object) -> Result<(Arc<Object>, Status)> {
        let bounds = &self.bounds;
        let open = || bounds.resolver().parent(directory.as_fd());
        let opened = match self.table.with_room(true, open) {
            Err(Error::AccessDenied | Error::NotFound)
                if !bounds.walks_to_root(directory.as_fd(), true)? =>
            {
                return Err(Error::Stale);
            }
            opened => opened?,
        };
        let status = Status::of(&opened)?;
        let inside = bounds.resolver().same_mount(&status)
            && (status.node == self.root().node() || bounds.walks_to_root(opened.as_fd(), true)?);
        if !inside {
            return Err(Error::Stale);
        }
        let object = self.adopt(opened, &status, &Reached::ParentOf(directory), true)?;
        Ok((object, status))
    }

    pub(super) fn held_name(&self, directory: &Object, name: &[u8]) -> Option<Arc<Object>> {
        let status = Status::of_name(directory.as_fd(), name).ok()?;
        self.held(&status, &Reached::Child(directory, name))
    }

    /// `None` where no places are noted.
    pub(super) fn key_at(&self, directory: &Object, name: &[u8]) -> Option<FileId> {
        if matches!(self.naming, Naming::Handles) {
            return None;
        }
        let opened = self.bounds.child(directory.as_fd(), name, true).ok()??;
        let status = Status::of(&opened).ok()?;
        Some(compose(self.bounds.inode_of(&opened, &status).ok()?, &[]))
    }

    pub(super) fn key_of(&self, id: &FileId) -> FileId {
        self.naming.key_of(id).unwrap_or(*id)
    }

    pub(super) fn hold(self: &Arc<Self>, call: &Call<'_>, id: &FileId) -> Result<(Hold, Status)> {
        let found = self.object(call, id)?;
        let object = if Arc::ptr_eq(&found, self.root()) {
            self.root().hold();
            Arc::clone(self.root())
        } else {
            // Released if it lost its last name since: no call would find it again.
            let key = self.naming.key_of(id)?;
            self.table.hold(&key).ok_or(Error::Stale)?
        };
        let objects = Arc::clone(self);
        let hold = Hold { objects, object };
        let status = self.look(&hold.object, true)?; // it may have left the export
        Ok((hold, status))
    }

    /// Calls of one batch look it up once.
    pub(super) fn object(&self, call: &Call<'_>, id: &FileId) -> Result<Held> {
        self.may_look(call)?;
        let batch = call.batch();
        if let Some(object) = batch.and_then(|batch| batch.get(self, id)) {
            return Ok(object);
        }
        let object = Rc::new(InUse {
            object: self.look_for(call, id)?,
            seen: Cell::new(None),
        });
        if let Some(batch) = batch {
            batch.put(self, id, &object);
        }
        Ok(object)
    }

    fn look_for(&self, call: &Call<'_>, id: &FileId) -> Result<Arc<Object>> {
        if *id == *self.root().id() {
            return Ok(Arc::clone(self.root()));
        }
        let key = self.naming.key_of(id)?;
        if let Some(object) = self.table.get(&key) {
            self.check_place(&object, call.may_block)?;
            names::DIR_OBJECTS_HIT.add(1);
            return Ok(object);
        }
        Error::WouldBlock.unless(call.may_block)?;
        names::DIR_OBJECTS_MISSED.add(1);
        let (opened, status) = match &self.naming {
            Naming::Handles => self.open_handle(id)?,
            Naming::PathHints(places) => places.open(&self.bounds, id)?,
        };
        let object = Object::new(*id, key, &status, OpenFile::new(opened));
        Ok(self.hold_open(object, &status, true))
    }

    pub(super) fn directory(&self, call: &Call<'_>, id: &FileId) -> Result<Held> {
        let object = self.object(call, id)?;
        Error::NotDirectory.unless(object.is_directory())?;
        Ok(object)
    }

    pub(super) fn path_of(&self, export: &Path, id: &FileId) -> Option<String> {
        let key = self.naming.key_of(id).ok();
        let is_root = *id == *self.root().id();
        let path = match key.and_then(|key| self.table.get(&key)) {
            Some(object) => path_of(object.as_fd())?,
            None if is_root => b"/".to_vec(),
            None => return Some(format!("{}/...", export.display())),
        };
        let path = String::from_utf8_lossy(&path);
        if self.bounds.has_own_mount() || is_root {
            Some(format!("{}{path}", export.display())) // as its own mount shows it
        } else {
            Some(path.into_owned())
        }
    }

    /// Looks at an object, and releases it if it has no names and no holds, which frees its space.
    pub(super) fn look(&self, object: &Object, may_wait: bool) -> Result<Status> {
        let status = object.status()?;
        if self.is_gone(&status) && self.release(object) {
            return Err(Error::Stale);
        }
        if !self.is_whole && object.may_have_moved(&status) {
            self.check_place_of(object, &status, may_wait)?;
        }
        Ok(object.settled(status))
    }

    /// [`Self::look`] for reading calls: one look for all of a batch.
    pub(super) fn look_once(&self, call: &Call<'_>, object: &InUse) -> Result<Status> {
        let status = match object.seen.get() {
            Some(status) => status,
            None => self.look(object, call.may_block)?,
        };
        object.seen.set(Some(status));
        Ok(status)
    }

    /// Some file systems count no names.
    pub(super) fn is_gone(&self, status: &Status) -> bool {
        status.attributes.link_count == 0 && self.counts_links
    }

    /// False while a program has it open.
    pub(super) fn release(&self, object: &Object) -> bool {
        if object.is_held() || !self.table.remove(object.key()) {
            return false;
        }
        if object.is_directory() {
            self.listings.forget(object.node());
        }
        true
    }

    pub(super) fn adopt(
        &self,
        opened: OwnedFd,
        status: &Status,
        reached: &Reached<'_>,
        may_wait: bool,
    ) -> Result<Arc<Object>> {
        if let Some(object) = self.held(status, reached) {
            return Ok(object);
        }
        let id = self.identify(opened.as_fd(), status, reached)?;
        let object = self.object_of(id, status, OpenFile::new(opened))?;
        Ok(self.hold_open(object, status, may_wait))
    }

    pub(super) fn held(&self, status: &Status, reached: &Reached<'_>) -> Option<Arc<Object>> {
        if self.root().node() == status.node {
            return Some(Arc::clone(self.root()));
        }
        let object = self.table.get_node(status.node)?;
        self.naming.note(object.id(), reached);
        Some(object)
    }

    pub(super) fn object_of(&self, id: FileId, status: &Status, name: OpenFile) -> Result<Object> {
        Ok(Object::new(id, self.naming.key_of(&id)?, status, name))
    }

    pub(super) fn hold_open(&self, object: Object, status: &Status, may_wait: bool) -> Arc<Object> {
        object.set_asked(self.turn(), status);
        self.table.insert(object, may_wait)
    }

    /// The identifier of an open object with a fresh status; with path hints, any open object on
    /// its device suffices.
    pub(super) fn identify(
        &self,
        opened: BorrowedFd<'_>,
        status: &Status,
        reached: &Reached<'_>,
    ) -> Result<FileId> {
        match (&self.naming, reached) {
            (Naming::Handles, _) => identifier::identify(opened),
            (Naming::PathHints(places), Reached::Child(directory, name)) => {
                Ok(places.note(self.bounds.inode_of(opened, status)?, directory, name))
            }
            (Naming::PathHints(places), Reached::ParentOf(child)) => {
                Ok(places.id_of_parent(self.bounds.inode_of(opened, status)?, child.id()))
            }
        }
    }

    fn open_handle(&self, id: &FileId) -> Result<(OwnedFd, Status)> {
        let handle = identifier::handle_of(id)?;
        self.access.become_server()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (mut retries, mut made_room) = (0, false);
        let opened = loop {
            match system::open_by_handle(self.root().as_fd(), &handle, flags) {
                Err(Errno::NOMEM) if retries < REUSE_RETRIES => {
                    pause(retries);
                    retries += 1;
                }
                Err(Errno::MFILE | Errno::NFILE) if !made_room => {
                    self.table.make_room(true);
                    made_room = true;
                }
                Err(Errno::STALE | Errno::NOENT) => return Err(Error::Stale),
                Err(Errno::INVAL) => return Err(Error::BadId),
                opened => break opened.map_err(error_of)?,
            }
        };
        let status = Status::of(&opened)?;
        Error::Stale.when(self.is_gone(&status) || !self.bounds.resolver().same_mount(&status))?;
        if self.bounds.is_inside(opened.as_fd(), &status, true)? {
            Ok((opened, status))
        } else {
            Err(Error::Stale)
        }
    }
}

pub(super) struct Hold {
    objects: Arc<Objects>,
    object: Arc<Object>,
}

impl Hold {
    pub(super) fn object(&self) -> &Object {
        &self.object
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.object.release() {
            let _ = self.objects.look(&self.object, true); // releases it if it has no name
        }
    }
}

/// Later retries wait longer.
fn pause(retry: usize) {
    if retry < REUSE_RETRIES / 2 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_millis(1));
    }
}
