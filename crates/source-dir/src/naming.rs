//! The two kinds of identifiers behind one face.

use super::Tree;
use super::handle;
use super::object::Object;
use super::path_hint::Places;
use super::path_hint_id;
use super::status::Status;
use pagewell_fs::{Error, FileId, Result};
use std::os::fd::{BorrowedFd, OwnedFd};

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
            (Self::PathHints(_), Some(&path_hint_id::TAG)) => path_hint_id::key_of(id),
            // issued while the program had other privileges
            (_, Some(&(handle::TAG | path_hint_id::TAG))) => Err(Error::Stale),
            _ => Err(Error::BadId),
        }
    }

    /// Notes where a held object was just seen.
    pub(super) fn note(&self, status: &Status, place: &Place<'_>, root: &Object) {
        if let (Self::PathHints(places), Place::Child(directory, name)) = (self, place) {
            places.note(status, directory, name, root.node.inode.number);
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
            (Naming::PathHints(places), Place::Child(directory, name)) => {
                Ok(places.note(status, directory, name, self.root.node.inode.number))
            }
            (Naming::PathHints(places), Place::ParentOf(child)) => {
                Ok(places.id_of_parent(status, &child.id))
            }
        }
    }

    /// Opens the object of an identifier that is not held.
    pub(super) fn reopen(&self, id: &FileId) -> Result<(OwnedFd, Status)> {
        match &self.naming {
            Naming::Handles => self.open_handle(id),
            Naming::PathHints(places) => self.open_by_hint(places, id),
        }
    }
}
