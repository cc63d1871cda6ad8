//! A served directory: its parts, and its sweeper thread.
//!
//! The thread ends a *turn* each second, after which objects are checked again to be in the export
//! (`bounds`). Every [`SWEEP_PERIOD`] it looks at all held objects and releases those without
//! names, which local programs have removed. At most 16,384 looks of less than a microsecond.
//!
//! Weakness: the space of a file removed locally may come back a period late.

use super::access::Access;
use super::attributes::Attributes;
use super::blocking;
use super::bounds::{self, Bounds};
use super::data::Data;
use super::durability::Durability;
use super::entries::gives_cookies;
use super::extended::Extended;
use super::identifier::{
    self, OVERLAY_MAGIC, RAMFS_MAGIC, TMPFS_MAGIC, compose, hint_key_of, magic_of,
};
use super::listings::Listings;
use super::metadata_sync::{self, MetadataSync};
use super::names::Names;
use super::object::{Inode, Object, Status};
use super::objects::{Naming, Objects};
use super::options::{self, OBJECTS_MAX, OpenError, Options};
use super::path_hint::Places;
use super::resolve::Resolver;
use super::system::error_of;
use super::table::Table;
use pagewell_fs::{
    Access as Rights, Attributes as FileAttributes, Call, Change, Committed, Error,
    ExtendedAttributes, FileId, FileSystem, FileType, Finish, Hold, Limits, LocalFiles, OpenFile,
    Opened, Result, Statistics, forward,
};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// A person waits longer for `df` to show the space.
const SWEEP_PERIOD: Duration = Duration::from_secs(5);
/// The time until an object that left the export is found out.
const TURN: Duration = Duration::from_secs(1);

/// A served directory.
pub struct Directory {
    tree: Arc<Tree>,
    /// The directory served in its place after it was removed.
    next: OnceLock<Box<Directory>>,
}

pub(super) struct Tree {
    path: PathBuf,
    options: Options,
    limits: Limits,
    tree_id: Vec<u8>,
    durability: Arc<Durability>,
    metadata_sync: Arc<MetadataSync>,
    objects: Arc<Objects>,
    listings: Arc<Listings>,
    data: Data,
    attributes: Arc<Attributes>,
    extended: Extended,
    names: Names,
    /// Another tree is served in its place; earlier calls may still use it.
    is_replaced: AtomicBool,
}

