//! All files of a mount as one device, which the page cache reads and writes.
//!
//! ```text
//!   request at an address ──> region ──> file, offset ──> pieces of rsize, wsize ──> READ, WRITE
//!   flush ──────────────────────────────> every file with unstable writes ─────────> COMMIT
//! ```
//!
//! **Where.** A request that is not of one file is an error and never zeros: read-ahead, merging
//! and this device each see to it that there is none.
//!
//! **Reading.** Bytes behind the end of the file as the server knows it are zeros and cost nothing:
//! a file that is laid out by appending is never read. Data goes straight to the pages.
//!
//! **Writing.** Unstable, unless the request is durable or the mount is synchronous. The verifier
//! of the answer is kept with the file. A flush commits each such file; when a verifier is another
//! than before, the server has forgotten what it was given. The flush ends with
//! [`DeviceError::Replay`], and the cache, which keeps pages until a flush was good, writes them
//! again. Nobody is told, and nothing is lost.
//!
//! **Errors.** A write that the server refuses for good will not be taken next time either. Keeping
//! it dirty would stop all other files of the mount in the end, so it counts as done; the error is
//! kept with the file for the user that wrote (`writers.rs`), and the file is thrown out of the
//! cache when one writes, commits or closes, so that nobody reads what the server does not have.
//!
//! **Patience.** What the server is not ready for is sent again after a pause, by one thread, which
//! begins with the first such call. At the end of the mount all of it ends at once.
//!
//! **Known weakness.** A flush commits all files of the mount with unstable writes, not only the
//! one that a thread waits for.

mod commit;
mod read;
mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pagewell_base::timer::Timer;
use pagewell_counters::names::CLIENT_COMPLETION_PANICS;
use pagewell_device::{Device, Error as DeviceError, Geometry, Operation, Request, Segment};
use pagewell_fs::{Change, Credentials, Error, Result};
use pagewell_sunrpc::client::{BorrowedSlice, CallError, EncodedCredential};
use pagewell_sunrpc::nfs3::{FileAttributes, WccData};

use super::attributes::{Moment, Stamp};
use super::calls::Calls;
use super::convert;
use super::files::Files;
use super::node::Node;
use super::regions::SPACE_BYTES;

/// Requests worked on at a time.
const QUEUE_DEPTH: u32 = 64;

/// See the module's text.
pub(super) struct RemoteDevice {
    pub(super) remote: Arc<Remote>,
}

/// What requests on their way share.
pub(super) struct Remote {
    pub(super) calls: Arc<Calls>,
    pub(super) files: Arc<Files>,
    /// What waits until a pause is over.
    pub(super) deferred: OnceLock<Timer>,
    pub(super) read_bytes: u32,
    pub(super) write_bytes: u32,
    /// Every write is durable.
    pub(super) synchronous: bool,
    /// For data that nobody in particular asked for.
    pub(super) nobody: EncodedCredential,
    /// Writes that the server refused for good.
    pub(super) losses: AtomicU64,
}

impl Device for RemoteDevice {
    fn name(&self) -> &str {
        self.remote.calls.name()
    }

    fn length_bytes(&self) -> u64 {
        SPACE_BYTES
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            // Two clients that write different bytes of one block must not overwrite each other's.
            logical_block_bytes: 1,
            memory_alignment_bytes: 1,
            transfer_bytes_max: self.remote.read_bytes.max(self.remote.write_bytes),
            rotational: false,
            queue_depth: QUEUE_DEPTH,
        }
    }

    fn submit(&self, request: Request) {
        if self.remote.calls.have_ended() {
            return;
        }
        match request.operation() {
            Operation::Read => self.remote.read(request),
            Operation::Write => self.remote.write(request),
            Operation::Flush => self.remote.flush(request),
        }
    }

    fn keeps_until_flush(&self) -> bool {
        true
    }
}

impl Remote {
    /// Every call ends, and none is made any more.
    pub(super) fn end(&self) {
        self.calls.end();
        if let Some(timer) = self.deferred.get() {
            timer.handle().stop();
        }
    }

    /// Does `work` after `pause`; drops it, which tells the thread that waits for it, when no
    /// thread can be had.
    fn after(&self, pause: Duration, work: impl FnOnce() + Send + 'static) {
        let timer = self.deferred.get().or_else(|| {
            let panicked = || CLIENT_COMPLETION_PANICS.add(1);
            let new = Timer::new("pagewell-deferred", Duration::ZERO, panicked).ok()?;
            Some(self.deferred.get_or_init(|| new))
        });
        if let Some(timer) = timer {
            timer.handle().at(Some(Instant::now() + pause), work);
        }
    }

    /// Takes attributes that came with an answer to a call that changed nothing. An object that is
    /// another now is forgotten.
    pub(super) fn look(
        &self,
        node: &Node,
        attributes: Option<&FileAttributes>,
        sent: Moment,
    ) -> Result<()> {
        let Some(attributes) = attributes else {
            return Ok(());
        };
        let looked = node.look(&self.calls.reported(attributes, sent));
        looked.inspect_err(|_| self.files.forget(node))
    }

    /// Takes what an answer says of an object that the call has changed. Besides the stamp of then.
    pub(super) fn end_change(&self, node: &Node, wcc: &WccData, sent: Moment) -> (Change, Stamp) {
        let reported = wcc.after.map(|after| self.calls.reported(&after, sent));
        let before = wcc.before.map(convert::wcc);
        let (after, stamp) = node.end_change(before, reported.as_ref(), self.calls.now());
        let after = after.inspect_err(|_| self.files.forget(node));
        let after = after.unwrap_or_default();
        (Change { before, after }, stamp)
    }

    /// An error of a write that will not go away: kept with the file.
    fn write_failed(&self, node: &Arc<Node>, error: Error) {
        let mut state = node.lock();
        if state.is_removed {
            return;
        }
        self.losses.fetch_add(1, Ordering::AcqRel);
        let writer = state.writer.as_ref();
        let user = writer.map_or_else(Credentials::root, |writer| writer.credentials);
        state.failures.note(user, error);
        state.doubt();
        drop(state);
        self.files.note_failed(node);
    }

    fn failed(&self, address: u64, error: &Error) -> DeviceError {
        DeviceError::failed(self.calls.name(), address, error.to_errno())
    }

    /// A call without an answer, as a device says it.
    fn unanswered(&self, address: u64, error: &CallError) -> DeviceError {
        match error {
            CallError::Stopped => DeviceError::Abandoned { offset: address },
            CallError::TimedOut { after } => DeviceError::TimedOut {
                device: self.calls.name().to_owned(),
                offset: address,
                seconds: after.as_secs(),
            },
            other => self.failed(address, &self.calls.failure(other)),
        }
    }
}

/// The memory of a request without its first `done` bytes.
fn rest_of(request: &Request, done: usize) -> Vec<BorrowedSlice> {
    let mut skip = done;
    let mut rest = Vec::with_capacity(request.segments().len());
    for segment in request.segments() {
        let skipped = skip.min(segment.len());
        skip -= skipped;
        if skipped < segment.len() {
            rest.push(tail(segment, skipped));
        }
    }
    rest
}

fn tail(segment: &Segment, skipped: usize) -> BorrowedSlice {
    // SAFETY: inside the segment, as `skipped` is less than its length.
    let start = unsafe { segment.start().add(skipped) };
    BorrowedSlice::new(start, segment.len() - skipped)
}

/// Cuts `length` bytes into pieces of at most `most`. Where they begin does not matter: aligned to
/// multiples of `most`, a request of that length would cost two calls nearly always, as windows of
/// read-ahead end anywhere.
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
