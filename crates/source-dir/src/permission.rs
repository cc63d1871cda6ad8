//! Who may do what, where the kernel is not asked by the operation itself.
//!
//! Problem: NFSv3 has no open, so each READ and WRITE is judged anew, by the mode the file has at
//! that moment; asking the kernel each time would cost an identity switch and a system call.
//!
//! Rule: the mode bits, which every call reads anyway, decide as the kernel would: user 0 may do
//! everything (execute only what somebody may execute), the owner has the first three bits, then
//! group, then others. Two liberties of NFS (RFC 1813 section 4.4): the owner may read and write
//! a file whatever its mode, and execute permission lets a file be read. Only when the object has
//! a POSIX access control list, the caller is not its owner and the group bits (which then are
//! the list's mask) are not all zero, the bits do not decide: the kernel is asked as the caller.
//! Whether there is a list is remembered per object until its `changed` time moves, which
//! setting a list does.
//!
//! What creates, removes, renames, links or looks up is not judged here: it runs as the
//! caller and the kernel judges it.

use super::Tree;
use super::identity::Caller;
use super::object::Object;
use super::status::Status;
use super::system;
use pagewell_counters::names;
use pagewell_fs::access::{self, EXECUTE, READ, WRITE};
use pagewell_fs::{Access, Attributes, Call, Error, FileId, FileType, Result};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::AsFd;

impl Tree {
    /// Refuses a caller who may not read the file's data.
    pub(super) fn check_read(
        &self,
        object: &Object,
        status: &Status,
        caller: &Caller<'_>,
    ) -> Result<()> {
        let allowed = status.attributes.uid == caller.uid
            || self.permits(object, status, caller, READ)?
            || self.permits(object, status, caller, EXECUTE)?;
        Error::AccessDenied.unless(allowed)
    }

    /// Refuses to change what nobody may change, also when it is already open for writing.
    pub(super) fn check_changeable(&self, status: &Status) -> Result<()> {
        Error::ReadOnly.when(self.limits.read_only)?;
        Error::NotPermitted.when(status.is_frozen)
    }

    /// Refuses a caller who may not change the file's data.
    pub(super) fn check_write(
        &self,
        object: &Object,
        status: &Status,
        caller: &Caller<'_>,
    ) -> Result<()> {
        self.check_changeable(status)?;
        let allowed =
            status.attributes.uid == caller.uid || self.permits(object, status, caller, WRITE)?;
        Error::AccessDenied.unless(allowed)
    }

    /// Whether `caller` has all of `wanted` (a sum of the three bits), without NFS' liberties.
    pub(super) fn permits(
        &self,
        object: &Object,
        status: &Status,
        caller: &Caller<'_>,
        wanted: u32,
    ) -> Result<bool> {
        let mode = status.attributes.mode;
        if caller.is_root() {
            let runnable = object.is_directory() || mode & 0o111 != 0;
            return Ok(wanted & EXECUTE == 0 || runnable);
        }
        if status.attributes.uid == caller.uid {
            return Ok(mode >> 6 & wanted == wanted);
        }
        if mode & 0o070 != 0 && self.has_acl(object, status)? {
            return self.kernel_permits(object, caller, wanted);
        }
        let bits = if caller.in_group(status.attributes.gid) {
            mode >> 3
        } else {
            mode
        };
        Ok(bits & wanted == wanted)
    }

    fn has_acl(&self, object: &Object, status: &Status) -> Result<bool> {
        if !self.has_acls || object.file_type == FileType::Symlink {
            return Ok(false);
        }
        if let Some(has) = object.known_acl(status.attributes.changed) {
            return Ok(has);
        }
        names::DIR_ACL_LOOKS.add(1);
        self.acting.become_server()?;
        let has = has_access_list(&object.link())?;
        object.remember_acl(status.attributes.changed, has);
        Ok(has)
    }

    fn kernel_permits(&self, object: &Object, caller: &Caller<'_>, wanted: u32) -> Result<bool> {
        names::DIR_ACL_CHECKS.add(1);
        self.acting.become_caller(caller)?;
        match system::access_effective(object.as_fd(), wanted) {
            Ok(()) => Ok(true),
            // without faccessat2 (Linux 5.8) a list cannot be judged: refuse rather than guess
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOSYS | Errno::INVAL) => {
                Ok(false)
            }
            Err(errno) => Err(super::error_of(errno)),
        }
    }

    /// [`pagewell_fs::FileSystem::access`], without NFS' liberties: a client asks this at open.
    pub(super) fn access(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: Access,
    ) -> Result<(Access, Attributes)> {
        let object = self.object(call, id)?;
        let status = self.look_once(&object)?;
        let caller = self.acting.caller(call);
        let is_stored = object.can_open() || object.file_type == FileType::Symlink;
        let frozen = self.limits.read_only && is_stored;
        let mut granted = Access::default();
        for (access, needed) in access::kinds(object.is_directory()) {
            let asked = wanted.intersects(*access) && !(frozen && needed & WRITE != 0);
            if asked && self.permits(&object, &status, &caller, *needed)? {
                granted = granted | *access;
            }
        }
        Ok((granted, self.attributes_of(&status)))
    }
}

/// Whether the object that `path` leads to has an access control list.
pub(super) fn has_access_list(path: &str) -> Result<bool> {
    has_list(path, c"system.posix_acl_access")
}

/// Whether the directory that `path` leads to has one for what is made in it.
pub(super) fn has_default_list(path: &str) -> Result<bool> {
    has_list(path, c"system.posix_acl_default")
}

fn has_list(path: &str, name: &CStr) -> Result<bool> {
    match rustix::fs::getxattr_query(path, name) {
        Ok(length) => Ok(length > 0),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(super::error_of(errno)),
    }
}
