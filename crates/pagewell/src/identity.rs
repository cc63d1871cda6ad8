//! Which file or block device something is, whatever its name.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use pagewell_fs::source::OpenError;
use pagewell_fs::{Attributes, FileType};

/// One file or block device of this machine; a partition and its disk are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    /// Number of the device and of the file. A copy of a file system has that file system's own
    /// number.
    File(u64, u64),
    BlockDevice(u32, u32),
}

impl FileIdentity {
    pub(crate) fn of_path(path: &Path) -> Result<Self, OpenError> {
        let status = path.metadata();
        let status = status
            .map_err(|error| OpenError::new(&path.display().to_string(), &error.to_string()))?;
        Ok(Self::of(&status))
    }

    pub(crate) fn of_open(file: &File) -> Option<Self> {
        file.metadata().ok().map(|status| Self::of(&status))
    }

    fn of(status: &Metadata) -> Self {
        if status.file_type().is_block_device() {
            let device = status.rdev();
            return Self::BlockDevice(rustix::fs::major(device), rustix::fs::minor(device));
        }
        Self::File(status.dev(), status.ino())
    }

    pub(crate) fn of_local(attributes: &Attributes) -> Self {
        if attributes.file_type == FileType::BlockDevice {
            let (major, minor) = attributes.device;
            return Self::BlockDevice(major, minor);
        }
        Self::File(attributes.filesystem_id, attributes.file_id)
    }
}
