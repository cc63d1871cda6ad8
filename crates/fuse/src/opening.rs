//! Opening and creating files.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{BackingId, FileHandle, FopenFlags, INodeNo, ReplyCreate, ReplyOpen, Request};
use pagewell_fs::{Access, Credentials, FileId, Opened};

use crate::caller::Permissions;
use crate::dispatch::Memory;
use crate::front::{Front, PRIVILEGE_BITS};
use crate::handles::{OpenFile, asked_for};

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
        let wanted = asked_for(flags);
        self.answer(
            request,
            node,
            reply,
            move |front, caller, id| {
                let opened = front.open(caller, id, wanted)?;
                Ok((*id, (caller.complete().clone(), wanted), opened))
            },
            move |front, reply, (id, allowed, opened)| {
                front.forget_attributes(node);
                let register = |file: BorrowedFd<'_>| reply.open_backing(file);
                let told = front.keep(node.0, id, allowed, opened, register);
                match told.backing {
                    Some(backing) => reply.opened_passthrough(told.handle, told.flags, &backing),
                    None => reply.opened(told.handle, told.flags),
                }
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
            node,
            reply,
            |front, caller, id| caller.ask(|call| front.filesystem.hold(call, id)),
            |front, reply, held| {
                let handle = held.map_or(0, |hold| front.directories.insert(hold));
                let flags = if front.is_private() {
                    FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
                } else {
                    FopenFlags::empty()
                };
                reply.opened(FileHandle(handle), flags);
            },
        );
    }

    /// Lets go of what was open, which may wait: the object may have lost its name meanwhile.
    pub(crate) fn let_go<T: Send + Sync + 'static>(&self, open: Option<Arc<T>>) {
        match self.dispatch.here(Memory::None) {
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
        (parent, name): (INodeNo, &OsStr),
        permissions: Permissions,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let name = name.as_bytes().to_vec();
        self.answer(
            request,
            parent,
            reply,
            move |front, caller, directory| {
                let made = front.create(caller, (directory, &name), permissions, flags)?;
                Ok((made, (caller.complete().clone(), asked_for(flags))))
            },
            |front, reply, ((entry, opened), allowed)| {
                let node = front.nodes.remember(&*front.filesystem, &entry);
                front.prune_if_crowded();
                let register = |file: BorrowedFd<'_>| reply.open_backing(file);
                let told = front.keep(node, entry.id, allowed, opened, register);
                let keep_for = front.keep_for(&entry.attributes);
                let ttl = keep_for.min(front.coherence.names);
                let attributes = front.appearance.shown(&entry.attributes, node);
                let (handle, flags) = (told.handle, told.flags);
                let generation = front.generation(node, &entry.id);
                match told.backing {
                    Some(backing) => {
                        reply.created_passthrough(
                            &ttl,
                            &attributes,
                            generation,
                            handle,
                            flags,
                            &backing,
                        );
                    }
                    None => reply.created(&ttl, &attributes, generation, handle, flags),
                }
            },
        );
    }

    /// Keeps a file that was opened until the kernel releases it.
    fn keep(
        &self,
        node: u64,
        id: FileId,
        allowed: (Credentials, Access),
        opened: Opened,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Told {
        // What a write takes of set-user-id and set-group-id depends on who writes, and the file
        // system beneath does not learn that of what the kernel writes by itself.
        let has_privileges = opened.attributes.mode & PRIVILEGE_BITS != 0;
        let file = opened.file.as_ref().filter(|_| !has_privileges);
        let file = file.map(AsFd::as_fd);
        let pass = self.passthrough.open(node, file, register);
        let backing = pass.as_ref().and_then(|pass| pass.backing.clone());
        let flags = if opened.keep_cache && backing.is_none() {
            FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::empty()
        };
        let file = OpenFile::new(
            (id, self.verifier_since(node, &id)),
            allowed,
            opened.hold,
            pass,
        );
        Told {
            handle: FileHandle(self.handles.insert(file)),
            flags,
            backing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Caller;
    use crate::dispatch::Dispatch;
    use pagewell_fs::{Coherence, Error, FileSystem};
    use pagewell_source_dir::{Directory, Options};

    #[test]
    fn what_others_have_made_there_is_opened_only_when_it_is_a_file() {
        let place = tempfile::tempdir().unwrap();
        let files = Directory::open(place.path(), Options::default()).unwrap();
        let root = files.root();
        let front = Front::new(Arc::new(files), Coherence::NONE, Dispatch::new(1, 1));
        std::fs::write(place.path().join("file"), b"").unwrap();
        std::fs::create_dir(place.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
        let permissions = Permissions {
            mode: 0o600,
            umask: 0,
        };
        let create = |name: &[u8]| {
            let made = front.create(&Caller::of_test(), (&root, name), permissions, libc::O_RDWR);
            made.map(drop)
        };
        assert_eq!(create(b"file"), Ok(()));
        assert_eq!(create(b"directory"), Err(Error::Stale));
        assert_eq!(create(b"link"), Err(Error::Stale));
    }
}
