//! What the procedures of NFS share: for whom a call is answered, where its reply goes, and how a
//! failure is said.

use pagewell_export::exports::{Caller, Served, ServedExport, Target};
use pagewell_fs as fs;
use pagewell_rpcd::answer::{Done, Unanswered};
use pagewell_rpcd::reply::batch::{Batch, Mark, Piece};
use pagewell_sunrpc::nfs3::{Failure, Handle, Status};
use pagewell_sunrpc::rpc::Refusal;
use pagewell_sunrpc::xdr::{Encode, Encoder};

use crate::convert;

/// The most bytes of one READ.
pub(super) const READ_BYTES_MAX: u32 = 1 << 20;

/// The most bytes of one WRITE.
pub(super) const WRITE_BYTES_MAX: u32 = 1 << 20;

/// A longer listing is not given, whatever the client allows: it would hold a thread too long.
pub(super) const LISTING_BYTES_MAX: usize = 256 << 10;

/// Why a procedure has no reply of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has no results.
    Unanswered(Unanswered),
    /// It failed before anything is known of an object, and before anything was appended: a reply
    /// without attributes.
    Status(Status),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Unanswered(refusal.into())
    }
}

impl From<fs::Error> for Stop {
    fn from(error: fs::Error) -> Self {
        match error {
            fs::Error::WouldBlock => Self::Unanswered(Unanswered::WouldBlock),
            error => Self::Status(convert::status(&error)),
        }
    }
}

/// Where a reply goes.
pub(super) struct Out<'b> {
    batch: &'b mut Batch,
    mark: Mark,
}

impl<'b> Out<'b> {
    /// Behind the RPC head of a reply that was begun at `mark`.
    pub(super) fn new(batch: &'b mut Batch, mark: Mark) -> Self {
        Self { batch, mark }
    }

    /// The block of replies, to append to.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        self.batch.bytes()
    }

    /// Ends the reply with `count` bytes of data from where they are.
    pub(super) fn end_with(
        &mut self,
        pieces: impl IntoIterator<Item = Piece>,
        count: usize,
    ) -> usize {
        self.batch.end_with(self.mark, pieces, count)
    }
}

/// A call of NFS that is being answered: for whom, and where the reply goes.
pub(super) struct Answering<'a> {
    caller: &'a Caller<'a>,
    out: Out<'a>,
}

impl<'a> Answering<'a> {
    /// For this caller.
    pub(super) fn new(caller: &'a Caller<'a>, out: Out<'a>) -> Self {
        Self { caller, out }
    }

    /// What is served to the caller.
    pub(super) fn served(&self) -> &'a Served {
        self.caller.served
    }

    /// Whether this thread may wait.
    pub(super) fn may_block(&self) -> bool {
        self.caller.may_block
    }

    /// Where the reply goes.
    pub(super) fn out(&mut self) -> &mut Out<'a> {
        &mut self.out
    }

    /// What a name in a directory means to the caller.
    pub(super) fn find(
        &self,
        directory: &Target<'a>,
        name: &[u8],
    ) -> fs::Result<(&'a ServedExport, fs::Entry)> {
        self.caller.find(directory, name)
    }

    /// The object of a handle, if the caller may use its export.
    pub(super) fn target(&self, handle: Handle<'_>) -> Result<Target<'a>, Stop> {
        Ok(self.caller.target(handle.as_bytes())?)
    }

    /// The same, of a call that changes something.
    pub(super) fn target_to_change(&self, handle: Handle<'_>) -> Result<Target<'a>, Stop> {
        Ok(self.caller.target_to_change(handle.as_bytes())?)
    }

    /// Appends what a call of the file system has come to, with `body` if it has failed.
    pub(super) fn answer<S: Encode, F: Encode>(
        &mut self,
        target: &Target<'_>,
        result: fs::Result<S>,
        body: impl FnOnce(&fs::Error) -> F,
    ) -> Result<Done, Stop> {
        match result {
            Ok(results) => {
                let encoder = &mut Encoder::new(self.out.bytes());
                Status::Ok.encode(encoder);
                results.encode(encoder);
                Ok(Done::default())
            }
            Err(error) => self.fail(target, error, body),
        }
    }

    /// Appends the failure of a call of the file system; [`Unanswered::WouldBlock`] when it is to
    /// be made again.
    pub(super) fn fail<F: Encode>(
        &mut self,
        target: &Target<'_>,
        error: fs::Error,
        body: impl FnOnce(&fs::Error) -> F,
    ) -> Result<Done, Stop> {
        if error == fs::Error::WouldBlock {
            return Err(Stop::Unanswered(Unanswered::WouldBlock));
        }
        if let Some(text) = error.trouble() {
            target.report(text);
        }
        let failure = Failure {
            status: convert::status(&error),
            body: body(&error),
        };
        failure.encode(&mut Encoder::new(self.out.bytes()));
        Ok(Done {
            failed: true,
            sent_bytes: None,
        })
    }
}
