//! What a program that has a directory open as its own may do beside [`crate::FileSystem`]: write
//! to a file's descriptor.
//!
//! What is written through a descriptor is not watched here: it is on the device after
//! [`crate::FileSystem::sync`], which synchronises the whole file system and is told by the kernel
//! of everything that was lost since the directory was opened (syncfs(2), Linux 5.8).

use super::Directory;
use crate::{Call, FileId, OpenFile, Result};
use std::path::Path;

impl Directory {
    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.tree.path
    }

    /// A regular file, open for reading and writing, if the caller may write to it.
    pub fn open_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<OpenFile> {
        let object = self.tree.object(call, id)?;
        object.expect_regular()?;
        let status = self.tree.look(&object)?;
        let caller = self.tree.acting.caller(call);
        self.tree.check_write(&object, &status, &caller)?;
        self.tree.writable(&object).cloned()
    }
}
