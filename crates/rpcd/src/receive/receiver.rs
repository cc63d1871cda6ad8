//! A connection in its reader: from bytes to calls.

mod limited;

use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_counters::names;
use pagewell_policy::reply_cache::Place;
use pagewell_sunrpc::record::{self, Assembly, Progress};
use pagewell_sunrpc::rpc;
use rustix::io::Errno;

use crate::call::{Answer, CallName, Job, Request, WaitingCall, refuse_oversized};
use crate::connection::{Charge, Connection};
use crate::dispatch::Dispatcher;
use crate::program::{Later, Program};
use crate::reply::Batch;
use crate::request_memory::RecordMemory;
use crate::request_memory::{Buffer, RECORD_BYTES_MAX, RequestBudget};
use crate::share::Address;

/// Larger records get memory of their own, which a waiting call keeps.
const SMALL_RECORD_BYTES_MAX: usize = 12 << 10;

/// Received behind each large record, for the next head.
const HEAD_BYTES: usize = 4 << 10;

const RECEIVES_PER_TURN: usize = 4;

/// Bounds of the batch between sends: its own memory ...
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// ... and all bytes, including file data.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Less of a record is no progress: slow bytes must not keep the memory.
const PROGRESS_BYTES_MIN: u64 = 16 << 10;

/// Of a receive outside large records: some two hundred small calls.
pub const SCRATCH_BYTES: usize = 32 << 10;

/// Of all receivers of a server.
pub struct Shared<P: Program> {
    /// Runs waiting calls; has the program.
    pub dispatcher: Arc<Dispatcher<P>>,
    /// For requests.
    pub budget: Arc<RequestBudget>,
    /// How long an idle reader polls where that pays.
    pub poll_for: Duration,
}

type Received<'r, P> = (&'r Shared<P>, &'r <P as Program>::Received);

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing to do until an event.
    Idle,
    /// More may be there: queue again.
    Again,
    /// For this long.
    Throttled(Duration),
    /// The connection has ended.
    Closed,
}

/// Of an address at its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(pub usize);

/// The receiving side of a connection, for its reader alone.
pub struct Receiver {
    /// The state for other threads.
    pub connection: Arc<Connection>,
    /// At the reader.
    pub line: Line,
    assembly: Assembly,
    /// Received, but not taken because of a limit.
    leftover: Vec<u8>,
    batch: Batch,
    large_records: bool,
    /// In its queue.
    pub ready: bool,
    /// The client sends no more: read the rest, finish what has begun.
    peer_closed: bool,
    ended: bool,
    memory: RecordMemory,
    /// The skipped record gets "try later".
    put_off: bool,
    progress: (Instant, usize),
    received_bytes: u64,
    received_bytes_seen: u64,
    /// When the socket was last seen empty.
    empty_at: Instant,
    /// So far.
    pub calls: u64,
    /// Calls have overlapped at some time.
    overlaps: bool,
    /// Calls that the connection knows of.
    noted_calls: u64,
    /// Any limit is set, as of this turn.
    is_limited: bool,
    /// The reader has a timer for it.
    pub has_timer: bool,
}

enum Consumed {
    All,
    /// At the bound of calls in flight, after this many bytes.
    Paused(usize),
    /// After this many bytes.
    Throttled(usize),
    Broken,
}

impl Receiver {
    /// For a new connection in this queue.
    pub fn new<P: Program>(connection: Arc<Connection>, shared: &Shared<P>, line: Line) -> Self {
        let (waker, address) = (connection.waker.clone(), Address::of(connection.peer.ip()));
        Self {
            memory: RecordMemory::new(&shared.budget, address, waker),
            line,
            connection,
            assembly: Assembly::new(RECORD_BYTES_MAX),
            leftover: Vec::new(),
            batch: Batch::default(),
            large_records: false,
            ready: false,
            peer_closed: false,
            ended: false,
            put_off: false,
            progress: (Instant::now(), 0),
            received_bytes: 0,
            received_bytes_seen: 0,
            empty_at: Instant::now(),
            calls: 0,
            overlaps: false,
            noted_calls: 0,
            is_limited: false,
            has_timer: false,
        }
    }

