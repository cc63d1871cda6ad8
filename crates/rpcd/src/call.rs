//! A call in the transport: its arguments, its reply and statistics.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use pagewell_counters::procedures::{Answered, ProgramStatistics};
use pagewell_fs::Credentials;
use pagewell_policy::reply_cache::Place;
use pagewell_sunrpc::rpc::{self, Call, Credential, Refusal};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encoder};

use crate::connection::{Charge, Connection};
use crate::limits::Prepaid;
use crate::reply::{Batch, Mark};
use crate::request_memory::Buffer;
use crate::slow::{Kind, Subjects};

/// A call as it arrived.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its record.
    pub record: &'a [u8],
    /// Its connection.
    pub connection: &'a Arc<Connection>,
    /// Of the last byte.
    pub received_at: Instant,
    /// When a pool thread took it.
    pub began_at: Option<Instant>,
    /// Among the connection's calls.
    pub place: Place,
}

/// The head of a call, which its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    /// The client's choice.
    pub xid: u32,
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
}

impl CallName {
    /// The name of a parsed call.
    pub fn of(call: &Call<'_>) -> Self {
        Self {
            xid: call.xid,
            program: call.program,
            version: call.version,
            procedure: call.procedure,
        }
    }
}

/// Of a call on a reader thread.
pub enum Answer<P> {
    /// The reply is in the batch, or none is due.
    Done,
    /// The pool takes the call.
    Wait(Class, P),
}

/// What a call is for.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Its objects.
    pub subjects: Subjects,
    /// What it does to them.
    pub kind: Kind,
    /// Of the longest reply.
    pub reply_bytes_max: usize,
    /// Of the longest listing: memory of its own until it has left.
    pub listing_bytes_max: usize,
}

/// A call before the pool.
#[derive(Clone, Default)]
pub struct WaitingCall<P> {
    /// What it is for.
    pub class: Class,
    /// The program's own state.
    pub pending: P,
    /// For a stalled object, without a thread.
    pub waits_since: Option<Instant>,
    /// For the reply, under a limit.
    pub prepaid: Option<Arc<Prepaid>>,
}

impl<P> WaitingCall<P> {
    /// The longer of record and reply, and the memory of a listing.
    pub fn charged_bytes(&self, length: usize) -> (usize, usize) {
        let class = &self.class;
        (length.max(class.reply_bytes_max), class.listing_bytes_max)
    }

    /// The length of the reply is known.
    pub fn settle(&self, reply_bytes: usize) {
        if let Some(prepaid) = &self.prepaid {
            prepaid.settle(reply_bytes);
        }
    }
}

/// A call for the pool.
pub struct Job<P> {
    /// To its connection.
    pub charge: Arc<Charge>,
    /// At the start of the buffer.
    pub record: Buffer,
    /// Of the record.
    pub length: usize,
    /// Of the last byte.
    pub received_at: Instant,
    /// From its first look.
    pub state: WaitingCall<P>,
}

/// Answers with a refusal.
pub fn refuse<P>(batch: &mut Batch, xid: u32, refusal: Refusal) -> Answer<P> {
    let mark = batch.begin();
    rpc::encode_refusal(&mut Encoder::new(batch.bytes()), xid, refusal);
    batch.end(mark);
    Answer::Done
}

/// Names the served ones.
pub fn refuse_version<P>(batch: &mut Batch, xid: u32, served: RangeInclusive<u32>) -> Answer<P> {
    let (low, high) = served.into_inner();
    refuse(batch, xid, Refusal::ProgramMismatch { low, high })
}

/// Of such a record the beginning was kept.
pub fn refuse_oversized(beginning: &[u8], batch: &mut Batch) {
    let refused = match rpc::parse_call(beginning) {
        Ok((call, _)) => Some((call.xid, Refusal::GarbageArguments)),
        Err(refused) => refused,
    };
    if let Some((xid, refusal)) = refused {
        refuse::<()>(batch, xid, refusal);
    }
}

/// By default OK and all in the block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Its status is not OK.
    pub failed: bool,
    /// If the handler ended it itself.
    pub sent_bytes: Option<usize>,
}

/// Why a call has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It would block and may not.
    WouldBlock,
    /// It is refused.
    Refused(Refusal),
}

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Unanswered {
    /// `None`: the call waits.
    pub fn refusal(self) -> Option<Refusal> {
        match self {
            Self::WouldBlock => None,
            Self::Refused(refusal) => Some(refusal),
        }
    }
}

/// As the client claims them; `None` is AUTH_NONE.
pub fn credentials_of(call: &Call<'_>) -> Option<Credentials> {
    match &call.credential {
        Credential::None => None,
        Credential::System(system) => Some(Credentials::new(
            system.uid,
            system.gid,
            system.gids.as_slice(),
        )),
    }
}

/// Ignores bytes behind them, which some clients send.
pub fn decode<'a, T: Decode<'a>>(mut arguments: Decoder<'a>) -> Result<T, Refusal> {
    Ok(T::decode(&mut arguments)?)
}

/// With the results of `run`, unless the call waits.
pub fn answer_with<P: Default, const PROCEDURES: usize>(
    call: (&Request<'_>, &Call<'_>),
    statistics: &ProgramStatistics<PROCEDURES>,
    batch: &mut Batch,
    run: impl FnOnce(&mut Batch, Mark) -> Result<Done, Unanswered>,
) -> Answer<P> {
    match count_answer(call, statistics, batch, run) {
        Ok(_) => Answer::Done,
        Err(reason) => unanswered(reason, call.1.xid, batch),
    }
}

/// Unless the call waits.
pub fn unanswered<P: Default>(reason: Unanswered, xid: u32, batch: &mut Batch) -> Answer<P> {
    match reason.refusal() {
        Some(refusal) => refuse(batch, xid, refusal),
        None => Answer::Wait(Class::default(), P::default()),
    }
}

/// Returns what the statistics counted.
#[inline]
pub fn count_answer<const PROCEDURES: usize>(
    (request, head): (&Request<'_>, &Call<'_>),
    statistics: &ProgramStatistics<PROCEDURES>,
    batch: &mut Batch,
    run: impl FnOnce(&mut Batch, Mark) -> Result<Done, Unanswered>,
) -> Result<Answered, Unanswered> {
    let mark = batch.begin();
    rpc::encode_success(&mut Encoder::new(batch.bytes()), head.xid);
    let done = match run(batch, mark) {
        Ok(done) => done,
        Err(reason) => {
            batch.roll_back(mark);
            return Err(reason);
        }
    };
    let answered = Answered {
        failed: done.failed,
        received: request.record.len(),
        sent: done.sent_bytes.unwrap_or_else(|| batch.end(mark)),
        latency: request.received_at.elapsed(),
    };
    statistics.record(head.procedure, &answered);
    batch.tally.count(answered.received, answered.sent);
    Ok(answered)
}
