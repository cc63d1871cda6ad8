//! A mounted export as a [`FileSystem`]: what all its calls share, and what most of them begin
//! with.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use pagewell_cache::CachedStore;
use pagewell_counters::names;
use pagewell_fs::{
    Access, Attributes, Call, Change, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, Error, FileId, FileSystem, FileType, Finish, Hold, Limits, NodeKind,
    RenameMode, Result, SetAttributes, Statistics, Timestamp, forward,
};
use pagewell_sunrpc::client::{Answer, Outgoing};
use pagewell_sunrpc::nfs3::{
    AccessArguments, AccessReply, Failure, FileAttributes, GetattrReply, Procedure, Reply, Status,
};
use pagewell_sunrpc::xdr::{self, Decoder, Encode};

use super::attributes::Moment;
use super::calls::{Calls, lacks_procedure, whole};
use super::convert;
use super::files::Files;
use super::names::Names;
use super::node::{Node, User};
use super::pages::Listings;
use super::remote::Remote;
use super::root::Root;

/// A mounted export. Dropping it brings everything to the server and unmounts.
pub struct NfsFileSystem {
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for NfsFileSystem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.describe())
    }
}

impl FileSystem for NfsFileSystem {
    forward! { self => self.shared;
        read_link, read, write, write_verifier, open, close,
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        let work = || self.shared.lookup(call, directory, name);
        self.shared.with_root(call, &[directory], work)
    }

    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let work = || self.shared.attributes(call, id);
        self.shared.with_root(call, &[id], work)
    }

    fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let work = || self.shared.set_attributes(call, id, attributes, guard);
        self.shared.with_root(call, &[id], work)
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let work = || self.shared.access(call, id, wanted);
        self.shared.with_root(call, &[id], work)
    }

    fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        let work = || self.shared.create(call, directory, name, mode);
        self.shared.with_root(call, &[directory], work)
    }

    fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let work = || (self.shared).make_directory(call, directory, name, attributes);
        self.shared.with_root(call, &[directory], work)
    }

    fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let work = || (self.shared).make_symlink(call, directory, name, target, attributes);
        self.shared.with_root(call, &[directory], work)
    }

    fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let work = || (self.shared).make_node(call, directory, name, kind, attributes);
        self.shared.with_root(call, &[directory], work)
    }

    fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        let work = || self.shared.link(call, id, directory, name);
        self.shared.with_root(call, &[directory], work)
    }

    fn remove(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        let work = || self.shared.remove(call, directory, name);
        self.shared.with_root(call, &[directory], work)
    }

    fn remove_directory(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        let work = || self.shared.remove_directory(call, directory, name);
        self.shared.with_root(call, &[directory], work)
    }

    fn rename(
        &self,
        call: &Call<'_>,
        from: (&FileId, &[u8]),
        to: (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        Error::Invalid.unless(mode == RenameMode::Replace)?;
        let work = || (self.shared).rename(call, from.0, from.1, to.0, to.1);
        self.shared.with_root(call, &[from.0, to.0], work)
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let shared = &self.shared;
        let begun = Cell::new(false);
        let mut visit = |entry: &DirectoryEntry<'_>| {
            begun.set(true);
            visit(entry)
        };
        let list = || {
            // What was shown of a listing is not shown again.
            Error::Stale.when(begun.get())?;
            shared.read_directory(call, directory, cookie, with_attributes, &mut visit)
        };
        shared.with_root(call, &[directory], list)
    }

    fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        let root = &self.shared.root.id;
        let work = || self.shared.statistics(call);
        self.shared.with_root(call, &[root], work)
    }

    fn describe(&self) -> String {
        format!("nfs {}", self.shared.calls.name)
    }

    fn root(&self) -> FileId {
        self.shared.root.id
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, _offset: u64, _count: u32) -> Result<Committed> {
        self.shared.commit(call, id)
    }

    fn finish(&self, how: Finish) -> Result<u64> {
        match how {
            Finish::Sync => self.shared.sync().map(|()| 0),
            Finish::Within(patience) => match self.shared.store.close_within(patience) {
                // Nothing is thrown away any more, so nothing has to be waited for.
                0 => self.shared.unreported_failure().map(|()| 0),
                lost_bytes => {
                    self.finish(Finish::Abandon)?;
                    Ok(lost_bytes)
                }
            },
            Finish::Abandon => {
                let lost_bytes = self.shared.store.abandon();
                self.shared.remote.end();
                Ok(lost_bytes)
            }
        }
    }

    fn hold(&self, _call: &Call<'_>, id: &FileId) -> Result<Option<Hold>> {
        Ok(Some(self.shared.hold_directory(id)))
    }
}

