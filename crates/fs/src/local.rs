//! What a directory of this machine offers beside [`FileSystem`]: its files by their descriptors.
//!
//! A server finds each object again by its identifier, holds it, and reports what a change did. A
//! command that goes through many small files needs none of that: each file is opened once, filled
//! or read, and closed.
//!
//! What is written through a descriptor is on the device after
//! [`Finish::Sync`](crate::Finish::Sync), which must report what was lost since the directory was
//! opened.

use std::path::Path;

use crate::{Call, FileId, FileSystem, OpenFile, Result};

/// A file system whose objects are files of this machine ([`FileSystem::as_local`]).
pub trait LocalFiles: FileSystem {
    /// The path that the directory was opened by.
    fn path(&self) -> &Path;

    /// A regular file, open for writing if the caller may write to it, and for reading where the
    /// caller may read it.
    fn open_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<OpenFile>;

    /// A regular file that a listing has just returned, opened for reading as the caller. `None`
    /// where only [`FileSystem::read`] finds it.
    fn open_listed(&self, call: &Call<'_>, id: &FileId) -> Result<Option<OpenFile>>;

    /// Makes a regular file where nothing of that name is, as the caller, and opens it for reading
    /// and writing. The file system does not hold it: the caller has the only descriptor.
    fn new_file(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: u32,
    ) -> Result<OpenFile>;
}
