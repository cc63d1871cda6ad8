//! Which file or block device something is, whatever it is called.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use pagewell_fs::source::OpenError;
use pagewell_fs::{Attributes, FileType};

/// One file or block device of this machine, as it can be recognised: a partition and its disk
/// are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    /// Number of the file system, as `pagewell_fs` tells it, and of the file.
    File(u64, u64),
    /// Major and minor number.
    BlockDevice(u32, u32),
}

impl FileIdentity {
    /// What this path leads to.
    pub(crate) fn of_path(path: &Path) -> Result<Self, OpenError> {
        let fail =
            |error: std::io::Error| OpenError::new(&path.display().to_string(), &error.to_string());
        let status = path.metadata().map_err(fail)?;
        if status.file_type().is_block_device() {
            let device = status.rdev();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            return Ok(Self::BlockDevice(major, minor));
        }
        let filesystem = rustix::fs::statvfs(path).map_err(|errno| fail(errno.into()))?;
        let number = match filesystem.f_fsid {
            0 => status.dev(),
            number => number,
        };
        Ok(Self::File(number, status.ino()))
    }

    /// What an open file is.
    pub(crate) fn of_open(file: &File) -> Option<Self> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Self::of_path(Path::new(&path)).ok()
    }

    /// What an object of a local directory is.
    pub(crate) fn of_local(attributes: &Attributes) -> Self {
        if attributes.file_type == FileType::BlockDevice {
            let (major, minor) = attributes.device;
            return Self::BlockDevice(major, minor);
        }
        Self::File(attributes.filesystem_id, attributes.file_id)
    }
}
