//! The two kinds of identifiers behind one face.

use super::Tree;
use super::handle;
use super::object::Object;
use super::status::Status;
use super::trail::Trail;
use super::trail_id;
use pagewell_fs::{Error, FileId, Result};
use std::os::fd::{BorrowedFd, OwnedFd};

/// How an export names its objects.
pub(super) enum Naming {
    /// By the kernel's file handles.
    Handles,
    /// By inode number, birth time and trail.
    Trails(Trail),
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
            (Self::Trails(_), Some(&trail_id::TAG)) => trail_id::key_of(id),
            // issued while the program had other privileges
            (_, Some(&(handle::TAG | trail_id::TAG))) => Err(Error::Stale),
            _ => Err(Error::BadId),
        }
    }

    /// Notes where a held object was just seen.
    pub(super) fn note(&self, status: &Status, place: &Place<'_>, root: &Object) {
        if let (Self::Trails(trail), Place::Child(directory, name)) = (self, place) {
            trail.note(status, directory, name, root.node.inode);
        }
    }
}

impl Tree {
    /// The identifier of an object that was just opened.
    pub(super) fn identify(
        &self,
        opened: BorrowedFd<'_>,
        status: &Status,
        place: &Place<'_>,
    ) -> Result<FileId> {
        match (&self.naming, place) {
            (Naming::Handles, _) => handle::identify(opened),
            (Naming::Trails(trail), Place::Child(directory, name)) => {
                Ok(trail.note(status, directory, name, self.root.node.inode))
            }
            (Naming::Trails(trail), Place::ParentOf(child)) => {
                Ok(trail.id_of_parent(status, &child.id))
            }
        }
    }

    /// Opens the object of an identifier that is not held.
    pub(super) fn reopen(&self, id: &FileId) -> Result<(OwnedFd, Status)> {
        match &self.naming {
            Naming::Handles => self.open_handle(id),
            Naming::Trails(trail) => self.open_trail(trail, id),
        }
    }
}
