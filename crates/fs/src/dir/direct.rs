//! What a program that has a directory open as its own may do beside [`crate::FileSystem`]: write
//! to a file's descriptor, and move extended attributes (xattr(7)) between two directories.
//!
//! What is written through a descriptor is not watched here: it is on the device after
//! [`crate::FileSystem::sync`], which synchronises the whole file system and is told by the kernel
//! of everything that was lost since the directory was opened (syncfs(2), Linux 5.8).

use super::{Directory, error_of};
use crate::{Call, FileId, FileType, OpenFile, Result};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::Path;

/// One extended attribute: its name and its value.
pub type ExtendedAttribute = (CString, Vec<u8>);

/// What Linux allows for a value, and for all names together (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const BYTES_MAX: usize = 64 << 10;

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

    /// The extended attributes of a file or directory, the access control lists among them. Of
    /// other types there are none that could be copied.
    pub fn extended_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
    ) -> Result<Vec<ExtendedAttribute>> {
        let object = self.tree.object(call, id)?;
        if !matches!(object.file_type, FileType::Regular | FileType::Directory) {
            return Ok(Vec::new());
        }
        let link = object.link();
        let query = || rustix::fs::listxattr_query(&link);
        let names = match sized(query, |buffer| rustix::fs::listxattr(&link, buffer)) {
            Err(Errno::NOTSUP) => return Ok(Vec::new()),
            names => names.map_err(error_of)?,
        };
        let mut all = Vec::new();
        for name in names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            let Ok(name) = CString::new(name) else {
                continue;
            };
            let query = || rustix::fs::getxattr_query(&link, &name);
            match sized(query, |buffer| rustix::fs::getxattr(&link, &name, buffer)) {
                Ok(value) => all.push((name, value)),
                // removed meanwhile
                Err(Errno::NODATA) => {}
                Err(errno) => return Err(error_of(errno)),
            }
        }
        Ok(all)
    }

    /// Sets one extended attribute of a file or directory.
    pub fn set_extended_attribute(
        &self,
        call: &Call<'_>,
        id: &FileId,
        name: &CStr,
        value: &[u8],
    ) -> Result<()> {
        let object = self.tree.object(call, id)?;
        rustix::fs::setxattr(object.link(), name, value, XattrFlags::empty()).map_err(error_of)
    }
}

/// What a call puts into a buffer, which is as large as the other call says.
fn sized(
    query: impl FnOnce() -> Result<usize, Errno>,
    get: impl Fn(&mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    let wanted = query()?;
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let mut buffer = vec![0; wanted.min(BYTES_MAX)];
    let length = match get(&mut buffer) {
        // it has grown since
        Err(Errno::RANGE) => {
            buffer.resize(BYTES_MAX, 0);
            get(&mut buffer)?
        }
        length => length?,
    };
    buffer.truncate(length);
    Ok(buffer)
}
