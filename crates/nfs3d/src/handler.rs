//! What all procedures share: the caller, the reply, failures.

use pagewell_export::exports::{Caller, Served, ServedExport, Target};
use pagewell_fs as fs;
use pagewell_rpcd::call::{Done, Unanswered};
use pagewell_rpcd::reply::{Batch, Mark, Piece};
use pagewell_sunrpc::nfs3::{Failure, Handle, Status};
use pagewell_sunrpc::rpc::Refusal;
use pagewell_sunrpc::xdr::{Encode, Encoder};

use crate::convert;

/// Most bytes of a READ.
pub(super) const READ_BYTES_MAX: u32 = 1 << 20;

/// Most bytes of a WRITE.
pub(super) const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Most bytes of a listing: a longer one would occupy its thread for too long.
pub(super) const LISTING_BYTES_MAX: usize = 256 << 10;

/// Why a procedure has no reply of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abort {
    /// No results.
    Unanswered(Unanswered),
    /// A failure before any object is known and anything is appended: the reply has no attributes.
    Status(Status),
}

impl From<Refusal> for Abort {
    fn from(refusal: Refusal) -> Self {
        Self::Unanswered(refusal.into())
    }
}

impl From<fs::Error> for Abort {
    fn from(error: fs::Error) -> Self {
        match error {
            fs::Error::WouldBlock => Self::Unanswered(Unanswered::WouldBlock),
            error => Self::Status(convert::status(&error)),
        }
    }
}

/// Handles one NFS call: has its caller and its reply.
pub(super) struct Nfs3Handler<'a> {
    caller: &'a Caller<'a>,
    batch: &'a mut Batch,
    mark: Mark,
}

impl<'a> Nfs3Handler<'a> {
    /// For this caller, whose reply begins at `mark`.
    pub(super) fn new(caller: &'a Caller<'a>, batch: &'a mut Batch, mark: Mark) -> Self {
        Self {
            caller,
            batch,
            mark,
        }
    }

    /// The exports in service.
    pub(super) fn served(&self) -> &'a Served {
        self.caller.served
    }

    /// Whether the thread may block.
    pub(super) fn may_block(&self) -> bool {
        self.caller.may_block
    }

    /// The block of replies, to append to behind the RPC head.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        self.batch.bytes()
    }

    /// Ends the reply with `count` bytes, sent in place.
    pub(super) fn end_with(
        &mut self,
        pieces: impl IntoIterator<Item = Piece>,
        count: usize,
    ) -> usize {
        self.batch.end_with(self.mark, pieces, count)
    }

    /// Looks a name up for the caller.
    pub(super) fn find(
        &self,
        directory: &Target<'a>,
        name: &[u8],
    ) -> fs::Result<(&'a ServedExport, fs::Entry)> {
        self.caller.find(directory, name)
    }

    /// The object of a handle, if the caller may use its export.
    pub(super) fn target(&self, handle: Handle<'_>) -> Result<Target<'a>, Abort> {
        Ok(self.caller.target(handle.as_bytes())?)
    }

    /// The same for a change.
    pub(super) fn target_to_change(&self, handle: Handle<'_>) -> Result<Target<'a>, Abort> {
        Ok(self.caller.target_to_change(handle.as_bytes())?)
    }

    /// Appends a result; `body` completes a failure.
    pub(super) fn answer<S: Encode, F: Encode>(
        &mut self,
        target: &Target<'_>,
        result: fs::Result<S>,
        body: impl FnOnce(&fs::Error) -> F,
    ) -> Result<Done, Abort> {
        match result {
            Ok(results) => {
                let encoder = &mut Encoder::new(self.batch.bytes());
                Status::Ok.encode(encoder);
                results.encode(encoder);
                Ok(Done::default())
            }
            Err(error) => self.fail(target, error, body),
        }
    }

    /// Appends a failure; `WouldBlock` goes back to the caller.
    pub(super) fn fail<F: Encode>(
        &mut self,
        target: &Target<'_>,
        error: fs::Error,
        body: impl FnOnce(&fs::Error) -> F,
    ) -> Result<Done, Abort> {
        if error == fs::Error::WouldBlock {
            return Err(Abort::Unanswered(Unanswered::WouldBlock));
        }
        if let Some(text) = error.trouble() {
            target.report(text);
        }
        let failure = Failure {
            status: convert::status(&error),
            body: body(&error),
        };
        failure.encode(&mut Encoder::new(self.batch.bytes()));
        Ok(Done {
            failed: true,
            sent_bytes: None,
        })
    }
}
