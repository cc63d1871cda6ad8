//! Requests that make, move and remove names, and the answers that several requests share.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use fuser::{
    Errno, Generation, INodeNo, RenameFlags, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyStatfs,
    Request,
};
use pagewell_fs::{
    Attributes, Call, Change, CreateMode, Entry, Error, FileId, FileSystem, Move, NodeKind, Result,
    SetAttributes, Statistics,
};

use crate::attributes::{device_parts, errno};
use crate::caller::{Caller, Permissions};
use crate::front::Front;
use crate::service::Service;

/// Unit of the numbers of statfs.
const STATISTICS_BLOCK_BYTES: u32 = 4096;

/// One of the two methods that remove a name.
type Remove = fn(&dyn FileSystem, &Call<'_>, &FileId, &[u8]) -> Result<Change>;

impl Front {
    /// How long the kernel may keep attributes: not at all when they lack something.
    pub(crate) fn keep_for(&self, attributes: &Attributes) -> Duration {
        if attributes.may_be_kept {
            self.coherence.attributes
        } else {
            Duration::ZERO
        }
    }

    pub(crate) fn reply_entry(&self, reply: ReplyEntry, entry: Result<Entry>) {
        match entry {
            Ok(entry) => {
                let node = self.nodes.remember(&*self.filesystem, &entry);
                reply.entry_with_ttls(
                    &self.keep_for(&entry.attributes),
                    &self.coherence.names,
                    &self.shown(&entry.attributes, node),
                    Generation(0),
                );
                self.prune_if_crowded();
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    pub(crate) fn reply_attributes(
        &self,
        node: u64,
        reply: ReplyAttr,
        attributes: Result<Attributes>,
    ) {
        match attributes {
            Ok(attributes) => {
                let keep_for = self.keep_for(&attributes);
                reply.attr(&keep_for, &self.shown(&attributes, node));
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// As [`Front::answer`], for what has no result.
    pub(crate) fn answer_done(
        self: &Arc<Self>,
        request: &Request,
        reply: ReplyEmpty,
        work: impl Fn(&Self, &Caller, bool) -> Result<()> + Send + 'static,
    ) {
        self.answer(request, reply, work, |_, reply, done| match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        });
    }
}

impl Service {
    /// Finds a name.
    pub(crate) fn find(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        let work = move |front: &Front, caller: &Caller, may_block| {
            let directory = front.id(parent.0)?;
            if name == b"." {
                // Of whatever object: what a file handle means that the kernel has forgotten.
                let attributes = front.attributes(caller, may_block, &directory)?;
                return Ok(Entry {
                    id: directory,
                    attributes,
                });
            }
            caller.ask(may_block, |call| {
                front.filesystem.lookup(call, &directory, &name)
            })
        };
        self.front
            .answer(request, reply, work, |front, reply, entry| {
                let keeps_missing = front.coherence.missing_names;
                if entry.as_ref().err() == Some(&Error::NotFound) && keeps_missing > Duration::ZERO
                {
                    let missing = fuser::FileAttr {
                        ino: INodeNo(0),
                        ..crate::listing::unknown(0)
                    };
                    let zero = Duration::ZERO;
                    return reply.entry_with_ttls(&zero, &keeps_missing, &missing, Generation(0));
                }
                front.reply_entry(reply, entry);
            });
    }

    /// Makes an object that is not a regular file, and tells of it.
    pub(crate) fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        permissions: Permissions,
        reply: ReplyEntry,
        make: impl Fn(&Front, &Call<'_>, &FileId, &[u8]) -> Result<Entry> + Send + 'static,
    ) {
        let name = name.as_bytes().to_vec();
        self.front.answer(
            request,
            reply,
            move |front, caller, may_block| {
                let directory = front.id(parent.0)?;
                let credentials = permissions.of(caller);
                let call = Call {
                    credentials: &credentials,
                    may_block,
                };
                make(front, &call, &directory, &name)
            },
            Front::reply_entry,
        );
    }
}

impl Front {
    pub(crate) fn answer_statistics(self: &Arc<Self>, request: &Request, reply: ReplyStatfs) {
        self.answer(
            request,
            reply,
            |front, caller, may_block| {
                caller.ask(may_block, |call| front.filesystem.statistics(call))
            },
            Self::reply_statistics,
        );
    }

    fn reply_statistics(&self, reply: ReplyStatfs, statistics: Result<Statistics>) {
        match statistics {
            Ok(statistics) => {
                let blocks = |bytes: u64| bytes / u64::from(STATISTICS_BLOCK_BYTES);
                reply.statfs(
                    blocks(statistics.bytes_total),
                    blocks(statistics.bytes_free),
                    blocks(statistics.bytes_available),
                    statistics.files_total,
                    statistics.files_free,
                    STATISTICS_BLOCK_BYTES,
                    self.filesystem.limits().name_bytes_max,
                    STATISTICS_BLOCK_BYTES,
                );
            }
            Err(error) => reply.error(errno(&error)),
        }
    }
}

impl Service {
    pub(crate) fn make_node(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        permissions: Permissions,
        (mode, device): (u32, u32),
        reply: ReplyEntry,
    ) {
        let attributes = permissions.attributes();
        let (major, minor) = device_parts(device);
        let kind = match mode & libc::S_IFMT {
            libc::S_IFCHR => Some(NodeKind::CharacterDevice(major, minor)),
            libc::S_IFBLK => Some(NodeKind::BlockDevice(major, minor)),
            libc::S_IFIFO => Some(NodeKind::Fifo),
            libc::S_IFSOCK => Some(NodeKind::Socket),
            _ => None,
        };
        self.make(
            request,
            (parent, name),
            permissions,
            reply,
            move |front, call, directory, name| {
                let files = &front.filesystem;
                let made = match kind {
                    Some(kind) => files.make_node(call, directory, name, kind, &attributes)?,
                    None => {
                        files.create(call, directory, name, &CreateMode::Guarded(attributes))?
                    }
                };
                Ok(made.entry)
            },
        );
    }

    pub(crate) fn make_directory(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        permissions: Permissions,
        reply: ReplyEntry,
    ) {
        let attributes = permissions.attributes();
        self.make(
            request,
            (parent, name),
            permissions,
            reply,
            move |front, call, directory, name| {
                let files = &front.filesystem;
                let made = files.make_directory(call, directory, name, &attributes)?;
                Ok(made.entry)
            },
        );
    }

    pub(crate) fn make_symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: Vec<u8>,
        reply: ReplyEntry,
    ) {
        self.make(
            request,
            (parent, name),
            Permissions::NONE,
            reply,
            move |front, call, directory, name| {
                let files = &front.filesystem;
                let attributes = SetAttributes::default();
                let made = files.make_symlink(call, directory, name, &target, &attributes)?;
                Ok(made.entry)
            },
        );
    }

    pub(crate) fn make_link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.make(
            request,
            (parent, name),
            Permissions::NONE,
            reply,
            move |front, call, directory, name| {
                let id = front.id(node.0)?;
                let (attributes, _) = front.filesystem.link(call, &id, directory, name)?;
                Ok(Entry { id, attributes })
            },
        );
    }

    pub(crate) fn remove(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEmpty,
        remove: Remove,
    ) {
        let name = name.as_bytes().to_vec();
        self.front
            .answer_done(request, reply, move |front, caller, may_block| {
                let directory = front.id(parent.0)?;
                let call = caller.call(may_block);
                remove(&*front.filesystem, &call, &directory, &name).map(drop)
            });
    }

    pub(crate) fn move_name(
        &self,
        request: &Request,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            _ if flags.is_empty() => None,
            RenameFlags::RENAME_NOREPLACE => Some(Move::ToNew),
            RenameFlags::RENAME_EXCHANGE => Some(Move::Exchange),
            _ => return reply.error(Errno::EINVAL),
        };
        let (from_parent, from_name) = (from.0, from.1.as_bytes().to_vec());
        let (to_parent, to_name) = (to.0, to.1.as_bytes().to_vec());
        self.front
            .answer_done(request, reply, move |front, caller, may_block| {
                let (from, to) = (front.id(from_parent.0)?, front.id(to_parent.0)?);
                let call = caller.call(may_block);
                let files = &front.filesystem;
                let moved = match how {
                    None => files.rename(&call, &from, &from_name, &to, &to_name),
                    Some(how) => files.move_name(&call, (&from, &from_name), (&to, &to_name), how),
                };
                moved.map(drop)
            });
    }
}
