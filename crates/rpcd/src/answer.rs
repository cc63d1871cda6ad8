//! Arguments, reply and statistics of a call to any program.

use pagewell_fs::Credentials;
use pagewell_sunrpc::rpc::{self, Call, Credential, Refusal};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encoder};

use crate::call::{Answer, Class, Request, refuse};
use crate::reply::batch::{Batch, Mark};
use pagewell_counters::procedures::{Answered, ProgramStatistics};

/// A reply; by default OK and all in the block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Its status is not OK.
    pub failed: bool,
    /// Its length, if the handler ended it itself.
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
    /// The refusal; `None`: the call waits.
    pub fn refusal(self) -> Option<Refusal> {
        match self {
            Self::WouldBlock => None,
            Self::Refused(refusal) => Some(refusal),
        }
    }
}

/// The user of a call as the client claims it; `None` is AUTH_NONE.
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

/// The arguments of a procedure. Some clients send a few bytes behind them; like other servers,
/// this one ignores them.
pub fn decode<'a, T: Decode<'a>>(mut arguments: Decoder<'a>) -> Result<T, Refusal> {
    Ok(T::decode(&mut arguments)?)
}

/// Answers a call with the results of `run`, unless it would block and may not.
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

/// Answers a call without results, unless it waits.
pub fn unanswered<P: Default>(reason: Unanswered, xid: u32, batch: &mut Batch) -> Answer<P> {
    match reason.refusal() {
        Some(refusal) => refuse(batch, xid, refusal),
        None => Answer::Wait(Class::default(), P::default()),
    }
}

/// Appends the results of a call; returns what the statistics counted.
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
