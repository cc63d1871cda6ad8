//! The files of a mount as objects of one store, which the page cache reads and writes.
//!
//! ```text
//!   request for bytes of a file ──> pieces of rsize, wsize ──> READ, WRITE
//!   flush of a file ─────────────> what the server has taken as unstable ──> COMMIT
//! ```
//!
//! **Reading.** Bytes behind the server's end of the file are zeros without a call. Data goes
//! straight to the pages.
//!
//! **Writing.** Unstable, unless the request is durable or the mount is synchronous. The verifier
//! of the answer is kept with the file. A flush commits the file; another verifier than before
//! means that the server has forgotten data. The flush then ends with [`DeviceError::Replay`], and
//! the cache, which keeps pages until a good flush, writes them again. Of other files the loss
//! shows at their commit.
//!
//! **Errors.** A write that the server refuses for good, kept dirty, would stop all other files of
//! the mount in the end, so it counts as done; the error is kept for the user that wrote
//! (`writers.rs`), and the file leaves the cache at the next write, commit or close, so that no
//! program reads what the server does not have.
//!
//! **Patience.** What the server is not ready for is sent again after a pause, by one thread.

mod kept;
mod write;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pagewell_base::timer::Timer;
use pagewell_counters::names::PANICS;
use pagewell_device::{Error as DeviceError, Geometry, Object, Operation, Request, Store};
use pagewell_fs::Error;
use pagewell_sunrpc::client::{
    BorrowedSlice, CallError, EncodedCredential, Outcome, Outgoing, Sink,
};
use pagewell_sunrpc::nfs3::{
    DecodeReply, Procedure, ReadArguments, ReadHead, ReadHeadReply, Status, read_data_length,
};

use super::attributes::Moment;
use super::calls::{Calls, Patience};
use super::convert;
use super::node::{Node, User};
use super::objects::Files;

use kept::Keeping;
pub(super) use kept::MountTier;

/// At a time.
const QUEUE_DEPTH: u32 = 64;

pub(super) struct RemoteStore(Arc<Remote>);

pub(super) struct RemoteFile {
    remote: Weak<Remote>,
    /// Alive while it has data in the cache or on its way there, and the mount has it.
    node: Weak<Node>,
}

/// What requests on their way share.
pub(super) struct Remote {
    calls: Arc<Calls>,
    files: Arc<Files>,
    /// What waits for the end of a pause.
    deferred: OnceLock<Timer>,
    read_bytes: u32,
    write_bytes: u32,
    /// For data without a user.
    nobody: EncodedCredential,
    /// The server has no COMMIT.
    lacks_commit: AtomicBool,
    tier: Option<MountTier>,
}

impl RemoteStore {
    pub(super) fn new(remote: &Arc<Remote>) -> Self {
        Self(remote.clone())
    }
}

impl Store for RemoteStore {
    fn name(&self) -> &str {
        self.0.calls.name()
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            // Blocks would let two clients overwrite each other's bytes.
            logical_block_bytes: 1,
            memory_alignment_bytes: 1,
            transfer_bytes_max: self.0.read_bytes.max(self.0.write_bytes),
            rotational: false,
            queue_depth: QUEUE_DEPTH,
        }
    }

    fn keeps_until_flush(&self) -> bool {
        true
    }
}

impl RemoteFile {
    pub(super) fn new(remote: &Arc<Remote>, node: &Arc<Node>) -> Self {
        let (remote, node) = (Arc::downgrade(remote), Arc::downgrade(node));
        Self { remote, node }
    }
}

impl Object for RemoteFile {
    fn submit(&self, request: Request) {
        let (Some(remote), Some(node)) = (self.remote.upgrade(), self.node.upgrade()) else {
            return;
        };
        if remote.calls.have_ended() {
            return;
        }
        match request.operation() {
            Operation::Read => remote.read(&node, request),
            Operation::Write => remote.write(&node, request),
            Operation::Flush => remote.flush(&node, request),
        }
    }
}

/// Of at most one READ's bytes.
struct Reading {
    node: Arc<Node>,
    request: Request,
    /// Bytes that have come.
    done: usize,
    /// Users that were refused: see [`super::node::State::reads_for`].
    refusals: usize,
    patience: Patience,
    /// The kept read that it is a piece of.
    keeping: Option<Arc<Keeping>>,
}

impl Remote {
    pub(super) fn new(
        calls: Arc<Calls>,
        files: Arc<Files>,
        (read_bytes, write_bytes): (u32, u32),
        tier: Option<MountTier>,
    ) -> Self {
        Self {
            nobody: calls.options().own_credential(),
            calls,
            files,
            deferred: OnceLock::new(),
            read_bytes,
            write_bytes,
            lacks_commit: AtomicBool::new(false),
            tier,
        }
    }

