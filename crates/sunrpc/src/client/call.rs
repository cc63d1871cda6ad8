//! A call, its outcome, and the state that all calls of a client share. A record is encoded once,
//! however often it is sent:
//!
//! ```text
//!   [marker][xid][CALL][2][program][version][procedure][credential][verifier][arguments][data][0]
//!    \______ filled in by the client ______/ \________ encoded by `Outgoing::new` ____/ borrowed
//! ```
//!
//! **Borrowed memory.** WRITE and READ data travels between socket and caller's memory without a
//! copy. The maker of a [`DataSegments`] or a [`Sink`] promises that the memory stays, without
//! other accesses, *until the completion of the call has been called*. The client does not touch it
//! afterwards:
//!
//! - The sending thread reads a WRITE's data. A completion waits for the end of that, even when a
//!   hostile server replies before.
//! - The receiving thread of the call's connection writes a READ's memory. It also makes the next
//!   connection, so there are never two writers.

use super::options::Options;
use super::statistics::Statistics;
use crate::record::{LAST_FRAGMENT, MARKER_BYTES};
use crate::rpc::{
    AUTHENTICATION_BYTES_MAX, Credential, GROUPS_MAX, MACHINE_NAME_BYTES_MAX, RPC_VERSION, Refusal,
    SystemCredential,
};
use crate::xdr::{self, Decode, Decoder, Encode, Encoder, Words, padded, padding};
use pagewell_base::sync::{Condvar, Mutex};
use pagewell_base::timer::Timer;
use pagewell_counters::names;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::iter;
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Marker, xid, message type, RPC version, program, version.
const PREFIX_BYTES: usize = MARKER_BYTES + 20;
/// READ and WRITE have at most 88 bytes before the data; most others with a usual name fit.
const ARGUMENTS_BYTES: usize = 128;
/// Flavor, length and body.
const CREDENTIAL_BYTES_MAX: usize = 8 + AUTHENTICATION_BYTES_MAX;

const GARBAGE_REPORTED_EVERY: Duration = Duration::from_secs(60);

/// A caller, encoded for all its calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EncodedCredential(Arc<[u8]>);

impl EncodedCredential {
    /// AUTH_SYS with user and group of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self::of_user(uid.as_raw(), gid.as_raw(), &[])
    }

    /// AUTH_SYS with as many groups as fit.
    #[must_use]
    pub fn of_user(uid: u32, gid: u32, groups: &[u32]) -> Self {
        static MACHINE_NAME: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let mut name = rustix::system::uname().nodename().to_bytes().to_vec();
            name.truncate(MACHINE_NAME_BYTES_MAX);
            name
        });
        let credential = Credential::System(SystemCredential {
            stamp: 0,
            machine_name: &MACHINE_NAME,
            uid,
            gid,
            gids: Words::new(groups.get(..GROUPS_MAX).unwrap_or(groups)).unwrap_or_default(),
        });
        let mut bytes = Vec::with_capacity(CREDENTIAL_BYTES_MAX);
        credential.encode(&mut Encoder::new(&mut bytes));
        Self(bytes.into())
    }
}

/// A call to send.
#[derive(Debug)]
pub struct Outgoing {
    /// The client's.
    pub(super) xid: u32,
    pub(super) procedure: u32,
    message: Vec<u8>,
    data: Option<DataSegments>,
    sink: Option<Sink>,
}

impl Outgoing {
    /// A call of `procedure`.
    pub fn new(procedure: u32, credential: &EncodedCredential, arguments: &impl Encode) -> Self {
        let length = PREFIX_BYTES + 12 + credential.0.len();
        let mut message = Vec::with_capacity(length + ARGUMENTS_BYTES);
        message.resize(PREFIX_BYTES, 0);
        let mut encoder = Encoder::new(&mut message);
        encoder.u32(procedure);
        encoder.raw(&credential.0);
        // Verifier: AUTH_NONE.
        encoder.u32(0);
        encoder.u32(0);
        arguments.encode(&mut encoder);
        Self {
            xid: 0,
            procedure,
            message,
            data: None,
            sink: None,
        }
    }

    /// Appends `data` and its padding to the arguments, which must end with its length.
    #[must_use]
    pub fn with_data(mut self, data: DataSegments) -> Self {
        self.data = Some(data);
        self
    }

    /// Directs the data of the reply to `sink`.
    #[must_use]
    pub fn with_sink(mut self, sink: Sink) -> Self {
        self.sink = Some(sink);
        self
    }

    pub(super) const fn sink(&self) -> Option<&Sink> {
        self.sink.as_ref()
    }

    fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.0.length)
    }

    /// Bytes on the wire, the marker included.
    pub(super) fn wire_bytes(&self) -> usize {
        padded(self.message.len().saturating_add(self.data_bytes()))
    }

    /// The call, and the data of its reply.
    pub(super) fn load_bytes(&self) -> usize {
        let expected = self.sink.as_ref().map_or(0, Sink::len);
        self.wire_bytes().saturating_add(expected)
    }

    /// Sets the client's fields. No call exceeds the marker's range.
    pub(super) fn address(&mut self, xid: u32, program: u32, version: u32) {
        self.xid = xid;
        let length = self.wire_bytes() - MARKER_BYTES;
        let marker = u32::try_from(length).unwrap_or(u32::MAX) | LAST_FRAGMENT;
        let words = [marker, xid, 0, RPC_VERSION, program, version];
        for (place, word) in self.message.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// The record from byte `skip` on.
    ///
    /// # Safety
    /// The completion of the call does not run before the last use of the slices.
    pub(super) unsafe fn slices(&self, skip: usize) -> impl Iterator<Item = IoSlice<'_>> {
        let message = self.message.get(skip..).unwrap_or_default();
        let skip = skip.saturating_sub(self.message.len());
        let data = self.data.iter().flat_map(move |data| data.0.behind(skip));
        // SAFETY: by the promise of `DataSegments::new`, valid for reads and without a writer until
        // the completion, which our caller prevents meanwhile.
        let data = data.map(|slice| unsafe {
            std::slice::from_raw_parts(slice.start.as_ptr().cast_const(), slice.length)
        });
        let skip = skip.saturating_sub(self.data_bytes());
        let padding = padding(self.data_bytes()).get(skip..).unwrap_or_default();
        let all = iter::once(message).chain(data).chain(iter::once(padding));
        all.filter(|bytes| !bytes.is_empty()).map(IoSlice::new)
    }
}

/// An address and a length, safe by the promise of [`DataSegments::new`] or [`Sink::new`].
#[derive(Clone, Copy, Debug)]
pub struct BorrowedSlice {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: an address and a length; code that makes a reference of it owes the argument.
unsafe impl Send for BorrowedSlice {}
// SAFETY: as above.
unsafe impl Sync for BorrowedSlice {}

impl BorrowedSlice {
    /// `length` bytes at `start`.
    #[must_use]
    pub const fn new(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length }
    }

    /// The slice without the first `skip` bytes; reduces `skip` by those in it.
    fn behind(self, skip: &mut usize) -> Option<Self> {
        let skipped = self.length.min(*skip);
        *skip -= skipped;
        // SAFETY: `skipped` is at most the length, so the result is in the slice or one behind it.
        let start = unsafe { self.start.add(skipped) };
        let length = self.length - skipped;
        (length > 0).then_some(Self { start, length })
    }
}

#[derive(Debug)]
struct Borrowed {
    slices: Vec<BorrowedSlice>,
    length: usize,
}

impl Borrowed {
    fn new(slices: Vec<BorrowedSlice>, mut skip: usize) -> Self {
        let rest = slices
            .into_iter()
            .filter_map(|slice| slice.behind(&mut skip));
        let slices: Vec<_> = rest.collect();
        let lengths = slices.iter().map(|slice| slice.length);
        let length = lengths.fold(0, usize::saturating_add);
        Self { slices, length }
    }

    fn behind(&self, mut skip: usize) -> impl Iterator<Item = BorrowedSlice> {
        let slices = self.slices.iter();
        slices.filter_map(move |slice| slice.behind(&mut skip))
    }
}

/// Borrowed memory behind the arguments.
#[derive(Debug)]
pub struct DataSegments(Borrowed);

impl DataSegments {
    /// The bytes of `slices`, in order, without the first `skip`.
    ///
    /// # Safety
    /// Until the completion of the call has been called, every slice must be valid for reads and
    /// have no writer.
    #[must_use]
    pub unsafe fn new(slices: Vec<BorrowedSlice>, skip: usize) -> Self {
        Self(Borrowed::new(slices, skip))
    }
}

