//! Requests as the kernel sends them.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use pagewell_counters::names;
use pagewell_fs::{Access, FileSystem, SetAttributes};

use crate::appending::appends;
use crate::attributes::set_time;
use crate::caller::Permissions;
use crate::dispatch::Memory;
use crate::front::Front;
use crate::handles::Target;
use crate::negotiation::Negotiation;
use crate::reply::Data;
use crate::writing::Place;

/// A mount, for the crate `fuser`.
pub(crate) struct Service {
    pub(crate) front: Arc<Front>,
    pub(crate) negotiation: Negotiation,
}

impl Service {
    fn target(&self, node: INodeNo, handle: FileHandle) -> Target {
        Target {
            node: node.0,
            file: self.front.handles.get(handle.0),
        }
    }
}

impl Filesystem for Service {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.negotiation.agree(&self.front, config);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        names::FUSE_LOOKUPS.add(1);
        self.front.answer_lookup(request, (parent, name), reply);
    }

    fn forget(&self, _request: &Request, node: INodeNo, lookups: u64) {
        self.front.forget(node.0, lookups);
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
        front.answer(request, node, reply, Front::attributes, finish);
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
        let target = Target {
            node: node.0,
            file: handle.and_then(|handle| self.front.handles.get(handle.0)),
        };
        self.front.answer(
            request,
            node,
            reply,
            move |front, caller, id| front.set_attributes(caller, id, &target, &wanted),
            move |front, reply, found| front.reply_attributes(node, reply, &found),
        );
    }

    fn readlink(&self, request: &Request, node: INodeNo, reply: ReplyData) {
        self.front.answer(
            request,
            node,
            reply,
            |front, caller, id| caller.ask(|call| front.filesystem.read_link(call, id)),
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
        let permissions = self.negotiation.permissions(mode, umask);
        let (place, kind) = ((parent, name), (mode, device));
        self.front
            .answer_make_node(request, place, permissions, kind, reply);
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
        let (front, place) = (&self.front, (parent, name));
        let given = self.negotiation.permissions(mode, umask);
        front.answer_make(
            request,
            place,
            given,
            reply,
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
        let (front, place, none) = (&self.front, (parent, name), Permissions::NONE);
        front.answer_make(request, place, none, reply, move |files, call, id, name| {
            files.make_symlink(call, id, name, &target, &SetAttributes::default())
        });
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.front.answer_link(request, node, (parent, name), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = <dyn FileSystem>::remove;
        self.front
            .answer_remove(request, (parent, name), remove, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = <dyn FileSystem>::remove_directory;
        self.front
            .answer_remove(request, (parent, name), remove, reply);
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
        let (from, to) = ((from_parent, from_name), (to_parent, to_name));
        self.front.answer_move(request, from, to, flags, reply);
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.negotiation.opens_are_free {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        names::FUSE_OPENS.add(1);
        self.front.answer_open(request, node, flags.0, reply);
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
        self.front
            .answer_create(request, (parent, name), permissions, flags, reply);
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
                front.push_after(node.0, offset, size);
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
        let place = Place {
            target: self.target(node, handle),
            offset,
            appends: appends(flags, write_flags),
            end: OnceCell::new(),
            takes_privileges: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        };
        self.front.answer_write(request, place, data, reply);
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
        let (target, range) = (self.target(node, handle), (offset, length));
        self.front
            .answer_allocate(request, target, range, mode, reply);
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
        let from = (self.target(node, handle), offset);
        let to = (self.target(to_node, to_handle), to_offset);
        self.front.answer_copy(request, from, to, length, reply);
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
        if self.negotiation.kernel_write_back {
            // The source does not know all data of files. The kernel never asks again.
            return reply.error(Errno::ENOSYS);
        }
        let target = self.target(node, handle);
        self.front
            .answer_seek(request, target, (offset, whence), reply);
    }

    fn flush(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if self.negotiation.opens_are_free {
            return reply.error(Errno::ENOSYS); // nor is anybody told of closing
        }
        names::FUSE_CLOSES.add(1);
        let (front, target) = (&self.front, self.target(node, handle));
        front.answer_done(request, node, reply, move |front, caller, id| {
            let may_block = caller.may_block.get();
            target.ask(may_block, Access::ALL, |call| {
                front.filesystem.close(call, id)
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
        self.front.let_go(self.front.handles.remove(handle.0));
        reply.ok();
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
        front.answer_done(request, node, reply, move |front, caller, id| {
            front.commit(&target, caller.may_block.get(), id, data_only)
        });
    }

    fn opendir(&self, request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.negotiation.opens_are_free {
            return reply.error(Errno::ENOSYS); // the kernel never asks again
        }
        self.front.answer_open_directory(request, node, reply);
    }

    fn releasedir(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.front.let_go(self.front.directories.remove(handle.0));
        reply.ok();
    }

    fn readdir(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        reply: ReplyDirectory,
    ) {
        let finish = Front::reply_names;
        self.front
            .answer_list(request, (node, cookie), false, reply, finish);
    }

    fn readdirplus(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let finish = Front::reply_entries;
        self.front
            .answer_list(request, (node, cookie), true, reply, finish);
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
        front.answer_done(request, node, reply, |front, caller, directory| {
            front.filesystem.commit_metadata(&caller.call(), directory)
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
        self.front
            .answer_get_extended(request, node, name, size, reply);
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.front.answer_list_extended(request, node, size, reply);
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
        self.front
            .answer_set_extended(request, node, (name, value), flags, reply);
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.front
            .answer_remove_extended(request, node, name, reply);
    }

    fn statfs(&self, request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        self.front.answer(
            request,
            INodeNo::ROOT,
            reply,
            |front, caller, _| caller.ask(|call| front.filesystem.statistics(call)),
            Front::reply_statistics,
        );
    }
}
