//! Extended attributes, and what a change of data takes away from a file.
//!
//! Problem: a write takes set-user-id, set-group-id and `security.capability` from a file. To know
//! whether there is such an attribute, the kernel would ask for it before each write.
//!
//! Rule: it is told that this is seen to here (`FUSE_HANDLE_KILLPRIV_V2`), and then asks once each
//! time that it was told of the file's attributes. A source makes a change as the user that
//! asked for it and takes these bits away by itself, unless that is root: then
//! [`Front::before_change`] does it. It also tells the kernel to ask for attributes that it keeps.
//! A kernel before Linux 5.12 does all of this itself.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{Errno, INodeNo, ReplyEmpty, ReplyXattr, Request};
use pagewell_counters::names;
use pagewell_fs::access;
use pagewell_fs::{Call, Error, ExtendedAttributes, FileId, Presence, Result, SetAttributes};

use crate::caller::as_root;
use crate::front::Front;

/// The attribute of programs that have rights of their own.
const CAPABILITIES: &CStr = c"security.capability";
/// A program asks with a size of 0 how long the answer is.
fn reply_sized(reply: ReplyXattr, size: u32, found: &[u8]) {
    match u32::try_from(found.len()).unwrap_or(u32::MAX) {
        length if size == 0 => reply.size(length),
        length if length > size => reply.error(Errno::ERANGE),
        _ => reply.data(found),
    }
}

impl Front {
    /// The extended attributes that programs may ask for. None where owner and permissions are not
    /// the source's: those are what it would judge by.
    pub(crate) fn extended(&self) -> Option<&dyn ExtendedAttributes> {
        let extended = self.filesystem.extended_attributes();
        extended.filter(|_| !self.appearance.differs())
    }

    fn extended_or_refuse(&self) -> Result<&dyn ExtendedAttributes> {
        self.extended().ok_or(Error::NotSupported)
    }

    pub(crate) fn answer_get_extended(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        if self.extended().is_none() {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        names::FUSE_EXTENDED_ASKED.add(1);
        let Ok(name) = CString::new(name.as_bytes()) else {
            return reply.error(Errno::EINVAL);
        };
        self.answer(
            request,
            node,
            reply,
            move |front, caller, id| {
                caller.ask(|call| front.extended_or_refuse()?.get(call, id, &name))
            },
            move |_, reply, value| reply_sized(reply, size, &value),
        );
    }

    pub(crate) fn answer_list_extended(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        size: u32,
        reply: ReplyXattr,
    ) {
        if self.extended().is_none() {
            return reply.error(Errno::ENOSYS);
        }
        self.answer(
            request,
            node,
            reply,
            |front, caller, id| caller.ask(|call| front.extended_or_refuse()?.names(call, id)),
            move |_, reply, names| reply_sized(reply, size, &names),
        );
    }

    pub(crate) fn answer_set_extended(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
        reply: ReplyEmpty,
    ) {
        if self.extended().is_none() {
            return reply.error(Errno::ENOSYS);
        }
        let presence = match flags {
            0 => Presence::Any,
            libc::XATTR_CREATE => Presence::Absent,
            libc::XATTR_REPLACE => Presence::Present,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(name) = CString::new(name.as_bytes()) else {
            return reply.error(Errno::EINVAL);
        };
        let value = value.to_vec();
        self.answer_done(request, node, reply, move |front, caller, id| {
            let extended = front.extended_or_refuse()?;
            extended.set(&caller.call(), id, &name, &value, presence)
        });
    }

    pub(crate) fn answer_remove_extended(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        reply: ReplyEmpty,
    ) {
        if self.extended().is_none() {
            return reply.error(Errno::ENOSYS);
        }
        let Ok(name) = CString::new(name.as_bytes()) else {
            return reply.error(Errno::EINVAL);
        };
        self.answer_done(request, node, reply, move |front, caller, id| {
            let extended = front.extended_or_refuse()?;
            if name.as_c_str() != CAPABILITIES || caller.is_root() {
                return extended.remove(&caller.call(), id, &name);
            }
            // Programs that may not are refused by the kernel. This is the kernel itself,
            // before a write of a user.
            match extended.remove(&as_root(caller.may_block.get()), id, &name) {
                // Without root's rights here the file system beneath does it at the write.
                Err(Error::NotPermitted) => Ok(()),
                done => done,
            }
        });
    }

    /// Before the data of a file is changed for a user without the right to leave set-user-id there
    /// (`takes_privileges`): see the top of the file.
    pub(crate) fn before_change(
        &self,
        call: &Call<'_>,
        (node, id): (u64, &FileId),
        takes_privileges: bool,
    ) -> Result<()> {
        let is_kept = !self.coherence.attributes.is_zero();
        if !takes_privileges || !(is_kept || call.credentials.uid == 0) {
            return Ok(());
        }
        if self.drop_privileges(call, id)? {
            self.make_kernel_ask(INodeNo(node));
        }
        Ok(())
    }

    /// Takes set-user-id and set-group-id from a file, and says whether it had any.
    pub(crate) fn drop_privileges(&self, call: &Call<'_>, id: &FileId) -> Result<bool> {
        let before = self.filesystem.attributes(call, id)?;
        let is_member = call.credentials.in_group(before.gid);
        let left = access::mode_after_change(before.mode, is_member);
        if left == before.mode {
            return Ok(false);
        }
        let wanted = SetAttributes {
            mode: Some(left),
            ..SetAttributes::default()
        };
        let files = &self.filesystem;
        files.set_attributes(&as_root(call.may_block), id, &wanted, None)?;
        Ok(true)
    }
}
