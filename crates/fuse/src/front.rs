//! What each request does with the source.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{Errno, INodeNo, Notifier, Request};
use pagewell_base::shards::Shards;
use pagewell_counters::names;
use pagewell_fs::{
    Access, Attributes, Call, Change, Coherence, CreateMode, Credentials, Entry, Error, FileId,
    FileSystem, FileType, Hold, Opened, Result, SetAttributes,
};

use crate::attributes::Appearance;
use crate::blocked::{Blocked, Ticket};
use crate::caller::{Caller, Permissions};
use crate::dispatch::{Dispatch, Memory, ReadLease};
use crate::handles::{Handles, OpenFile, READING, Target, asked_for};
use crate::listing::Sizes;
use crate::nodes::{Nodes, OBJECTS_MAX, OBJECTS_UNCHANGED_MAX};
use crate::passthrough::Passthrough;
use crate::pushing::Pushing;
use crate::reply::{Data, Device, Refuse};
use crate::telling::ToTell;

/// Set-user-id and set-group-id.
pub(crate) const PRIVILEGE_BITS: u32 = 0o6000;
/// What is kept for so long never changes.
const FOR_EVER: Duration = Duration::from_secs(60 * 60);

/// What of a file no commit has covered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uncommitted {
    /// Of the first write.
    pub(crate) verifier: [u8; 8],
    pub(crate) writes: u64,
}

/// A source behind a mount.
pub(crate) struct Front {
    pub(crate) filesystem: Arc<dyn FileSystem>,
    pub(crate) coherence: Coherence,
    pub(crate) nodes: Nodes,
    pub(crate) handles: Handles<OpenFile>,
    /// Directories that programs have open, where the source keeps them.
    pub(crate) directories: Handles<Hold>,
    pub(crate) sizes: Sizes,
    pub(crate) passthrough: Arc<Passthrough>,
    pub(crate) pushing: Pushing,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) blocked: Arc<Blocked>,
    /// By node.
    pub(crate) written: Shards<HashMap<u64, Uncommitted>>,
    /// Files whose pages the kernel is to give up.
    pub(crate) forgetting: ToTell<u64>,
    /// Parts of the objects that it is to forget, and how many times one was chosen.
    pub(crate) pruning: ToTell<usize>,
    pub(crate) parts_pruned: AtomicUsize,
    pub(crate) appearance: Appearance,
    /// Data is on the device when a change of it is answered: of writes the kernel sees to that.
    pub(crate) is_synchronous: bool,
    pub(crate) device: Device,
    pub(crate) notifier: OnceLock<Notifier>,
    /// The source's own number of the root, once anybody asked.
    pub(crate) root_file_id: OnceLock<u64>,
}

impl Front {
    pub(crate) fn new(
        filesystem: Arc<dyn FileSystem>,
        coherence: Coherence,
        dispatch: Dispatch,
    ) -> Self {
        let objects_max = if filesystem.limits().coherence == Coherence::UNCHANGED {
            OBJECTS_UNCHANGED_MAX
        } else {
            OBJECTS_MAX
        };
        let mut front = Self {
            nodes: Nodes::new(filesystem.root(), objects_max),
            filesystem,
            coherence,
            handles: Handles::default(),
            directories: Handles::default(),
            sizes: Sizes::default(),
            passthrough: Arc::default(),
            pushing: Pushing::default(),
            dispatch: Arc::new(dispatch),
            blocked: Arc::default(),
            written: Shards::default(),
            forgetting: ToTell::default(),
            pruning: ToTell::default(),
            parts_pruned: AtomicUsize::new(0),
            appearance: Appearance::default(),
            is_synchronous: false,
            device: Device::default(),
            notifier: OnceLock::new(),
            root_file_id: OnceLock::new(),
        };
        front.pushing.is_on = front.is_immutable();
        front
    }

    /// Whether nobody but this mount changes the source.
    pub(crate) fn is_private(&self) -> bool {
        self.coherence.attributes >= FOR_EVER && self.coherence.names >= FOR_EVER
    }

    /// Whether nothing in the source ever changes, so that opening and closing mean nothing.
    pub(crate) fn is_immutable(&self) -> bool {
        self.is_private() && self.filesystem.limits().read_only
    }

    /// The object that the kernel means.
    pub(crate) fn id(&self, node: u64) -> Result<FileId> {
        let known = self.nodes.id(node);
        let id = known.or_else(|| self.filesystem.id_of_number(node));
        id.ok_or(Error::Stale)
    }

