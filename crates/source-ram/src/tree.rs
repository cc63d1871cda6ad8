//! What the parts of the file system share: identifiers, and from them to objects.

use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_fs::{Attributes, Entry, Error, FileId, Result, verifier};

use super::directory::Directory;
use super::inode::{Body, Inode, State};
use super::quota::{INODE_BYTES, Storage};
use super::table::Table;

/// Mode of the root directory: as `/tmp`, since no administrator could open it for users.
const ROOT_MODE: u32 = 0o1777;

const INSTANCE_BYTES: usize = 8;
const ID_BYTES: usize = 16;

/// The objects of a file system, and what leads to them.
pub(super) struct Tree {
    /// Random for each life; the first half of every identifier.
    pub(super) instance: [u8; INSTANCE_BYTES],
    pub(super) verifier: [u8; 8],
    pub(super) root: u64,
    pub(super) storage: Arc<Storage>,
    pub(super) table: Arc<Table>,
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
            instance: verifier::fresh().to_ne_bytes(),
            verifier: verifier::fresh().to_ne_bytes(),
            root: 1,
            storage: Arc::new(Storage::new(size_bytes)?),
            table: Arc::new(Table::new()),
            names: Mutex::new(()),
        };
        let root = tree.table.next_number();
        assert_eq!(root, tree.root, "the first number is the root's");
        tree.storage.quota.take(INODE_BYTES)?;
        let body = Body::Directory(Directory::new(root));
        let state = State::new(body, ROOT_MODE, 0, 0);
        tree.table.insert(root, state);
        Ok(tree)
    }

    pub(super) fn lock_names(&self) -> MutexGuard<'_, ()> {
        self.names.lock()
    }

    pub(super) fn filesystem_id(&self) -> u64 {
        u64::from_le_bytes(self.instance)
    }

    pub(super) fn id_of(&self, number: u64) -> FileId {
        let mut bytes = [0; ID_BYTES];
        bytes[..INSTANCE_BYTES].copy_from_slice(&self.instance);
        bytes[INSTANCE_BYTES..].copy_from_slice(&number.to_le_bytes());
        FileId::of(&bytes)
    }

    /// The object an identifier names.
    pub(super) fn inode(&self, id: &FileId) -> Result<Arc<Inode>> {
        let bytes: &[u8; ID_BYTES] = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
        let (instance, number) = bytes.split_at(INSTANCE_BYTES);
        if instance != self.instance {
            return Err(Error::Stale);
        }
        let number: [u8; 8] = number.try_into().map_err(|_| Error::BadId)?;
        self.numbered(u64::from_le_bytes(number))
    }

    pub(super) fn numbered(&self, number: u64) -> Result<Arc<Inode>> {
        self.table.get(number).ok_or(Error::Stale)
    }

    pub(super) fn attributes_of(&self, inode: &Inode, state: &State) -> Attributes {
        state.attributes(inode.number, self.filesystem_id())
    }

    pub(super) fn entry_of(&self, inode: &Inode, state: &State) -> Entry {
        Entry {
            id: self.id_of(inode.number),
            attributes: self.attributes_of(inode, state),
        }
    }
}
