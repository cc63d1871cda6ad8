//! Setting attributes, the length among them.

use pagewell_fs::{Call, Change, Error, FileId, Result, SetAttributes, Timestamp};
use pagewell_sunrpc::nfs3::{Procedure, SetattrArguments, SetattrReply};

use super::calls::whole;
use super::convert;
use super::data::alone;
use super::filesystem::Shared;
use super::node::Node;
use super::regions::FILE_BYTES_MAX;

impl Shared {
    /// [`pagewell_fs::FileSystem::set_attributes`].
    ///
    /// What was written before is safe at the server before the length or a time is set: written
    /// later, or once more because the server has forgotten it, it would make the file longer, or
    /// its times newer, than was asked for.
    pub(super) fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        self.may_change(call)?;
        if attributes.size.is_some_and(|size| size > FILE_BYTES_MAX) {
            return Err(Error::FileTooLarge);
        }
        let node = self.files.node(id);
        let _alone = attributes.size.map(|_| alone(&node));
        let sets_time = attributes.accessed.is_some() || attributes.modified.is_some();
        if (attributes.size.is_some() || sets_time) && node.lock().is_uncommitted() {
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
        let arguments = SetattrArguments {
            object: convert::handle(&node.id)?,
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
        let wcc = match &answer.value {
            Ok(wcc) => *wcc,
            Err(failure) => failure.body,
        };
        let (change, _) = self.remote.end_change(node, &wcc, answer.sent);
        match answer.value {
            Ok(_) => {
                let is_reported = change.after.is_some();
                node.lock().was_set(self.calls.now(), is_reported);
                Ok(change)
            }
            Err(failure) => Err(convert::error(failure.status)),
        }
    }
}
