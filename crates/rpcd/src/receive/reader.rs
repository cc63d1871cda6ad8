//! The receiving threads.
//!
//! Each reader has its own epoll and connections. It sends the replies to all hits with one system
//! call. A call that would block goes to the pool, with a copy of its bytes or, if large, with
//! their buffer.
//!
//! ```text
//!   socket --readv--> [rest of a large record | scratch]
//!                            |                   |
//!                        Assembly            whole records, in place
//!                            \_________  _______/
//!                                      \/
//!                          Service::answer(may_block: false)
//!                           answered /        \ would wait
//!                         block of replies     Pool
//! ```
//!
//! Events are edge-triggered, so the hot path needs no epoll_ctl; a connection that is not read dry
//! stays ready. An idle reader polls before it sleeps where that pays
//! ([`pagewell_policy::polling`]).
//!
//! # Turns
//!
//! A client with a hundred connections gets no more of a reader than one with a single one. Each
//! address has a queue of ready connections; a round takes one from each. Between rounds the reader
//! looks for events. For a lone address rounds double, up to [`ALONE_TURNS_MAX`], until another
//! address is ready.
//!
//! ```text
//!   ring:  [A] -> [B] -> [C]            a round: A1 B1 C1, then look for events
//!           A1     B1     C1
//!           A2                          A alone: 1, 2, 4, ... turns, then look for events
//!           A3
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::mix::NumberHasher;
use pagewell_counters::names;
use pagewell_policy::polling::{Polling, Waited};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::connection::Connection;
use crate::dispatch::DRAIN_FOR;
use crate::program::Program;
use crate::receive::ending;
use crate::receive::following::Following;
use crate::receive::readers::ReaderHandle;
use crate::receive::receiver::{Line, Receiver, SCRATCH_BYTES, Shared, Turn};
use crate::reply::Batch;
use crate::share::Address;

/// For a connection whose record or replies make no progress.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// For replies, while the unsent bytes of all connections are over their bound.
const UNREAD_AFTER: Duration = Duration::from_secs(10);

/// A reader that has waited this long is not active.
const PAUSE: Duration = Duration::from_millis(10);

/// Between two checks for stalled connections.
const TICK: Duration = Duration::from_secs(1);

/// Looking for events takes under a microsecond.
const INTERRUPTED_AFTER: Duration = Duration::from_micros(20);

/// Among the connections' numbers.
const INBOX: u64 = 1;

