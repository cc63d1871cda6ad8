//! A file system in memory, bounded by a size: `ram:SIZE`.
//!
//! Every inode has a lock around its attributes and its content. A call that changes the set of
//! names also holds the one tree lock. **A thread without the tree lock holds at most one inode
//! lock at a time; a thread with it may hold several.** So the holder of the tree lock waits only
//! for threads that wait for none, and no deadlock is possible. A rename holds both directories, so
//! no thread sees the object in both or in neither. The lock of a changed object covers its state
//! before and after, so weak cache consistency data is always present and true.
//!
//! Durability: nothing outlives the process. A write reports the stability that the client wants.
//! The write verifier and the identifiers are new in every run: an old identifier is stale, and
//! never another object.
//!
//! Reading does not move access times (as `noatime`); they start at creation and can be set.
//!
//! Known weaknesses: creations, removals and renames are one at a time (each takes microseconds);
//! `quota` and `memory` have others.

mod data;
mod directory;
mod holes;
mod inode;
mod memory;
mod permission;
mod quota;
mod setattr;
mod table;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;

use inode::Body;
use quota::OBJECT_BYTES_MIN;
use tree::{ROOT, Tree};

use pagewell_fs::{
    Access, Attributes, Call, Coherence, Error, ExtendedAttributes, FileId, FileSystem, Limits,
    Result, Statistics, access, forward,
};

/// Largest file: what a client's signed 64-bit offset reaches. A hole costs nothing.
pub(crate) const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Most names of an object, and sub-directories of a directory.
const LINKS_MAX: u32 = i32::MAX as u32;

/// Permission bits with set-user-id, set-group-id and sticky.
const MODE_BITS: u32 = 0o7777;

/// A writable tree in memory. Dropping it loses all of it.
pub struct RamFileSystem {
    tree: Arc<Tree>,
}

impl RamFileSystem {
    /// An empty tree of at most `size_bytes` of data, names and objects. The root belongs to uid 0
    /// and has the mode of `/tmp`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a size without room for the root directory, such as 0; [`Error::Io`]
    /// when the system has too few addresses.
    pub fn new(size_bytes: u64) -> Result<Self> {
        Ok(Self {
            tree: Arc::new(Tree::new(size_bytes)?),
        })
    }

    /// Bytes charged to the quota.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.tree.quota().used_bytes()
    }
}

impl FileSystem for RamFileSystem {
    forward! { self => self.tree;
        lookup, set_attributes, read, seek, allocate, write, create, make_directory, make_symlink,
        make_node, link, remove, remove_directory, rename, read_directory, open, hold, commit,
    }

    // No call depends on the identity of the thread.
    fn prepare_thread(&self) {}

    fn describe(&self) -> String {
        let total_bytes = self.tree.quota().total_bytes();
        format!("ram, {}", pagewell_base::size::display(total_bytes))
    }

    fn root(&self) -> FileId {
        self.tree.id_of(ROOT)
    }

    fn id_of_number(&self, number: u64) -> Option<FileId> {
        let known = self.tree.numbered(number).ok();
        known.map(|_| self.tree.id_of(number))
    }

    fn limits(&self) -> Limits {
        Limits {
            read_only: false,
            file_bytes_max: FILE_BYTES_MAX,
            links_max: LINKS_MAX,
            symlinks: true,
            times_settable: true,
            coherence: Coherence::UNCHANGED,
            ..Limits::default()
        }
    }

    fn attributes(&self, _call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let inode = self.tree.inode(id)?;
        let state = inode.read()?;
        Ok(state.attributes())
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let inode = self.tree.inode(id)?;
        let state = inode.read()?;
        // By the mode alone, without the owner's liberties: the client answers open(2) and
        // access(2) with it.
        let granted = access::among(wanted, inode.is_directory, |bits| {
            access::allows(call.credentials, &state.metadata, bits)
        });
        Ok((granted, state.attributes()))
    }

    fn read_link(&self, _call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let inode = self.tree.inode(id)?;
        let state = inode.read()?;
        match &state.body {
            Body::Symlink(target) => Ok((target.to_vec(), state.attributes())),
            _ => Err(Error::Invalid),
        }
    }

    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        Some(&*self.tree)
    }

    fn write_verifier(&self, _id: Option<&FileId>) -> [u8; 8] {
        self.tree.verifier()
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        let bytes_total = self.tree.quota().total_bytes();
        let bytes_free = bytes_total - self.tree.quota().used_bytes();
        let files_free = bytes_free / OBJECT_BYTES_MIN;
        Ok(Statistics {
            bytes_total,
            bytes_free,
            bytes_available: bytes_free,
            files_total: self.tree.object_count() + files_free,
            files_free,
            files_available: files_free,
        })
    }
}
