//! The shared state of a client connection, and the view of the duplicate-request cache.

pub mod inbox;

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_policy::limits::Pass;
use pagewell_policy::reply_cache::{Delivery, Line, SentAt};
use pagewell_sunrpc::stream::stays_here;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clients::CLIENTS;
use crate::connection::inbox::Waker;
use crate::reply::unsent::Unsent;
use crate::reply::{Batch, SendQueue};
use crate::share::{Address, Shares};
use crate::usage::Usage;

/// Of calls in the pool; above this the connection is not read.
pub const IN_FLIGHT_BYTES_MAX: usize = 16 << 20;

/// Of all connections; above this each has [`SHARE_BYTES`].
const IN_FLIGHT_BYTES_MAX_ALL: usize = 128 << 20;

/// While the total is exceeded.
const SHARE_BYTES: usize = 64 << 10;

/// For the reply and bookkeeping.
const CALL_BYTES_MIN: usize = 2048;

/// Longest wait of a change to begin once the client has ended its side.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

/// A client connection.
pub struct Connection {
    socket: OwnedFd,
    /// The client's.
    pub peer: SocketAddr,
    /// The client is on this machine.
    pub stays_here: bool,
    /// Wakes the reader; has the connection's number.
    pub waker: Waker,
    queue: SendQueue,
    /// Of its calls.
    pub usage: Usage,
    /// When limits let the reader read again.
    pub pass: Mutex<Pass>,
    in_flight_bytes: AtomicUsize,
    /// Calls in the pool without a sent reply.
    unanswered: AtomicUsize,
    /// That replies of pool calls may take.
    reply_bytes: AtomicUsize,
    totals: Arc<Totals>,
    paused: AtomicBool,
    closed: AtomicBool,
    ending: AtomicBool,
    ended_at: OnceLock<Instant>,
    /// The number of the next connection, at the last receive.
    heard_before: AtomicU64,
    /// [`time_of`] a lower bound for the last arrival.
    arrived_after: AtomicU64,
    /// Ended turns of the reader; their replies are queued.
    turns: AtomicU64,
    /// For the duplicate-request cache.
    pub line: ConnectionLine,
    latest: Arc<AtomicU64>,
    asked_to_leave: AtomicBool,
    /// [`time_of`] the last call, or of the connection itself.
    called_at: AtomicU64,
    /// Get its slot back on drop.
    slots: Arc<Mutex<Shares<Address>>>,
}

/// The charge for a pool call, until it ends or drops.
pub struct Charge {
    /// The charged one.
    pub connection: Arc<Connection>,
    bytes: usize,
    reply_bytes: usize,
    is_answered: AtomicBool,
    is_over: AtomicBool,
}

impl Charge {
    /// Of a call of `bytes` whose reply takes at most `reply_bytes`.
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