    /// Notes at the connection whether calls have come.
    pub fn note_calls(&mut self, now: Instant) {
        if self.noted_calls != self.calls {
            self.noted_calls = self.calls;
            self.connection.called(now);
        }
    }

    /// Epoll has seen the client's end of the stream and will not report it again.
    pub fn set_peer_closed(&mut self) {
        self.peer_closed = true;
        self.connection.set_ended();
    }

    /// One turn. All connections of a reader share `batch`, whose memory is warm.
    pub fn turn<P: Program>(
        &mut self,
        shared: &Shared<P>,
        scratch: &mut [u8],
        batch: &mut Batch,
    ) -> Turn {
        std::mem::swap(&mut self.batch, batch);
        let is_limited = shared.dispatcher.bounds.limits.is_active();
        let turn = if (is_limited || self.is_limited)
            && let Some(wait) = self.begin_limited(shared, is_limited)
        {
            Turn::Throttled(wait)
        } else {
            self.receive_and_answer(shared, scratch)
        };
        // All replies of a turn leave together.
        self.flush();
        self.connection.end_turn();
        std::mem::swap(&mut self.batch, batch);
        turn
    }

    fn receive_and_answer<P: Program>(&mut self, shared: &Shared<P>, scratch: &mut [u8]) -> Turn {
        for _ in 0..RECEIVES_PER_TURN {
            if self.connection.is_closed() || (self.ended && !self.connection.is_busy()) {
                return Turn::Closed;
            }
            if self.ended {
                return Turn::Idle;
            }
            if !self.connection.may_read() && self.connection.pause() {
                self.memory.stop_waiting();
                return Turn::Idle;
            }
            if !self.leftover.is_empty() {
                let leftover = std::mem::take(&mut self.leftover);
                match self.consume(shared, &leftover, Instant::now()) {
                    Consumed::All => {}
                    Consumed::Paused(taken) => return self.put_aside(&leftover[taken..]),
                    Consumed::Throttled(taken) => return self.throttle(&leftover[taken..]),
                    Consumed::Broken => return Turn::Closed,
                }
                continue;
            }
            match self.receive(shared, scratch) {
                Ok(Some(turn)) => return turn,
                Ok(None) => {}
                Err(Errno::AGAIN) => return Turn::Idle,
                Err(_) => return Turn::Closed,
            }
        }
        Turn::Again
    }

    fn receive<P: Program>(
        &mut self,
        shared: &Shared<P>,
        scratch: &mut [u8],
    ) -> Result<Option<Turn>, Errno> {
        if let Some(bytes) = self.assembly.wanted() {
            // Without memory, what comes next waits for it.
            self.get_memory(shared, bytes, false, &[]);
        }
        let target = self.assembly.target();
        let wanted = target.len();
        let extra = if self.large_records || wanted > SMALL_RECORD_BYTES_MAX {
            HEAD_BYTES
        } else {
            SCRATCH_BYTES
        };
        let scratch = &mut scratch[..extra];
        let count = receive_into(&self.connection, target, scratch)?;
        if count == 0 {
            // Only replies on their way keep an ended connection.
            self.flush();
            self.ended = true;
            self.connection.set_ended();
            self.connection.wake_when_done();
            return Ok(None);
        }
        self.connection.heard(self.empty_at);
        self.overlaps |= self.connection.has_calls_under_way();
        // A short read: an event will announce the next bytes.
        let is_empty = count < wanted + extra;
        let now = Instant::now();
        if is_empty {
            self.empty_at = now;
        }
        self.received_bytes += count as u64;
        let direct = count.min(wanted);
        if wanted > 0 && self.assembly.received(direct) {
            self.overlaps |= count > direct;
            let received = &shared.dispatcher.program.begin_receive();
            self.assembled((shared, received), now);
        }
        let result = match self.consume(shared, &scratch[..count - direct], now) {
            Consumed::All => None,
            Consumed::Paused(taken) => Some(self.put_aside(&scratch[taken..count - direct])),
            Consumed::Throttled(taken) => Some(self.throttle(&scratch[taken..count - direct])),
            Consumed::Broken => Some(Turn::Closed),
        };
        let is_idle = is_empty && !self.peer_closed;
        Ok(result.or(is_idle.then_some(Turn::Idle)))
    }

