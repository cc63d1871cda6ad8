//! One look at an object (statx), and what is made of it.

use pagewell_fs::{Attributes, Error, FileType, Result, Timestamp};
use rustix::fs::{AtFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp, makedev};
use rustix::path::Arg;
use std::os::fd::AsFd;

/// Where an object lives. Two objects alive at the same time never share it, so it names an object
/// for as long as there is a descriptor of it. Its birth time does not: overlayfs gives an object
/// that is open another one when it copies it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// What tells the objects of one file system apart, also those that had a number before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Inode {
    pub(super) number: u64,
    /// In nanoseconds since 1970, wrapped to 64 bits; 0 where the file system keeps none. Of
    /// another device than the root's with what tells the devices apart ([`Inode::of`]).
    pub(super) birth: u64,
}

impl Inode {
    /// That of an object that is open, in an export whose root is on the device `root`.
    ///
    /// Subvolumes of btrfs, and their snapshots, have the same numbers and births. Each is a device
    /// of its own, which may have another number after a restart; the number of its file system
    /// stays.
    pub(super) fn of(opened: impl AsFd, status: &Status, root: u64) -> Result<Self> {
        let mut inode = Self {
            number: status.node.inode,
            birth: status.birth,
        };
        if status.node.device != root {
            let sizes = rustix::fs::fstatvfs(opened).map_err(super::error_of)?;
            inode.birth = inode.birth.wrapping_add(spread(sizes.f_fsid));
        }
        Ok(inode)
    }
}

/// A number whose top bits depend on all bits of this one (Fibonacci hashing).
pub(super) fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What statx said.
#[derive(Clone, Copy)]
pub(super) struct Status {
    pub(super) node: Node,
    /// Birth time, in nanoseconds as in [`Inode`].
    pub(super) birth: u64,
    /// Number of the mount the object was reached through; `None` before Linux 5.8.
    pub(super) mount: Option<u64>,
    /// Whether the object is the root of its mount, as far as the kernel tells (Linux 5.8).
    pub(super) is_mount_root: bool,
    /// Whether the object may not be changed at all, or only be appended to.
    pub(super) is_frozen: bool,
    /// Whether names and data are encrypted by the file system (fscrypt).
    pub(super) is_encrypted: bool,
    /// What callers of this layer get.
    pub(super) attributes: Attributes,
}

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
        let said = rustix::fs::statx(fd, name, flags, mask).map_err(super::error_of)?;
        let knows = |what: StatxFlags| said.stx_mask & what.bits() != 0;
        let frozen = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
        Ok(Self {
            node: Node {
                device: makedev(said.stx_dev_major, said.stx_dev_minor),
                inode: said.stx_ino,
            },
            birth: match knows(StatxFlags::BTIME) {
                true => mixed(timestamp(&said.stx_btime)),
                false => 0,
            },
            mount: knows(StatxFlags::MNT_ID).then_some(said.stx_mnt_id),
            is_mount_root: said.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            is_frozen: said.stx_attributes.intersects(frozen),
            is_encrypted: said.stx_attributes.contains(StatxAttributes::ENCRYPTED),
            attributes: attributes(&said)?,
        })
    }
}

fn attributes(said: &Statx) -> Result<Attributes> {
    let mode = u32::from(said.stx_mode);
    Ok(Attributes {
        file_type: file_type(mode)?,
        mode: mode & 0o7777,
        link_count: said.stx_nlink,
        uid: said.stx_uid,
        gid: said.stx_gid,
        size: said.stx_size,
        used: said.stx_blocks.saturating_mul(512),
        device: (said.stx_rdev_major, said.stx_rdev_minor),
        filesystem_id: makedev(said.stx_dev_major, said.stx_dev_minor),
        file_id: said.stx_ino,
        accessed: timestamp(&said.stx_atime),
        modified: timestamp(&said.stx_mtime),
        changed: timestamp(&said.stx_ctime),
        may_be_kept: true,
    })
}

fn file_type(mode: u32) -> Result<FileType> {
    Ok(match mode & libc::S_IFMT {
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

fn timestamp(time: &StatxTimestamp) -> Timestamp {
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}

/// A time as one number, only to be compared.
pub(super) fn mixed(time: Timestamp) -> u64 {
    #[allow(clippy::cast_sign_loss)] // equal times stay equal
    let seconds = time.seconds as u64;
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(u64::from(time.nanoseconds))
}
