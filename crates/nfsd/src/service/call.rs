//! A call on its way through the service: what came, what kind of call it is, what it is answered
//! with.

use std::sync::Arc;
use std::time::Instant;

use pagewell_sunrpc::nfs3::{self, Procedure, Status};
use pagewell_sunrpc::rpc::{self, Call, Refusal};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder};

use crate::connection::Connection;
use crate::duplicate::Key;
use crate::held::slow::{Kind, Subject};
use crate::reply::batch::{Batch, Mark};
use crate::request_memory::budget::Buffer;
use crate::service::exports::Stop;

/// A call as it arrived.
pub struct Request<'a> {
    /// The record.
    pub record: &'a [u8],
    /// From where.
    pub connection: &'a Arc<Connection>,
    /// When its last byte arrived.
    pub received_at: Instant,
}

impl<'a> Request<'a> {
    /// A call in `record`.
    #[must_use]
    pub fn new(record: &'a [u8], connection: &'a Arc<Connection>, received_at: Instant) -> Self {
        Self {
            record,
            connection,
            received_at,
        }
    }
}

/// A call of NFS whose head was read.
pub(super) struct NfsCall<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) head: &'a Call<'a>,
    pub(super) procedure: Procedure,
    pub(super) arguments: Decoder<'a>,
}

/// What became of a call on a receiving thread.
pub enum Answer {
    /// The reply is in the batch, or none is due.
    Done,
    /// The call may wait: hand it to the pool.
    Wait(WaitingCall),
}

/// What is remembered of a call between its first look and the pool.
#[derive(Clone, Copy, Default)]
pub struct WaitingCall {
    /// What it is known by, if it changes something.
    pub duplicate: Option<Key>,
    /// Bytes that the reply may take.
    pub reply_bytes_max: usize,
    /// The same of a listing, which is memory of its own until it has left.
    pub listing_bytes_max: usize,
    /// What it is for; nothing for MOUNT.
    pub subject: Subject,
    /// What it does.
    pub kind: Kind,
    /// Since when it waits without a thread for storage to let go of its object.
    pub waits_since: Option<Instant>,
}

/// A call for the pool.
pub struct Job {
    /// The connection to answer.
    pub connection: Arc<Connection>,
    /// Holds the call's record.
    pub record: Buffer,
    /// Bytes of the record.
    pub length: usize,
    /// When its last byte arrived.
    pub received_at: Instant,
    /// What the first look at the call has left to remember.
    pub state: WaitingCall,
}

impl Job {
    /// What the connection is charged for: the record, or the reply if that may be larger; and
    /// the memory that the reply may take.
    #[must_use]
    pub fn charged_bytes(&self) -> (usize, usize) {
        let state = &self.state;
        (
            self.length.max(state.reply_bytes_max),
            state.listing_bytes_max,
        )
    }
}

/// Answers a call that is not done.
pub fn refuse(batch: &mut Batch, xid: u32, refusal: Refusal) -> Answer {
    let mark = batch.begin();
    rpc::encode_refusal(&mut Encoder::new(batch.bytes()), xid, refusal);
    batch.end(mark);
    Answer::Done
}

/// A reply that was written; by default one that is OK, in the block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Its status is not OK.
    pub(super) failed: bool,
    /// Its length, when the handler has ended it itself.
    pub(super) sent_bytes: Option<usize>,
}

/// What a procedure does. A change must not be done twice, or long after it was sent (its reply is
/// kept). COMMIT may be: it changes nothing that can be read.
pub(super) fn kind(procedure: Procedure) -> Kind {
    match procedure {
        Procedure::Commit => Kind::Commit,
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Rename
        | Procedure::Link => Kind::Change,
        _ => Kind::Read,
    }
}

/// Appends a whole reply with `status` and all optional attributes absent.
pub(super) fn encode_bare_failure(
    bytes: &mut Vec<u8>,
    xid: u32,
    procedure: Procedure,
    status: Status,
) {
    let mut encoder = Encoder::new(bytes);
    rpc::encode_success(&mut encoder, xid);
    status.encode(&mut encoder);
    // One word says "absent" for each post_op_attr and pre_op_attr of the procedure's resfail.
    let absent = match procedure {
        Procedure::Null | Procedure::Getattr => 0,
        Procedure::Lookup
        | Procedure::Access
        | Procedure::Readlink
        | Procedure::Read
        | Procedure::Readdir
        | Procedure::ReaddirPlus
        | Procedure::Fsstat
        | Procedure::Fsinfo
        | Procedure::Pathconf => 1,
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Commit => 2,
        Procedure::Link => 3,
        Procedure::Rename => 4,
    };
    for _ in 0..absent {
        encoder.bool(false);
    }
}

/// Where a reply goes.
pub(super) struct Out<'b> {
    pub(super) batch: &'b mut Batch,
    pub(super) mark: Mark,
}

impl Out<'_> {
    /// Appends a result.
    pub(super) fn put<S: Encode, F: Encode>(
        &mut self,
        reply: nfs3::Reply<S, F>,
    ) -> Result<Done, Stop> {
        reply.encode(&mut Encoder::new(self.batch.bytes()));
        Ok(Done {
            failed: reply.is_err(),
            sent_bytes: None,
        })
    }
}

/// All arguments of a procedure; bytes left over are garbage too.
pub(super) fn decode<'a, T: Decode<'a>>(mut arguments: Decoder<'a>) -> Result<T, Stop> {
    let decoded = T::decode(&mut arguments).map_err(|_| Stop::Garbage)?;
    arguments.finish().map_err(|_| Stop::Garbage)?;
    Ok(decoded)
}
