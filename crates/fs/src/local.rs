//! The files of a directory of this machine, by their descriptors.
//!
//! A server finds each object again by its identifier, holds it, and reports its changes. A command
//! that goes through many small files needs none of that: it opens, reads or fills, and closes
//! each.
//!
//! Data written through a descriptor is on the device after [`Finish::Sync`](crate::Finish::Sync),
//! which must report every loss since the directory was opened.

use std::path::Path;

use crate::{Call, FileId, FileSystem, OpenFile, Result};

/// A file system of files of this machine ([`FileSystem::as_local`]).
pub trait LocalFiles: FileSystem {
    /// The path by which the directory was opened.
    fn path(&self) -> &Path;

    /// A regular file, open for writing and reading, as the caller may.
    fn open_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<OpenFile>;

    /// A regular file just listed, open for reading as the caller. `None`: only
    /// [`FileSystem::read`] finds it.
    fn open_listed(&self, call: &Call<'_>, id: &FileId) -> Result<Option<OpenFile>>;

    /// Makes a regular file under a free name, as the caller, open for reading and writing. No
    /// other descriptor exists.
    fn new_file(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: u32,
    ) -> Result<OpenFile>;
}