/// An answer, and what is to be known of the call.
pub(super) struct Answered<T, F> {
    pub(super) value: Reply<T, F>,
    pub(super) sent: Moment,
    pub(super) was_resent: bool,
}

/// What all calls of a mount share.
pub(super) struct Shared {
    pub(super) calls: Arc<Calls>,
    pub(super) files: Arc<Files>,
    pub(super) remote: Arc<Remote>,
    pub(super) names: Names,
    /// The data of its files.
    pub(super) store: CachedStore,
    pub(super) root: Root,
    pub(super) limits: Limits,
    /// Before any loss.
    pub(super) verifier: u64,
    /// Bytes of a READDIR.
    pub(super) directory_bytes: u32,
    /// Files that are open.
    pub(super) opens: AtomicUsize,
    /// The server has no READDIRPLUS.
    pub(super) lacks_plus: AtomicBool,
    /// The server does not take its own cookies.
    pub(super) refuses_cookies: AtomicBool,
    /// The server has no CREATE with a verifier.
    pub(super) lacks_exclusive: AtomicBool,
    pub(super) listed: Listings,
}

impl Shared {
    /// Refuses to wait for the server on a thread that may not.
    pub(super) fn may_wait(call: &Call<'_>) -> Result<()> {
        if call.may_block {
            Ok(())
        } else {
            Err(Error::WouldBlock)
        }
    }

    /// Refuses to change what is mounted to be read.
    pub(super) fn may_change(&self, call: &Call<'_>) -> Result<()> {
        if self.limits.read_only {
            return Err(Error::ReadOnly);
        }
        Self::may_wait(call)
    }

