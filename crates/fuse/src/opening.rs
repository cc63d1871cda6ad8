//! Opening and creating files.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fuser::{
    BackingId, FileHandle, FopenFlags, Generation, INodeNo, ReplyCreate, ReplyOpen, Request,
};
use pagewell_fs::{Credentials, FileId, Opened};

use crate::attributes::errno;
use crate::caller::Permissions;
use crate::dispatch::Memory;
use crate::front::Front;
use crate::handles::{Modes, OpenFile};

/// A file that was opened, as the kernel is told of it.
struct Told {
    handle: FileHandle,
    flags: FopenFlags,
    /// The kernel reads and writes this instead of asking.
    backing: Option<Arc<BackingId>>,
}

impl Front {
    /// Answers a request to open a file.
    pub(crate) fn answer_open(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        flags: i32,
        reply: ReplyOpen,
    ) {
        let modes = Modes::of(flags);
        self.answer(
            request,
            reply,
            move |front, caller, may_block| {
                let id = front.id(node.0)?;
                let opened = front.open(caller, may_block, &id, modes)?;
                Ok((id, *caller.complete(), opened))
            },
            move |front, reply, opened| match opened {
                Ok((id, credentials, opened)) => {
                    front.forget_attributes(node);
                    let register = |file: BorrowedFd<'_>| reply.open_backing(file);
                    let told = front.keep(node.0, id, credentials, modes, opened, register);
                    match told.backing {
                        Some(backing) => {
                            reply.opened_passthrough(told.handle, told.flags, &backing);
                        }
                        None => reply.opened(told.handle, told.flags),
                    }
                }
                Err(error) => reply.error(errno(&error)),
            },
        );
    }

    /// Answers a request to open a directory.
    pub(crate) fn answer_open_directory(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        reply: ReplyOpen,
    ) {
        self.answer(
            request,
            reply,
            move |front, caller, may_block| {
                let id = front.id(node.0)?;
                caller.ask(may_block, |call| front.filesystem.hold(call, &id))
            },
            move |front, reply, held| match held {
                Ok(held) => {
                    let handle = held.map_or(0, |hold| front.directories.insert(hold));
                    let flags = if front.is_private() {
                        FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
                    } else {
                        FopenFlags::empty()
                    };
                    reply.opened(FileHandle(handle), flags);
                }
                Err(error) => reply.error(errno(&error)),
            },
        );
    }

    /// Lets go of what was open, which may wait: the object may have lost its name meanwhile.
    pub(crate) fn let_go<T: Send + Sync + 'static>(&self, open: Option<Arc<T>>) {
        match self.dispatch.here() {
            Some(_here) => drop(open),
            None => {
                let job = Box::new(move |_| drop(open));
                self.dispatch.hand_over(Memory::None, None, job);
            }
        }
    }

    /// Before an open is answered: what the kernel keeps of the file's attributes may be older than
    /// what the open has found out, so it is to ask for them when it wants them next. Then it also
    /// drops the pages of a file that has changed.
    fn forget_attributes(&self, node: INodeNo) {
        if !self.is_private() && !self.coherence.attributes.is_zero() {
            self.make_kernel_ask(node);
        }
    }

    /// The kernel is to ask for the attributes of a file when it wants them next.
    pub(crate) fn make_kernel_ask(&self, node: INodeNo) {
        if let Some(notifier) = self.notifier.get() {
            // An offset below zero means no pages, whose locks would have to be waited for.
            let _ = notifier.inval_inode(node, -1, 0);
        }
    }

    /// Answers a request to create a file and open it.
    pub(crate) fn answer_create(
        self: &Arc<Self>,
        request: &Request,
        parent: INodeNo,
        name: Vec<u8>,
        permissions: Permissions,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.answer(
            request,
            reply,
            move |front, caller, may_block| {
                let directory = front.id(parent.0)?;
                let made =
                    front.create(caller, may_block, &directory, &name, permissions, flags)?;
                Ok((made, *caller.complete()))
            },
            move |front, reply, made| match made {
                Ok(((entry, opened), credentials)) => {
                    let node = front.nodes.remember(&*front.filesystem, &entry);
                    front.prune_if_crowded();
                    let register = |file: BorrowedFd<'_>| reply.open_backing(file);
                    let modes = Modes::of(flags);
                    let told = front.keep(node, entry.id, credentials, modes, opened, register);
                    let keep_for = front.keep_for(&entry.attributes);
                    let ttl = keep_for.min(front.coherence.names);
                    let attributes = front.shown(&entry.attributes, node);
                    let (handle, flags) = (told.handle, told.flags);
                    let zero = Generation(0);
                    match told.backing {
                        Some(backing) => {
                            reply.created_passthrough(
                                &ttl,
                                &attributes,
                                zero,
                                handle,
                                flags,
                                &backing,
                            );
                        }
                        None => reply.created(&ttl, &attributes, zero, handle, flags),
                    }
                }
                Err(error) => reply.error(errno(&error)),
            },
        );
    }

    /// Keeps a file that was opened until the kernel releases it.
    fn keep(
        &self,
        node: u64,
        id: FileId,
        credentials: Credentials,
        modes: Modes,
        opened: Opened,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Told {
        let file = opened.file.as_ref().map(AsFd::as_fd);
        let pass = self.passthrough.open(node, file, register);
        let backing = pass.as_ref().and_then(|pass| pass.backing.clone());
        let flags = if opened.keep_cache && backing.is_none() {
            FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::empty()
        };
        let file = OpenFile::new(id, credentials, modes, opened.hold, pass);
        Told {
            handle: FileHandle(self.handles.insert(file)),
            flags,
            backing,
        }
    }
}
