//! Options of a directory, and what is found out before it is served.

use super::durability::{KernelSync, SyncCalls};
use super::identifier::{
    BTRFS_MAGIC, ECRYPTFS_MAGIC, EXT4_MAGIC, FUSE_MAGIC, OVERLAY_MAGIC, TMPFS_MAGIC, XFS_MAGIC,
};
use super::object::Status;
use pagewell_fs::{FileId, Limits};
use rustix::fs::{StatVfs, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of a directory.
#[derive(Clone)]
pub struct Options {
    /// Changes of names and attributes are on the device when the call returns, as NFSv3 promises.
    /// Without it a crash may undo answered changes.
    pub metadata_sync: bool,
    /// Show the directories beneath mount points, where possible. Commands with a path do not.
    pub own_mount: bool,
    /// Name objects by inode and path hint even where kernel handles work.
    pub force_trails: bool,
    /// Bound of held objects; `None`: by the limit of open files.
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

/// Bound of the raised soft limit.
const DESCRIPTORS_MAX: u64 = 65_536;
/// Descriptors kept for connections, logs and listings, besides half of all.
const DESCRIPTORS_RESERVED: u64 = 256;
/// For small limits.
const DESCRIPTORS_MIN: u64 = 64;
/// More only cost memory: opening an object again takes microseconds.
pub(super) const OBJECTS_MAX: usize = 16_384;

pub(super) fn limits_of(magic: i64, sizes: &StatVfs, access_lists: bool) -> Limits {
    Limits {
        read_only: sizes.f_flag.contains(StatVfsMountFlags::RDONLY),
        file_bytes_max: file_bytes_max(magic, sizes.f_bsize),
        name_bytes_max: u32::try_from(sizes.f_namemax).unwrap_or(255).min(255),
        links_max: links_max(magic),
        symlinks: true,
        times_settable: true,
        access_lists,
        stacked: matches!(magic, OVERLAY_MAGIC | ECRYPTFS_MAGIC | FUSE_MAGIC),
        ..Limits::default()
    }
}

/// Distinguishes this tree from others: the root's inode, generation and birth, and the number of
/// its file system, unless that is the device's, which a restart may change.
pub(super) fn tree_id_of(root: &FileId, status: &Status, filesystem: u64) -> Vec<u8> {
    let is_of_device = filesystem == status.node.device;
    let filesystem = if is_of_device { 0 } else { filesystem };
    let mut bytes = root.as_bytes().to_vec();
    bytes.extend(status.birth.to_be_bytes());
    bytes.extend(filesystem.to_be_bytes());
    bytes
}

pub(super) fn reason_of(errno: Errno) -> String {
    match errno {
        Errno::NOENT => "not found".to_owned(),
        Errno::NOTDIR => "not a directory".to_owned(),
        Errno::ACCESS | Errno::PERM => "not readable".to_owned(),
        other => other.to_string(),
    }
}

/// Raises the soft limit of open files and returns how many objects may use.
pub(super) fn descriptors_max() -> usize {
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

/// In bytes. ext4 numbers blocks with 32 bits; elsewhere the kernel's signed offsets are the limit.
fn file_bytes_max(magic: i64, block_bytes: u64) -> u64 {
    if magic == EXT4_MAGIC {
        u64::from(u32::MAX).saturating_mul(block_bytes)
    } else {
        i64::MAX.unsigned_abs()
    }
}

/// Hard links to one object, from Linux' sources.
fn links_max(magic: i64) -> u32 {
    match magic {
        EXT4_MAGIC => 65_000,
        XFS_MAGIC | TMPFS_MAGIC => i32::MAX.unsigned_abs(),
        BTRFS_MAGIC => 65_535,
        _ => 127, // what Linux promises of any file system (LINK_MAX of limits.h)
    }
}

pub(super) fn has_one_journal(magic: i64, device: u64) -> bool {
    match magic {
        EXT4_MAGIC => ext4_has_journal(device),
        other => other == XFS_MAGIC,
    }
}

/// ext2, and ext4 without a journal, have the same number; there the names of two directories are
/// not written together.
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
