//! What each request does with the source.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{FileAttr, Notifier, ReplyData, Request};
use pagewell_base::shards::Shards;
use pagewell_counters::names;
use pagewell_fs::{
    Access, Attributes, Call, Coherence, CreateMode, Credentials, Entry, Error, FileId, FileSystem,
    Hold, Opened, Result, SetAttributes,
};

use crate::attributes::{Appearance, to_kernel};
use crate::blocked::Blocked;
use crate::caller::{Caller, Permissions};
use crate::dispatch::{Dispatch, Memory, ReadLease};
use crate::forgetting::Forgetting;
use crate::handles::{Handles, Modes, OpenFile};
use crate::listing_sizes::Sizes;
use crate::nodes::{Nodes, OBJECTS_MAX, OBJECTS_UNCHANGED_MAX};
use crate::passthrough::Passthrough;
use crate::pruning::Pruning;
use crate::pushing::Pushing;
use crate::reply::{Data, Device, Refuse};

/// Set-user-id and set-group-id.
const PRIVILEGE_BITS: u32 = 0o6000;
/// What is kept for so long never changes.
const FOR_EVER: Duration = Duration::from_secs(60 * 60);

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
    pub(crate) pruning: Pruning,
    pub(crate) pushing: Pushing,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) blocked: Arc<Blocked>,
    /// Verifiers under which files were written that no commit has covered yet, by node.
    pub(crate) written: Shards<HashMap<u64, [u8; 8]>>,
    pub(crate) forgetting: Forgetting,
    pub(crate) appearance: Appearance,
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
        let is_unchanged = filesystem.coherence() == Coherence::UNCHANGED;
        let objects_max = match is_unchanged {
            true => OBJECTS_UNCHANGED_MAX,
            false => OBJECTS_MAX,
        };
        Self {
            nodes: Nodes::new(filesystem.root(), objects_max),
            filesystem,
            coherence,
            handles: Handles::default(),
            directories: Handles::default(),
            sizes: Sizes::default(),
            passthrough: Arc::default(),
            pruning: Pruning::default(),
            pushing: Pushing::default(),
            dispatch: Arc::new(dispatch),
            blocked: Arc::default(),
            written: Shards::default(),
            forgetting: Forgetting::default(),
            appearance: Appearance::default(),
            device: Device::default(),
            notifier: OnceLock::new(),
            root_file_id: OnceLock::new(),
        }
    }

    /// What the kernel is told of an object that it knows as `node`.
    pub(crate) fn shown(&self, attributes: &Attributes, node: u64) -> FileAttr {
        to_kernel(&self.appearance, attributes, node)
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

    /// Answers a request: here if nothing has to be waited for, else where waiting is allowed.
    /// `finish` is given the reply unless the caller was let go meanwhile.
    pub(crate) fn answer<R: Refuse, T>(
        self: &Arc<Self>,
        request: &Request,
        reply: R,
        work: impl Fn(&Self, &Caller, bool) -> Result<T> + Send + 'static,
        finish: impl FnOnce(&Self, R, Result<T>) + Send + 'static,
    ) {
        let caller = Caller::of(request, self.appearance.differs());
        match guarded(|| work(self, &caller, false)) {
            Err(Error::WouldBlock) => {}
            answer => return finish(self, reply, answer),
        }
        let ticket = self.blocked.enter(caller.thread, reply);
        let job = move |front: &Self| {
            let answer = guarded(|| work(front, &caller, true));
            if let Some(reply) = ticket.finish() {
                finish(front, reply, answer);
            }
        };
        match self.dispatch.here() {
            Some(_here) => job(self),
            None => {
                let front = Arc::clone(self);
                self.dispatch
                    .hand_over(Memory::None, None, Box::new(move |_| job(&front)));
            }
        }
    }

    /// As [`Front::answer`], for reads: a call that waits has a lease of `bytes`, and a read whose
    /// caller was let go before its turn is not done.
    pub(crate) fn answer_read(
        self: &Arc<Self>,
        request: &Request,
        reply: ReplyData,
        bytes: usize,
        read: impl Fn(&Self, bool, Option<ReadLease>) -> Result<Data> + Send + 'static,
        finish: impl FnOnce(&Self, ReplyData, Result<Data>) + Send + 'static,
    ) {
        match guarded(|| read(self, false, None)) {
            Err(Error::WouldBlock) => {}
            answer => return finish(self, reply, answer),
        }
        let ticket = self.blocked.enter(request.pid(), reply);
        let wanted = ticket.wanted();
        let job = move |front: &Self, lease| {
            if !ticket.is_wanted() {
                return;
            }
            let answer = guarded(|| read(front, true, lease));
            if let Some(reply) = ticket.finish() {
                finish(front, reply, answer);
            }
        };
        if let Some((_here, lease)) = self.dispatch.here_with_lease(bytes) {
            return job(self, Some(lease));
        }
        let front = Arc::clone(self);
        let job = Box::new(move |lease| job(&front, lease));
        let dispatch = &self.dispatch;
        dispatch.hand_over(Memory::Lease(bytes), Some(wanted), job);
    }

    pub(crate) fn attributes(
        &self,
        caller: &Caller,
        may_block: bool,
        id: &FileId,
    ) -> Result<Attributes> {
        let attributes = caller.ask(may_block, |call| self.filesystem.attributes(call, id))?;
        if *id == self.filesystem.root() {
            let _ = self.root_file_id.set(attributes.file_id);
        }
        Ok(attributes)
    }

    /// Opens an object for the caller.
    pub(crate) fn open(
        &self,
        caller: &Caller,
        may_block: bool,
        id: &FileId,
        modes: Modes,
    ) -> Result<Opened> {
        self.check_open(caller, may_block, id, modes)?;
        caller.ask(may_block, |call| self.filesystem.open(call, id))
    }

    /// The kernel has judged the mode bits; the source may know more.
    fn check_open(
        &self,
        caller: &Caller,
        may_block: bool,
        id: &FileId,
        modes: Modes,
    ) -> Result<()> {
        let needed = |is_needed: bool, access| if is_needed { access } else { Access(0) };
        let data = if modes.runs {
            Access::EXECUTE
        } else {
            Access::READ
        };
        let wanted = needed(modes.reads, data) | needed(modes.writes, Access::MODIFY);
        caller.ask(may_block, |call| {
            let (granted, _) = self.filesystem.access(call, id, wanted)?;
            if granted & wanted == wanted {
                Ok(())
            } else {
                Err(Error::AccessDenied)
            }
        })
    }

    /// Makes a regular file, or finds the one that is there unless `exclusive`.
    pub(crate) fn create(
        &self,
        caller: &Caller,
        may_block: bool,
        directory: &FileId,
        name: &[u8],
        permissions: Permissions,
        flags: i32,
    ) -> Result<(Entry, Opened)> {
        let credentials = permissions.of(caller);
        let call = Call {
            credentials: &credentials,
            may_block,
        };
        let modes = Modes::of(flags);
        let guarded = CreateMode::Guarded(permissions.attributes());
        match self.filesystem.create(&call, directory, name, &guarded) {
            Ok(created) => {
                // A program that made a file may use it, whatever its mode says.
                let opened = self.filesystem.open(&call, &created.entry.id)?;
                Ok((created.entry, opened))
            }
            Err(Error::Exists) if flags & libc::O_EXCL == 0 => {
                let entry = self.filesystem.lookup(&call, directory, name)?;
                let opened = self.open(caller, may_block, &entry.id, modes)?;
                if flags & libc::O_TRUNC != 0 {
                    let empty = SetAttributes {
                        size: Some(0),
                        ..SetAttributes::default()
                    };
                    let filesystem = &self.filesystem;
                    filesystem.set_attributes(&call, &entry.id, &empty, None)?;
                }
                let attributes = self.filesystem.attributes(&call, &entry.id)?;
                Ok((
                    Entry {
                        attributes,
                        ..entry
                    },
                    opened,
                ))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a call through an open file: as the user that opened it, and as root if that is
    /// refused, since what was allowed at the open stays allowed.
    pub(crate) fn ask_open<T>(
        file: Option<&OpenFile>,
        may_block: bool,
        is_allowed: impl Fn(&OpenFile) -> bool,
        operation: impl Fn(&Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let root = Credentials::root();
        let as_root = Call {
            credentials: &root,
            may_block,
        };
        // Without an open file the kernel has judged, and tells of nobody in particular.
        let Some(file) = file else {
            return operation(&as_root);
        };
        let answer = operation(&Call {
            credentials: &file.credentials,
            may_block,
        });
        match answer {
            Err(Error::AccessDenied) if is_allowed(file) => operation(&as_root),
            answer => answer,
        }
    }

    /// Reads until there is all that was asked for, or the end: the kernel takes less for the end.
    pub(crate) fn read(
        &self,
        file: Option<&OpenFile>,
        may_block: bool,
        id: &FileId,
        offset: u64,
        size: u32,
        lease: Option<ReadLease>,
    ) -> Result<Data> {
        let wanted = size as usize;
        let mut data = Data::with_lease(lease);
        while data.len() < wanted {
            let at = offset + data.len() as u64;
            let rest = u32::try_from(wanted - data.len()).unwrap_or(size);
            let filesystem = &self.filesystem;
            let reply = Self::ask_open(
                file,
                may_block,
                |file| file.reads,
                |call| filesystem.read(call, id, at, rest),
            )?;
            let came = data.add(reply.payload, may_block)?;
            if reply.end_of_file || came == 0 {
                break;
            }
        }
        Ok(data)
    }

    /// A descriptor is closed.
    pub(crate) fn close(
        &self,
        file: Option<&OpenFile>,
        may_block: bool,
        id: &FileId,
    ) -> Result<()> {
        Self::ask_open(
            file,
            may_block,
            |_| true,
            |call| self.filesystem.close(call, id),
        )
    }

    /// Changes attributes. The kernel has judged the caller. It also takes set-user-id away when
    /// another user writes to a file, in the name of that user, who may not: such a change
    /// is made as the owner.
    pub(crate) fn set_attributes(
        &self,
        caller: &Caller,
        may_block: bool,
        id: &FileId,
        file: Option<&OpenFile>,
        wanted: &SetAttributes,
    ) -> Result<Attributes> {
        let call = caller.call(may_block);
        let change = match self.filesystem.set_attributes(&call, id, wanted, None) {
            Err(Error::NotPermitted) if wanted.mode.is_some() => {
                self.take_privileges(&call, id, wanted)?
            }
            Err(Error::AccessDenied) if wanted.size.is_some() && file.is_some() => Self::ask_open(
                file,
                may_block,
                |file| file.writes,
                |call| {
                    if call.credentials.uid == 0 {
                        self.drop_privileges(call, id)?;
                    }
                    self.filesystem.set_attributes(call, id, wanted, None)
                },
            )?,
            change => change?,
        };
        match change.after {
            Some(attributes) => Ok(attributes),
            None => self.filesystem.attributes(&call, id),
        }
    }

    fn take_privileges(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: &SetAttributes,
    ) -> Result<pagewell_fs::Change> {
        let before = self.filesystem.attributes(call, id)?;
        let lost = before.mode & !wanted.mode.unwrap_or(before.mode);
        let gained = wanted.mode.unwrap_or(0) & !before.mode;
        if gained != 0 || lost & !PRIVILEGE_BITS != 0 || before.uid == call.credentials.uid {
            return Err(Error::NotPermitted);
        }
        let rest = SetAttributes {
            mode: None,
            ..*wanted
        };
        if rest != SetAttributes::default() {
            self.filesystem.set_attributes(call, id, &rest, None)?;
        }
        let only_mode = SetAttributes {
            mode: wanted.mode,
            ..SetAttributes::default()
        };
        let owner = Credentials::new(before.uid, before.gid, &[]);
        let as_owner = Call {
            credentials: &owner,
            may_block: call.may_block,
        };
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
