//! [`LocalFiles`]: the files of a directory by their descriptors.
//!
//! Writes through such a descriptor are not watched here. [`pagewell_fs::Finish::Sync`] brings
//! them to the device: it synchronises the whole file system, and the kernel reports there what was
//! lost since the directory was opened (syncfs(2), Linux 5.8).

use super::objects::Naming;
use super::{Directory, handle};
use pagewell_fs::{Call, Error, FileId, LocalFiles, OpenFile, Result};
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd;
use std::path::Path;

impl LocalFiles for Directory {
    fn path(&self) -> &Path {
        &self.tree.path
    }

    fn open_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<OpenFile> {
        let object = self.tree.object(call, id)?;
        object.file_type.expect_regular()?;
        let status = self.tree.look(&object, true)?;
        self.tree.judge(call, &object, &status).check_write()?;
        match self.tree.writable(&object) {
            Err(Error::AccessDenied) => object.reopen(OFlags::WRONLY),
            opened => opened.cloned(),
        }
    }

    fn open_listed(&self, call: &Call<'_>, id: &FileId) -> Result<Option<OpenFile>> {
        let tree = &self.tree;
        if !matches!(tree.naming, Naming::Handles) {
            return Ok(None);
        }
        tree.acting.become_caller(&tree.acting.caller(call))?;
        let opened = handle::open_to_read(tree.root.as_fd(), id)?;
        Ok(Some(OpenFile::new(opened)))
    }

    fn new_file(
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
}
