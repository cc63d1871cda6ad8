//! The objects of a file system, and the way from identifiers to them.

mod files;
mod names;

use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_fs::{Attributes, Entry, Error, FileId, Result, verifier};

use crate::directory::Directory;
use crate::inode::{Body, Inode, InodeState};
use crate::quota::{INODE_BYTES, Quota, Storage};
use crate::table::Table;

/// The number of the root directory.
pub(super) const ROOT: u64 = 1;
/// As `/tmp`: no administrator could open it for users.
const ROOT_MODE: u32 = 0o1777;

pub(super) struct Tree {
    /// Random for each life; the first half of every identifier.
    instance: u64,
    verifier: [u8; 8],
    storage: Storage,
    table: Table,
    /// Held while names change.
    names: Mutex<()>,
}

impl Tree {
    pub(super) fn new(size_bytes: u64) -> Result<Self> {
        if size_bytes < INODE_BYTES {
            return Err(Error::Invalid);
        }
        let tree = Self {
            instance: verifier::fresh(),
            verifier: verifier::fresh().to_ne_bytes(),
            storage: Storage::new(size_bytes)?,
            table: Table::new(),
            names: Mutex::new(()),
        };
        tree.storage.quota.take(INODE_BYTES)?;
        let body = Body::Directory(Box::new(Directory::new(ROOT)));
        let root = tree.insert(InodeState::new(body, ROOT_MODE, 0, 0));
        assert_eq!(root.file_id, ROOT, "the first number is the root's");
        Ok(tree)
    }

    pub(super) fn verifier(&self) -> [u8; 8] {
        self.verifier
    }

    pub(super) fn quota(&self) -> &Quota {
        &self.storage.quota
    }

    pub(super) fn object_count(&self) -> u64 {
        self.table.count()
    }

    fn lock_names(&self) -> MutexGuard<'_, ()> {
        self.names.lock()
    }

    /// Gives a new object its number, from which on it can be found.
    fn insert(&self, mut state: InodeState) -> Attributes {
        state.metadata.file_id = self.table.next_number();
        state.metadata.filesystem_id = self.instance;
        let attributes = state.attributes();
        self.table.insert(state);
        attributes
    }

    pub(super) fn id_of(&self, number: u64) -> FileId {
        let id = u128::from(number) << 64 | u128::from(self.instance);
        FileId::of(&id.to_le_bytes())
    }

    pub(super) fn inode(&self, id: &FileId) -> Result<Arc<Inode>> {
        let bytes = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
        let id = u128::from_le_bytes(bytes);
        let (number, instance) = ((id >> 64) as u64, id as u64);
        if instance != self.instance {
            return Err(Error::Stale);
        }
        self.numbered(number)
    }

    pub(super) fn numbered(&self, number: u64) -> Result<Arc<Inode>> {
        self.table.get(number).ok_or(Error::Stale)
    }

    fn entry_of(&self, attributes: Attributes) -> Entry {
        Entry {
            id: self.id_of(attributes.file_id),
            attributes,
        }
    }
}
