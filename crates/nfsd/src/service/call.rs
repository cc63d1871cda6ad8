//! A call on its way through the server.

use std::sync::Arc;
use std::time::Instant;

use pagewell_sunrpc::rpc::{self, Refusal};
use pagewell_sunrpc::xdr::Encoder;

use crate::connection::Connection;
use crate::duplicate::Key;
use crate::held::slow::{Kind, Subject};
use crate::reply::batch::Batch;
use crate::request_memory::budget::Buffer;

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
