//! What the parts of the file system share: identifiers, and from them to objects.

use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_fs::{Attributes, Entry, Error, FileId, Result, verifier};

use super::directory::Directory;
use super::inode::{Body, Inode, InodeState};
use super::quota::{INODE_BYTES, Storage};
use super::table::Table;

/// The number of the root directory.
pub(super) const ROOT: u64 = 1;
/// Its mode: as `/tmp`, since no administrator could open it for users.
const ROOT_MODE: u32 = 0o1777;

/// The objects of a file system, and what leads to them.
pub(super) struct Tree {
    /// Random for each life; the first half of every identifier.
    instance: u64,
    pub(super) verifier: [u8; 8],
    pub(super) storage: Storage,
    pub(super) table: Table,
    /// Held while names change.
    names: Mutex<()>,
}

impl Tree {
    /// See [`super::RamFileSystem::new`].
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

    pub(super) fn lock_names(&self) -> MutexGuard<'_, ()> {
        self.names.lock()
    }

    /// Gives a new object its number, from which on it can be found.
    pub(super) fn insert(&self, mut state: InodeState) -> Attributes {
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

    /// The object an identifier names.
    pub(super) fn inode(&self, id: &FileId) -> Result<Arc<Inode>> {
        let bytes = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
        let id = u128::from_le_bytes(bytes);
        // The two halves.
        let (number, instance) = ((id >> 64) as u64, id as u64);
        if instance != self.instance {
            return Err(Error::Stale);
        }
        self.numbered(number)
    }

    pub(super) fn numbered(&self, number: u64) -> Result<Arc<Inode>> {
        self.table.get(number).ok_or(Error::Stale)
    }

    pub(super) fn entry_of(&self, attributes: Attributes) -> Entry {
        Entry {
            id: self.id_of(attributes.file_id),
            attributes,
        }
    }
}