    /// Answers a request of an object: here if nothing has to be waited for, else where waiting is
    /// allowed. `finish` is given the reply unless the caller was let go meanwhile.
    pub(crate) fn answer<R: Refuse, T>(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        reply: R,
        work: impl Fn(&Self, &Caller, &FileId) -> Result<T> + Send + 'static,
        finish: impl FnOnce(&Self, R, T) + Send + 'static,
    ) {
        let caller = Caller::of(request, self.appearance.differs());
        let work = move |front: &Self, may_block, _| {
            caller.may_block.set(may_block);
            work(front, &caller, &front.id(node.0)?)
        };
        self.answer_with(request, Memory::None, reply, work, finish);
    }

    /// As [`Front::answer`], for a request that takes `memory`: once it waits it has the lease of
    /// that, and it is not done when its caller was let go before its turn.
    pub(crate) fn answer_with<R: Refuse, T>(
        self: &Arc<Self>,
        request: &Request,
        memory: Memory,
        reply: R,
        work: impl Fn(&Self, bool, Option<ReadLease>) -> Result<T> + Send + 'static,
        finish: impl FnOnce(&Self, R, T) + Send + 'static,
    ) {
        match guarded(|| work(self, false, None)) {
            Err(Error::WouldBlock) => {}
            answer => return self.finish(reply, answer, finish),
        }
        let ticket = self.blocked.enter(request.pid(), reply);
        match self.dispatch.here(memory) {
            Some((_here, lease)) => {
                let answer = guarded(|| work(self, true, lease));
                self.settle(ticket, answer, finish);
            }
            None => {
                let work = move |front: &Self, lease| work(front, true, lease);
                self.hand_over(ticket, memory, work, finish);
            }
        }
    }

    /// Has what waits done by a worker.
    pub(crate) fn hand_over<R: Refuse, T>(
        self: &Arc<Self>,
        ticket: Ticket<R>,
        memory: Memory,
        work: impl FnOnce(&Self, Option<ReadLease>) -> Result<T> + Send + 'static,
        finish: impl FnOnce(&Self, R, T) + Send + 'static,
    ) {
        let wanted = (memory != Memory::None).then(|| ticket.wanted());
        let front = Arc::clone(self);
        let job = move |lease| {
            let answer = guarded(|| work(&front, lease));
            front.settle(ticket, answer, finish);
        };
        self.dispatch.hand_over(memory, wanted, Box::new(job));
    }

    /// Gives the answer to a request that waited, unless its caller was let go.
    pub(crate) fn settle<R: Refuse, T>(
        &self,
        ticket: Ticket<R>,
        answer: Result<T>,
        finish: impl FnOnce(&Self, R, T),
    ) {
        if let Some(reply) = ticket.finish() {
            self.finish(reply, answer, finish);
        }
    }

    pub(crate) fn finish<R: Refuse, T>(
        &self,
        reply: R,
        answer: Result<T>,
        finish: impl FnOnce(&Self, R, T),
    ) {
        match answer {
            Ok(answer) => finish(self, reply, answer),
            Err(error) => reply.refuse(Errno::from_i32(error.to_errno().raw_os_error())),
        }
    }

    pub(crate) fn attributes(&self, caller: &Caller, id: &FileId) -> Result<Attributes> {
        let attributes = caller.ask(|call| self.filesystem.attributes(call, id))?;
        if *id == self.filesystem.root() {
            let _ = self.root_file_id.set(attributes.file_id);
        }
        Ok(attributes)
    }

    /// Opens an object for the caller. The kernel has judged the mode bits; the source may know
    /// more.
    pub(crate) fn open(&self, caller: &Caller, id: &FileId, wanted: Access) -> Result<Opened> {
        caller.ask(|call| {
            let (granted, _) = self.filesystem.access(call, id, wanted)?;
            if granted & wanted == wanted {
                Ok(())
            } else {
                Err(Error::AccessDenied)
            }
        })?;
        caller.ask(|call| self.filesystem.open(call, id))
    }