/// A receiving thread.
pub struct Reader<P: Program> {
    epoll: OwnedFd,
    handle: Arc<ReaderHandle>,
    shared: Arc<Shared<P>>,
    /// By connection number.
    receivers: HashMap<u64, Receiver, BuildHasherDefault<NumberHasher>>,
    ready: Ready,
    scratch: Vec<u8>,
    batch: Batch,
    polling: Polling,
    last_tick: Instant,
    /// Processor time at the last tick, and time polled since.
    processor_time: Duration,
    polled: Duration,
    following: Following,
    served: u64,
    /// The next due one on top.
    throttled: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl<P: Program> Reader<P> {
    /// A reader of the connections that `handle` gets.
    pub fn new(shared: Arc<Shared<P>>, handle: Arc<ReaderHandle>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let input = epoll::EventFlags::IN;
        epoll::add(
            &epoll,
            &*handle.inbox,
            epoll::EventData::new_u64(INBOX),
            input,
        )?;
        Ok(Self {
            epoll,
            handle,
            polling: Polling::new(shared.poll_for),
            shared,
            receivers: HashMap::default(),
            ready: Ready::default(),
            scratch: vec![0; SCRATCH_BYTES],
            batch: Batch::default(),
            last_tick: Instant::now(),
            processor_time: Duration::ZERO,
            polled: Duration::ZERO,
            following: Following::default(),
            served: INBOX,
            throttled: BinaryHeap::new(),
        })
    }

    /// Until the server stops.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        while !self.shared.dispatcher.is_stopping() {
            let now = self.wait(&mut events);
            for event in &events {
                let event: &epoll::Event = event;
                self.dispatch(event.data.u64(), event.flags);
            }
            self.resume_throttled(now);
            for _ in 0..self.ready.round() {
                if let Some(token) = self.ready.pop() {
                    self.turn(token);
                }
            }
            if now - self.last_tick >= TICK {
                self.tick();
            }
        }
        self.drain();
    }

    /// Does not wait while connections are ready. Returns the time after it.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Instant {
        let began = Instant::now();
        if !self.ready.is_empty() {
            self.look(events, Duration::ZERO);
            return began;
        }
        events.clear();
        let limit = self.polling.begin(self.handle.is_crowded());
        let mut was_interrupted = false;
        if !limit.is_zero() {
            was_interrupted = self.poll(events, began, limit);
        }
        let slept = events.is_empty();
        let was_at_work = self.polling.is_at_work();
        if slept {
            if self.handle.is_crowded()
                && let Some(receiver) = self.receivers.get(&self.served)
            {
                self.following.waited(&*receiver.connection);
            }
            // After a pause other readers may poll.
            let most = if was_at_work { PAUSE } else { TICK };
            let due = self.throttled.peek().map(|Reverse((due, _))| *due);
            let until = due.map_or(most, |due| due.saturating_duration_since(Instant::now()));
            self.look(events, most.min(until));
        }
        let ended = Instant::now();
        self.polling.waited(Waited {
            total: ended - began,
            slept,
            was_interrupted,
        });
        let is_at_work = self.polling.is_at_work();
        if is_at_work != was_at_work {
            self.handle.set_at_work(is_at_work);
        }
        ended
    }

    /// For at most `limit`; returns whether the thread lost its processor.
    fn poll(&mut self, events: &mut Vec<epoll::Event>, began: Instant, limit: Duration) -> bool {
        let mut looked = began;
        let mut was_interrupted = false;
        while looked - began < limit && !was_interrupted {
            self.look(events, Duration::ZERO);
            let now = Instant::now();
            was_interrupted = now - looked > INTERRUPTED_AFTER;
            looked = now;
            if !events.is_empty() {
                break;
            }
        }
        self.polled += looked - began;
        was_interrupted
    }

    fn look(&self, events: &mut Vec<epoll::Event>, most: Duration) {
        let timeout = Timespec::try_from(most).unwrap_or_default();
        events.clear();
        let buffer = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            // Only a defect makes epoll_wait fail; do not spin on it.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }

    fn dispatch(&mut self, token: u64, flags: epoll::EventFlags) {
        match token {
            INBOX => {
                let woken = self.handle.inbox.collect();
                self.handle.beats.beat();
                for connection in self.handle.newcomers() {
                    self.adopt(connection);
                }
                for token in woken {
                    self.make_ready(token);
                }
            }
            token => {
                let reset = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                if let Some(receiver) = self.receivers.get_mut(&token) {
                    if flags.contains(epoll::EventFlags::OUT) {
                        receiver.connection.send_more();
                    }
                    if flags.intersects(reset) {
                        // No reply can arrive, so pending calls must not begin.
                        receiver.connection.close();
                    } else if flags.contains(epoll::EventFlags::RDHUP) {
                        receiver.set_peer_closed();
                    }
                }
                self.make_ready(token);
            }
        }
    }

    fn make_ready(&mut self, token: u64) {
        if let Some(receiver) = self.receivers.get_mut(&token)
            && !std::mem::replace(&mut receiver.ready, true)
        {
            self.ready.push(receiver.line, token);
        }
    }

    fn turn(&mut self, token: u64) {
        let Some(receiver) = self.receivers.get_mut(&token) else {
            return;
        };
        receiver.ready = false;
        self.served = token;
        let calls = receiver.calls;
        let work =
            AssertUnwindSafe(|| receiver.turn(&self.shared, &mut self.scratch, &mut self.batch));
        let turn = catch_unwind(work).unwrap_or_else(|_| {
            names::PANICS.add(1);
            self.batch = Batch::default();
            Turn::Closed
        });
        match turn {
            Turn::Idle => {
                let connection = &receiver.connection;
                let is_idle = receiver.calls == calls && !connection.is_busy();
                if connection.was_asked_to_leave() && is_idle {
                    self.close(token);
                }
            }
            Turn::Again => self.make_ready(token),
            Turn::Throttled(wait) => self.throttle(token, wait),
            Turn::Closed => self.close(token),
        }
    }

    fn throttle(&mut self, token: u64, wait: Duration) {
        if let Some(receiver) = self.receivers.get_mut(&token)
            && !std::mem::replace(&mut receiver.has_timer, true)
        {
            self.throttled.push(Reverse((Instant::now() + wait, token)));
        }
    }

    fn resume_throttled(&mut self, now: Instant) {
        while let Some(Reverse((due, token))) = self.throttled.peek().copied()
            && due <= now
        {
            self.throttled.pop();
            if let Some(receiver) = self.receivers.get_mut(&token) {
                receiver.has_timer = false;
                self.make_ready(token);
            }
        }
    }

    fn close(&mut self, token: u64) {
        if let Some(receiver) = self.receivers.remove(&token) {
            receiver.connection.close();
            let address = Address::of(receiver.connection.peer.ip());
            self.ready.leave(address, receiver.line);
            self.handle.lose();
        }
    }

    fn adopt(&mut self, connection: Arc<Connection>) {
        let token = connection.waker.token;
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(token);
        if epoll::add(&self.epoll, connection.as_fd(), data, flags).is_ok() {
            let line = self.ready.join(Address::of(connection.peer.ip()));
            let receiver = Receiver::new(connection, &self.shared, line);
            self.receivers.insert(token, receiver);
            self.polling.trust_again();
            self.make_ready(token);
        } else {
            self.handle.lose();
        }
    }

    /// The thread's processor time since the last tick.
    fn publish_load(&mut self, now: Instant) {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let time = Duration::try_from(time).unwrap_or_default();
        // Polling is optional, so it does not count.
        let used = time.saturating_sub(self.processor_time + self.polled);
        let used = used.as_secs_f64();
        self.polled = Duration::ZERO;
        let elapsed = now.duration_since(self.last_tick).max(TICK).as_secs_f64();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a million at most
        self.handle.set_busy((used / elapsed * 1e6) as u64);
        self.processor_time = time;
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.publish_load(now);
        self.last_tick = now;
        let is_wanted = self.shared.budget.is_wanted();
        let mut put_off = Vec::new();
        let totals = &self.shared.dispatcher.bounds.totals;
        let is_over = totals.unsent.is_over();
        for receiver in self.receivers.values_mut() {
            receiver.note_calls(self.last_tick);
            let is_overdue = receiver.is_overdue(self.last_tick);
            let is_unread = is_over && receiver.connection.unsent_bytes() > 0;
            let limit = if is_unread {
                UNREAD_AFTER
            } else {
                STALLED_AFTER
            };
            if receiver.stalled(self.last_tick, limit) {
                names::CONNECTIONS_STALLED.add(1);
                receiver.connection.close();
            } else if receiver.waits_in_vain() {
                receiver.connection.close();
            } else if is_wanted && is_overdue {
                receiver.drop_overdue();
            } else if is_wanted && receiver.put_off(&self.shared) {
                put_off.push(receiver.connection.waker.token);
            }
        }
        put_off.into_iter().for_each(|token| self.make_ready(token));
    }

    /// Finishes and sends what has begun, for a bounded time.
    fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN_FOR;
        while Instant::now() < deadline
            && self
                .receivers
                .values()
                .any(|receiver| receiver.connection.is_busy())
        {
            for receiver in self.receivers.values() {
                receiver.connection.send_more();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let connections = self
            .receivers
            .values()
            .map(|receiver| &*receiver.connection);
        ending::end_gently(connections, &mut self.scratch);
        for receiver in self.receivers.values() {
            receiver.connection.close();
        }
    }
}

/// Of one address, and so the wait of another.
const ALONE_TURNS_MAX: usize = 64;

#[derive(Default)]
struct Connections {
    ready: VecDeque<u64>,
    /// Ready or not.
    count: usize,
}

struct Ready {
    lines: Vec<Connections>,
    free: Vec<usize>,
    by_address: HashMap<Address, usize>,
    /// Queues with ready connections, each once.
    ring: VecDeque<usize>,
    alone_turns: usize,
}

impl Default for Ready {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            ring: VecDeque::new(),
            alone_turns: 1,
        }
    }
}

