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
use super::entries::is_settled;
use super::identity::Caller;
use super::object::Object;
use super::status::Status;
use super::system;
use pagewell_fs::access::{self, EXECUTE, READ, WRITE};
use pagewell_fs::{Access, Attributes, Call, Error, FileId, FileType, Result, Timestamp};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::AsFd;

/// An object as one look has found it, and the caller that asks for it.
pub(super) struct Judge<'a> {
    pub(super) tree: &'a Tree,
    pub(super) object: &'a Object,
    pub(super) status: &'a Status,
    pub(super) caller: Caller<'a>,
}

impl Judge<'_> {
    /// Whether the caller is the owner.
    pub(super) fn is_owner(&self) -> bool {
        self.status.attributes.uid == self.caller.uid
    }

    /// Refuses a caller that may not read the file's data.
    pub(super) fn check_read(&self) -> Result<()> {
        let allowed = self.is_owner() || self.permits(READ)? || self.permits(EXECUTE)?;
        Error::AccessDenied.unless(allowed)
    }

    /// Refuses to change what nobody may change, also when it is already open for writing.
    pub(super) fn check_changeable(&self) -> Result<()> {
        Error::ReadOnly.when(self.tree.limits.read_only)?;
        Error::NotPermitted.when(self.status.is_frozen)
    }

    /// Refuses a caller that may not change the file's data.
    pub(super) fn check_write(&self) -> Result<()> {
        self.check_changeable()?;
        Error::AccessDenied.unless(self.is_owner() || self.permits(WRITE)?)
    }

    /// Refuses a caller that lacks some of `wanted`.
    pub(super) fn check(&self, wanted: u32) -> Result<()> {
        Error::AccessDenied.unless(self.permits(wanted)?)
    }

    /// Whether the caller has all of `wanted` (a sum of the three bits), without NFS' liberties.
    pub(super) fn permits(&self, wanted: u32) -> Result<bool> {
        let (mode, caller) = (self.status.attributes.mode, &self.caller);
        if caller.is_root() {
            let runnable = self.object.is_directory() || mode & 0o111 != 0;
            return Ok(wanted & EXECUTE == 0 || runnable);
        }
        if self.is_owner() {
            return Ok(mode >> 6 & wanted == wanted);
        }
        if mode & 0o070 != 0 && self.has_acl()? {
            return self.kernel_permits(wanted);
        }
        let bits = if caller.in_group(self.status.attributes.gid) {
            mode >> 3
        } else {
            mode
        };
        Ok(bits & wanted == wanted)
    }

    fn has_acl(&self) -> Result<bool> {
        let (object, changed) = (self.object, self.status.attributes.changed);
        if !self.tree.limits.access_lists || object.file_type == FileType::Symlink {
            return Ok(false);
        }
        if let Some(has) = object.known_acl(changed) {
            return Ok(has);
        }
        self.tree.acting.become_server()?;
        let has = has_access_list(&object.link())?;
        // Within the clock's grain a list can be set without another time.
        if is_settled((changed, changed), Timestamp::now()) {
            object.remember_acl(changed, has);
        }
        Ok(has)
    }

    fn kernel_permits(&self, wanted: u32) -> Result<bool> {
        self.tree.acting.become_caller(&self.caller)?;
        match system::access_effective(self.object.as_fd(), wanted) {
            Ok(()) => Ok(true),
            // without faccessat2 (Linux 5.8) a list cannot be judged: refuse rather than guess
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOSYS | Errno::INVAL) => {
                Ok(false)
            }
            Err(errno) => Err(super::error_of(errno)),
        }
    }
}

impl Tree {
    /// Judges an object, which was just looked at, for the caller.
    pub(super) fn judge<'a>(
        &'a self,
        call: &Call<'a>,
        object: &'a Object,
        status: &'a Status,
    ) -> Judge<'a> {
        Judge {
            tree: self,
            object,
            status,
            caller: self.acting.caller(call),
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
        let status = self.look_once(call, &object)?;
        let judge = self.judge(call, &object, &status);
        let is_stored = object.can_open() || object.file_type == FileType::Symlink;
        let frozen = self.limits.read_only && is_stored;
        let mut granted = Access::default();
        for (access, needed) in access::kinds(object.is_directory()) {
            let asked = wanted.intersects(*access) && !(frozen && needed & WRITE != 0);
            if asked && judge.permits(*needed)? {
                granted = granted | *access;
            }
        }
        Ok((granted, status.attributes))
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
