//! One look at an object (statx), and what is made of it.

use pagewell_fs::{Attributes, Error, FileType, Result, Timestamp};
use rustix::fs::{AtFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp};
use rustix::path::Arg;
use std::os::fd::AsFd;

/// Where an object lives: device and inode number. Two objects alive at the same time never
/// share it, so it names an object for as long as there is a descriptor of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// What statx said.
#[derive(Clone, Copy)]
pub(super) struct Status(Statx);

impl Status {
    /// Looks at the object behind `fd`.
    pub(super) fn of(fd: impl AsFd) -> Result<Self> {
        Self::at(fd, c"", AtFlags::EMPTY_PATH)
    }

    /// Looks at `name` in the directory `fd`: the name itself, never what a link points to.
    pub(super) fn of_name(fd: impl AsFd, name: &[u8]) -> Result<Self> {
        Self::at(fd, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
    }

    fn at(fd: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<Self> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
        Ok(Self(
            rustix::fs::statx(fd, name, flags, mask).map_err(super::error_of)?,
        ))
    }

    pub(super) fn node(&self) -> Node {
        Node {
            device: u64::from(self.0.stx_dev_major) << 32 | u64::from(self.0.stx_dev_minor),
            inode: self.0.stx_ino,
        }
    }

    /// Number of the mount the object was reached through; `None` before Linux 5.8.
    pub(super) fn mount(&self) -> Option<u64> {
        (self.0.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(self.0.stx_mnt_id)
    }

    /// Whether the object is the root of its mount; `None` before Linux 5.8.
    pub(super) fn is_mount_root(&self) -> Option<bool> {
        let known = self.0.stx_attributes_mask;
        known
            .contains(StatxAttributes::MOUNT_ROOT)
            .then(|| self.0.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }

    /// Birth time in nanoseconds since 1970, wrapped to 64 bits; 0 where the file system keeps
    /// none. Serves as the generation of an inode number.
    pub(super) fn birth(&self) -> u64 {
        if self.0.stx_mask & StatxFlags::BTIME.bits() == 0 {
            return 0;
        }
        #[allow(clippy::cast_sign_loss)] // only compared for equality
        let seconds = self.0.stx_btime.tv_sec as u64;
        seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(u64::from(self.0.stx_btime.tv_nsec))
    }

    pub(super) fn file_type(&self) -> Result<FileType> {
        Ok(match libc::mode_t::from(self.0.stx_mode) & libc::S_IFMT {
            libc::S_IFREG => FileType::Regular,
            libc::S_IFDIR => FileType::Directory,
            libc::S_IFBLK => FileType::BlockDevice,
            libc::S_IFCHR => FileType::CharacterDevice,
            libc::S_IFLNK => FileType::Symlink,
            libc::S_IFSOCK => FileType::Socket,
            libc::S_IFIFO => FileType::Fifo,
            other => return Err(Error::Io(format!("object of unknown type {other:o}"))),
        })
    }

    pub(super) fn link_count(&self) -> u32 {
        self.0.stx_nlink
    }

    /// The low 12 bits of the mode.
    pub(super) fn mode(&self) -> u32 {
        u32::from(self.0.stx_mode) & 0o7777
    }

    pub(super) fn uid(&self) -> u32 {
        self.0.stx_uid
    }

    pub(super) fn gid(&self) -> u32 {
        self.0.stx_gid
    }

    pub(super) fn size(&self) -> u64 {
        self.0.stx_size
    }

    pub(super) fn changed(&self) -> Timestamp {
        timestamp(&self.0.stx_ctime)
    }

    pub(super) fn accessed(&self) -> Timestamp {
        timestamp(&self.0.stx_atime)
    }

    pub(super) fn modified(&self) -> Timestamp {
        timestamp(&self.0.stx_mtime)
    }

    /// Whether the object may not be changed at all, or only be appended to.
    pub(super) fn is_frozen(&self) -> bool {
        self.0
            .stx_attributes
            .intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND)
    }

    /// Whether names and data are encrypted by the file system (fscrypt).
    pub(super) fn is_encrypted(&self) -> bool {
        self.0.stx_attributes.contains(StatxAttributes::ENCRYPTED)
    }

    pub(super) fn attributes(&self, filesystem_id: u64) -> Result<Attributes> {
        Ok(Attributes {
            file_type: self.file_type()?,
            mode: self.mode(),
            link_count: self.0.stx_nlink,
            uid: self.0.stx_uid,
            gid: self.0.stx_gid,
            size: self.0.stx_size,
            used: self.0.stx_blocks.saturating_mul(512),
            device: (self.0.stx_rdev_major, self.0.stx_rdev_minor),
            filesystem_id,
            file_id: self.0.stx_ino,
            accessed: self.accessed(),
            modified: self.modified(),
            changed: self.changed(),
            may_be_kept: true,
        })
    }
}

fn timestamp(time: &StatxTimestamp) -> Timestamp {
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}
