//! What all threads share of one client connection.

pub mod inbox;
pub mod line;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_policy::limits::Pass;
use pagewell_sunrpc::stream::stays_here;

use crate::clients::CLIENTS;
use crate::connection::inbox::Waker;
use crate::connection::line::{ConnectionLine, Standing, standing};
use crate::reply::batch::Batch;
use crate::reply::send_queue::SendQueue;
use crate::reply::unsent::Unsent;
use crate::share::{Address, Shares};
use crate::usage::Usage;

/// Bytes of calls that wait or run in the pool; above this the connection is not read.
pub const IN_FLIGHT_BYTES_MAX: usize = 16 << 20;

/// The same of all connections together; above this each may only have [`SHARE_BYTES`].
const IN_FLIGHT_BYTES_MAX_ALL: usize = 128 << 20;

/// What a connection may have in flight when all together have too much.
const SHARE_BYTES: usize = 64 << 10;

/// What a small call counts for at least: its reply and bookkeeping take memory too.
const CALL_BYTES_MIN: usize = 2048;

/// A client that has ended its side waits no longer than this for a change to begin.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

/// One client connection.
pub struct Connection {
    socket: OwnedFd,
    /// The client.
    pub peer: SocketAddr,
    /// Whether that is on this machine.
    pub stays_here: bool,
    /// Calls the reader for this connection, and has its number within this server.
    pub waker: Waker,
    queue: SendQueue,
    /// What was asked for here.
    pub usage: Usage,
    /// When it may be read again, by the limits of its client and its export.
    pub pass: Mutex<Pass>,
    in_flight_bytes: AtomicUsize,
    /// Calls in the pool whose replies have not been sent.
    unanswered: AtomicUsize,
    /// Memory that replies to calls in the pool may take.
    reply_bytes: AtomicUsize,
    totals: Arc<Totals>,
    paused: AtomicBool,
    closed: AtomicBool,
    ending: AtomicBool,
    /// When the client was seen to have ended its side.
    ended_at: OnceLock<Instant>,
    /// Connections from now on had numbers from here when something was last received.
    heard_before: AtomicU64,
    /// [`time_of`]: what was received last arrived after this.
    arrived_after: AtomicU64,
    /// Turns of its reader that have ended, with all of their replies in the queue.
    turns: AtomicU64,
    /// What the cache of replies knows of it.
    pub line: ConnectionLine,
    /// The latest connection of the client's address.
    latest: Arc<AtomicU64>,
    asked_to_leave: AtomicBool,
    /// [`time_of`] the last call, or of the connection itself.
    called_at: AtomicU64,
    /// It has a slot until it is dropped.
    slots: Arc<Mutex<Shares<Address>>>,
}

/// What a connection is charged for a call that is under way, until it is ended or dropped.
pub struct Charge {
    /// The connection.
    pub connection: Arc<Connection>,
    bytes: usize,
    reply_bytes: usize,
    is_answered: AtomicBool,
    is_over: AtomicBool,
}

