//! Requests that find, make, move and remove names, and the answers that several requests share.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use fuser::{
    Errno, Generation, INodeNo, RenameFlags, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyStatfs,
    Request,
};
use pagewell_fs::{
    Attributes, Call, Change, CreateMode, Created, Entry, Error, FileId, FileSystem, NodeKind,
    RenameMode, Result, Statistics,
};

use crate::attributes::{device_parts, unknown};
use crate::caller::{Caller, Permissions};
use crate::front::Front;
use crate::nodes::ROOT;

/// Unit of the numbers of statfs.
const STATISTICS_BLOCK_BYTES: u32 = 4096;

/// One of the two methods that remove a name.
type Remove = fn(&Files, &Call<'_>, &FileId, &[u8]) -> Result<Change>;
type Files = dyn FileSystem;

impl Front {
    /// How long the kernel may keep attributes: not at all when they lack something.
    pub(crate) fn keep_for(&self, attributes: &Attributes) -> Duration {
        if attributes.may_be_kept {
            self.coherence.attributes
        } else {
            Duration::ZERO
        }
    }

    fn reply_entry(&self, reply: ReplyEntry, entry: &Entry) {
        let node = self.nodes.remember(&*self.filesystem, entry);
        reply.entry_with_ttls(
            &self.keep_for(&entry.attributes),
            &self.coherence.names,
            &self.appearance.shown(&entry.attributes, node),
            self.generation(node, &entry.id),
        );
        self.prune_if_crowded();
    }

    /// What tells an object from one that had its number before: a file handle that the kernel made
    /// of that one must not lead to this one. The kernel keeps 31 bits of it.
    pub(crate) fn generation(&self, node: u64, id: &FileId) -> Generation {
        if node == ROOT {
            return Generation(0); // as the kernel has it from the mount on
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(self.filesystem.object_of(id).as_bytes());
        Generation(hasher.finish() >> 33)
    }

    pub(crate) fn reply_attributes(&self, node: INodeNo, reply: ReplyAttr, found: &Attributes) {
        reply.attr(&self.keep_for(found), &self.appearance.shown(found, node.0));
    }

    pub(crate) fn reply_statistics(&self, reply: ReplyStatfs, found: Statistics) {
        let blocks = |bytes: u64| bytes / u64::from(STATISTICS_BLOCK_BYTES);
        reply.statfs(
            blocks(found.bytes_total),
            blocks(found.bytes_free),
            blocks(found.bytes_available),
            found.files_total,
            found.files_free,
            STATISTICS_BLOCK_BYTES,
            self.filesystem.limits().name_bytes_max,
            STATISTICS_BLOCK_BYTES,
        );
    }

    /// As [`Front::answer`], for what has no result.
    pub(crate) fn answer_done(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        reply: ReplyEmpty,
        work: impl Fn(&Self, &Caller, &FileId) -> Result<()> + Send + 'static,
    ) {
        self.answer(request, node, reply, work, |_, reply, ()| reply.ok());
    }

    /// Finds a name.
    pub(crate) fn answer_lookup(
        self: &Arc<Self>,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        let work = move |front: &Self, caller: &Caller, directory: &FileId| {
            // Of whatever object: what a file handle means that the kernel has forgotten.
            let found = if name == b"." {
                let of_itself = |attributes| Entry {
                    id: *directory,
                    attributes,
                };
                front.attributes(caller, directory).map(of_itself)
            } else {
                caller.ask(|call| front.filesystem.lookup(call, directory, &name))
            };
            match found {
                Err(Error::NotFound) if !front.coherence.missing_names.is_zero() => Ok(None),
                found => found.map(Some),
            }
        };
        self.answer(
            request,
            parent,
            reply,
            work,
            |front, reply, found| match found {
                Some(entry) => front.reply_entry(reply, &entry),
                None => reply.entry_with_ttls(
                    &Duration::ZERO,
                    &front.coherence.missing_names,
                    &unknown(0),
                    Generation(0),
                ),
            },
        );
    }

    /// Makes an object that is not a regular file, and tells of it.
    pub(crate) fn answer_make(
        self: &Arc<Self>,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        permissions: Permissions,
        reply: ReplyEntry,
        make: impl Fn(&Files, &Call<'_>, &FileId, &[u8]) -> Result<Created> + Send + 'static,
    ) {
        let name = name.as_bytes().to_vec();
        self.answer(
            request,
            parent,
            reply,
            move |front, caller, directory| {
                let credentials = permissions.of(caller);
                let call = caller.call_as(&credentials);
                make(&*front.filesystem, &call, directory, &name)
            },
            |front, reply, made| front.reply_entry(reply, &made.entry),
        );
    }

    pub(crate) fn answer_make_node(
        self: &Arc<Self>,
        request: &Request,
        place: (INodeNo, &OsStr),
        given: Permissions,
        (mode, device): (u32, u32),
        reply: ReplyEntry,
    ) {
        let attributes = given.attributes();
        let (major, minor) = device_parts(device);
        let kind = match mode & libc::S_IFMT {
            libc::S_IFCHR => Some(NodeKind::CharacterDevice(major, minor)),
            libc::S_IFBLK => Some(NodeKind::BlockDevice(major, minor)),
            libc::S_IFIFO => Some(NodeKind::Fifo),
            libc::S_IFSOCK => Some(NodeKind::Socket),
            _ => None,
        };
        self.answer_make(
            request,
            place,
            given,
            reply,
            move |files, call, id, name| match kind {
                Some(kind) => files.make_node(call, id, name, kind, &attributes),
                None => files.create(call, id, name, &CreateMode::Guarded(attributes)),
            },
        );
    }

    pub(crate) fn answer_link(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        (parent, name): (INodeNo, &OsStr),
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        self.answer(
            request,
            node,
            reply,
            move |front, caller, id| {
                let directory = front.id(parent.0)?;
                let files = &front.filesystem;
                let (attributes, _) = files.link(&caller.call(), id, &directory, &name)?;
                Ok(Entry {
                    id: *id,
                    attributes,
                })
            },
            |front, reply, entry| front.reply_entry(reply, &entry),
        );
    }

    pub(crate) fn answer_remove(
        self: &Arc<Self>,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        remove: Remove,
        reply: ReplyEmpty,
    ) {
        let name = name.as_bytes().to_vec();
        self.answer_done(request, parent, reply, move |front, caller, directory| {
            remove(&*front.filesystem, &caller.call(), directory, &name).map(drop)
        });
    }

    pub(crate) fn answer_move(
        self: &Arc<Self>,
        request: &Request,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            _ if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let from_name = from.1.as_bytes().to_vec();
        let (to, to_name) = (to.0, to.1.as_bytes().to_vec());
        self.answer_done(request, from.0, reply, move |front, caller, from| {
            let (to, call) = (front.id(to.0)?, caller.call());
            let files = &front.filesystem;
            let moved = files.rename(&call, (from, &from_name), (&to, &to_name), mode);
            moved.map(drop)
        });
    }
}
