//! The files of a directory of this machine, by their descriptors.
//!
//! For commands on many small files, which only open, read or fill, and close each.
//!
//! Data so written is on the device after [`Finish::Sync`](crate::Finish::Sync), which must report
//! every loss since the directory was opened.

use std::path::Path;

use crate::{Call, FileId, FileSystem, OpenFile, Result};

/// A file system of files of this machine ([`FileSystem::as_local`]).
pub trait LocalFiles: FileSystem {
    /// The path by which the directory was opened.
    fn path(&self) -> &Path;

    /// A regular file, open for writing and reading, as the caller may.
    fn open_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<OpenFile>;

    /// A regular file just listed, open for reading. `None`: only [`FileSystem::read`] finds it.
    fn open_listed(&self, call: &Call<'_>, id: &FileId) -> Result<Option<OpenFile>>;

    /// Makes a regular file under a free name, open for reading and writing. No other descriptor
    /// exists.
    fn new_file(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: u32,
    ) -> Result<OpenFile>;
}