impl Charge {
    /// For a call of `bytes` that was handed to the pool, and the memory that its reply may take.
    pub fn begin(connection: Arc<Connection>, (bytes, reply_bytes): (usize, usize)) -> Arc<Self> {
        connection.begin_call(bytes, reply_bytes);
        Arc::new(Self {
            connection,
            bytes,
            reply_bytes,
            is_answered: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// The reply is about to be sent, or none will be: what the client sends when it has it does
    /// not overlap with the call.
    pub fn answer(&self) {
        if !self.is_answered.swap(true, Ordering::AcqRel) {
            self.connection.unanswered.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The call is answered; its thread may still be held.
    pub fn end(&self) {
        self.answer();
        if !self.is_over.swap(true, Ordering::AcqRel) {
            self.connection.end_call(self.bytes, self.reply_bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.end();
    }
}

/// What all connections of a server have together.
#[derive(Default)]
pub struct Totals {
    /// Bytes of calls that wait or run in the pool.
    pub in_flight_bytes: AtomicUsize,
    /// Memory of replies that have not left.
    pub unsent: Arc<Unsent>,
    /// How many connections there have been.
    connections: AtomicU64,
}

/// Connections are numbered from here.
const FIRST_TOKEN: u64 = 16;

impl Totals {
    /// The number of the next connection.
    pub fn new_token(&self) -> u64 {
        FIRST_TOKEN + self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that the next connection will have.
    fn next_token(&self) -> u64 {
        FIRST_TOKEN + self.connections.load(Ordering::Relaxed)
    }
}

impl Connection {
    /// A connection whose reader is called with `waker`; it gives a slot back when it is dropped.
    /// `latest` is the number of the latest connection of its address.
    pub fn new(
        socket: OwnedFd,
        peer: SocketAddr,
        waker: Waker,
        totals: Arc<Totals>,
        latest: Arc<AtomicU64>,
        slots: Arc<Mutex<Shares<Address>>>,
        this: Weak<Self>,
    ) -> Self {
        names::CONNECTIONS.add(1);
        latest.fetch_max(waker.token, Ordering::Relaxed);
        Self {
            stays_here: stays_here(&socket, peer.ip()),
            socket,
            peer,
            queue: SendQueue::new(totals.unsent.clone()),
            usage: Usage::default(),
            pass: Mutex::default(),
            in_flight_bytes: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
            reply_bytes: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            ended_at: OnceLock::new(),
            heard_before: AtomicU64::new(waker.token + 1),
            arrived_after: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            line: ConnectionLine::new(waker.token, this),
            latest,
            waker,
            asked_to_leave: AtomicBool::new(false),
            called_at: AtomicU64::new(time_of(Instant::now())),
            totals,
            slots,
        }
    }

    /// Sends replies; what cannot leave is queued, and the batch is empty afterwards.
    pub fn send(&self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        self.usage.take(&mut batch.tally);
        if !self.queue.send(&self.socket, batch) {
            self.close();
        }
        // A thread that finds the queue free sends for all, so their replies may have left, too.
        self.resume();
    }

    /// Goes on sending when the socket takes more.
    pub fn send_more(&self) {
        if !self.queue.send_more(&self.socket) {
            self.close();
        }
    }

    /// Replies that wait for the client to read.
    pub fn unsent_bytes(&self) -> usize {
        self.queue.unsent_bytes()
    }

    fn begin_call(&self, bytes: usize, reply_bytes: usize) {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        self.reply_bytes.fetch_add(reply_bytes, Ordering::SeqCst);
        self.totals.unsent.add(reply_bytes);
        let bytes = bytes.max(CALL_BYTES_MIN);
        self.in_flight_bytes.fetch_add(bytes, Ordering::AcqRel);
        let all = &self.totals.in_flight_bytes;
        all.fetch_add(bytes, Ordering::AcqRel);
    }

    /// The reader may go on if it was paused for the call.
    fn end_call(&self, bytes: usize, reply_bytes: usize) {
        self.totals.unsent.subtract(reply_bytes);
        let replies = self.reply_bytes.fetch_sub(reply_bytes, Ordering::SeqCst);
        let bytes = bytes.max(CALL_BYTES_MIN);
        let all = &self.totals.in_flight_bytes;
        let all = all.fetch_sub(bytes, Ordering::SeqCst);
        let own = self.in_flight_bytes.fetch_sub(bytes, Ordering::SeqCst);
        assert!(
            reply_bytes <= replies && bytes <= own && bytes <= all,
            "a call of {bytes} bytes ends, of {own} here and {all} in all"
        );
        self.resume();
    }

    /// Wakes the reader if it is paused and need not be, or waits for the last reply to leave.
    ///
    /// It sets a flag and then looks at the limits, others change what is limited and then look
    /// at the flag. One order of all four (`SeqCst`) is needed, or both look too early.
    fn resume(&self) {
        if self.ending.load(Ordering::SeqCst) && !self.is_busy() {
            self.waker.wake();
        }
        if self.paused.load(Ordering::SeqCst) && self.may_read() {
            self.paused.store(false, Ordering::SeqCst);
            self.waker.wake();
        }
    }

    /// The client has ended its side: the reader is called once the last reply has left.
    pub fn wake_when_done(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Whether another call may be taken from the connection.
    pub fn may_read(&self) -> bool {
        // Charged for the sake of all for a reply, it is woken when one has left.
        let replies = self.unsent_bytes() + self.reply_bytes.load(Ordering::SeqCst);
        !self.is_held_up() && replies < self.totals.unsent.connection_bytes_max()
    }

    /// Whether as many calls are under way as may be.
    pub fn is_held_up(&self) -> bool {
        // Paused for the sake of all it has calls of its own under way, whose end wakes it.
        let all = self.totals.in_flight_bytes.load(Ordering::SeqCst);
        let limit = if all < IN_FLIGHT_BYTES_MAX_ALL {
            IN_FLIGHT_BYTES_MAX
        } else {
            SHARE_BYTES
        };
        self.in_flight_bytes.load(Ordering::SeqCst) >= limit
    }

    /// Whether calls wait or run in the pool whose replies have not been sent.
    pub fn has_calls_under_way(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) > 0
    }

    /// Whether threads of the pool may still send.
    pub fn has_jobs(&self) -> bool {
        self.in_flight_bytes.load(Ordering::Acquire) > 0
    }

    /// Whether calls are under way.
    pub fn is_busy(&self) -> bool {
        self.in_flight_bytes.load(Ordering::SeqCst) > 0 || self.unsent_bytes() > 0
    }

    /// The reader stops reading until a call ends or replies leave. Returns false when one did in
    /// between and reading can go on.
    pub fn pause(&self) -> bool {
        self.paused.store(true, Ordering::SeqCst);
        if self.may_read() {
            self.paused.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Notes that a call has come.
    pub fn called(&self, now: Instant) {
        self.called_at.store(time_of(now), Ordering::Relaxed);
    }

    /// How long no call has come.
    pub fn idle_for(&self, now: Instant) -> Duration {
        let called_at = self.called_at.load(Ordering::Relaxed);
        Duration::from_nanos(time_of(now).saturating_sub(called_at))
    }

    /// Has the reader close the connection, unless it finds that a call has come.
    pub fn ask_to_leave(&self) {
        self.asked_to_leave.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether [`Connection::ask_to_leave`] was called since the last time.
    #[must_use]
    pub fn was_asked_to_leave(&self) -> bool {
        self.asked_to_leave.load(Ordering::Relaxed)
            && self.asked_to_leave.swap(false, Ordering::AcqRel)
    }

    /// Ends the connection: the reader will see the end of the stream and let go of it.
    pub fn close(&self) {
        self.observe(true);
        if !self.closed.swap(true, Ordering::AcqRel) {
            // The reader learns of it from epoll; a peer that is gone already is no error.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }

    /// Something was received that arrived after `arrived_after`.
    pub fn heard(&self, arrived_after: Instant) {
        let next_token = self.totals.next_token();
        self.heard_before.store(next_token, Ordering::Relaxed);
        let time = time_of(arrived_after);
        self.arrived_after.store(time, Ordering::Relaxed);
    }

    /// Connections that came after something was last received have numbers from here.
    pub fn heard_before(&self) -> u64 {
        self.heard_before.load(Ordering::Relaxed)
    }

    /// The client has ended its side.
    pub fn set_ended(&self) {
        self.observe(false);
        let _ = self.ended_at.set(Instant::now());
    }

    /// Whether its client cannot want a change any more that it sent here and that has not begun.
    ///
    /// A client that has ended its side has closed the connection, or says that it sends nothing
    /// more and waits for the answers: one looks like the other. It has given up when its address
    /// has opened another connection since something was last heard on this one, which is what a
    /// client does to send its calls again, or when it would have waited for a long time.
    pub fn is_given_up(&self) -> bool {
        self.is_closed()
            || self.ended_at.get().is_some_and(|at| {
                self.latest.load(Ordering::Relaxed) >= self.heard_before()
                    || at.elapsed() >= GIVEN_UP_AFTER
            })
    }

    /// Bytes of all replies that were sent so far.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.queued_bytes()
    }

    /// How many turns of its reader have ended.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// A turn of its reader has ended, and its replies were sent. Only the reader says so.
    pub fn end_turn(&self) {
        self.turns.store(self.turns() + 1, Ordering::Release);
    }

    /// When what was received last arrived, or a time before: [`time_of`].
    fn arrived_after(&self) -> Duration {
        Duration::from_nanos(self.arrived_after.load(Ordering::Relaxed))
    }

    /// Notes what its client's machine has acknowledged, if the connection tells. `is_ending`: this
    /// side ends it.
    fn observe(&self, is_ending: bool) -> Standing {
        let turns = self.turns.load(Ordering::Acquire);
        let standing = standing(self);
        if standing != Standing::Over
            && let Some((bytes, queued_bytes)) = self.queue.acknowledged_bytes(&self.socket)
        {
            let is_end = is_ending || standing == Standing::Ended;
            self.line.arrived(bytes, (turns, queued_bytes), is_end);
        }
        standing
    }

    /// Whether [`Connection::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// A time since the first that was asked for.
pub fn since_start(time: Instant) -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    time.saturating_duration_since(*FIRST.get_or_init(|| time))
}

/// The same as a number of nanoseconds.
fn time_of(time: Instant) -> u64 {
    u64::try_from(since_start(time).as_nanos()).unwrap_or(u64::MAX)
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.observe(true);
        names::CONNECTIONS.add(-1);
        let now = Instant::now();
        let called_at = now.checked_sub(self.idle_for(now)).unwrap_or(now);
        CLIENTS.end(self.peer.ip(), &self.usage, called_at);
        let address = Address::of(self.peer.ip());
        self.slots.lock().subtract(address, 1);
    }
}