impl Tree {
    fn of_path(path: &Path, options: Options) -> Result<Self, OpenError> {
        let access = Access::detect();
        let refused = |error| OpenError::new(path, error);
        access.become_server().map_err(refused)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| OpenError::new(path, options::reason_of(errno)))?;
        Self::over(path, OpenFile::new(mount), access, options).map_err(refused)
    }

    fn over(path: &Path, mount: OpenFile, access: Access, options: Options) -> Result<Self> {
        rustix::process::umask(Mode::empty());
        let is_whole = bounds::is_whole(&Status::of(&mount)?);
        let handles = !options.force_trails && identifier::works(mount.as_fd());
        let (mount, original) = if handles && options.own_mount {
            bounds::own(mount)?
        } else {
            (mount, None)
        };
        let status = Status::of(&mount)?;
        let sizes = rustix::fs::fstatvfs(&mount).map_err(error_of)?;
        let magic = magic_of(&mount).map_err(error_of)?;
        let (naming, id, key) = name_root(handles, &mount, &status)?;
        let root = Arc::new(Object::new(id, key, &status, mount));
        let read_only = sizes.f_flag.contains(StatVfsMountFlags::RDONLY);
        let access = Arc::new(access.of_export(&root, read_only));
        let limits = options::limits_of(magic, &sizes, access.has_lists());
        let durability = Arc::new(Durability::new(Arc::clone(&options.sync_calls)));
        let descriptors = options::descriptors_max();
        let objects_max = options.open_objects_max.unwrap_or(OBJECTS_MAX);
        let table = Table::new(objects_max.min(descriptors), descriptors, &durability);
        let table = Arc::new(table);
        let resolver = Resolver::probe(root.as_fd(), &status);
        let bounds = Bounds::new(&root, &access, &table, resolver, (original, is_whole));
        let open_listings = Arc::default();
        let facts = (
            status.attributes.link_count > 0,
            blocking::knows_inodes(magic),
        );
        let shared = (&access, &table);
        let objects = Objects::new(bounds, naming, shared, &open_listings, facts);
        let objects = Arc::new(objects);
        let one_journal = options::has_one_journal(magic, status.node.device);
        let metadata_sync = Arc::new(MetadataSync::new(
            &objects,
            &durability,
            one_journal,
            options.metadata_sync,
        ));
        let are_ordered = matches!(magic, TMPFS_MAGIC | RAMFS_MAGIC | OVERLAY_MAGIC)
            || !gives_cookies(root.as_fd())?;
        let listings = Listings::new(&objects, &open_listings, magic, are_ordered);
        let listings = Arc::new(listings);
        let bytes_max = limits.file_bytes_max;
        let attributes = Attributes::new(&objects, &metadata_sync, &listings, bytes_max);
        let attributes = Arc::new(attributes);
        Ok(Self {
            path: path.to_owned(),
            tree_id: options::tree_id_of(&id, &status, sizes.f_fsid),
            limits,
            data: Data::new(&objects, &durability, bytes_max),
            extended: Extended::new(&objects, &metadata_sync),
            names: Names::new(&objects, &attributes, &metadata_sync, bytes_max),
            options,
            durability,
            metadata_sync,
            objects,
            listings,
            attributes,
            is_replaced: AtomicBool::new(false),
        })
    }

    fn describe(&self) -> String {
        let names = match self.objects.naming() {
            Naming::Handles => "kernel file handles",
            Naming::PathHints(_) => "inode numbers and path hints",
        };
        let (path, acting) = (self.path.display(), self.objects.access().describe());
        format!("directory {path} (objects named by {names}; acts {acting})")
    }

    fn path_of(&self, id: &FileId) -> Option<String> {
        self.objects.path_of(&self.path, id)
    }

    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<FileAttributes> {
        let object = self.objects.object(call, id)?;
        Ok(self.objects.look_once(call, &object)?.attributes)
    }

    fn rights(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: Rights,
    ) -> Result<(Rights, FileAttributes)> {
        let object = self.objects.object(call, id)?;
        let status = self.objects.look_once(call, &object)?;
        let granted = self
            .objects
            .access()
            .judge(call, &object, &status)
            .granted(wanted)?;
        Ok((granted, status.attributes))
    }

    fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        self.objects.may_look(call)?;
        let sizes = rustix::fs::fstatvfs(self.objects.root().as_fd()).map_err(error_of)?;
        let bytes = |blocks: u64| blocks.saturating_mul(sizes.f_frsize);
        Ok(Statistics {
            bytes_total: bytes(sizes.f_blocks),
            bytes_free: bytes(sizes.f_bfree),
            bytes_available: bytes(sizes.f_bavail),
            files_total: sizes.f_files,
            files_free: sizes.f_ffree,
            files_available: sizes.f_favail,
        })
    }

    fn open(&self, call: &Call<'_>, id: &FileId) -> Result<Opened> {
        let (hold, status) = self.objects.hold(call, id)?;
        let object = hold.object();
        // As the server: for a kernel that judges callers by itself, which only root can request.
        let may_pass =
            self.objects.access().is_as_caller() && object.file_type() == FileType::Regular;
        let readable = || self.objects.readable(object, call.may_block);
        let file = may_pass.then(|| readable().ok().cloned()).flatten();
        Ok(Opened {
            attributes: status.attributes,
            keep_cache: true,
            file,
            hold: Some(Box::new(hold)),
        })
    }

    fn commit_metadata(&self, call: &Call<'_>, id: &FileId) -> Result<()> {
        Error::WouldBlock.unless(call.may_block)?;
        let object = self.objects.object(call, id)?;
        self.metadata_sync.object(&object)
    }

    fn release_all(&self) {
        self.objects.release_all();
        self.listings.end();
    }
}

#[cfg(test)]
impl Tree {
    pub(super) fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    pub(super) fn access(&self) -> &Access {
        self.objects.access()
    }

    pub(super) fn metadata_sync(&self) -> &MetadataSync {
        &self.metadata_sync
    }

    pub(super) fn listings(&self) -> &Listings {
        &self.listings
    }
}

fn name_root(handles: bool, root: &OpenFile, status: &Status) -> Result<(Naming, FileId, FileId)> {
    if handles {
        let id = identifier::identify(root.as_fd())?;
        return Ok((Naming::Handles, id, id));
    }
    let inode = Inode::of(root, status, status.node.device)?;
    let id = compose(inode, &[]);
    let naming = Naming::PathHints(Box::new(Places::new(inode)));
    Ok((naming, id, hint_key_of(&id)?))
}

/// Until the tree is dropped or replaced.
fn look_after(tree: &Weak<Tree>) {
    let mut swept = Instant::now();
    // The call that started this thread may have had its caller's identity.
    let _ = tree
        .upgrade()
        .map(|tree| tree.objects.access().become_server());
    loop {
        std::thread::sleep(TURN);
        let Some(tree) = tree.upgrade() else { return };
        tree.objects.end_turn();
        if tree.is_replaced.load(Ordering::Relaxed) {
            return tree.release_all();
        }
        if swept.elapsed() >= SWEEP_PERIOD {
            tree.objects.sweep();
            swept = Instant::now();
        }
        tree.listings.rest();
    }
}

