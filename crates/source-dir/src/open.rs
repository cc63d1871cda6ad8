//! Opening an export: what can be found out before anything is served.

use super::Tree;
use super::durability::{Durability, KernelSync, SyncCalls};
use super::entries::{Listings, gives_cookies};
use super::handle::{
    self, BTRFS_MAGIC, ECRYPTFS_MAGIC, EXT4_MAGIC, FUSE_MAGIC, OVERLAY_MAGIC, RAMFS_MAGIC,
    TMPFS_MAGIC, XFS_MAGIC, magic_of,
};
use super::identity::Acting;
use super::object::Object;
use super::objects::{Cache, Naming};
use super::ordered::Ordered;
use super::path_hint::{Places, compose};
use super::permission::has_access_list;
use super::status::{Inode, Status};
use super::{
    blocking::{self, HeldWrites},
    error_of, extended, mount,
    resolve::Resolver,
};
use pagewell_fs::{Call, FileId, Limits, OpenFile, Result, Statistics};
use rustix::fs::{Mode, OFlags, StatVfs, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

/// How to serve a directory.
#[derive(Clone)]
pub struct Options {
    /// Changes of names and attributes are on the device when the call returns, as NFSv3
    /// promises. Without it a crash of the machine may undo answered changes.
    pub metadata_sync: bool,
    /// Show what lies beneath mount points, where that can be done. A command that is given a path
    /// means what its user sees there.
    pub own_mount: bool,
    /// Name objects by inode and path hint even where kernel handles can be used.
    pub force_trails: bool,
    /// The most objects to hold open; `None`: as many as the limit of open files allows.
    pub open_objects_max: Option<usize>,
    /// The calls that make data durable.
    pub sync_calls: Arc<dyn SyncCalls>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            metadata_sync: true,
            own_mount: true,
            force_trails: false,
            open_objects_max: None,
            sync_calls: Arc::new(KernelSync),
        }
    }
}

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct OpenError {
    path: PathBuf,
    reason: String,
}

