//! Requests as the kernel sends them.

use std::ffi::{CString, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use pagewell_counters::names;
use pagewell_fs::{
    Access, Call, Change, CreateMode, Entry, Error, FileId, Presence, Result, SetAttributes,
};

use super::{Files, Front, Service};
use crate::caller::Permissions;
use crate::convert::{node_kind, rename_mode, seek_of, set_time, space_of};
use crate::dispatch::Memory;
use crate::handles::{READING, Target, access_of};
use crate::privileges::Privileges;
use crate::reply::Data;
use crate::writing::Place;

/// The kernel does itself what the source cannot, from the first ENOSYS on.
fn if_supported<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(Error::NotSupported) => Ok(None),
        answer => answer.map(Some),
    }
}

/// The kernel's names end before their first NUL.
fn attribute_name(name: &OsStr) -> CString {
    CString::new(name.as_bytes()).unwrap_or_default()
}

/// A size of 0 asks how long the answer is.
fn reply_sized(reply: ReplyXattr, size: u32, found: &[u8]) {
    match u32::try_from(found.len()).unwrap_or(u32::MAX) {
        length if size == 0 => reply.size(length),
        length if length > size => reply.error(Errno::ERANGE),
        _ => reply.data(found),
    }
}

impl Service {
    fn target(&self, node: INodeNo, handle: FileHandle) -> Target {
        self.front.opening.target(node, Some(handle))
    }

    fn answer_remove(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        remove: fn(&Files, &Call<'_>, &FileId, &[u8]) -> Result<Change>,
        reply: ReplyEmpty,
    ) {
        let (front, name) = (&self.front, name.as_bytes().to_vec());
        front.answer_done((request, parent, reply), move |front, caller, directory| {
            remove(&*front.files, &caller.call(), directory, &name).map(drop)
        });
    }
}

impl Filesystem for Service {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let front = &self.front;
        let (limits, has_extended) = (front.files.limits(), front.extended().is_ok());
        let negotiation = &mut self.negotiation;
        if negotiation.agree(config, &front.view, &limits, has_extended) {
            front.opening.allow_passthrough();
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        names::FUSE_LOOKUPS.add(1);
        let name = name.as_bytes().to_vec();
        self.front.answer(
            (request, parent, reply),
            move |front, caller, directory| front.lookup(caller, directory, &name),
            Front::reply_entry,
        );
    }

    fn forget(&self, _request: &Request, node: INodeNo, lookups: u64) {
        if self.front.nodes.forget(node.0, lookups) {
            self.front.writing.forget(node.0);
        }
    }

    fn getattr(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        names::FUSE_ATTRIBUTES_ASKED.add(1);
        let finish = move |front: &Front, reply, found| front.reply_attributes(node, reply, &found);
        let front = &self.front;
        front.answer((request, node, reply), Front::attributes, finish);
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _flags_changed: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let wanted = SetAttributes {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            accessed: accessed.map(set_time),
            modified: modified.map(set_time),
        };
        let target = self.front.opening.target(node, handle);
        self.front.answer(
            (request, node, reply),
            move |front, caller, id| {
                front
                    .privileges
                    .set_attributes(caller, id, &target, &wanted)
            },
            move |front, reply, found| front.reply_attributes(node, reply, &found),
        );
    }

