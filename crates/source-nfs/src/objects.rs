//! What the server says of single objects: attributes, access, targets of symbolic links; and the
//! root, which gets another handle when its server forgets the one it had.

use std::sync::Arc;

use pagewell_counters::names;
use pagewell_fs::{Access, Attributes, Call, Entry, Error, FileId, FileType, Result, Statistics};
use pagewell_sunrpc::nfs3::{
    AccessArguments, AccessReply, DecodeReply, FileAttributes, FsstatReply, GetattrReply,
    Procedure, ReadlinkReply, Status,
};

use super::attributes::Moment;
use super::calls::{Calls, may_wait, whole};
use super::convert;
use super::files::Files;
use super::node::{Node, User};
use super::root::Root;

/// The objects of a mount, and the calls that ask for them.
pub(super) struct Objects {
    calls: Arc<Calls>,
    files: Arc<Files>,
    root: Root,
}

impl Objects {
    pub(super) fn new(calls: Arc<Calls>, files: Arc<Files>, root: Root) -> Self {
        Self { calls, files, root }
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// The object of an identifier.
    pub(super) fn node(&self, id: &FileId) -> Arc<Node> {
        self.files.node(id)
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
        may_wait(call)?;
        names::CLIENT_ATTRIBUTE_MISSES.add(1);
        let object = self.root.on_wire(node.id());
        let arguments = convert::handle(&object);
        let answer = self
            .calls
            .ask(call, Procedure::Getattr, &arguments, whole::<GetattrReply>)?;
        let found = answer.value;
        let found = found.map_err(|failure| refused(node, failure.status))?;
        self.files.look(node, Some(&found), answer.sent)?;
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
        let mut node = self.node(&id);
        if self.files.look(&node, attributes, sent).is_err() {
            // A server that uses handles again: what was known is of another object.
            node = self.node(&id);
            self.files.look(&node, attributes, sent)?;
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
        let node = self.node(id);
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
        may_wait(call)?;
        let object = self.root.on_wire(node.id());
        let arguments = AccessArguments {
            object: convert::handle(&object),
            access: Access::ALL.0,
        };
        let answer = self
            .calls
            .ask(call, Procedure::Access, &arguments, whole::<AccessReply>)?;
        let allowed = answer.value;
        let allowed = allowed.map_err(|failure| refused(node, failure.status))?;
        self.files
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
        let is_owner = attributes.uid == self.calls.options().uid_of(credentials);
        if is_owner || node.lock().is_made_by(credentials, &attributes) {
            return Ok(());
        }
        self.check(call, node, any_of)
    }

    /// [`pagewell_fs::FileSystem::access`].
    pub(super) fn access(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: Access,
    ) -> Result<(Access, Attributes)> {
        let node = self.node(id);
        let mut granted = self.granted(call, &node, wanted)?;
        if self.calls.options().read_only {
            let change = Access::MODIFY | Access::EXTEND | Access::DELETE;
            granted = Access(granted.0 & !change.0);
        }
        Ok((granted, self.attributes_of(call, &node)?))
    }

    /// [`pagewell_fs::FileSystem::read_link`].
    pub(super) fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let node = self.node(id);
        if let Some(known) = node.lock().link() {
            return Ok(known);
        }
        may_wait(call)?;
        let arguments = convert::handle(id);
        let answer = self
            .calls
            .ask(call, Procedure::Readlink, &arguments, |decoder| {
                let reply = ReadlinkReply::decode_reply(decoder)?;
                Ok(reply.map(|link| (link.target.to_vec(), link.symlink_attributes)))
            })?;
        let found = answer.value;
        let (target, attributes) = found.map_err(|failure| refused(&node, failure.status))?;
        self.files.look(&node, attributes.as_ref(), answer.sent)?;
        let attributes = self.attributes_of(call, &node)?;
        node.lock().keep_link(&target, &attributes);
        Ok((target, attributes))
    }

    /// [`pagewell_fs::FileSystem::statistics`].
    pub(super) fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        may_wait(call)?;
        let root = self.root.on_wire(self.root.id());
        let arguments = convert::handle(&root);
        let answer = self
            .calls
            .ask(call, Procedure::Fsstat, &arguments, whole::<FsstatReply>)?;
        let sizes = answer
            .value
            .map_err(|failure| convert::error(failure.status))?;
        Ok(Statistics {
            bytes_total: sizes.bytes_total,
            bytes_free: sizes.bytes_free,
            bytes_available: sizes.bytes_available,
            files_total: sizes.files_total,
            files_free: sizes.files_free,
            files_available: sizes.files_available,
        })
    }

    /// Does `work` with these objects for a caller; once more when the root is among them, was
    /// stale, and has another handle now.
    pub(super) fn with_root<T>(
        &self,
        call: &Call<'_>,
        objects: &[&FileId],
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        if !objects.contains(&self.root.id()) {
            return work();
        }
        let before = self.root.on_wire(self.root.id());
        let done = work();
        let is_stale = matches!(done, Err(Error::Stale));
        if !is_stale || !call.may_block || !self.root.renew(&before) {
            return done;
        }
        self.begin_anew(call)?;
        work()
    }

    /// Forgets what was known of the root under its last handle, and learns what the server calls
    /// its file system now.
    fn begin_anew(&self, call: &Call<'_>) -> Result<()> {
        let node = self.node(self.root.id());
        let mut state = node.lock();
        state.changed_by_others();
        state.doubt();
        drop(state);
        let handle = self.root.on_wire(self.root.id());
        let handle = convert::handle(&handle);
        let answer = self
            .calls
            .ask(call, Procedure::Getattr, &handle, whole::<GetattrReply>)?;
        let found = answer.value;
        let found = found.map_err(|failure| convert::error_of_object(failure.status))?;
        self.calls.set_filesystem_id(found.filesystem_id);
        Ok(())
    }
}

/// The error that a caller gets when the server refuses something of an object. All that is known
/// of the object is in doubt then.
pub(super) fn refused(node: &Node, status: Status) -> Error {
    node.lock().doubt();
    convert::error_of_object(status)
}