/// Reads results up to the data; returns its length, if any.
pub type Locate = fn(&mut Decoder<'_>) -> xdr::Result<Option<usize>>;

/// Borrowed memory for the data of a reply.
#[derive(Debug)]
pub struct Sink {
    memory: Borrowed,
    locate: Locate,
}

impl Sink {
    /// Memory for data: `slices` without the first `skip` bytes. `locate` finds the data in a
    /// reply.
    ///
    /// # Safety
    /// Until the completion of the call has been called, every slice must be initialised, valid for
    /// reads and writes, and free of other accesses.
    #[must_use]
    pub unsafe fn new(slices: Vec<BorrowedSlice>, skip: usize, locate: Locate) -> Self {
        let memory = Borrowed::new(slices, skip);
        Self { memory, locate }
    }

    pub(super) const fn len(&self) -> usize {
        self.memory.length
    }

    pub(super) fn locate(&self, results: &mut Decoder<'_>) -> xdr::Result<Option<usize>> {
        (self.locate)(results)
    }

    /// Copies as much of `bytes` as fits behind the first `skip` bytes.
    ///
    /// # Safety
    /// Only on the receiving thread of the call's connection, before the completion is called.
    pub(super) unsafe fn put(&self, skip: usize, mut bytes: &[u8]) {
        for slice in self.memory.behind(skip) {
            let (now, rest) = bytes.split_at(slice.length.min(bytes.len()));
            // SAFETY: by the promise of `new`, valid for writes and free of other accesses until
            // the completion, which our caller prevents. `bytes` is elsewhere, since no other
            // reference to the memory exists.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), slice.start.as_ptr(), now.len()) };
            bytes = rest;
            if bytes.is_empty() {
                break;
            }
        }
    }

    /// At most `length` bytes behind the first `skip`.
    ///
    /// # Safety
    /// As for [`Sink::put`], while the slices are in use, without another use of this sink.
    pub(super) unsafe fn slices_mut(
        &self,
        skip: usize,
        mut length: usize,
    ) -> impl Iterator<Item = IoSliceMut<'_>> {
        self.memory.behind(skip).map_while(move |slice| {
            let now = slice.length.min(length);
            length -= now;
            // SAFETY: by the promise of `new`, initialised, valid for reads and writes, and free of
            // other accesses until the completion, which our caller prevents.
            let bytes = unsafe { std::slice::from_raw_parts_mut(slice.start.as_ptr(), now) };
            (now > 0).then(|| IoSliceMut::new(bytes))
        })
    }
}

/// Why a call has no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// After [`Client::stop`](super::Client::stop).
    #[error("the client was stopped")]
    Stopped,
    /// The server may have executed the call.
    #[error("the server did not answer within {after:?}")]
    TimedOut {
        /// Time since the submission.
        after: Duration,
    },
    /// Not executed.
    #[error("the server refused the call: {0:?}")]
    Refused(Refusal),
    /// Ended its connection.
    #[error("the server answers garbage: {reason}")]
    Garbage {
        /// The defect.
        reason: String,
    },
    /// Not sent.
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
    /// As [`Reply::resent`].
    pub resent: bool,
}

pub(super) type Completion = Box<dyn FnOnce(Outcome<'_>) + Send>;

/// The results of an executed call.
pub struct Reply<'a> {
    /// The results; with a sink, those before the data, with its length.
    pub results: &'a [u8],
    /// Bytes of data in the sink. Its memory behind them is undefined.
    pub data_bytes: usize,
    /// The call was sent, and perhaps executed, more than once: "exists" or "not found" may be the
    /// effect of the first attempt.
    pub resent: bool,
    pub(super) origin: &'a Origin,
}

impl<'a> Reply<'a> {
    /// Decodes the results. Malformed ones are [`Reply::garbage`].
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

    /// Reports malformed results, and gives up the connection.
    pub fn garbage(&self, reason: impl fmt::Display) -> CallError {
        self.origin.garbage(reason.to_string())
    }
}

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

/// Results and bytes of data in the sink, or the error.
pub(super) type Finished<R = Vec<u8>> = Result<(R, usize), CallError>;

pub(super) struct PendingCall {
    pub(super) call: Arc<Outgoing>,
    pub(super) completion: Completion,
    pub(super) submitted: Instant,
    /// Order of submission.
    pub(super) sequence: u64,
    /// On this connection.
    pub(super) sent: Option<Instant>,
    /// On any connection.
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
    /// Delays replies, so that a local server looks remote. Bandwidth, loss and the later arrival
    /// of calls are not imitated.
    pub(super) delay: Option<(Duration, Timer)>,
    pub(super) started: Instant,
    next_xid: AtomicU32,
    /// "not responding" was written.
    silent: AtomicBool,
    garbage_reported: Mutex<Option<Instant>>,
    stopped: Mutex<bool>,
    /// Ends the watcher's sleep.
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
            // Random: a server may remember calls of an earlier run by xid.
            next_xid: AtomicU32::new(first_xid),
            silent: AtomicBool::new(false),
            garbage_reported: Mutex::new(None),
            stopped: Mutex::new(false),
            stopping: Condvar::new(),
            options,
        })
    }

    /// Since the start.
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
