//! A local directory as a file system: kind `dir`.
//!
//! The kernel's page cache is the cache (one cache on a path); this layer finds objects, judges
//! callers, and keeps the promises of NFSv3 that the system calls do not keep by themselves.
//!
//! ```text
//!  identifier ──> open-object cache ──hit──────────────────────────> object ──> statx, pread, ...
//!                        └─miss─> kernel handle, or path hint ───────┘
//!  directory + name ──> openat2, one name, no links (resolve) ──> inode ──> object
//! ```
//!
//! Reading order: `identity` (as whom the kernel sees us), `handle` and `path_hint` (what an
//! identifier is), `containment` and `census` (whether its object is in the export), `object` (one
//! that is held open), `objects` (from an identifier to one), `resolve` and `lookup` (from a name
//! to one), `opening` (what stays there without a name), `permission`, `read_write`, `space`,
//! `set_attributes`, `extended`, `create`, `links`, `listing` with `remembered` and `watch`,
//! [`durability`], `sweeper`, and `blocking` (what a thread that may not wait answers).
//!
//! What is not promised: changes that local programs make at the same moment are not excluded, so
//! `before` in a [`pagewell_fs::Change`] is true with respect to changes through Pagewell. Special
//! files are made and described, never opened. What is mounted in the export is not entered
//! (`mount`). Clients see all times to the nanosecond as the file system keeps them; reading
//! updates access times as the mount options say.

mod blocking;
mod census;
mod containment;
mod create;
mod direct;
pub mod durability;
mod entries;
mod extended;
mod handle;
mod identity;
mod kept_names;
mod links;
mod listing;
mod lookup;
mod mount;
mod object;
mod objects;
mod open;
mod opening;
mod ordered;
mod path_hint;
mod permission;
mod read_write;
mod remembered;
mod resolve;
mod set_attributes;
mod space;
mod status;
mod sweeper;
mod syncs;
mod system;
mod watch;

#[cfg(test)]
mod tests;

pub use open::{OpenError, Options};

use pagewell_fs::{
    Call, Change, Committed, Error, ExtendedAttributes, FileId, FileSystem, Finish, Hold, Limits,
    LocalFiles, Result, forward,
};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A served directory.
pub struct Directory {
    tree: Arc<Tree>,
    /// What is served since this one was removed.
    next: OnceLock<Box<Directory>>,
}

/// Longest identifier of an object of a directory: what this program's server can put into a
/// handle, and no more than was given out before, as handles are to stay what they are.
const ID_BYTES_MAX: usize = 48;

/// Everything about one export.
struct Tree {
    path: PathBuf,
    options: Options,
    /// Open for reading: its descriptor names the file system to open_by_handle_at and syncfs.
    root: Arc<object::Object>,
    naming: objects::Naming,
    acting: identity::Acting,
    resolver: resolve::Resolver,
    cache: objects::Cache,
    held_writes: blocking::HeldWrites,
    durability: durability::Durability,
    limits: Limits,
    /// What tells this tree from others.
    tree_id: Vec<u8>,
    /// The mount that the one of `root` is a private copy of.
    original: Option<mount::Original>,
    /// The export is a whole file system, so that nothing on it can be outside.
    whole_mount: bool,
    /// The file system can have extended attributes.
    has_extended: bool,
    /// The file system counts names: an object with none is gone.
    counts_links: bool,
    /// Linux' number for the type of the file system.
    magic: i64,
    /// The kernel knows the inodes of the file system by itself ([`blocking`]).
    knows_inodes: bool,
    listings: entries::Listings,
    ordered: ordered::Ordered,
    remembered: remembered::Remembered,
    /// The file system gives no positions that can be cookies.
    orders_listings: AtomicBool,
    census: census::Census,
    /// Counts seconds, about.
    turns: AtomicU64,
    /// Another one is served in its place; calls that began before may still use it.
    is_replaced: AtomicBool,
    /// This tree, for threads of its own.
    myself: OnceLock<Weak<Tree>>,
}

