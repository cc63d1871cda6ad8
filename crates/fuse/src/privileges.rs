//! Changes of attributes, and the privileges of a file that a change of its data takes.
//!
//! Problem: a write takes set-user-id, set-group-id and `security.capability` from a file, and the
//! kernel would ask for the attribute before each.
//!
//! Rule: the mount announces that it does this itself (`FUSE_HANDLE_KILLPRIV_V2`); the kernel then
//! asks once each time that it receives the file's attributes. A source takes these bits at a
//! change, unless the user is root: then [`Privileges::before_change`] takes them, and has the
//! kernel drop the attributes that it keeps. A kernel before Linux 5.12 does all of this itself.

use std::ffi::CStr;
use std::sync::Arc;

use pagewell_fs::access;
use pagewell_fs::{
    Access, Attributes, Call, Change, Credentials, Error, ExtendedAttributes, FileId, FileSystem,
    Result, SetAttributes,
};

use crate::caller::{Caller, as_root};
use crate::handles::Target;
use crate::invalidation::Invalidation;

pub(crate) const PRIVILEGE_BITS: u32 = 0o6000;

/// The attribute of programs that have rights of their own.
const CAPABILITIES: &CStr = c"security.capability";

pub(crate) struct Privileges {
    files: Arc<dyn FileSystem>,
    invalidation: Arc<Invalidation>,
    kernel_keeps_attributes: bool,
}

impl Privileges {
    pub(crate) fn new(
        files: &Arc<dyn FileSystem>,
        invalidation: &Arc<Invalidation>,
        kernel_keeps_attributes: bool,
    ) -> Self {
        Self {
            files: Arc::clone(files),
            invalidation: Arc::clone(invalidation),
            kernel_keeps_attributes,
        }
    }

    /// Runs before the data of a file is changed for a user without the right to leave set-user-id
    /// there (`takes_privileges`).
    pub(crate) fn before_change(
        &self,
        call: &Call<'_>,
        (node, id): (u64, &FileId),
        takes_privileges: bool,
    ) -> Result<()> {
        let is_needed = self.kernel_keeps_attributes || call.credentials.uid == 0;
        if takes_privileges && is_needed && self.drop_bits(call, id)? {
            self.invalidation.expire_attributes(node);
        }
        Ok(())
    }

    /// Takes set-user-id and set-group-id from a file, and says whether it had any.
    fn drop_bits(&self, call: &Call<'_>, id: &FileId) -> Result<bool> {
        let before = self.files.attributes(call, id)?;
        let is_member = call.credentials.in_group(before.gid);
        let left = access::mode_after_change(before.mode, is_member);
        if left == before.mode {
            return Ok(false);
        }
        self.set_mode(&as_root(call.may_block), id, left)?;
        Ok(true)
    }

    fn set_mode(&self, call: &Call<'_>, id: &FileId, mode: u32) -> Result<Change> {
        let only_mode = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        self.files.set_attributes(call, id, &only_mode, None)
    }

    pub(crate) fn remove_extended(
        extended: &dyn ExtendedAttributes,
        caller: &Caller,
        id: &FileId,
        name: &CStr,
    ) -> Result<()> {
        if name != CAPABILITIES || caller.is_root() {
            return extended.remove(&caller.call(), id, name);
        }
        // The kernel refuses programs without the right. So this is the kernel itself, before a
        // user's write.
        match extended.remove(&as_root(caller.may_block()), id, name) {
            // Without root's rights here the file system beneath does it at the write.
            Err(Error::NotPermitted) => Ok(()),
            done => done,
        }
    }

    /// Changes attributes, for a caller that the kernel has judged. Where the kernel takes
    /// set-user-id in the name of a user that may not, it is made as the owner. With a change of
    /// length or owner the source takes it by itself, and the rest is taken thereafter.
    pub(crate) fn set_attributes(
        &self,
        caller: &Caller,
        id: &FileId,
        target: &Target,
        wanted: &SetAttributes,
    ) -> Result<Attributes> {
        let call = caller.call();
        let rest = SetAttributes {
            mode: None,
            ..*wanted
        };
        let change = match wanted.mode {
            Some(mode) if rest != SetAttributes::default() => {
                let before = self.files.attributes(&call, id)?.mode;
                self.change(&call, id, target, &rest)?;
                self.take_bits(&call, id, before & !mode)?
            }
            Some(mode) => match self.change(&call, id, target, wanted) {
                Err(Error::NotPermitted) => {
                    let before = self.files.attributes(&call, id)?;
                    let (lost, gained) = (before.mode & !mode, mode & !before.mode);
                    let is_owner = before.uid == call.credentials.uid;
                    let is_other_change = gained != 0 || lost & !PRIVILEGE_BITS != 0;
                    Error::NotPermitted.when(is_other_change || is_owner)?;
                    self.take_bits(&call, id, lost)?
                }
                change => change?,
            },
            None => self.change(&call, id, target, wanted)?,
        };
        match change.after {
            Some(attributes) => Ok(attributes),
            None => self.files.attributes(&call, id),
        }
    }

    fn change(
        &self,
        call: &Call<'_>,
        id: &FileId,
        target: &Target,
        wanted: &SetAttributes,
    ) -> Result<Change> {
        match self.files.set_attributes(call, id, wanted, None) {
            Err(Error::AccessDenied) if wanted.size.is_some() && target.file().is_some() => target
                .ask(call.may_block, Access::MODIFY, |call| {
                    if call.credentials.uid == 0 {
                        self.drop_bits(call, id)?;
                    }
                    self.files.set_attributes(call, id, wanted, None)
                }),
            change => change,
        }
    }

    /// Takes those of set-user-id and set-group-id that are among the bits `lost`, as the owner.
    fn take_bits(&self, call: &Call<'_>, id: &FileId, lost: u32) -> Result<Change> {
        let before = self.files.attributes(call, id)?;
        let left = before.mode & !(lost & PRIVILEGE_BITS);
        if left == before.mode {
            return Ok(Change::default());
        }
        let owner = Credentials::new(before.uid, before.gid, &[]);
        self.set_mode(&Call::new(&owner, call.may_block), id, left)
    }
}
