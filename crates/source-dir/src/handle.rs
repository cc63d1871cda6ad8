//! Identifiers made of the kernel's own file handles.
//!
//! Problem: an identifier must outlive renames, restarts and the open-object cache, and must
//! never mean another object.
//!
//! Rule: name_to_handle_at gives what the file system itself uses for NFS (inode number and
//! generation, mostly); open_by_handle_at, which needs `CAP_DAC_READ_SEARCH`, opens it again on
//! the file system of the export. The identifier is one byte [`TAG`], one byte type, and the
//! handle. A reused inode has another generation, so the old identifier is stale.
//!
//! Containment: the server authenticates identifiers, so what arrives here was once issued for
//! this export, and a handle cannot lead to another file system. Whether the object is still in the
//! export is asked before it is used ([`super::containment`]). Permission is not asked of the
//! directories above an object: a client that was given its identifier may use it, as with other
//! NFS servers.

use super::status::Status;
use super::system::{self, KernelHandle};
use super::{ID_BYTES_MAX, Tree, error_of};
use pagewell_fs::{Error, FileId, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// First byte of an identifier of this kind.
pub(super) const TAG: u8 = 1;
/// How often an object is asked for again whose inode number is being given to a new object at this
/// moment. Linux says "out of memory" then (`iget_locked` has no other way to fail); microseconds
/// later, or when the thread that does it has a processor again, the old identifier is plainly
/// stale. A machine that is out of memory stays so.
const REUSE_RETRIES: usize = 100;

/// Linux' numbers for file systems whose handles and journals are known (statfs `f_type`).
pub(super) const EXT4_MAGIC: i64 = 0xef53;
pub(super) const XFS_MAGIC: i64 = 0x5846_5342;
pub(super) const TMPFS_MAGIC: i64 = 0x0102_1994;
pub(super) const BTRFS_MAGIC: i64 = 0x9123_683e;
pub(super) const RAMFS_MAGIC: i64 = 0x8584_58f6;
pub(super) const FUSE_MAGIC: i64 = 0x6573_5546;
pub(super) const ECRYPTFS_MAGIC: i64 = 0xf15f;
pub(super) const OVERLAY_MAGIC: i64 = 0x794c_7630;

/// Linux' number for the kind of file system that a file is on (statfs `f_type`).
pub(super) fn magic_of(file: impl AsFd) -> Result<i64, Errno> {
    #[allow(clippy::useless_conversion)] // the type differs by architecture
    i64::try_from(rustix::fs::fstatfs(file)?.f_type).map_err(|_| Errno::OVERFLOW)
}

/// The identifier that carries `handle`; `None` when it does not fit.
pub(super) fn id_of(handle: &KernelHandle) -> Option<FileId> {
    let kind = u8::try_from(handle.kind()).ok()?;
    let bytes = [&[TAG, kind], handle.bytes()].concat();
    FileId::new(&bytes).filter(|_| bytes.len() <= ID_BYTES_MAX)
}

fn handle_of(id: &FileId) -> Result<KernelHandle> {
    match id.as_bytes() {
        [TAG, kind, handle @ ..] if !handle.is_empty() => {
            KernelHandle::new(*kind, handle).ok_or(Error::BadId)
        }
        _ => Err(Error::BadId),
    }
}

/// The handle of an open object, as an identifier.
pub(super) fn identify(fd: BorrowedFd<'_>) -> Result<FileId> {
    let handle = system::name_to_handle(fd, b"").map_err(error_of)?;
    id_of(&handle).ok_or(Error::NotSupported)
}

/// The inode number inside a handle, where its layout is known.
pub(super) fn inode_in(magic: i64, handle: &KernelHandle) -> Option<u64> {
    let bytes = handle.bytes();
    let word = |at: usize| -> Option<u64> {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_ne_bytes(word)))
    };
    let long = |at: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
    };
    match (magic, handle.kind(), bytes.len()) {
        // FILEID_INO32_GEN: inode, generation
        (EXT4_MAGIC | XFS_MAGIC, 1, 8) => word(0),
        // XFS with 64-bit inode numbers: inode, generation
        (XFS_MAGIC, 0x81, 12) => long(0),
        // tmpfs: generation, low and high half of the inode
        (TMPFS_MAGIC, 1, 12) => Some(word(4)? | word(8)? << 32),
        // btrfs without parent: object, root, generation
        (BTRFS_MAGIC, 0x4d, 20) => long(0),
        _ => None,
    }
}

