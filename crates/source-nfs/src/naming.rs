//! What all calls have in common that change names of a directory.

use pagewell_fs::{Call, Change, Entry, Error, Result};
use pagewell_sunrpc::nfs3::{DirectoryOperation, Procedure, Reply, Status, WccData};
use pagewell_sunrpc::xdr::{self, Decoder, Encode};

use super::attributes::{Moment, Stamp};
use super::convert;
use super::filesystem::Shared;
use super::node::Node;
use super::repeat::NameChange;

/// The answer to a call that changes names of a directory.
pub(super) struct Changed<T> {
    pub(super) value: T,
    pub(super) sent: Moment,
    pub(super) was_resent: bool,
    /// What became of the directory.
    pub(super) change: Change,
    /// Its stamp then, unless other changes of ours were on their way together with this one: what
    /// their order was nobody knows.
    pub(super) since: Option<Stamp>,
}

/// A name in a directory, as calls name it.
pub(super) fn operation<'a>(directory: &'a Node, name: &'a [u8]) -> Result<DirectoryOperation<'a>> {
    Ok(DirectoryOperation {
        directory: convert::handle(&directory.id)?,
        name,
    })
}

impl Shared {
    /// Makes a call that changes names of one directory. `wcc` finds in the answer what it says of
    /// the directory.
    pub(super) fn change_names<T, F>(
        &self,
        call: &Call<'_>,
        directory: &Node,
        (procedure, arguments): (Procedure, &impl Encode),
        decode: impl Fn(&mut Decoder<'_>) -> xdr::Result<Reply<T, F>>,
        wcc: impl FnOnce(&Reply<T, F>) -> WccData,
    ) -> Result<Changed<Reply<T, F>>> {
        let begun = directory.begin_change();
        let answer = self.ask(call, procedure, arguments, decode);
        let answer = answer.inspect_err(|_| directory.end_unanswered(self.calls.now()))?;
        let (change, ended) = self.end_change(directory, &wcc(&answer.value), answer.sent);
        Ok(Changed {
            value: answer.value,
            sent: answer.sent,
            was_resent: answer.was_resent,
            change,
            since: ended.ends_alone(begun).then_some(ended),
        })
    }

    /// Takes a refusal for success when a repeated call has been done before, as is proven by what
    /// is at the name now: that, or none.
    pub(super) fn prove(
        &self,
        call: &Call<'_>,
        (directory, name): (&Node, &[u8]),
        change: NameChange,
        status: Status,
        was_resent: bool,
    ) -> Result<Option<Entry>> {
        self.names.forget(directory, name);
        let refusal = convert::error(status);
        if !change.is_doubtful(status, was_resent) {
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
