//! A call, its outcome, and the client's shared state.

use super::options::Options;
use super::outgoing::Outgoing;
use super::statistics::Statistics;
use crate::rpc::Refusal;
use crate::xdr::{self, Decode, Decoder};
use pagewell_base::sync::{Condvar, Mutex};
use pagewell_base::timer::Timer;
use pagewell_counters::names;
use std::fmt;
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Between two reports of garbage.
const GARBAGE_REPORTED_EVERY: Duration = Duration::from_secs(60);

/// Why a call has no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The client was stopped.
    #[error("the client was stopped")]
    Stopped,
    /// No reply came in time. The server may have executed the call.
    #[error("the server did not answer within {after:?}")]
    TimedOut {
        /// Time since the submission.
        after: Duration,
    },
    /// The server did not execute the call.
    #[error("the server refused the call: {0:?}")]
    Refused(Refusal),
    /// A malformed reply, which ended its connection.
    #[error("the server answers garbage: {reason}")]
    Garbage {
        /// The defect.
        reason: String,
    },
    /// Too many calls wait; this one was not sent.
    #[error("too many calls wait for the server")]
    QueueFull,
}

/// The outcome of a call.
pub type Outcome<'a> = Result<Reply<'a>, CallError>;

/// The result of [`Client::call`](super::Client::call).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The results.
    pub value: T,
    /// The call was sent more than once: see [`Reply::resent`].
    pub resent: bool,
}

pub(super) type Completion = Box<dyn FnOnce(Outcome<'_>) + Send>;

/// The results of an executed call.
pub struct Reply<'a> {
    /// The results; with a sink, the part before the data, with its length.
    pub results: &'a [u8],
    /// Bytes of data in the sink. Its memory behind them is undefined.
    pub data_bytes: usize,
    /// The call was sent more than once, and may have been executed so: "exists" or "not found" may
    /// be the effect of the first attempt.
    pub resent: bool,
    pub(super) origin: &'a Origin,
}

impl<'a> Reply<'a> {
    /// Decodes the results. Malformed ones are garbage: see [`Reply::garbage`].
    pub fn decode<T: Decode<'a>>(&self) -> Result<T, CallError> {
        self.decode_with(T::decode)
    }

    /// [`Self::decode`] with a function.
    pub fn decode_with<T>(
        &self,
        decode: impl FnOnce(&mut Decoder<'a>) -> xdr::Result<T>,
    ) -> Result<T, CallError> {
        decode(&mut Decoder::new(self.results)).map_err(|error| self.garbage(error))
    }

    /// Counts and reports malformed results, and gives up the connection, whose other calls are
    /// sent again on the next one.
    pub fn garbage(&self, reason: impl fmt::Display) -> CallError {
        self.origin.garbage(reason.to_string())
    }
}

/// The connection of a reply.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) shared: Arc<ClientShared>,
    pub(super) stream: Arc<TcpStream>,
}

impl Origin {
    pub(super) fn garbage(&self, reason: String) -> CallError {
        self.shared.report_garbage(&reason);
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
        CallError::Garbage { reason }
    }
}

/// The end of a call without its connection: results and bytes of data in the sink, or the error.
pub(super) type Finished<R = Vec<u8>> = Result<(R, usize), CallError>;

/// A call without an outcome.
pub(super) struct PendingCall {
    pub(super) call: Arc<Outgoing>,
    pub(super) completion: Completion,
    pub(super) submitted: Instant,
    /// Position in the order of submission.
    pub(super) sequence: u64,
    /// Time of sending on this connection.
    pub(super) sent: Option<Instant>,
    /// Time of the last sending.
    pub(super) sent_last: Option<Instant>,
    pub(super) resent: bool,
    /// Attempts without a reply.
    pub(super) timeouts: u32,
    /// Connections that brought garbage while it was in flight.
    pub(super) garbage: u32,
    pub(super) writing: bool,
    pub(super) receiving: bool,
    pub(super) finished: Option<Finished>,
}

impl PendingCall {
    pub(super) const fn is_held(&self) -> bool {
        self.writing || self.receiving
    }