    /// Keeps bytes that cannot be taken now; a waker or a free bound resumes.
    fn put_aside(&mut self, rest: &[u8]) -> Turn {
        if rest.is_empty() && self.memory.waits {
            // The record's next bytes will ask again; other records may have the memory until then.
            self.memory.stop_waiting();
            return Turn::Again;
        }
        self.leftover = rest.to_vec();
        // Not `may_read`: a call may have ended meanwhile, and then nothing wakes this reader.
        if self.memory.waits || self.connection.pause() {
            Turn::Idle
        } else {
            Turn::Again
        }
    }

    fn consume<P: Program>(&mut self, shared: &Shared<P>, input: &[u8], now: Instant) -> Consumed {
        let received = &shared.dispatcher.program.begin_receive();
        let mut rest = input;
        while !rest.is_empty() {
            if self.connection.is_closed() {
                return Consumed::Broken;
            }
            if self.is_limited && self.must_wait(shared).is_some() {
                return Consumed::Throttled(input.len() - rest.len());
            }
            if self.assembly.is_empty()
                && let Some((record, taken)) = record::whole(rest)
                && record.len() <= SMALL_RECORD_BYTES_MAX
            {
                self.large_records = false;
                self.overlaps |= taken < rest.len();
                self.small((shared, received), record, now);
                rest = &rest[taken..];
            } else {
                let (taken, progress) = self.assembly.take(rest);
                rest = &rest[taken..];
                match progress {
                    Progress::Partial => {}
                    Progress::Whole => {
                        self.overlaps |= !rest.is_empty();
                        self.assembled((shared, received), now);
                    }
                    Progress::Broken => {
                        return Consumed::Broken;
                    }
                    Progress::NeedsBuffer(bytes) => {
                        if !self.get_memory(shared, bytes, true, rest) && !self.put_off(shared) {
                            return Consumed::Paused(input.len() - rest.len());
                        }
                        continue;
                    }
                }
            }
            if self.batch.memory_bytes() >= BLOCK_BYTES_MAX
                || self.batch.length() >= BATCH_BYTES_MAX
            {
                self.flush();
            }
            if !rest.is_empty() && !self.connection.may_read() {
                return Consumed::Paused(input.len() - rest.len());
            }
        }
        Consumed::All
    }

    fn small<P: Program>(
        &mut self,
        (shared, received): Received<'_, P>,
        record: &[u8],
        now: Instant,
    ) {
        self.calls += 1;
        if let Some(state) = self.answer((shared, received), record, now) {
            let record = (shared.budget.uncounted(record), record.len());
            queue(shared, &self.connection, record, (now, state));
        }
    }

    /// Answers the call of a record, or returns it to wait; pays under a limit.
    fn answer<P: Program>(
        &mut self,
        (shared, received): Received<'_, P>,
        record: &[u8],
        now: Instant,
    ) -> Option<WaitingCall<P::Pending>> {
        if self.is_limited {
            self.answer_and_pay((shared, received), record, now)
        } else {
            self.answer_free((shared, received), record, now)
        }
    }

    fn answer_free<P: Program>(
        &mut self,
        (shared, received): Received<'_, P>,
        record: &[u8],
        now: Instant,
    ) -> Option<WaitingCall<P::Pending>> {
        self.overlaps |= !self.batch.is_empty();
        let request = Request {
            record,
            connection: &self.connection,
            received_at: now,
            began_at: None,
            place: Place {
                number: self.calls,
                overlaps: self.overlaps,
            },
        };
        let program = &shared.dispatcher.program;
        match program.answer(&request, Some(received), &mut self.batch) {
            Answer::Done => None,
            Answer::Wait(class, pending) => Some(WaitingCall {
                class,
                pending,
                ..WaitingCall::default()
            }),
        }
    }

