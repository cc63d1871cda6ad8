//! What a program that has a directory open as its own may do beside [`pagewell_fs::FileSystem`]:
//! use files by their descriptors.
//!
//! A server must find each object again by its identifier, hold it, and tell what a change did.
//! Who goes through many small files needs none of it: each is opened once, filled or read, and
//! closed.
//!
//! What is written through a descriptor is not watched here: it is on the device after
//! [`pagewell_fs::FileSystem::sync`], which synchronises the whole file system and is told by the
//! kernel of everything that was lost since the directory was opened (syncfs(2), Linux 5.8).

use super::objects::Naming;
use super::{Directory, handle};
use pagewell_fs::{Call, Error, FileId, OpenFile, Result};
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd;
use std::path::Path;

impl Directory {
    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.tree.path
    }

    /// A regular file, open for writing if the caller may do that, and for reading where it may.
    pub fn open_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<OpenFile> {
        let object = self.tree.object(call, id)?;
        object.file_type.expect_regular()?;
        let status = self.tree.look(&object, true)?;
        self.tree.judge(call, &object, &status).check_write()?;
        match self.tree.writable(&object) {
            Err(Error::AccessDenied) => object.reopen(OFlags::WRONLY),
            opened => opened.cloned(),
        }
    }

    /// Makes a regular file where nothing of that name is, as the caller, and opens it for reading
    /// and writing. It is not held: the caller has the only descriptor.
    pub fn new_file(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: u32,
    ) -> Result<OpenFile> {
        pagewell_fs::name::check_new(name)?;
        let tree = &self.tree;
        let directory = tree.directory(call, directory)?;
        tree.acting.become_caller(&tree.acting.caller(call))?;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let opened = tree.resolver.create(directory.as_fd(), name, mode)?;
        Ok(OpenFile::new(opened))
    }

    /// Opens a regular file that a listing has just returned, for reading, as the caller. Nothing
    /// where objects are not named by kernel handles: then [`pagewell_fs::FileSystem::read`] finds
    /// it.
    pub fn open_listed(&self, call: &Call<'_>, id: &FileId) -> Result<Option<OpenFile>> {
        let tree = &self.tree;
        if !matches!(tree.naming, Naming::Handles) {
            return Ok(None);
        }
        tree.acting.become_caller(&tree.acting.caller(call))?;
        let opened = handle::open_to_read(tree.root.as_fd(), id)?;
        Ok(Some(OpenFile::new(opened)))
    }
}