impl Ready {
    fn join(&mut self, address: Address) -> Line {
        let index = *self.by_address.entry(address).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.lines.push(Connections::default());
                self.lines.len() - 1
            })
        });
        self.lines[index].count += 1;
        Line(index)
    }

    /// A turn that is due comes nevertheless.
    fn leave(&mut self, address: Address, line: Line) {
        let connections = &mut self.lines[line.0];
        assert!(connections.count > 0, "a connection leaves a line twice");
        connections.count -= 1;
        if connections.count == 0 {
            self.by_address.remove(&address);
            self.free.push(line.0);
        }
    }

    /// The queue must not have the connection.
    fn push(&mut self, line: Line, token: u64) {
        let ready = &mut self.lines[line.0].ready;
        if ready.is_empty() {
            self.ring.push_back(line.0);
        }
        ready.push_back(token);
    }

    fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Until the next look for events.
    fn round(&mut self) -> usize {
        if self.ring.len() > 1 {
            self.alone_turns = 1;
            return self.ring.len();
        }
        let Some(line) = self.ring.front() else {
            return 0;
        };
        let turns = self.alone_turns;
        self.alone_turns = (2 * turns).min(ALONE_TURNS_MAX);
        turns.min(self.lines[*line].ready.len())
    }

    fn pop(&mut self) -> Option<u64> {
        let line = self.ring.pop_front()?;
        let ready = &mut self.lines[line].ready;
        let token = ready.pop_front();
        if !ready.is_empty() {
            self.ring.push_back(line);
        }
        token
    }
}

#[cfg(test)]
mod tests;