/// Whether this process may open by handle on the file system of `mount`.
pub(super) fn works(mount: BorrowedFd<'_>) -> bool {
    let Ok(handle) = system::name_to_handle(mount, b"") else {
        return false;
    };
    id_of(&handle).is_some()
        && system::open_by_handle(mount, &handle, OFlags::PATH | OFlags::CLOEXEC).is_ok()
}

/// Opens a regular file by its kernel handle for reading, with the identity of the thread.
pub(super) fn open_to_read(mount: BorrowedFd<'_>, id: &FileId) -> Result<OwnedFd> {
    // What is no regular file after all does not hold the caller up.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    system::open_by_handle(mount, &handle_of(id)?, flags).map_err(error_of)
}

/// Waits for the thread that gives the number away; late ones longer.
fn pause(retry: usize) {
    if retry < REUSE_RETRIES / 2 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Tree {
    /// Opens what a kernel handle names, only to name it.
    pub(super) fn open_handle(&self, id: &FileId) -> Result<(OwnedFd, Status)> {
        let handle = handle_of(id)?;
        self.acting.become_server()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (mut retries, mut made_room) = (0, false);
        let opened = loop {
            match system::open_by_handle(self.root.as_fd(), &handle, flags) {
                Err(Errno::NOMEM) if retries < REUSE_RETRIES => {
                    pause(retries);
                    retries += 1;
                }
                Err(Errno::MFILE | Errno::NFILE) if !made_room => {
                    self.make_room(true);
                    made_room = true;
                }
                Err(Errno::STALE | Errno::NOENT) => return Err(Error::Stale),
                Err(Errno::INVAL) => return Err(Error::BadId),
                opened => break opened.map_err(error_of)?,
            }
        };
        let status = Status::of(&opened)?;
        Error::Stale.when(self.is_gone(&status) || !self.resolver.same_mount(&status))?;
        if self.is_inside(opened.as_fd(), &status, true)? {
            Ok((opened, status))
        } else {
            Err(Error::Stale)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_identifier() {
        let handle = KernelHandle::new(0x81, &[7; 12]).unwrap();
        let id = id_of(&handle).unwrap();
        let back = handle_of(&id).unwrap();
        assert_eq!((back.kind(), back.bytes()), (0x81, &[7; 12][..]));
        let too_long = KernelHandle::new(1, &[7; 47]).unwrap();
        assert!(id_of(&too_long).is_none());
        for bad in [&[][..], &[TAG], &[TAG, 1], &[9, 1, 1, 1]] {
            let id = FileId::new(bad).unwrap();
            assert_eq!(handle_of(&id).err(), Some(Error::BadId));
        }
    }

    #[test]
    fn inode_is_found_where_the_layout_is_known() {
        let words: Vec<u8> = [3u32, 4, 5].iter().flat_map(|w| w.to_ne_bytes()).collect();
        let inode = |magic, kind, length: usize| {
            inode_in(magic, &KernelHandle::new(kind, &words[..length]).unwrap())
        };
        assert_eq!(inode(EXT4_MAGIC, 1, 8), Some(3));
        assert_eq!(inode(TMPFS_MAGIC, 1, 12), Some(4 | 5 << 32));
        assert_eq!(inode(EXT4_MAGIC, 1, 12), None);
        assert_eq!(inode(0, 1, 8), None);
    }
}