impl Directory {
    /// Serves the directory at `path`.
    ///
    /// Sets the umask of the process to 0, so that objects get the mode their caller asks for,
    /// and raises the soft limit of open files.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let tree = Arc::new(Tree::of_path(path, options)?);
        let _ = tree.myself.set(Arc::downgrade(&tree));
        sweeper::start(&tree).map_err(|error| OpenError::new(path, error))?;
        Ok(Self {
            tree,
            next: OnceLock::new(),
        })
    }

    /// What is served now: this directory, or the one that was made in its place.
    fn now(&self) -> &Self {
        let mut now = self;
        while let Some(next) = now.next.get() {
            now = next;
        }
        now
    }

    /// When the directory was removed, serves the one that is at its path now, if there is one.
    /// Only a call for the root is led there: identifiers of the old one stay stale.
    fn replace_if_gone(&self) {
        let now = self.now();
        let status = now.tree.root.status();
        let gone = status.is_ok_and(|status| now.tree.is_gone(&status));
        if gone && let Ok(next) = Self::open(&now.tree.path, now.tree.options.clone()) {
            let _ = now.next.set(Box::new(next));
            now.tree.is_replaced.store(true, Ordering::Relaxed);
        }
    }

    /// Where other file systems are mounted in it: what is there is not served.
    #[must_use]
    pub fn mounts_inside(&self) -> Vec<PathBuf> {
        let path = self.tree.root_path();
        path.map_or_else(Vec::new, |path| mount::below(&path))
    }
}

impl FileSystem for Directory {
    forward! { self => self.now().tree;
        describe, path_of, lookup, attributes, access, set_attributes, read_link, read, seek,
        allocate, copy, write, create, make_directory, make_symlink, make_node, link, rename,
        read_directory, statistics, open, object_of, commit_metadata,
    }

    fn as_local(&self) -> Option<&dyn LocalFiles> {
        Some(self)
    }

    /// Each call says as whom it needs the thread (`identity`).
    fn prepare_thread(&self) {}

    fn root(&self) -> FileId {
        self.now().tree.root.id
    }

    fn current_root(&self, call: &Call<'_>) -> Result<FileId> {
        self.now().tree.may_look(call)?;
        self.replace_if_gone();
        Ok(self.root())
    }

    fn tree_id(&self) -> Vec<u8> {
        self.now().tree.tree_id.clone()
    }

    fn limits(&self) -> Limits {
        self.now().tree.limits
    }

    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        let tree = &*self.now().tree;
        tree.has_extended.then_some(tree as &dyn ExtendedAttributes)
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, _offset: u64, _count: u32) -> Result<Committed> {
        self.now().tree.commit(call, id)
    }

    fn write_verifier(&self, id: Option<&FileId>) -> [u8; 8] {
        let durability = &self.now().tree.durability;
        id.map_or_else(|| durability.verifier(), |id| durability.verifier_of(id))
    }

    fn remove(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        self.now().tree.remove(call, directory, name, false)
    }

    fn remove_directory(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        self.now().tree.remove(call, directory, name, true)
    }

    fn finish(&self, how: Finish) -> Result<u64> {
        let tree = &self.now().tree;
        match how {
            Finish::Sync => tree.sync(),
            Finish::Within(patience) => durability::finish(tree, patience),
            Finish::Abandon => Ok(()), // the kernel goes on writing
        }
        .map(|()| 0)
    }

    fn hold(&self, call: &Call<'_>, id: &FileId) -> Result<Option<Hold>> {
        self.now().tree.hold(call, id).map(Some)
    }
}

/// This layer's reading of an errno: what [`Error`]'s general mapping leaves to the place.
fn error_of(errno: Errno) -> Error {
    match errno {
        // "would block" is for callers that forbade waiting; here the system is short of something
        Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => Error::TryLater,
        // a mount point, or a program that is running
        Errno::BUSY | Errno::TXTBSY => Error::AccessDenied,
        other => other.into(),
    }
}

/// What was opened, if it could be; an error only where the system is short of something.
fn unless_short<T>(opened: Result<T>) -> Result<Option<T>> {
    match opened {
        Err(error @ (Error::TryLater | Error::WouldBlock)) => Err(error),
        opened => Ok(opened.ok()),
    }
}