    /// Completes the call with a reply, after the injected delay.
    fn reply(self, origin: &Origin, results: &[u8], data_bytes: usize) {
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
        let procedure = self.call.procedure;
        origin.shared.counted.answered(procedure, after);
        let reply = Reply {
            results,
            data_bytes,
            resent: self.resent,
            origin,
        };
        origin.shared.counted.left();
        complete(self.completion, Ok(reply));
    }

    pub(super) fn fail(self, shared: &ClientShared, error: CallError) {
        shared.counted.left();
        complete(self.completion, Err(error));
    }

    pub(super) fn finish<R: AsRef<[u8]>>(self, origin: &Origin, finished: Finished<R>) {
        match finished {
            Ok((results, data_bytes)) => self.reply(origin, results.as_ref(), data_bytes),
            Err(error) => self.fail(&origin.shared, error),
        }
    }
}

/// A panic in a completion must not end the connection.
pub(super) fn complete(completion: Completion, outcome: Outcome<'_>) {
    if catch_unwind(AssertUnwindSafe(|| completion(outcome))).is_err() {
        names::PANICS.add(1);
    }
}

pub(super) struct ClientShared {
    pub(super) options: Options,
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) counted: Statistics,
    /// Delays replies, which makes a local server look remote: calls in flight overlap, as with a
    /// high latency. It imitates neither bandwidth nor loss, nor the later arrival of a call.
    pub(super) delay: Option<(Duration, Timer)>,
    pub(super) started: Instant,
    next_xid: AtomicU32,
    /// The message "not responding" was written.
    silent: AtomicBool,
    garbage_reported: Mutex<Option<Instant>>,
    stopped: Mutex<bool>,
    /// Ends the sleep of the watcher.
    stopping: Condvar,
}

impl ClientShared {
    pub(super) fn new(program: u32, version: u32, options: Options) -> std::io::Result<Self> {
        let panicked = || names::PANICS.add(1);
        let timer = |_| Timer::new("rpc-delay", Duration::ZERO, panicked);
        let timer = options.delay.map(timer).transpose()?;
        let delay = options.delay.zip(timer);
        let first_xid = super::dial::scatter();
        Ok(Self {
            program,
            version,
            counted: Statistics::new(program),
            delay,
            started: Instant::now(),
            // Random: a server remembers calls by xid, and must not confuse them with those of an
            // earlier run.
            next_xid: AtomicU32::new(first_xid),
            silent: AtomicBool::new(false),
            garbage_reported: Mutex::new(None),
            stopped: Mutex::new(false),
            stopping: Condvar::new(),
            options,
        })
    }

    /// Time since the start.
    pub(super) fn milliseconds(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn next_xid(&self) -> u32 {
        self.next_xid.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_stopped(&self) -> bool {
        *self.stopped.lock()
    }

    pub(super) fn stop(&self) {
        *self.stopped.lock() = true;
        self.stopping.notify_all();
        if let Some((_, timer)) = &self.delay {
            timer.handle().stop();
        }
    }

    /// Sleeps; true after a stop.
    pub(super) fn sleep(&self, duration: Duration) -> bool {
        let stopped = self.stopped.lock();
        if *stopped {
            return true;
        }
        *self.stopping.wait_timeout(stopped, duration)
    }

    /// Reports silence, once until the next reply.
    pub(super) fn report_silence(&self) {
        if !self.silent.swap(true, Ordering::Relaxed) {
            let server = &self.options.server;
            let text = format!("server {server} not responding, still trying");
            self.options.log.write(&text);
        }
    }

    pub(super) fn heard(&self) {
        if self.silent.load(Ordering::Relaxed) && self.silent.swap(false, Ordering::Relaxed) {
            let text = format!("server {} OK", self.options.server);
            self.options.log.write(&text);
        }
    }

    pub(super) fn report_garbage(&self, reason: &str) {
        self.counted.invalid_replies.add(1);
        let mut reported = self.garbage_reported.lock();
        if reported.is_some_and(|reported| reported.elapsed() < GARBAGE_REPORTED_EVERY) {
            return;
        }
        *reported = Some(Instant::now());
        drop(reported);
        let server = &self.options.server;
        let text = format!("server {server} answers garbage ({reason}); connection given up");
        self.options.log.write(&text);
    }
}