impl OpenError {
    pub(super) fn new(path: &Path, reason: impl std::fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Descriptors that the soft limit is raised to at most.
const DESCRIPTORS_MAX: u64 = 65_536;
/// Descriptors left to the rest of the program besides the half: connections, logs, listings.
const DESCRIPTORS_RESERVED: u64 = 256;
/// A small limit still lets some objects be held.
const DESCRIPTORS_MIN: u64 = 64;
/// More held objects only cost memory: opening one again takes microseconds.
const OBJECTS_MAX: usize = 16_384;

impl Tree {
    pub(super) fn of_path(path: &Path, options: Options) -> Result<Self, OpenError> {
        let acting = Acting::detect();
        let refused = |error| OpenError::new(path, error);
        acting.become_server().map_err(refused)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| OpenError::new(path, reason_of(errno)))?;
        Self::over(path, OpenFile::new(mount), acting, options).map_err(refused)
    }

    fn over(path: &Path, mount: OpenFile, acting: Acting, options: Options) -> Result<Self> {
        rustix::process::umask(Mode::empty());
        let whole_mount = mount::is_whole(&Status::of(&mount)?);
        let handles = !options.force_trails && handle::works(mount.as_fd());
        let (mount, original) = if handles && options.own_mount {
            mount::own(mount)?
        } else {
            (mount, None)
        };
        let status = Status::of(&mount)?;
        let sizes = rustix::fs::fstatvfs(&mount).map_err(error_of)?;
        let magic = magic_of(&mount).map_err(error_of)?;
        let (naming, id) = if handles {
            (Naming::Handles, handle::identify(mount.as_fd())?)
        } else {
            let inode = Inode::of(&mount, &status, status.node.device)?;
            (
                Naming::PathHints(Box::new(Places::new(inode))),
                compose(inode, &[]),
            )
        };
        let root = Arc::new(Object::new(id, &status, mount));
        let descriptors = descriptors_max();
        let objects = options.open_objects_max.unwrap_or(OBJECTS_MAX);
        let one_journal = match magic {
            EXT4_MAGIC => ext4_has_journal(status.node.device),
            other => other == XFS_MAGIC,
        };
        Ok(Self {
            path: path.to_owned(),
            options: options.clone(),
            naming,
            acting,
            resolver: Resolver::probe(root.as_fd(), &status),
            cache: Cache::new(objects.min(descriptors), descriptors),
            held_writes: HeldWrites::new(),
            durability: Durability::new(options.sync_calls, one_journal, options.metadata_sync),
            limits: limits_of(magic, &sizes, &root),
            tree_id: tree_id_of(&id, &status, sizes.f_fsid),
            whole_mount,
            original,
            has_extended: extended::are_possible(&root),
            counts_links: status.attributes.link_count > 0,
            magic,
            knows_inodes: blocking::knows_inodes(magic),
            listings: Listings::default(),
            ordered: Ordered::default(),
            remembered: super::remembered::Remembered::default(),
            orders_listings: AtomicBool::new(
                matches!(magic, TMPFS_MAGIC | RAMFS_MAGIC | OVERLAY_MAGIC)
                    || !gives_cookies(root.as_fd())?,
            ),
            census: super::census::Census::default(),
            turns: AtomicU64::new(1),
            is_replaced: AtomicBool::new(false),
            myself: OnceLock::new(),
            root,
        })
    }

    pub(super) fn describe(&self) -> String {
        let names = match self.naming {
            Naming::Handles => "kernel file handles",
            Naming::PathHints(_) => "inode numbers and path hints",
        };
        let acting = match &self.acting {
            Acting::AsCaller => "as the caller".to_owned(),
            Acting::AsSelf { uid, .. } => format!("as user {uid} for everybody"),
        };
        let path = self.path.display();
        format!("directory {path} (objects named by {names}; acts {acting})")
    }

    /// [`pagewell_fs::FileSystem::statistics`].
    pub(super) fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        self.may_look(call)?;
        let sizes = rustix::fs::fstatvfs(self.root.as_fd()).map_err(error_of)?;
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
}

/// What the file system can hold and do.
fn limits_of(magic: i64, sizes: &StatVfs, root: &Object) -> Limits {
    Limits {
        read_only: sizes.f_flag.contains(StatVfsMountFlags::RDONLY),
        file_bytes_max: file_bytes_max(magic, sizes.f_bsize),
        name_bytes_max: u32::try_from(sizes.f_namemax).unwrap_or(255).min(255),
        links_max: links_max(magic),
        symlinks: true,
        times_settable: true,
        access_lists: acls_possible(root),
        stacked: matches!(magic, OVERLAY_MAGIC | ECRYPTFS_MAGIC | FUSE_MAGIC),
        ..Limits::default()
    }
}

/// What tells this tree from others: the root's inode with its generation and birth, and the
/// number of its file system, unless that is only the number of its device, which may be another
/// one after a restart of the machine.
fn tree_id_of(root: &FileId, status: &Status, filesystem: u64) -> Vec<u8> {
    let is_of_device = filesystem == status.node.device;
    let filesystem = if is_of_device { 0 } else { filesystem };
    let mut bytes = root.as_bytes().to_vec();
    bytes.extend(status.birth.to_be_bytes());
    bytes.extend(filesystem.to_be_bytes());
    bytes
}

fn reason_of(errno: Errno) -> String {
    match errno {
        Errno::NOENT => "not found".to_owned(),
        Errno::NOTDIR => "not a directory".to_owned(),
        Errno::ACCESS | Errno::PERM => "not readable".to_owned(),
        other => other.to_string(),
    }
}

/// Whether objects there can have access control lists at all.
fn acls_possible(root: &Object) -> bool {
    let asked = rustix::fs::fgetxattr_query(root.as_fd(), c"system.posix_acl_access");
    asked != Err(Errno::OPNOTSUPP) && has_access_list(&root.link()).is_ok()
}

/// Raises the soft limit of open files and says how many of them objects may use.
fn descriptors_max() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = limit
        .maximum
        .unwrap_or(DESCRIPTORS_MAX)
        .min(DESCRIPTORS_MAX);
    let mut current = limit.current.unwrap_or(DESCRIPTORS_MAX);
    if current < most {
        let raised = Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        };
        if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() {
            current = most;
        }
    }
    let usable = (current / 2)
        .saturating_sub(DESCRIPTORS_RESERVED)
        .max(DESCRIPTORS_MIN);
    usize::try_from(usable).unwrap_or(usize::MAX)
}

/// Largest file, in bytes. ext4 numbers the blocks of a file with 32 bits; elsewhere the kernel's
/// signed offsets are the limit.
fn file_bytes_max(magic: i64, block_bytes: u64) -> u64 {
    if magic == EXT4_MAGIC {
        u64::from(u32::MAX).saturating_mul(block_bytes)
    } else {
        i64::MAX.unsigned_abs()
    }
}

/// Most hard links to one object, from the sources of Linux' file systems.
fn links_max(magic: i64) -> u32 {
    match magic {
        EXT4_MAGIC => 65_000,
        XFS_MAGIC | TMPFS_MAGIC => i32::MAX.unsigned_abs(),
        BTRFS_MAGIC => 65_535,
        _ => 127, // what Linux promises of any file system (LINK_MAX of limits.h)
    }
}

/// Whether the file system on this device is ext4 with a journal. ext2, and ext4 made without one,
/// have the same magic number; there the names of two directories are not written together.
fn ext4_has_journal(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let journal = || {
        let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let task = Path::new("/sys/fs/ext4")
            .join(link.file_name()?)
            .join("journal_task");
        // The number of the journal's thread, or "<none>".
        let task = std::fs::read_to_string(task).ok()?;
        task.trim().parse::<u32>().ok()
    };
    journal().is_some()
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