    fn readlink(&self, request: &Request, node: INodeNo, reply: ReplyData) {
        self.front.answer(
            (request, node, reply),
            |front, caller, id| caller.ask(|call| front.files.read_link(call, id)),
            |_, reply, (target, _)| reply.data(&target),
        );
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (front, given) = (&self.front, self.negotiation.permissions(mode, umask));
        let (kind, attributes) = (node_kind(mode, device), given.attributes());
        front.answer_make(
            (request, parent, reply),
            (name, given),
            move |files, call, id, name| match kind {
                Some(kind) => files.make_node(call, id, name, kind, &attributes),
                None => files.create(call, id, name, &CreateMode::Guarded(attributes)),
            },
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (front, given) = (&self.front, self.negotiation.permissions(mode, umask));
        front.answer_make(
            (request, parent, reply),
            (name, given),
            move |files, call, id, name| files.make_directory(call, id, name, &given.attributes()),
        );
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes().to_vec();
        self.front.answer_make(
            (request, parent, reply),
            (name, Permissions::NONE),
            move |files, call, id, name| {
                files.make_symlink(call, id, name, &target, &SetAttributes::default())
            },
        );
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        self.front.answer(
            (request, node, reply),
            move |front, caller, id| {
                let directory = front.nodes.id(parent.0)?;
                let linked = front.files.link(&caller.call(), id, &directory, &name)?;
                let (id, attributes) = (*id, linked.0);
                Ok(Some(Entry { id, attributes }))
            },
            Front::reply_entry,
        );
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = Files::remove;
        self.answer_remove(request, (parent, name), remove, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = Files::remove_directory;
        self.answer_remove(request, (parent, name), remove, reply);
    }

    fn rename(
        &self,
        request: &Request,
        from_parent: INodeNo,
        from_name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let Some(mode) = rename_mode(flags) else {
            return reply.error(Errno::EINVAL);
        };
        let from_name = from_name.as_bytes().to_vec();
        let (front, to_name) = (&self.front, to_name.as_bytes().to_vec());
        front.answer_done((request, from_parent, reply), move |front, caller, from| {
            let (to, call) = (front.nodes.id(to_parent.0)?, caller.call());
            let (from, to) = ((from, &from_name[..]), (&to, &to_name[..]));
            front.files.rename(&call, from, to, mode).map(drop)
        });
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.negotiation.opens_are_free() {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        names::FUSE_OPENS.add(1);
        let wanted = access_of(flags.0);
        self.front.answer(
            (request, node, reply),
            move |front, caller, id| {
                let opened = front.opening.open(caller, id, wanted)?;
                Ok((*id, (caller.complete().clone(), wanted), opened))
            },
            move |front, reply: ReplyOpen, (id, allowed, opened)| {
                // The kernel's attributes may be older than what the open has found.
                if !front.view.is_private() && front.view.keeps_attributes() {
                    front.invalidation.expire_attributes(node.0);
                }
                let register = |file: BorrowedFd<'_>| reply.open_backing(file);
                let kept = front.opening.keep(node.0, id, allowed, opened, register);
                kept.opened(reply);
            },
        );
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        names::FUSE_OPENS.add(1);
        let permissions = self.negotiation.permissions(mode, umask);
        let name = name.as_bytes().to_vec();
        self.front.answer(
            (request, parent, reply),
            move |front, caller, directory| {
                let place = (directory, &name[..]);
                let made = front.opening.create(caller, place, permissions, flags)?;
                Ok((made, (caller.complete().clone(), access_of(flags))))
            },
            |front, reply: ReplyCreate, ((entry, opened), allowed)| {
                let node = front.nodes.remember(&entry);
                front.pruning.prune_if_crowded();
                let Entry { id, attributes } = entry;
                let register = |file: BorrowedFd<'_>| reply.open_backing(file);
                let kept = front.opening.keep(node, id, allowed, opened, register);
                let lifetime = front.view.entry_lifetime(&attributes);
                let shown = front.view.shown(&attributes, node);
                kept.created(reply, lifetime, &shown, front.nodes.generation(node, &id));
            },
        );
    }

    fn read(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        names::FUSE_READS.add(1);
        let unique = request.unique().0;
        let target = self.target(node, handle);
        self.front.answer_with(
            request,
            Memory::Lease(size as usize),
            reply,
            move |front, may_block, lease| front.read(&target, may_block, (offset, size), lease),
            move |front, reply, data: Data| {
                data.send(reply, unique, &front.device);
                front.prefill.after_read(node.0, offset, size);
            },
        );
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        names::FUSE_WRITES.add(1);
        let target = self.target(node, handle);
        let place = Place::new(target, offset, flags, write_flags);
        self.front.answer_write(request, (node, place), data, reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(space) = space_of(mode) else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        let (front, range) = (&self.front, (offset, length));
        let target = self.target(node, handle);
        // The kernel forgets the pages of what is not there any more.
        front.answer_done((request, node, reply), move |front, caller, id| {
            front.writing.change(caller, &target, id, |call| {
                front.files.allocate(call, id, range, space)
            })
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        to_node: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = (self.target(node, handle), self.target(to_node, to_handle));
        self.front.answer(
            (request, node, reply),
            move |front, caller, id| {
                let to_id = front.nodes.id(to_node.0)?;
                let may_read = from.file().is_none_or(|file| file.may_read());
                Error::AccessDenied.unless(may_read)?;
                if_supported(front.writing.change(caller, &to, &to_id, |call| {
                    let (source, target) = ((id, offset), (&to_id, to_offset));
                    front.files.copy(call, source, target, length)
                }))
            },
            |_, reply, copied| match copied.map(u32::try_from) {
                Some(Ok(copied)) => reply.written(copied),
                Some(Err(_)) => reply.error(Errno::EOVERFLOW),
                None => reply.error(Errno::ENOSYS),
            },
        );
    }

    fn lseek(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        if self.negotiation.kernel_write_back() {
            // The source does not know all data of files. The kernel never asks again.
            return reply.error(Errno::ENOSYS);
        }
        // Other searches the kernel does itself.
        let Some(wanted) = seek_of(whence) else {
            return reply.error(Errno::EINVAL);
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO); // before the beginning
        };
        let target = self.target(node, handle);
        self.front.answer(
            (request, node, reply),
            move |front, caller, id| {
                if_supported(target.ask(caller.may_block(), READING, |call| {
                    front.files.seek(call, id, offset, wanted)
                }))
            },
            |_, reply, found| match found.map(i64::try_from) {
                Some(Ok(found)) => reply.offset(found),
                Some(Err(_)) => reply.error(Errno::EOVERFLOW),
                None => reply.error(Errno::ENOSYS),
            },
        );
    }

    fn flush(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if self.negotiation.opens_are_free() {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        names::FUSE_CLOSES.add(1);
        let (front, target) = (&self.front, self.target(node, handle));
        front.answer_done((request, node, reply), move |front, caller, id| {
            target.ask(caller.may_block(), Access::ALL, |call| {
                front.files.close(call, id)
            })
        });
    }

    fn release(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.front
            .release(self.front.opening.release(handle), reply);
    }

    fn fsync(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let (front, target) = (&self.front, self.target(node, handle));
        front.answer_done((request, node, reply), move |front, caller, id| {
            front
                .writing
                .commit(&target, caller.may_block(), id, data_only)
        });
    }

    fn opendir(&self, request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.negotiation.opens_are_free() {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        self.front.answer(
            (request, node, reply),
            |front, caller, id| caller.ask(|call| front.files.hold(call, id)),
            |front, reply: ReplyOpen, hold| {
                let flags = if front.view.is_private() {
                    FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
                } else {
                    FopenFlags::empty()
                };
                reply.opened(front.opening.keep_directory(hold), flags);
            },
        );
    }

    fn releasedir(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let front = &self.front;
        front.release(front.opening.release_directory(handle), reply);
    }

    fn readdir(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        reply: ReplyDirectory,
    ) {
        self.front.answer(
            (request, node, reply),
            move |front, caller, id| front.listing.collect(caller, id, cookie, false),
            |front, reply, page| front.listing.reply_names(reply, &page),
        );
    }

    fn readdirplus(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.front.answer(
            (request, node, reply),
            move |front, caller, id| front.listing.collect(caller, id, cookie, true),
            |front, reply, page| {
                front.listing.reply_entries(reply, &page);
                front.pruning.prune_if_crowded();
            },
        );
    }

    fn fsyncdir(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let front = &self.front;
        front.answer_done((request, node, reply), |front, caller, directory| {
            front.files.commit_metadata(&caller.call(), directory)
        });
    }

    fn getxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        if self.front.extended().is_err() {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        let name = attribute_name(name);
        names::FUSE_EXTENDED_ASKED.add(1);
        self.front.answer(
            (request, node, reply),
            move |front, caller, id| caller.ask(|call| front.extended()?.get(call, id, &name)),
            move |_, reply, value| reply_sized(reply, size, &value),
        );
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        if self.front.extended().is_err() {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        self.front.answer(
            (request, node, reply),
            |front, caller, id| caller.ask(|call| front.extended()?.names(call, id)),
            move |_, reply, names| reply_sized(reply, size, &names),
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if self.front.extended().is_err() {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        let name = attribute_name(name);
        let presence = match flags {
            0 => Presence::Any,
            libc::XATTR_CREATE => Presence::Absent,
            libc::XATTR_REPLACE => Presence::Present,
            _ => return reply.error(Errno::EINVAL),
        };
        let (front, value) = (&self.front, value.to_vec());
        front.answer_done((request, node, reply), move |front, caller, id| {
            let extended = front.extended()?;
            extended.set(&caller.call(), id, &name, &value, presence)
        });
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if self.front.extended().is_err() {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        let name = attribute_name(name);
        let front = &self.front;
        front.answer_done((request, node, reply), move |front, caller, id| {
            let extended = front.extended()?;
            Privileges::remove_extended(extended, caller, id, &name)
        });
    }

    fn statfs(&self, request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        self.front.answer(
            (request, INodeNo::ROOT, reply),
            |front, caller, _| caller.ask(|call| front.files.statistics(call)),
            Front::reply_statistics,
        );
    }
}
