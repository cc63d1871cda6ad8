//! A call on its way through the transport: what came, what is known of it when it waits, and the
//! answers that need no program.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use pagewell_policy::reply_cache::Place;
use pagewell_sunrpc::rpc::{self, Call, Refusal};
use pagewell_sunrpc::xdr::Encoder;

use crate::connection::{Charge, Connection};
use crate::limits::Prepaid;
use crate::reply::batch::Batch;
use crate::request_memory::budget::Buffer;
use crate::slow::{Kind, Subjects};

/// A call as it arrived.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The record.
    pub record: &'a [u8],
    /// From where.
    pub connection: &'a Arc<Connection>,
    /// When its last byte arrived.
    pub received_at: Instant,
    /// When a thread of the pool took it.
    pub began_at: Option<Instant>,
    /// Its place among the calls of the connection.
    pub place: Place,
}

/// Which call it is: what its answer begins with, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    /// Chosen by the client.
    pub xid: u32,
    /// The program's number.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure's number.
    pub procedure: u32,
}

impl CallName {
    /// That of a call whose head was read.
    pub fn of(call: &Call<'_>) -> Self {
        Self {
            xid: call.xid,
            program: call.program,
            version: call.version,
            procedure: call.procedure,
        }
    }
}

/// What became of a call on a receiving thread.
pub enum Answer<P> {
    /// The reply is in the batch, or none is due.
    Done,
    /// The call may wait: hand it to the pool.
    Wait(Class, P),
}

/// What a call is for, and what it may take.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// The objects.
    pub subjects: Subjects,
    /// What is done to them.
    pub kind: Kind,
    /// Bytes that the reply may take.
    pub reply_bytes_max: usize,
    /// The same of a listing, which is memory of its own until it has left.
    pub listing_bytes_max: usize,
}

/// What is remembered of a call between its first look and the pool.
#[derive(Clone, Default)]
pub struct WaitingCall<P> {
    /// What it is for.
    pub class: Class,
    /// What its program remembers.
    pub pending: P,
    /// Since when it waits without a thread for storage to let go of its object.
    pub waits_since: Option<Instant>,
    /// What was paid for its reply, where something is limited.
    pub prepaid: Option<Prepaid>,
}

impl<P> WaitingCall<P> {
    /// What the connection is charged for: a record of `length`, or the reply if that may be
    /// larger; and the memory that the reply may take.
    pub fn charged_bytes(&self, length: usize) -> (usize, usize) {
        let class = &self.class;
        (length.max(class.reply_bytes_max), class.listing_bytes_max)
    }
}

/// A call for the pool.
pub struct Job<P> {
    /// What the connection is charged that is to be answered.
    pub charge: Arc<Charge>,
    /// Holds the call's record.
    pub record: Buffer,
    /// Bytes of the record.
    pub length: usize,
    /// When its last byte arrived.
    pub received_at: Instant,
    /// What the first look at the call has left to remember.
    pub state: WaitingCall<P>,
}

/// Answers a call that is not done.
pub fn refuse<P>(batch: &mut Batch, xid: u32, refusal: Refusal) -> Answer<P> {
    let mark = batch.begin();
    rpc::encode_refusal(&mut Encoder::new(batch.bytes()), xid, refusal);
    batch.end(mark);
    Answer::Done
}

/// Refuses a version of a program that has only these.
pub fn refuse_version<P>(batch: &mut Batch, xid: u32, served: RangeInclusive<u32>) -> Answer<P> {
    let (low, high) = served.into_inner();
    refuse(batch, xid, Refusal::ProgramMismatch { low, high })
}

/// Refuses a record of which only the beginning was kept, because it is too long.
pub fn refuse_oversized(beginning: &[u8], batch: &mut Batch) {
    let refused = match rpc::parse_call(beginning) {
        Ok((call, _)) => Some((call.xid, Refusal::GarbageArguments)),
        Err(refused) => refused,
    };
    if let Some((xid, refusal)) = refused {
        refuse::<()>(batch, xid, refusal);
    }
}
