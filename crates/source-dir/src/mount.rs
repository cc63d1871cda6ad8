//! The mount through which an export is used, and what is mounted inside the export.
//!
//! Problem: a name that is a mount point leads to another file system. That one is not exported:
//! its inode numbers and handles would be mixed up with those of the export. The directory beneath
//! cannot be reached by name, so clients saw a name without attributes.
//!
//! Rule: where the kernel lets (root, Linux 5.12) the export is used through a mount of its own,
//! which shows the same file system without what is mounted in it, and never will have anything
//! mounted in it: clients see the directory beneath, as with other NFS servers. The original stays
//! open: it keeps the file system from being unmounted unnoticed, and only there an object has a
//! path that tells whether it has left the export. Elsewhere mount points are listed, and whatever
//! is asked about them is refused.
//!
//! What is mounted there when the export is opened is reported to the operator ([`below`]).

use super::object::open_directory;
use super::status::Status;
use super::{error_of, handle, system};
use pagewell_base::mounts::{fields, mountinfo, plain};
use pagewell_fs::{OpenFile, Result};
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The original, while an export is used through a mount of its own.
pub(super) struct Original {
    root: OpenFile,
    _own: OwnedFd,
}

impl Original {
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// An object of the export, as it is seen in the original mount.
    pub(super) fn see(&self, object: BorrowedFd<'_>) -> Result<OwnedFd> {
        let made = system::name_to_handle(object, b"").map_err(error_of)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        system::open_by_handle(self.root.as_fd(), &made, flags).map_err(error_of)
    }
}

/// Goes over to a mount of its own, if the kernel lets; else stays where it is.
pub(super) fn own(root: OpenFile) -> Result<(OpenFile, Option<Original>)> {
    let Ok(own) = system::own_mount(root.as_fd()) else {
        return Ok((root, None));
    };
    // A sandbox whose rule is for a directory above does not reach into the private mount.
    let opened = open_directory(own.as_fd());
    let Some(opened) = opened.ok().filter(|opened| handle::works(opened.as_fd())) else {
        return Ok((root, None));
    };
    let original = Original { root, _own: own };
    Ok((opened, Some(original)))
}

/// Whether an export has everything on its file system inside: it is the root of a mount, and that
/// mount shows the file system from its own root (a bind mount may show a part of it).
pub(super) fn is_whole(root: &Status) -> bool {
    let Some(number) = root.mount.filter(|_| root.is_mount_root) else {
        return false;
    };
    let number = number.to_string();
    fields(&mountinfo()).any(|fields| {
        fields.first() == Some(&number.as_bytes()) && fields.get(3) == Some(&&b"/"[..])
    })
}

/// Where something is mounted below a directory with this path.
pub(super) fn below(root: &[u8]) -> Vec<PathBuf> {
    let mounts = mountinfo();
    let points = fields(&mounts).filter_map(|fields| fields.get(4).map(|point| plain(point)));
    let mut below: Vec<PathBuf> = points
        .filter(|point| super::containment::beneath(root, point).is_some_and(|rest| rest != b""))
        .map(|point| PathBuf::from(OsString::from_vec(point)))
        .collect();
    below.sort();
    below.dedup();
    below
}
