//! Identifiers of objects, which survive renames and restarts and never mean another object.
//!
//! *Kernel handles.* name_to_handle_at returns the file system's identifier for NFS (mostly inode
//! number and generation); open_by_handle_at, which needs `CAP_DAC_READ_SEARCH`, opens it again.
//! *Path hints*, where the kernel has no usable handle: inode number, birth time as its generation,
//! and a hash of the inode number of each directory above the object (`path_hint`).
//!
//! ```text
//!   tag 1 │ type of the handle │ handle
//!   tag 2 │ inode of file │ birth of file │ hash(a) hash(b)          /export/a/b/file
//! ```
//!
//! The server authenticates identifiers. `bounds` checks that the object is still in the export.
//! Permissions of the directories above do not count, as with other NFS servers.

use super::object::{Inode, spread};
use super::system::{self, KernelHandle, error_of};
use pagewell_fs::{Error, FileId, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What fits into a handle, and no more than earlier versions issued: handles stay valid.
const ID_BYTES_MAX: usize = 48;
pub(super) const HANDLE_TAG: u8 = 1;
pub(super) const HINT_TAG: u8 = 2;
/// Tag, inode number and birth time: the key of objects with path hints.
const KEY_BYTES: usize = 17;
const HINT_BYTES_MAX: usize = ID_BYTES_MAX - KEY_BYTES;

/// Linux' numbers (statfs `f_type`) of file systems with known handles and journals.
pub(super) const EXT4_MAGIC: i64 = 0xef53;
pub(super) const XFS_MAGIC: i64 = 0x5846_5342;
pub(super) const TMPFS_MAGIC: i64 = 0x0102_1994;
pub(super) const BTRFS_MAGIC: i64 = 0x9123_683e;
pub(super) const RAMFS_MAGIC: i64 = 0x8584_58f6;
pub(super) const FUSE_MAGIC: i64 = 0x6573_5546;
pub(super) const ECRYPTFS_MAGIC: i64 = 0xf15f;
pub(super) const OVERLAY_MAGIC: i64 = 0x794c_7630;

pub(super) fn magic_of(file: impl AsFd) -> Result<i64, Errno> {
    #[allow(clippy::useless_conversion)] // the type differs by architecture
    i64::try_from(rustix::fs::fstatfs(file)?.f_type).map_err(|_| Errno::OVERFLOW)
}

pub(super) fn id_of(handle: &KernelHandle) -> Option<FileId> {
    let kind = u8::try_from(handle.kind()).ok()?;
    let bytes = [&[HANDLE_TAG, kind], handle.bytes()].concat();
    FileId::new(&bytes).filter(|_| bytes.len() <= ID_BYTES_MAX)
}

pub(super) fn handle_of(id: &FileId) -> Result<KernelHandle> {
    match id.as_bytes() {
        [HANDLE_TAG, kind, handle @ ..] if !handle.is_empty() => {
            KernelHandle::new(*kind, handle).ok_or(Error::BadId)
        }
        _ => Err(Error::BadId),
    }
}

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
        // tmpfs: generation, low and high word of the inode
        (TMPFS_MAGIC, 1, 12) => Some(word(4)? | word(8)? << 32),
        // btrfs without parent: object, root, generation
        (BTRFS_MAGIC, 0x4d, 20) => long(0),
        _ => None,
    }
}

pub(super) fn works(mount: BorrowedFd<'_>) -> bool {
    let Ok(handle) = system::name_to_handle(mount, b"") else {
        return false;
    };
    id_of(&handle).is_some()
        && system::open_by_handle(mount, &handle, OFlags::PATH | OFlags::CLOEXEC).is_ok()
}

/// Opens a regular file by its kernel handle for reading, with the identity of the thread.
pub(super) fn open_to_read(mount: BorrowedFd<'_>, id: &FileId) -> Result<OwnedFd> {
    // An object that is no regular file must not block the caller.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    system::open_by_handle(mount, &handle_of(id)?, flags).map_err(error_of)
}

/// One byte of a path hint: the directory with this inode number.
pub(super) fn hash(inode: u64) -> u8 {
    spread(inode).to_be_bytes()[0]
}

/// A long hint is cut.
pub(super) fn compose(inode: Inode, hint: &[u8]) -> FileId {
    let hint = hint.get(..HINT_BYTES_MAX).unwrap_or(hint);
    let (number, birth) = (inode.number.to_be_bytes(), inode.birth.to_be_bytes());
    let bytes = [&[HINT_TAG][..], &number, &birth, hint].concat();
    FileId::new(&bytes).unwrap_or_else(|| unreachable!("{} bytes fit", bytes.len()))
}

pub(super) fn parse_hint(id: &FileId) -> Result<(Inode, &[u8])> {
    let bytes = id.as_bytes();
    let number = |from: usize| -> Option<u64> {
        Some(u64::from_be_bytes(
            bytes.get(from..from + 8)?.try_into().ok()?,
        ))
    };
    match (bytes.first(), number(1), number(9), bytes.get(KEY_BYTES..)) {
        (Some(&HINT_TAG), Some(number), Some(birth), Some(hint)) => {
            Ok((Inode { number, birth }, hint))
        }
        _ => Err(Error::BadId),
    }
}

pub(super) fn hint_key_of(id: &FileId) -> Result<FileId> {
    Ok(compose(parse_hint(id)?.0, &[]))
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
        for bad in [&[][..], &[HANDLE_TAG], &[HANDLE_TAG, 1], &[9, 1, 1, 1]] {
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
