//! What comes of a call, and how it reaches its caller.

use super::error::CallError;
use super::outgoing::Outgoing;
use super::shared::Shared;
use crate::xdr::Decoder;
use std::fmt;
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// What comes of a call.
pub type Outcome<'a> = Result<Reply<'a>, CallError>;

/// What [`Client::call`](super::Client::call) returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The results.
    pub value: T,
    /// The call was sent more than once: see [`Reply::resent`].
    pub resent: bool,
}

pub(super) type Completion = Box<dyn FnOnce(Outcome<'_>) + Send>;

/// The results of a call that was carried out.
pub struct Reply<'a> {
    results: &'a [u8],
    data_bytes: usize,
    resent: bool,
    origin: &'a Origin,
}

impl<'a> Reply<'a> {
    /// The results. When data went to the sink, only what is before it, its length included.
    #[must_use]
    pub const fn results(&self) -> &'a [u8] {
        self.results
    }

    /// Stands before the results.
    #[must_use]
    pub const fn decoder(&self) -> Decoder<'a> {
        Decoder::new(self.results)
    }

    /// Bytes of data in the sink. What is behind them in its memory is undefined.
    #[must_use]
    pub const fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Whether the call was sent more than once. The server may have carried it out more than
    /// once too: "exists" or "not found" may be the doing of the first attempt.
    #[must_use]
    pub const fn resent(&self) -> bool {
        self.resent
    }

    pub(super) fn keep(&self) -> Kept {
        Kept {
            results: self.results.to_vec(),
            resent: self.resent,
            origin: self.origin.clone(),
        }
    }

    /// Says that the results make no sense: counts it, reports it, gives the connection up.
    /// Other calls on it are sent again over the next one.
    pub fn garbage(&self, reason: impl fmt::Display) -> CallError {
        self.origin.garbage(reason.to_string())
    }
}

/// A reply that outlives its record.
pub(super) struct Kept {
    pub(super) results: Vec<u8>,
    pub(super) resent: bool,
    pub(super) origin: Origin,
}

/// The connection that a reply came from.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: Arc<TcpStream>,
}

impl Origin {
    pub(super) fn garbage(&self, reason: String) -> CallError {
        self.shared.report_garbage(&reason);
        // It may be gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
        CallError::Garbage { reason }
    }
}

/// How a call ended, apart from the connection it ended on.
pub(super) enum Finished {
    Reply { results: Vec<u8>, data_bytes: usize },
    Failed(CallError),
}

/// A call as it goes over the wire.
pub(super) struct Call {
    pub(super) xid: u32,
    pub(super) outgoing: Outgoing,
}

/// A call without an end.
pub(super) struct Entry {
    pub(super) call: Arc<Call>,
    pub(super) completion: Completion,
    pub(super) submitted: Instant,
    /// Its position in the order of submission.
    pub(super) sequence: u64,
    /// When it was sent on the connection there is now.
    pub(super) sent: Option<Instant>,
    /// When it was sent last.
    pub(super) sent_last: Option<Instant>,
    pub(super) resent: bool,
    /// Attempts that waited in vain.
    pub(super) timeouts: u32,
    /// Connections that turned to garbage with it in flight.
    pub(super) garbage: u32,
    pub(super) writing: bool,
    pub(super) receiving: bool,
    pub(super) finished: Option<Finished>,
}

impl Entry {
    pub(super) const fn is_held(&self) -> bool {
        self.writing || self.receiving
    }

    /// Completes the call with a reply, now or when the injected delay is over.
    pub(super) fn reply(self, origin: &Origin, results: &[u8], data_bytes: usize) {
        let Some((delay, timer)) = &origin.shared.delay else {
            return self.reply_now(origin, results, data_bytes);
        };
        let due = self.sent_last.unwrap_or(self.submitted) + *delay;
        if due <= Instant::now() {
            return self.reply_now(origin, results, data_bytes);
        }
        let (results, origin_kept) = (results.to_vec(), origin.clone());
        let reply = move || self.reply_now(&origin_kept, &results, data_bytes);
        timer.handle().at(Some(due), reply);
    }

    fn reply_now(self, origin: &Origin, results: &[u8], data_bytes: usize) {
        let after = self.submitted.elapsed();
        let procedure = self.call.outgoing.procedure();
        origin.shared.counted.answered(procedure, after);
        let reply = Reply {
            results,
            data_bytes,
            resent: self.resent,
            origin,
        };
        origin.shared.leave();
        complete(self.completion, Ok(reply));
    }

    /// Completes the call without a reply.
    pub(super) fn fail(self, shared: &Shared, error: CallError) {
        shared.leave();
        complete(self.completion, Err(error));
    }

    pub(super) fn finish(self, origin: &Origin, finished: Finished) {
        match finished {
            Finished::Reply {
                results,
                data_bytes,
            } => self.reply(origin, &results, data_bytes),
            Finished::Failed(error) => self.fail(&origin.shared, error),
        }
    }
}

/// A completion that panics must not take the connection with it.
pub(super) fn complete(completion: Completion, outcome: Outcome<'_>) {
    if catch_unwind(AssertUnwindSafe(|| completion(outcome))).is_err() {
        pagewell_counters::names::CLIENT_COMPLETION_PANICS.add(1);
    }
}