    fn assembled<P: Program>(&mut self, (shared, received): Received<'_, P>, now: Instant) {
        self.calls += 1;
        let mut record = self.assembly.finish();
        let beginning = &mut record.buffer[..record.length];
        if std::mem::take(&mut self.put_off) {
            put_off(&*shared.dispatcher.program, beginning, &mut self.batch);
            return;
        }
        if record.oversized {
            let Some(length) = shared.dispatcher.program.shorten(beginning) else {
                refuse_oversized(beginning, &mut self.batch);
                return self.memory.give_up(record.buffer);
            };
            record.length = length;
        }
        let buffer = self.memory.whole(record.buffer);
        self.large_records = record.length > SMALL_RECORD_BYTES_MAX;
        // A whole record is progress, however small.
        self.received_bytes += PROGRESS_BYTES_MIN;
        if let Some(state) = self.answer((shared, received), &buffer[..record.length], now) {
            let record = (buffer, record.length);
            queue(shared, &self.connection, record, (now, state));
        }
    }

    fn get_memory<P: Program>(
        &mut self,
        shared: &Shared<P>,
        bytes: usize,
        must_wait: bool,
        next: &[u8],
    ) -> bool {
        let peer = self.connection.peer.ip();
        let program = &shared.dispatcher.program;
        let export_of = |beginning: &[u8]| program.export_of_record(beginning, peer);
        let assembly = &mut self.assembly;
        self.memory
            .give(assembly, bytes, must_wait, export_of, next)
    }

    /// Skips a record that waits for memory of a stalled export: the client gets "try later".
    pub fn put_off<P: Program>(&mut self, shared: &Shared<P>) -> bool {
        let full = self.memory.full_export();
        let is_stalled =
            full.is_some_and(|export| shared.dispatcher.bounds.slow.has_stalled(export));
        if self.memory.waits && is_stalled {
            self.put_off = true;
            let bytes = self.assembly.skip();
            self.memory.give_up(bytes);
            return true;
        }
        false
    }

    /// Whether the client is too slow to fill memory that other records wait for.
    #[must_use]
    pub fn is_overdue(&mut self, now: Instant) -> bool {
        let unread_bytes = || {
            let in_socket = rustix::io::ioctl_fionread(&self.connection).unwrap_or(0);
            let in_socket = usize::try_from(in_socket).unwrap_or(usize::MAX);
            in_socket.saturating_add(self.leftover.len())
        };
        let is_held_up = self.connection.is_held_up();
        self.memory.is_overdue(now, is_held_up, unread_bytes)
    }

    /// Closes the connection for its overdue record.
    pub fn drop_overdue(&self) {
        self.connection.close();
    }

    fn flush(&mut self) {
        self.connection.send(&mut self.batch);
    }

    /// Whether record or replies made no progress for `limit`.
    pub fn stalled(&mut self, now: Instant, limit: Duration) -> bool {
        let unsent = self.connection.unsent_bytes();
        // A connection that the server does not read is not stalled.
        let waits =
            !self.assembly.is_empty() && self.leftover.is_empty() && self.connection.may_read();
        let received = self.received_bytes - self.received_bytes_seen;
        let moved = received >= PROGRESS_BYTES_MIN || unsent != self.progress.1;
        if moved || (unsent == 0 && !waits) {
            self.progress = (now, unsent);
            self.received_bytes_seen = self.received_bytes;
        }
        now.duration_since(self.progress.0) > limit
    }
}

/// The record is the first `length` bytes of the buffer.
fn queue<P: Program>(
    shared: &Shared<P>,
    connection: &Arc<Connection>,
    (record, length): (Buffer, usize),
    (received_at, state): (Instant, WaitingCall<P::Pending>),
) {
    shared.dispatcher.queue(Job {
        charge: Charge::begin(connection.clone(), state.charged_bytes(length)),
        record,
        length,
        received_at,
        state,
    });
}

/// As the storage of the call's export is stalled.
fn put_off(program: &impl Program, beginning: &[u8], batch: &mut Batch) {
    if let Ok((call, _)) = rpc::parse_call(beginning)
        && program.later(CallName::of(&call), batch) == Later::Said
    {
        names::JUKEBOX_REPLIES.add(1);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.set_waits(None);
        let bytes = self.assembly.finish().buffer;
        self.memory.give_up(bytes);
    }
}

fn receive_into(socket: impl AsFd, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
    names::RECEIVE_CALLS.add(1);
    rustix::io::retry_on_intr(|| {
        if first.is_empty() {
            rustix::io::read(&socket, &mut *second)
        } else {
            let slices = &mut [IoSliceMut::new(first), IoSliceMut::new(second)];
            rustix::io::readv(&socket, slices)
        }
    })
}