    /// Makes a call for a caller and waits for its answer. A server without the procedure says what
    /// one says that has it and cannot do it: not supported.
    pub(super) fn ask<T, F: Default>(
        &self,
        call: &Call<'_>,
        procedure: Procedure,
        arguments: &impl Encode,
        decode: impl Fn(&mut Decoder<'_>) -> xdr::Result<Reply<T, F>>,
    ) -> Result<Answered<T, F>> {
        let (calls, number) = (&self.calls, procedure.number());
        let credential = calls.credential(call.credentials);
        let mut patience = calls.patience();
        let mut was_resent = false;
        loop {
            let sent = calls.now();
            let outgoing = Outgoing::new(number, &credential, arguments);
            let answer = match calls.client.call(outgoing, &decode) {
                Err(error) if lacks_procedure(&error) => Answer {
                    value: Err(Failure {
                        status: Status::NotSupported,
                        body: F::default(),
                    }),
                    resent: false,
                },
                answer => answer.map_err(|error| calls.failure(&error))?,
            };
            // An attempt before this one may have been done: its answer was lost, and the server
            // was not ready to look when it came again.
            was_resent |= answer.resent;
            if matches!(&answer.value, Err(failure) if failure.status == Status::Jukebox)
                && let Some(pause) = patience.next()
            {
                calls.pause(pause)?;
                continue;
            }
            return Ok(Answered {
                value: answer.value,
                sent,
                was_resent,
            });
        }
    }

    /// Attributes that are believed, or asked for now.
    pub(super) fn attributes_of(&self, call: &Call<'_>, node: &Node) -> Result<Attributes> {
        let state = node.lock();
        if let Some(believed) = state.remains().or_else(|| state.believed()) {
            names::CLIENT_ATTRIBUTE_HITS.add(1);
            return Ok(believed);
        }
        drop(state);
        self.ask_attributes(call, node)
    }

    /// Attributes, asked for now.
    pub(super) fn ask_attributes(&self, call: &Call<'_>, node: &Node) -> Result<Attributes> {
        Self::may_wait(call)?;
        names::CLIENT_ATTRIBUTE_MISSES.add(1);
        let object = self.root.on_wire(&node.id);
        let arguments = convert::handle(&object);
        let answer = self.ask(call, Procedure::Getattr, &arguments, whole::<GetattrReply>)?;
        let found = answer.value;
        let found = found.map_err(|failure| refused(node, failure.status))?;
        self.remote.look(node, Some(&found), answer.sent)?;
        let mut state = node.lock();
        state.end_question();
        state.known().ok_or(Error::Stale)
    }

    /// An object that an answer names, with the attributes that it brings, or that are asked for.
    pub(super) fn entry(
        &self,
        call: &Call<'_>,
        id: FileId,
        attributes: Option<&FileAttributes>,
        sent: Moment,
    ) -> Result<Entry> {
        let id = self.root.object_of(id);
        let mut node = self.files.node(&id);
        if self.remote.look(&node, attributes, sent).is_err() {
            // A server that uses handles again: what was known is of another object.
            node = self.files.node(&id);
            self.remote.look(&node, attributes, sent)?;
        }
        if attributes.is_none() {
            // It may have changed since it was looked at: CREATE leaves a longer file as it is.
            node.lock().doubt();
        }
        let known = attributes.and_then(|_| node.lock().known());
        let attributes = known.map_or_else(|| self.attributes_of(call, &node), Ok)?;
        Ok(Entry { id, attributes })
    }

    /// The directory of an identifier.
    pub(super) fn directory(&self, call: &Call<'_>, id: &FileId) -> Result<Arc<Node>> {
        let node = self.files.node(id);
        let attributes = self.attributes_of(call, &node)?;
        if node.lock().remains().is_some() {
            Err(Error::NotFound) // whatever is looked for in it, or is to be made
        } else if attributes.file_type.is_directory() {
            Ok(node)
        } else {
            Err(Error::NotDirectory)
        }
    }

    /// The user that makes a call.
    pub(super) fn user(&self, call: &Call<'_>) -> Arc<User> {
        Arc::new(User {
            credentials: call.credentials.clone(),
            encoded: self.calls.credential(call.credentials),
        })
    }

    /// What a caller may do of what it wants.
    pub(super) fn granted(&self, call: &Call<'_>, node: &Node, wanted: Access) -> Result<Access> {
        let state = node.lock();
        if let Some(granted) = state.granted(call.credentials) {
            return Ok(granted & wanted);
        }
        // What is known when the answer has come may be newer than the answer.
        let of = state.rights();
        drop(state);
        Self::may_wait(call)?;
        let object = self.root.on_wire(&node.id);
        let arguments = AccessArguments {
            object: convert::handle(&object),
            access: Access::ALL.0,
        };
        let answer = self.ask(call, Procedure::Access, &arguments, whole::<AccessReply>)?;
        let allowed = answer.value;
        let allowed = allowed.map_err(|failure| refused(node, failure.status))?;
        self.remote
            .look(node, allowed.object_attributes.as_ref(), answer.sent)?;
        let granted = Access(allowed.access) & Access::ALL;
        node.lock().grant(call.credentials, granted, of);
        Ok(granted & wanted)
    }

    /// Refuses callers that have none of these kinds of access.
    pub(super) fn check(&self, call: &Call<'_>, node: &Node, any_of: Access) -> Result<()> {
        if self.granted(call, node, any_of)?.intersects(any_of) {
            Ok(())
        } else {
            Err(Error::AccessDenied)
        }
    }

    /// [`Self::check`] of a regular file whose owner may whatever its mode says
    /// (RFC 1813 section 4.4).
    pub(super) fn check_data(&self, call: &Call<'_>, node: &Node, any_of: Access) -> Result<()> {
        let attributes = self.attributes_of(call, node)?;
        match attributes.file_type {
            FileType::Regular => {}
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid),
        }
        let credentials = call.credentials;
        let is_owner = attributes.uid == self.calls.options.uid_of(credentials);
        if is_owner || node.lock().is_made_by(credentials, &attributes) {
            return Ok(());
        }
        self.check(call, node, any_of)
    }
}

/// What a caller is told when the server refuses something of an object, of which all that is known
/// is in doubt then.
pub(super) fn refused(node: &Node, status: Status) -> Error {
    node.lock().doubt();
    convert::error_of_object(status)
}