impl Directory {
    /// Serves the directory at `path`.
    ///
    /// Sets the umask of the process to 0, so that objects get the mode their caller asks for,
    /// and raises the soft limit of open files.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let tree = Arc::new(Tree::of_path(path, options)?);
        let looked_after = Arc::downgrade(&tree);
        let thread = std::thread::Builder::new().name("dir-sweeper".to_owned());
        let started = thread.spawn(move || look_after(&looked_after));
        started.map_err(|error| OpenError::new(path, error))?;
        Ok(Self {
            tree,
            next: OnceLock::new(),
        })
    }

    fn now(&self) -> &Self {
        let mut now = self;
        while let Some(next) = now.next.get() {
            now = next;
        }
        now
    }

    /// When the directory was removed, serves the new one at its path, if any. Only calls for the
    /// root get there: identifiers of the old one stay stale.
    fn replace_if_gone(&self) {
        let now = self.now();
        let objects = &now.tree.objects;
        let status = objects.root().status();
        let gone = status.is_ok_and(|status| objects.is_gone(&status));
        if gone && let Ok(next) = Self::open(&now.tree.path, now.tree.options.clone()) {
            let _ = now.next.set(Box::new(next));
            now.tree.is_replaced.store(true, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Mount points inside it; what is mounted there is not served.
    #[must_use]
    pub fn mounts_inside(&self) -> Vec<PathBuf> {
        self.tree.objects.bounds().mounts_inside()
    }
}

impl FileSystem for Directory {
    forward! { self => self.now().tree;
        describe, path_of, attributes, statistics, open, commit_metadata,
    }
    forward! { self => self.now().tree.data; read_link, read, seek, allocate, copy, write }
    forward! { self => self.now().tree.names;
        lookup, create, make_directory, make_symlink, make_node, link, rename,
    }
    forward! { self => self.now().tree.attributes; set_attributes }
    forward! { self => self.now().tree.listings; read_directory }

    fn as_local(&self) -> Option<&dyn LocalFiles> {
        Some(self)
    }

    /// Each call sets the identity of its thread (`access`).
    fn prepare_thread(&self) {}

    fn root(&self) -> FileId {
        *self.now().tree.objects.root().id()
    }

    fn current_root(&self, call: &Call<'_>) -> Result<FileId> {
        self.now().tree.objects.may_look(call)?;
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
        let extended = &self.now().tree.extended;
        extended.are_possible().then_some(extended)
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, _offset: u64, _count: u32) -> Result<Committed> {
        self.now().tree.data.commit(call, id)
    }

    fn write_verifier(&self, id: Option<&FileId>) -> [u8; 8] {
        let tree = &self.now().tree;
        id.map_or_else(
            || tree.durability.verifier(),
            |id| tree.durability.verifier_of(&tree.objects.key_of(id)),
        )
    }

    fn remove(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        self.now().tree.names.remove(call, directory, name, false)
    }

    fn remove_directory(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        self.now().tree.names.remove(call, directory, name, true)
    }

    fn finish(&self, how: Finish) -> Result<u64> {
        let sync = &self.now().tree.metadata_sync;
        match how {
            Finish::Sync => sync.sync(),
            Finish::Within(patience) => metadata_sync::finish(sync, patience),
            Finish::Abandon => Ok(()), // the kernel goes on writing
        }
        .map(|()| 0)
    }

    fn hold(&self, call: &Call<'_>, id: &FileId) -> Result<Option<Hold>> {
        let (hold, _) = self.now().tree.objects.hold(call, id)?;
        Ok(Some(Box::new(hold)))
    }

    fn access(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: Rights,
    ) -> Result<(Rights, FileAttributes)> {
        self.now().tree.rights(call, id, wanted)
    }

    fn object_of(&self, id: &FileId) -> FileId {
        self.now().tree.objects.key_of(id)
    }
}

impl LocalFiles for Directory {
    fn path(&self) -> &Path {
        &self.tree.path
    }

    fn open_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<OpenFile> {
        let objects = &self.tree.objects;
        let object = objects.object(call, id)?;
        object.file_type().expect_regular()?;
        let status = objects.look(&object, true)?;
        objects
            .access()
            .judge(call, &object, &status)
            .check_write()?;
        match objects.writable(&object) {
            Err(Error::AccessDenied) => object.reopen(OFlags::WRONLY),
            opened => opened.cloned(),
        }
    }

    fn open_listed(&self, call: &Call<'_>, id: &FileId) -> Result<Option<OpenFile>> {
        let objects = &self.tree.objects;
        if !matches!(objects.naming(), Naming::Handles) {
            return Ok(None);
        }
        self.tree.objects.access().act_for(call)?;
        let opened = identifier::open_to_read(objects.root().as_fd(), id)?;
        Ok(Some(OpenFile::new(opened)))
    }

    fn new_file(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: u32,
    ) -> Result<OpenFile> {
        pagewell_fs::name::check_new(name)?;
        let objects = &self.tree.objects;
        let directory = objects.directory(call, directory)?;
        self.tree.objects.access().act_for(call)?;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let resolver = objects.bounds().resolver();
        let opened = resolver.create(directory.as_fd(), name, mode)?;
        Ok(OpenFile::new(opened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_served_is_named_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let missing = directory.path().join("missing");
        for (path, reason) in [(&file, "not a directory"), (&missing, "not found")] {
            let error = Tree::of_path(path, Options::default()).err().unwrap();
            let wanted = format!("{}: {reason}", path.display());
            assert_eq!(error.to_string(), wanted);
        }
    }
}
