//! The threads that receive.
//!
//! Each reader has its own epoll and its own connections. It receives what is there, finds the
//! records in it, answers every call that need not wait (a hit) into one block of replies, and
//! sends the block with one system call. A call that may wait goes to the pool with a copy of
//! its bytes, or with the buffer they were received into when they are many.
//!
//! ```text
//!   socket --readv--> [rest of a large record | scratch]
//!                            |                   |
//!                        Assembly            whole records, in place
//!                            \_________  _______/
//!                                      \/
//!                          Service::answer(may_block: no)
//!                           answered /        \ would wait
//!                         block of replies     Pool
//! ```
//!
//! Fairness: a connection has a turn of a few receives, then the next one; the pool has its own.
//! Events are edge-triggered, so that the hot path makes no epoll_ctl call; a connection that is
//! not read dry keeps its place in the list of the ready.

use std::collections::{HashMap, VecDeque};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pagewell_counters::names;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

use crate::connection::Connection;
use crate::receive::receiver::{Receiver, Turn};
use crate::server::Shared;

/// A connection whose record or whose replies make no progress for this long is closed.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The same of replies, when all connections together have too many that have not left.
const UNREAD_AFTER: Duration = Duration::from_secs(10);

/// How often stalled connections are looked for.
const TICK: Duration = Duration::from_secs(1);

const MAILBOX: u64 = 1;
/// Connections are numbered from here.
pub const FIRST_TOKEN: u64 = 16;

/// What other threads put for a reader.
pub struct Mailbox {
    event: OwnedFd,
    state: Mutex<Letters>,
}

#[derive(Default)]
struct Letters {
    wake: Vec<u64>,
    adopt: Vec<Arc<Connection>>,
}

/// Calls a reader to look at one connection again.
#[derive(Clone)]
pub struct Waker {
    mailbox: Arc<Mailbox>,
    token: u64,
}

impl Waker {
    /// A waker for the connection `token` of the reader behind `mailbox`.
    #[must_use]
    pub fn new(mailbox: Arc<Mailbox>, token: u64) -> Self {
        Self { mailbox, token }
    }

    /// The connection's number.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Calls the reader.
    pub fn wake(&self) {
        self.mailbox.post(|letters| letters.wake.push(self.token));
    }
}

