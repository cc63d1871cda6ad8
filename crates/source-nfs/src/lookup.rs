//! From names to objects, what is known of these, and setting it.

use std::sync::Arc;

use pagewell_counters::names as counters;
use pagewell_fs::{
    Access, Attributes, Call, Change, Entry, Error, FileId, Result, SetAttributes, Statistics,
    Timestamp,
};
use pagewell_sunrpc::nfs3::{
    DecodeReply, FsstatReply, LookupReply, Procedure, ReadlinkReply, SetattrArguments,
    SetattrReply, Status,
};

use super::calls::whole;
use super::convert;
use super::data::check_end;
use super::filesystem::{Shared, refused};
use super::naming::{either, operation};
use super::node::Node;

impl Shared {
    /// [`pagewell_fs::FileSystem::lookup`].
    pub(super) fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let node = self.directory(call, directory)?;
        if name == b"." || name == b".." && *directory == self.root.id {
            let attributes = self.attributes_of(call, &node)?;
            return Ok(Entry {
                id: node.id,
                attributes,
            });
        }
        if name != b".."
            && let Some(known) = self.remembered(call, &node, name)?
        {
            counters::CLIENT_NAME_HITS.add(1);
            return known.ok_or(Error::NotFound);
        }
        Self::may_wait(call)?;
        counters::CLIENT_NAME_MISSES.add(1);
        self.ask_name(call, &node, name)
    }

    /// What is remembered and believed of a name, for a caller that may look it up: an object or
    /// none.
    fn remembered(
        &self,
        call: &Call<'_>,
        directory: &Node,
        name: &[u8],
    ) -> Result<Option<Option<Entry>>> {
        let meaning = self.names.find(directory, name);
        let known = match meaning {
            None => return Ok(None),
            Some(None) => None,
            Some(Some(id)) => {
                let believed = self.files.node(&id).lock().believed();
                let Some(attributes) = believed else {
                    return Ok(None);
                };
                Some(Entry { id, attributes })
            }
        };
        self.check(call, directory, Access::LOOKUP)?;
        Ok(Some(known))
    }

    /// What a name means, as far as that is remembered.
    pub(super) fn known_meaning(&self, directory: &Node, name: &[u8]) -> Option<Arc<Node>> {
        let object = self.names.find(directory, name)?;
        object.map(|id| self.files.node(&id))
    }

    /// Asks what a name means.
    pub(super) fn ask_name(&self, call: &Call<'_>, node: &Node, name: &[u8]) -> Result<Entry> {
        let before = node.stamp();
        let directory = self.root.on_wire(&node.id);
        let arguments = operation(&directory, name);
        let answer = self.ask(call, Procedure::Lookup, &arguments, |decoder| {
            Ok(LookupReply::decode_reply(decoder)?.map(|found| {
                let id = convert::id(found.object);
                (id, found.object_attributes, found.directory_attributes)
            }))
        })?;
        match answer.value {
            Ok((id, attributes, directory)) => {
                self.remote.look(node, directory.as_ref(), answer.sent)?;
                let entry = self.entry(call, id?, attributes.as_ref(), answer.sent)?;
                if name != b".." {
                    self.names.learn(node, name, Some(entry.id), before);
                }
                Ok(entry)
            }
            Err(failure) => {
                let attributes = failure.body;
                self.remote.look(node, attributes.as_ref(), answer.sent)?;
                match failure.status {
                    Status::NotFound => self.names.learn(node, name, None, before),
                    Status::Stale | Status::BadHandle => node.lock().doubt(),
                    _ => {}
                }
                Err(convert::error(failure.status))
            }
        }
    }

    /// [`pagewell_fs::FileSystem::attributes`]: with everything that was written at the server, so
    /// that times and lengths are the ones that will stay.
    pub(super) fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let node = self.files.node(id);
        if self.is_dirty(&node) {
            Self::may_wait(call)?;
            self.write_out(&node)?;
        }
        let attributes = self.attributes_of(call, &node)?;
        if self.end_doubt(call, &node)? {
            self.attributes_of(call, &node)
        } else {
            Ok(attributes)
        }
    }

    /// [`pagewell_fs::FileSystem::access`].
    pub(super) fn access(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: Access,
    ) -> Result<(Access, Attributes)> {
        let node = self.files.node(id);
        let mut granted = self.granted(call, &node, wanted)?;
        if self.limits.read_only {
            let change = Access::MODIFY | Access::EXTEND | Access::DELETE;
            granted = Access(granted.0 & !change.0);
        }
        Ok((granted, self.attributes_of(call, &node)?))
    }

    /// [`pagewell_fs::FileSystem::read_link`].
    pub(super) fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let node = self.files.node(id);
        if let Some(known) = node.lock().link() {
            return Ok(known);
        }
        Self::may_wait(call)?;
        let arguments = convert::handle(id);
        let answer = self.ask(call, Procedure::Readlink, &arguments, |decoder| {
            let reply = ReadlinkReply::decode_reply(decoder)?;
            Ok(reply.map(|link| (link.target.to_vec(), link.symlink_attributes)))
        })?;
        let found = answer.value;
        let (target, attributes) = found.map_err(|failure| refused(&node, failure.status))?;
        self.remote.look(&node, attributes.as_ref(), answer.sent)?;
        let attributes = self.attributes_of(call, &node)?;
        node.lock().keep_link(&target, &attributes);
        Ok((target, attributes))
    }

    /// [`pagewell_fs::FileSystem::statistics`].
    pub(super) fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        Self::may_wait(call)?;
        let root = self.root.on_wire(&self.root.id);
        let arguments = convert::handle(&root);
        let answer = self.ask(call, Procedure::Fsstat, &arguments, whole::<FsstatReply>)?;
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

    /// [`pagewell_fs::FileSystem::set_attributes`].
    ///
    /// What was written before is safe at the server before anything is set: written later, or once
    /// more because the server has forgotten it, it would make the file longer, or its times newer,
    /// than was asked for, take set-user-id away again, or be refused to a user that may no longer.
    pub(super) fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        self.may_change(call)?;
        attributes.size.map_or(Ok(()), check_end)?;
        let node = self.files.node(id);
        let _alone = attributes.size.map(|_| node.data.write());
        if node.lock().is_uncommitted() {
            self.make_safe(&node)?;
        }
        let mut change = self.ask_to_set(call, &node, attributes, guard)?;
        if let Some(size) = attributes.size {
            self.cut_off(&node, size);
            // What was not reported is not known now either, but for the length.
            change.after = change.after.and_then(|_| node.lock().known());
        }
        Ok(change)
    }

    fn ask_to_set(
        &self,
        call: &Call<'_>,
        node: &Node,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let object = self.root.on_wire(&node.id);
        let arguments = SetattrArguments {
            object: convert::handle(&object),
            attributes: convert::set_attributes(attributes)?,
            guard: guard.map(convert::time).transpose()?,
        };
        node.begin_change();
        let answer = self.ask(call, Procedure::Setattr, &arguments, whole::<SetattrReply>);
        let answer = answer.inspect_err(|_| {
            node.end_unanswered(self.calls.now());
            if attributes.size.is_some() {
                // It may have been cut off: what is kept of it is not believed.
                node.lock().changes += 1;
            }
        })?;
        let wcc = either(&answer.value);
        let (change, _) = self.remote.end_change(node, wcc, answer.sent);
        match answer.value {
            Ok(_) => {
                let is_reported = change.after.is_some();
                node.lock().was_set(self.calls.now(), is_reported);
                Ok(change)
            }
            Err(failure) => Err(convert::error_of_object(failure.status)),
        }
    }
}