    /// Of one READ and of one WRITE.
    pub(super) fn transfer_bytes(&self) -> (u32, u32) {
        (self.read_bytes, self.write_bytes)
    }

    /// Ends all calls.
    pub(super) fn end(&self) {
        self.calls.end();
        if let Some(timer) = self.deferred.get() {
            timer.handle().stop();
        }
    }

    /// Does `work` after `pause`; drops it, which ends the request, without a thread.
    fn after(self: &Arc<Self>, pause: Duration, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let timer = self.deferred.get().or_else(|| {
            let panicked = || PANICS.add(1);
            let new = Timer::new("pagewell-deferred", Duration::ZERO, panicked).ok()?;
            Some(self.deferred.get_or_init(|| new))
        });
        if let Some(timer) = timer {
            let this = self.clone();
            let due = Instant::now() + pause;
            timer.handle().at(Some(due), move || work(&this));
        }
    }

    /// `end` gets the time of sending and the outcome.
    fn send(
        self: &Arc<Self>,
        call: Outgoing,
        end: impl FnOnce(&Arc<Self>, Moment, Outcome<'_>) + Send + 'static,
    ) {
        let (this, sent) = (self.clone(), self.calls.now());
        let end = move |outcome: Outcome<'_>| end(&this, sent, outcome);
        self.calls.client().submit(call, end);
    }

    /// Of a user, or of none.
    fn credential(&self, user: Option<&Arc<User>>) -> EncodedCredential {
        user.map_or(&self.nobody, |user| &user.encoded).clone()
    }

    /// Keeps a lasting error of a write with the file.
    fn write_failed(&self, node: &Arc<Node>, error: Error) {
        if node.lock().write_failed(error) {
            self.files.note_failed(node);
        }
    }

    fn failed(&self, offset: u64, error: &Error) -> DeviceError {
        DeviceError::failed(self.calls.name(), offset, error.to_errno())
    }

    /// The device's error of a call without an answer.
    fn unanswered(&self, offset: u64, error: &CallError) -> DeviceError {
        match error {
            CallError::Stopped => DeviceError::Abandoned { offset },
            CallError::TimedOut { after } => DeviceError::TimedOut {
                device: self.calls.name().to_owned(),
                offset,
                seconds: after.as_secs(),
            },
            other => self.failed(offset, &self.calls.failure(other)),
        }
    }

    fn read(self: &Arc<Self>, node: &Arc<Node>, request: Request) {
        debug_assert_eq!(request.operation(), Operation::Read);
        match self.tier.as_ref().and_then(|tier| tier.version(node)) {
            Some(version) => self.read_through(node, &version, request),
            None => self.read_from_server(node, request, None),
        }
    }

    fn read_from_server(
        self: &Arc<Self>,
        node: &Arc<Node>,
        request: Request,
        keeping: Option<Arc<Keeping>>,
    ) {
        let (offset, length) = (request.offset(), request.len());
        let file_bytes = node.lock().length().at_server();
        if let Some(keeping) = keeping.as_ref().filter(|one| !one.has_length(file_bytes)) {
            keeping.differs();
        }
        let known = file_bytes.saturating_sub(offset);
        let inside = usize::try_from(known).unwrap_or(usize::MAX).min(length);
        let mut lengths = pieces(inside, self.read_bytes);
        if inside < length {
            lengths.push(length - inside);
        }
        let outside = offset + inside as u64;
        for request in split(request, &lengths) {
            if request.offset() >= outside {
                fill_with_zeros(request, 0);
                continue;
            }
            self.send_read(Reading {
                node: node.clone(),
                request,
                done: 0,
                refusals: 0,
                patience: self.calls.patience(),
                keeping: keeping.clone(),
            });
        }
    }

    fn send_read(self: &Arc<Self>, reading: Reading) {
        let rest = reading.request.len() - reading.done;
        let arguments = ReadArguments {
            file: convert::handle(reading.node.id()),
            offset: reading.request.offset() + reading.done as u64,
            count: u32::try_from(rest).unwrap_or(u32::MAX),
        };
        let credential = self.credential(reading.node.lock().reads_for(reading.refusals));
        let memory = memory_of(&reading.request);
        // SAFETY: the memory is the request's, which the completion keeps: valid, initialised and
        // not accessed by others until the request is completed, by the completion or by what it
        // sends next.
        let sink = unsafe { Sink::new(memory, reading.done, read_data_length) };
        let call = Outgoing::new(Procedure::Read.number(), &credential, &arguments).with_sink(sink);
        self.send(call, |this, sent, outcome| {
            this.end_read(reading, sent, outcome)
        });
    }

    fn end_read(self: &Arc<Self>, mut reading: Reading, sent: Moment, outcome: Outcome<'_>) {
        let offset = reading.request.offset();
        let answer = outcome.and_then(|reply| {
            let answer = reply.decode_with(ReadHeadReply::decode_reply)?;
            match &answer {
                Ok(head) if head.count as usize != reply.data_bytes => {
                    Err(reply.garbage("READ counts other bytes than it brings"))
                }
                _ => Ok(answer),
            }
        });
        match answer {
            Ok(Ok(head)) => {
                // The next one that asks for the object learns that it is another now.
                let _ = self
                    .files
                    .look(&reading.node, head.file_attributes.as_ref(), sent);
                if let Some(keeping) = &reading.keeping {
                    keeping.answered(&reading.node, head.file_attributes.as_ref());
                }
                let rest = reading.request.len() - reading.done;
                reading.done += rest.min(head.count as usize);
                let is_short = head.end_of_file && reading.done < reading.request.len();
                if is_short && head.file_attributes.is_none() {
                    reading.node.lock().met_unexpected_end();
                }
                self.go_on_reading(reading, &head);
            }
            Ok(Err(failure)) if failure.status == Status::Jukebox => self.read_later(reading),
            Ok(Err(failure))
                if failure.status == Status::AccessDenied
                    && reading.node.lock().may_read_for_a_write(reading.refusals) =>
            {
                reading.refusals += 1;
                self.send_read(reading);
            }
            Ok(Err(failure)) => {
                let _ = self.files.look(&reading.node, failure.body.as_ref(), sent);
                reading.node.lock().doubt();
                let error = self.failed(offset, &convert::error_of_object(failure.status));
                reading.request.fail(reading.done, error);
            }
            Err(CallError::QueueFull) => self.read_later(reading),
            Err(error) => {
                let error = self.unanswered(offset, &error);
                reading.request.fail(reading.done, error);
            }
        }
    }

    fn go_on_reading(self: &Arc<Self>, reading: Reading, head: &ReadHead) {
        if reading.done == reading.request.len() {
            reading.request.succeed();
        } else if head.end_of_file || is_past_end(&reading, head) {
            // Another client made it shorter: nothing is behind the end.
            if let Some(keeping) = &reading.keeping {
                keeping.differs();
            }
            fill_with_zeros(reading.request, reading.done);
        } else if head.count > 0 {
            self.send_read(reading);
        } else {
            let error = Error::Io("READ brings nothing".to_owned());
            let error = self.failed(reading.request.offset(), &error);
            reading.request.fail(reading.done, error);
        }
    }

    fn read_later(self: &Arc<Self>, mut reading: Reading) {
        let Some(pause) = reading.patience.next() else {
            let error = self.failed(reading.request.offset(), &Error::TryLater);
            return reading.request.fail(reading.done, error);
        };
        self.after(pause, |this| this.send_read(reading));
    }
}

/// Whether a READ brought nothing because there is nothing, which some servers report by the length
/// of the file alone.
fn is_past_end(reading: &Reading, head: &ReadHead) -> bool {
    let position = reading.request.offset() + reading.done as u64;
    let size = head.file_attributes.map(|attributes| attributes.size);
    head.count == 0 && size.is_some_and(|size| size <= position)
}

/// Behind its first `done` bytes.
fn fill_with_zeros(mut request: Request, done: usize) {
    let mut skip = done;
    for slice in request.slices_mut() {
        let skipped = skip.min(slice.len());
        skip -= skipped;
        slice[skipped..].fill(0);
    }
    request.succeed();
}

fn memory_of(request: &Request) -> Vec<BorrowedSlice> {
    let segments = request.segments().iter();
    let slices = segments.map(|segment| BorrowedSlice::new(segment.start(), segment.len()));
    slices.collect()
}

/// Cuts `length` bytes into pieces of at most `most`. Aligned ones would make nearly each request
/// of `most` bytes two calls, as windows of read-ahead end anywhere.
fn pieces(length: usize, most: u32) -> Vec<usize> {
    let most = most as usize;
    let mut lengths = vec![most; length / most];
    lengths.extend(Some(length % most).filter(|rest| *rest > 0));
    lengths
}

fn split(request: Request, lengths: &[usize]) -> Vec<Request> {
    if lengths.len() <= 1 {
        return vec![request];
    }
    request.split(lengths)
}

#[cfg(test)]
mod tests;