impl Mailbox {
    /// An empty one.
    pub fn new() -> Result<Arc<Self>, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self {
            event,
            state: Mutex::default(),
        }))
    }

    /// Hands a new connection to the reader.
    pub fn adopt(&self, connection: Arc<Connection>) {
        self.post(|letters| letters.adopt.push(connection));
    }

    /// Interrupts the reader's wait.
    pub fn ring(&self) {
        // It can only fail when the count is full, and then the reader is being called already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// The connections that were called since the last time.
    #[cfg(test)]
    pub(crate) fn called(&self) -> Vec<u64> {
        self.collect().wake
    }

    fn post(&self, put: impl FnOnce(&mut Letters)) {
        let mut letters = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let first = letters.wake.is_empty() && letters.adopt.is_empty();
        put(&mut letters);
        drop(letters);
        if first {
            self.ring();
        }
    }

    fn collect(&self) -> Letters {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
        std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One receiving thread.
pub struct Reader {
    epoll: OwnedFd,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
    receivers: HashMap<u64, Receiver>,
    ready: VecDeque<u64>,
    scratch: Vec<u8>,
    last_tick: Instant,
}

/// Bytes received at once when no large record is under way: some two hundred small calls.
pub const SCRATCH_BYTES: usize = 32 << 10;

impl Reader {
    /// A reader of the connections that are put into `mailbox`.
    pub fn new(shared: Arc<Shared>, mailbox: Arc<Mailbox>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let input = epoll::EventFlags::IN;
        epoll::add(
            &epoll,
            &mailbox.event,
            epoll::EventData::new_u64(MAILBOX),
            input,
        )?;
        Ok(Self {
            epoll,
            mailbox,
            shared,
            receivers: HashMap::new(),
            ready: VecDeque::new(),
            scratch: vec![0; SCRATCH_BYTES],
            last_tick: Instant::now(),
        })
    }

    /// Serves until the server stops.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        while !self.shared.stopping.load(Ordering::Acquire) {
            self.wait(&mut events);
            for event in &events {
                let event: &epoll::Event = event;
                self.dispatch(event.data.u64(), event.flags);
            }
            for _ in 0..self.ready.len() {
                if let Some(token) = self.ready.pop_front() {
                    self.turn(token);
                }
            }
            if self.last_tick.elapsed() >= TICK {
                self.tick();
            }
        }
        self.drain();
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) {
        let timeout = if self.ready.is_empty() {
            TICK
        } else {
            Duration::ZERO
        };
        #[allow(clippy::cast_possible_wrap)] // two seconds
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: 0,
        };
        events.clear();
        let buffer = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            // Nothing but a programming error makes epoll_wait fail; do not spin on it.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }

    fn dispatch(&mut self, token: u64, flags: epoll::EventFlags) {
        match token {
            MAILBOX => {
                let letters = self.mailbox.collect();
                for connection in letters.adopt {
                    self.adopt(connection);
                }
                for token in letters.wake {
                    self.make_ready(token);
                }
            }
            token => {
                let reset = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                if let Some(receiver) = self.receivers.get_mut(&token) {
                    if flags.contains(epoll::EventFlags::OUT) {
                        receiver.connection().room();
                    }
                    if flags.intersects(reset) {
                        // Nobody can be answered: what was not begun is not to be begun.
                        receiver.connection().close();
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
            && !receiver.set_ready(true)
        {
            self.ready.push_back(token);
        }
    }

    fn turn(&mut self, token: u64) {
        let Some(receiver) = self.receivers.get_mut(&token) else {
            return;
        };
        receiver.set_ready(false);
        let calls = receiver.calls();
        let work = AssertUnwindSafe(|| receiver.turn(&self.shared, &mut self.scratch));
        let turn = catch_unwind(work).unwrap_or_else(|_| {
            names::PANICS.add(1);
            Turn::Closed
        });
        match turn {
            Turn::Idle => {
                let connection = receiver.connection();
                let is_idle = receiver.calls() == calls && !connection.is_busy();
                if connection.was_asked_to_leave() && is_idle {
                    names::CONNECTIONS_IDLE_CLOSED.add(1);
                    self.close(token);
                }
            }
            Turn::Again => self.make_ready(token),
            Turn::Closed => self.close(token),
        }
    }

    fn close(&mut self, token: u64) {
        if let Some(receiver) = self.receivers.remove(&token) {
            receiver.connection().close();
        }
    }

    fn adopt(&mut self, connection: Arc<Connection>) {
        let token = connection.token();
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(token);
        if epoll::add(&self.epoll, connection.as_fd(), data, flags).is_ok() {
            let receiver = Receiver::new(connection, &self.shared.memory);
            self.receivers.insert(token, receiver);
            self.make_ready(token);
        }
    }

    fn tick(&mut self) {
        self.last_tick = Instant::now();
        let is_wanted = self.shared.memory.is_wanted();
        let mut put_off = Vec::new();
        let is_over = self.shared.totals.unsent.is_over();
        for receiver in self.receivers.values_mut() {
            receiver.tell_calls(self.last_tick);
            let is_overdue = receiver.is_overdue(self.last_tick);
            let is_unread = is_over && receiver.connection().unsent_bytes() > 0;
            let limit = if is_unread {
                UNREAD_AFTER
            } else {
                STALLED_AFTER
            };
            if receiver.stalled(self.last_tick, limit) {
                names::CONNECTIONS_STALLED.add(1);
                receiver.connection().close();
            } else if is_wanted && is_overdue {
                receiver.drop_overdue();
            } else if is_wanted && receiver.put_off(&self.shared) {
                put_off.push(receiver.connection().token());
            }
        }
        put_off.into_iter().for_each(|token| self.make_ready(token));
    }

    /// The server stops: what was begun is finished and sent, for a bounded time.
    fn drain(&mut self) {
        let deadline = Instant::now() + self.shared.drain_for;
        while Instant::now() < deadline
            && self
                .receivers
                .values()
                .any(|receiver| receiver.connection().is_busy())
        {
            for receiver in self.receivers.values() {
                receiver.connection().room();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        for receiver in self.receivers.values() {
            receiver.connection().close();
        }
    }
}

/// Receives into two places with one call.
pub fn receive_into(
    socket: impl AsFd,
    first: &mut [u8],
    second: &mut [u8],
) -> Result<usize, Errno> {
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