    /// The reply leaves now, or none will: the client's next call does not overlap this one.
    pub fn answer(&self) {
        if !self.is_answered.swap(true, Ordering::AcqRel) {
            self.connection.unanswered.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The call is answered; its thread may still wait.
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

/// Over the connections of a server.
#[derive(Default)]
pub struct Totals {
    /// Of calls in the pool.
    pub in_flight_bytes: AtomicUsize,
    /// Of unsent replies.
    pub unsent: Arc<Unsent>,
    connections: AtomicU64,
}

const FIRST_TOKEN: u64 = 16;

impl Totals {
    /// The number of the next connection.
    pub fn new_token(&self) -> u64 {
        FIRST_TOKEN + self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// [`Self::new_token`] without taking it.
    fn next_token(&self) -> u64 {
        FIRST_TOKEN + self.connections.load(Ordering::Relaxed)
    }
}

impl Connection {
    /// `waker` wakes its reader; `latest` is the latest connection number of its address.
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

    /// Sends or queues the replies and empties the batch.
    pub fn send(&self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        self.usage.take(&mut batch.tally);
        if !self.queue.send(&self.socket, batch) {
            self.close();
        }
        // This thread may have sent replies of others.
        self.resume();
    }

    /// Continues when the socket is writable.
    pub fn send_more(&self) {
        if !self.queue.send_more(&self.socket) {
            self.close();
        }
    }

    /// Of replies.
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

    /// Wakes the reader if it need not pause any more, or waits for the last reply to leave. The
    /// reader sets a flag, then checks the limits; others change the values, then check the flag.
    /// Without one order of all four (`SeqCst`) both could check too early.
    fn resume(&self) {
        if self.ending.load(Ordering::SeqCst) && !self.is_busy() {
            self.waker.wake();
        }
        if self.paused.load(Ordering::SeqCst) && self.may_read() {
            self.paused.store(false, Ordering::SeqCst);
            self.waker.wake();
        }
    }

    /// Wakes the reader when the last reply has left.
    pub fn wake_when_done(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Whether another call may be taken.
    pub fn may_read(&self) -> bool {
        // If the total stopped the reader, the next reply to leave wakes it.
        let replies = self.unsent_bytes() + self.reply_bytes.load(Ordering::SeqCst);
        !self.is_held_up() && replies < self.totals.unsent.connection_bytes_max()
    }

    /// By calls in flight.
    pub fn is_held_up(&self) -> bool {
        // If the total stopped the reader, the end of one of its calls wakes it.
        let all = self.totals.in_flight_bytes.load(Ordering::SeqCst);
        let limit = if all < IN_FLIGHT_BYTES_MAX_ALL {
            IN_FLIGHT_BYTES_MAX
        } else {
            SHARE_BYTES
        };
        self.in_flight_bytes.load(Ordering::SeqCst) >= limit
    }

    /// Whether pool calls without a sent reply exist.
    pub fn has_calls_under_way(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) > 0
    }

    /// Whether pool threads may still send.
    pub fn has_jobs(&self) -> bool {
        self.in_flight_bytes.load(Ordering::Acquire) > 0
    }

    /// Whether calls or replies are under way.
    pub fn is_busy(&self) -> bool {
        self.in_flight_bytes.load(Ordering::SeqCst) > 0 || self.unsent_bytes() > 0
    }

    /// Until a call ends or replies leave; false if reading may go on already.
    pub fn pause(&self) -> bool {
        self.paused.store(true, Ordering::SeqCst);
        if self.may_read() {
            self.paused.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// A call has come.
    pub fn called(&self, now: Instant) {
        self.called_at.store(time_of(now), Ordering::Relaxed);
    }

    /// Since the last call.
    pub fn idle_for(&self, now: Instant) -> Duration {
        let called_at = self.called_at.load(Ordering::Relaxed);
        Duration::from_nanos(time_of(now).saturating_sub(called_at))
    }

    /// Unless a call has come.
    pub fn ask_to_leave(&self) {
        self.asked_to_leave.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether [`Connection::ask_to_leave`] was called since the last check.
    #[must_use]
    pub fn was_asked_to_leave(&self) -> bool {
        self.asked_to_leave.load(Ordering::Relaxed)
            && self.asked_to_leave.swap(false, Ordering::AcqRel)
    }

    /// The reader sees the end and drops the connection.
    pub fn close(&self) {
        self.observe(true);
        if !self.closed.swap(true, Ordering::AcqRel) {
            // A peer that is gone already is no error.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }

    /// Bytes came that arrived after `arrived_after`.
    pub fn heard(&self, arrived_after: Instant) {
        let next_token = self.totals.next_token();
        self.heard_before.store(next_token, Ordering::Relaxed);
        let time = time_of(arrived_after);
        self.arrived_after.store(time, Ordering::Relaxed);
    }

    /// The number of the next connection, at the last receive.
    pub fn heard_before(&self) -> u64 {
        self.heard_before.load(Ordering::Relaxed)
    }

    /// The client has ended its side.
    pub fn set_ended(&self) {
        self.observe(false);
        let _ = self.ended_at.set(Instant::now());
    }

    /// Whether the client cannot want a change that has not begun: it has ended its side, and its
    /// address connected again since the last receive, as clients do to repeat calls, or a long
    /// time has gone.
    pub fn is_given_up(&self) -> bool {
        self.is_closed()
            || self.ended_at.get().is_some_and(|at| {
                self.latest.load(Ordering::Relaxed) >= self.heard_before()
                    || at.elapsed() >= GIVEN_UP_AFTER
            })
    }

    /// Of all replies so far.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.queued_bytes()
    }

    /// Of the reader.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// The replies of the turn are sent.
    pub fn end_turn(&self) {
        self.turns.store(self.turns() + 1, Ordering::Release);
    }

    fn arrived_after(&self) -> Duration {
        Duration::from_nanos(self.arrived_after.load(Ordering::Relaxed))
    }

    /// Records what the client's kernel has acknowledged. `is_ending`: this side closes.
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

/// Since the first call of this function.
pub fn since_start(time: Instant) -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    time.saturating_duration_since(*FIRST.get_or_init(|| time))
}

/// [`since_start`] in nanoseconds.
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

/// A connection for the duplicate-request cache, which it outlives: acknowledged replies still
/// count when a client has reconnected.
#[derive(Clone)]
pub struct ConnectionLine(Arc<Shared>);

struct Shared {
    token: u64,
    connection: Weak<Connection>,
    arrived: Mutex<Arrived>,
}

#[derive(Clone, Copy, Default)]
struct Acknowledged {
    bytes: u64,
    /// All replies of these turns.
    turns: u64,
}

#[derive(Default)]
struct Arrived {
    /// Valid unless the connection is reset.
    now: Acknowledged,
    /// When one side ended the connection in order; always valid.
    at_end: Acknowledged,
    /// These bytes hold all replies of these turns: turns count as arrived while later replies are
    /// in flight.
    mark: Acknowledged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Both sides may send.
    Live,
    /// By the client, in order.
    Ended,
    /// Closed here, or reset.
    Over,
}

impl ConnectionLine {
    fn new(token: u64, connection: Weak<Connection>) -> Self {
        Self(Arc::new(Shared {
            token,
            connection,
            arrived: Mutex::default(),
        }))
    }

    /// `bytes` are acknowledged; `queued_bytes` hold all replies of `turns`. `is_end`: one side
    /// ends the connection in order.
    fn arrived(&self, bytes: u64, (turns, queued_bytes): (u64, u64), is_end: bool) {
        let mut arrived = self.0.arrived.lock();
        let Arrived { now, at_end, mark } = &mut *arrived;
        now.bytes = now.bytes.max(bytes);
        if bytes >= queued_bytes {
            now.turns = now.turns.max(turns);
        } else if bytes >= mark.bytes {
            now.turns = now.turns.max(mark.turns);
            *mark = Acknowledged {
                bytes: queued_bytes,
                turns,
            };
        }
        if is_end {
            *at_end = *now;
        }
    }

    fn observe(&self) -> Standing {
        let connection = self.0.connection.upgrade();
        connection.map_or(Standing::Over, |connection| connection.observe(false))
    }
}

impl Line for ConnectionLine {
    fn token(&self) -> u64 {
        self.0.token
    }

    fn delivery(&self, sent_at: SentAt) -> Delivery {
        let standing = self.observe();
        let arrived = self.0.arrived.lock();
        let Acknowledged { bytes, turns } = match standing {
            Standing::Live | Standing::Ended => arrived.now,
            Standing::Over => arrived.at_end,
        };
        let has_arrived = match sent_at {
            SentAt::Byte(end) => bytes >= end,
            SentAt::Turn(turn) => turns > turn,
        };
        match standing {
            _ if has_arrived => Delivery::Arrived,
            Standing::Live | Standing::Ended => Delivery::Open,
            Standing::Over => Delivery::Lost,
        }
    }

    fn arrived_after(&self, overlaps: bool, now: Duration) -> Duration {
        let Some(connection) = self.0.connection.upgrade() else {
            return Duration::ZERO;
        };
        let known = connection.arrived_after();
        if overlaps {
            return known;
        }
        // Nothing came behind it, so it was in the last data segment.
        let last = last_data_ago(&*connection).map(|ago| now.saturating_sub(ago));
        known.max(last.unwrap_or_default())
    }

    fn is_live(&self) -> bool {
        self.observe() == Standing::Live
    }
}

fn standing(connection: &Connection) -> Standing {
    let mut sockets = [PollFd::new(connection, PollFlags::RDHUP)];
    // On failure it counts as live.
    let _ = poll(&mut sockets, Some(&Timespec::default()));
    let seen = sockets[0].revents();
    if connection.is_closed() || seen.intersects(PollFlags::HUP | PollFlags::ERR) {
        Standing::Over
    } else if seen.contains(PollFlags::RDHUP) {
        Standing::Ended
    } else {
        Standing::Live
    }
}

/// To a few milliseconds.
fn last_data_ago(socket: impl AsFd) -> Option<Duration> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the kernel writes at most `length` bytes, the size of the buffer.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: a structure of integers, zeroed first: every bit pattern is a value.
    let info = unsafe { info.assume_init() };
    (status == 0).then(|| Duration::from_millis(info.tcpi_last_data_recv.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_arrive_also_where_something_is_always_on_its_way() {
        let line = ConnectionLine::new(1, Weak::new());
        // The connection is over, so that what was known at its end counts.
        let has_arrived = |turn| line.delivery(SentAt::Turn(turn)) == Delivery::Arrived;
        line.arrived(900, (5, 1000), true);
        assert!(!has_arrived(0), "which bytes they are is not known yet");
        line.arrived(999, (6, 1100), true);
        assert!(!has_arrived(4));
        line.arrived(1000, (7, 1200), true);
        assert!(has_arrived(4) && !has_arrived(5));
        line.arrived(1300, (9, 1300), true);
        assert!(has_arrived(8) && !has_arrived(9));
        line.arrived(1400, (10, 1400), false);
        assert!(!has_arrived(9), "it was reset after that");
    }
}