    /// Makes a regular file, or finds the one that is there unless `exclusive`.
    pub(crate) fn create(
        &self,
        caller: &Caller,
        (directory, name): (&FileId, &[u8]),
        permissions: Permissions,
        flags: i32,
    ) -> Result<(Entry, Opened)> {
        let credentials = permissions.of(caller);
        let call = caller.call_as(&credentials);
        let guarded = CreateMode::Guarded(permissions.attributes());
        match self.filesystem.create(&call, directory, name, &guarded) {
            // A program that made a file may use it, whatever its mode says.
            Ok(created) => {
                let opened = self.filesystem.open(&call, &created.entry.id)?;
                Ok((created.entry, opened))
            }
            Err(Error::Exists) if flags & libc::O_EXCL == 0 => {
                let found = self.filesystem.lookup(&call, directory, name)?;
                // Made by others since the kernel found nothing here. It takes nothing but a file
                // for an answer, and looks the name up again when it is told that it is stale.
                Error::Stale.unless(found.attributes.file_type == FileType::Regular)?;
                let opened = self.open(caller, &found.id, asked_for(flags))?;
                if flags & libc::O_TRUNC != 0 {
                    let empty = SetAttributes {
                        size: Some(0),
                        ..SetAttributes::default()
                    };
                    let filesystem = &self.filesystem;
                    filesystem.set_attributes(&call, &found.id, &empty, None)?;
                }
                let attributes = self.filesystem.attributes(&call, &found.id)?;
                let id = found.id;
                Ok((Entry { id, attributes }, opened))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads until there is all that was asked for, or the end: the kernel takes less for the end.
    pub(crate) fn read(
        &self,
        target: &Target,
        may_block: bool,
        (offset, size): (u64, u32),
        lease: Option<ReadLease>,
    ) -> Result<Data> {
        let id = match &target.file {
            Some(file) => file.id,
            None => self.id(target.node)?,
        };
        let wanted = size as usize;
        let mut data = Data::with_lease(lease);
        while data.len() < wanted {
            let at = offset + data.len() as u64;
            let rest = u32::try_from(wanted - data.len()).unwrap_or(size);
            let reply = target.ask(may_block, READING, |call| {
                self.filesystem.read(call, &id, at, rest)
            })?;
            let came = data.add(reply.payload, may_block)?;
            if reply.end_of_file || came == 0 {
                break;
            }
        }
        Ok(data)
    }

    /// Changes attributes. The kernel has judged the caller. It also takes set-user-id away when
    /// another user changes a file, in the name of that user, who may not: such a change is made
    /// as the owner. With a change of length or owner it only says what it would take, by an old
    /// rule: the source does that by itself as the system beneath does it, and what it does not
    /// take is taken thereafter.
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
                let before = self.filesystem.attributes(&call, id)?.mode;
                self.change_attributes(&call, id, target, &rest)?;
                self.take_privileges(&call, id, before & !mode)?
            }
            Some(mode) => match self.change_attributes(&call, id, target, wanted) {
                Err(Error::NotPermitted) => {
                    let before = self.filesystem.attributes(&call, id)?;
                    let (lost, gained) = (before.mode & !mode, mode & !before.mode);
                    let is_owner = before.uid == call.credentials.uid;
                    let is_other_change = gained != 0 || lost & !PRIVILEGE_BITS != 0;
                    Error::NotPermitted.when(is_other_change || is_owner)?;
                    self.take_privileges(&call, id, lost)?
                }
                change => change?,
            },
            None => self.change_attributes(&call, id, target, wanted)?,
        };
        match change.after {
            Some(attributes) => Ok(attributes),
            None => self.filesystem.attributes(&call, id),
        }
    }

    /// Changes attributes as the caller, or through the file that it has open.
    fn change_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        target: &Target,
        wanted: &SetAttributes,
    ) -> Result<Change> {
        match self.filesystem.set_attributes(call, id, wanted, None) {
            Err(Error::AccessDenied) if wanted.size.is_some() && target.file.is_some() => target
                .ask(call.may_block, Access::MODIFY, |call| {
                    if call.credentials.uid == 0 {
                        self.drop_privileges(call, id)?;
                    }
                    self.filesystem.set_attributes(call, id, wanted, None)
                }),
            change => change,
        }
    }

    /// Takes those of set-user-id and set-group-id that are among the bits `lost`, as the owner.
    fn take_privileges(&self, call: &Call<'_>, id: &FileId, lost: u32) -> Result<Change> {
        let before = self.filesystem.attributes(call, id)?;
        let left = before.mode & !(lost & PRIVILEGE_BITS);
        if left == before.mode {
            return Ok(Change::default());
        }
        let only_mode = SetAttributes {
            mode: Some(left),
            ..SetAttributes::default()
        };
        let owner = Credentials::new(before.uid, before.gid, &[]);
        let as_owner = Call::new(&owner, call.may_block);
        self.filesystem
            .set_attributes(&as_owner, id, &only_mode, None)
    }
}

/// A defect in a source costs the one request that met it.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        names::PANICS.add(1);
        Err(Error::Io("defect of the program".to_owned()))
    })
}
