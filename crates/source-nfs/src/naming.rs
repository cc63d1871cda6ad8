//! Calls that change names of a directory, and their answers when they were sent twice.
//!
//! **Problem.** A call whose answer was lost with its connection is sent again. A server that had
//! done it and does not remember that answers with an error.
//!
//! **Rule.** To a repeated call such an answer is a doubt, and the name is looked up: when it means
//! what the call would have made, the call has been done.
//!
//! | call | doubtful answer | proof |
//! |---|---|---|
//! | REMOVE, RMDIR | no such name | nothing of that name |
//! | RENAME | no such name | the moved object, at the new name |
//! | LINK | exists | the linked object |
//! | MKDIR, SYMLINK, MKNOD, CREATE | exists | an object of that type, with that target |
//!
//! Some servers make what they are asked for, report a failure at its attributes, and leave the
//! object. So IO and SERVERFAULT from a call that makes something are doubts even when it was sent
//! once, with the same proof. All other refusals are true: success reported for a lock that another
//! client has made is worse than any error.
//!
//! What was to be made counts as ours only where the name was known to be free when the call was
//! sent.
//!
//! CREATE that must not find the name is sent with a verifier of its own (RFC 1813 section 3.3.8),
//! by which servers recognise a repeated call: no answer to that is doubtful.
//!
//! **Known weaknesses.** When another client made the same since the name was found missing, which
//! is believed for up to a minute (`acdirmax`), or moved or removed the same between the two calls,
//! both clients succeed. A caller that did not look at the name before may get "exists", though its
//! call has made the object. A repeated SETATTR under a guard finds the guard out of date.

use pagewell_fs::{Call, Change, Entry, Error, FileId, FileType, Result};
use pagewell_sunrpc::nfs3::{DirectoryOperation, Procedure, Reply, Status, WccData};
use pagewell_sunrpc::xdr::{self, Decoder, Encode};

use super::attributes::Stamp;
use super::calls::Answered;
use super::convert;
use super::lookup::Namespace;
use super::node::Node;

#[derive(Clone, Copy, Debug)]
pub(super) enum NameChange {
    /// A name goes.
    Remove,
    /// A name moves, of this object if known.
    Rename(Option<FileId>),
    /// This object gets one more name.
    Link(FileId),
    /// Something of this type is made.
    Make(FileType),
}

impl NameChange {
    /// Whether a call may have been done in spite of this answer.
    pub(super) fn is_doubtful(&self, status: Status, was_resent: bool) -> bool {
        match (self, status) {
            (Self::Remove | Self::Rename(_), Status::NotFound)
            | (Self::Link(_) | Self::Make(_), Status::Exists) => was_resent,
            (Self::Link(_) | Self::Make(_), Status::Io | Status::ServerFault) => true,
            _ => false,
        }
    }

    /// Whether what is found at the (new) name proves the change.
    fn is_proven_by(&self, found: Option<&Entry>) -> bool {
        match (self, found) {
            (Self::Remove, found) => found.is_none(),
            (_, None) => false,
            (Self::Rename(moved), Some(found)) => *moved == Some(found.id),
            (Self::Link(id), Some(found)) => *id == found.id,
            (Self::Make(file_type), Some(found)) => found.attributes.file_type == *file_type,
        }
    }
}

/// The body of an answer, of either kind.
pub(super) fn either<T>(reply: &Reply<T, T>) -> &T {
    reply.as_ref().unwrap_or_else(|failure| &failure.body)
}

pub(super) fn operation<'a>(directory: &'a FileId, name: &'a [u8]) -> DirectoryOperation<'a> {
    let directory = convert::handle(directory);
    DirectoryOperation { directory, name }
}

impl Namespace {
    /// Makes a call that changes names of one directory. `wcc` finds the directory's states in the
    /// answer. Returns the answer, the directory's change, and its stamp then, unless other changes
    /// of ours were on their way.
    pub(super) fn change_names<T, F: Default>(
        &self,
        call: &Call<'_>,
        directory: &Node,
        (procedure, arguments): (Procedure, &impl Encode),
        decode: impl Fn(&mut Decoder<'_>) -> xdr::Result<Reply<T, F>>,
        wcc: impl FnOnce(&Reply<T, F>) -> WccData,
    ) -> Result<(Answered<T, F>, Change, Option<Stamp>)> {
        let begun = directory.begin_change();
        let answer = self
            .objects()
            .calls()
            .ask(call, procedure, arguments, decode);
        let answer =
            answer.inspect_err(|_| directory.end_unanswered(self.objects().calls().now()))?;
        let wcc = wcc(&answer.value);
        let (change, ended) = self
            .objects()
            .files()
            .end_change(directory, &wcc, answer.sent);
        let since = ended.ends_alone(begun).then_some(ended);
        Ok((answer, change, since))
    }

    /// Takes a doubtful refusal for success when the object at the name, or none, proves it;
    /// returns that.
    pub(super) fn prove(
        &self,
        call: &Call<'_>,
        (directory, name): (&Node, &[u8]),
        change: NameChange,
        status: Status,
        is_doubtful: bool,
    ) -> Result<Option<Entry>> {
        self.names().forget(directory, name);
        let refusal = convert::error(status);
        if !is_doubtful {
            return Err(refusal);
        }
        let found = match self.ask_name(call, directory, name) {
            Ok(entry) => Some(entry),
            Err(Error::NotFound) => None,
            Err(_) => return Err(refusal),
        };
        if change.is_proven_by(found.as_ref()) {
            Ok(found)
        } else {
            Err(refusal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::attributes;

    #[test]
    fn only_repeated_and_failed_calls_are_doubted_and_only_proof_helps() {
        let entry = |number: u8| Entry {
            id: FileId::new(&[number]).unwrap(),
            attributes: attributes(FileType::Directory),
        };
        let (here, other) = (entry(1), entry(2));
        let cases = [
            (NameChange::Remove, Status::NotFound, None, Some(here)),
            (
                NameChange::Rename(Some(here.id)),
                Status::NotFound,
                Some(here),
                Some(other),
            ),
            (
                NameChange::Link(here.id),
                Status::Exists,
                Some(here),
                Some(other),
            ),
            (
                NameChange::Make(FileType::Directory),
                Status::Exists,
                Some(other),
                None,
            ),
        ];
        for (change, status, proof, refutation) in cases {
            assert!(change.is_doubtful(status, true) && !change.is_doubtful(status, false));
            assert!(!change.is_doubtful(Status::AccessDenied, true));
            let makes = matches!(change, NameChange::Make(_) | NameChange::Link(_));
            for failed in [Status::Io, Status::ServerFault] {
                assert_eq!(change.is_doubtful(failed, false), makes);
            }
            assert!(change.is_proven_by(proof.as_ref()), "{change:?}");
            assert!(!change.is_proven_by(refutation.as_ref()), "{change:?}");
        }
        assert!(!NameChange::Make(FileType::Regular).is_proven_by(Some(&here)));
        // Anything at the new name may have been there before.
        assert!(!NameChange::Rename(None).is_proven_by(Some(&here)));
    }
}
