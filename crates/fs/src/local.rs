//! The files of a directory of this machine, by their descriptors.
//!
//! A server finds each object again by its identifier, holds it, and reports its changes. A command
//! that goes through many small files needs none of that: it opens each file once, reads or fills
//! it, and closes it.
//!
//! Data written through a descriptor is on the device after [`Finish::Sync`](crate::Finish::Sync),
//! which must report every loss since the directory was opened.

use std::path::Path;

use crate::{Call, FileId, FileSystem, OpenFile, Result};

/// A file system whose objects are files of this machine ([`FileSystem::as_local`]).
pub trait LocalFiles: FileSystem {
    /// The path by which the directory was opened.
    fn path(&self) -> &Path;

    /// A regular file, open for writing if the caller may write to it, and for reading if the
    /// caller may read it.
    fn open_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<OpenFile>;

    /// A regular file that a listing has just returned, open for reading as the caller. `None`
    /// where only [`FileSystem::read`] finds it.
    fn open_listed(&self, call: &Call<'_>, id: &FileId) -> Result<Option<OpenFile>>;

    /// Makes a regular file under a free name, as the caller, and opens it for reading and writing.
    /// The caller has the only descriptor.
    fn new_file(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: u32,
    ) -> Result<OpenFile>;
}
