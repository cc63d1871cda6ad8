//! The state of one connection slot, and sending on it.
//!
//! **Sending.** The submitting thread sends, until the socket is full. Of all threads with calls
//! for a connection, one is its *writer*. The others leave their calls in the outbox and return;
//! the writer sends them all in one system call. It never waits: when the socket is full, or after
//! some rounds for others, it passes the role to the connection's sending thread, which may wait.
//! So a completion may submit, although it runs on the receiving thread: a server that stops
//! reading until its replies are read cannot block the client.

use super::call::{ClientShared, Finished, Origin, PendingCall};
use super::table::{Batch, Table};
use pagewell_base::sync::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Loads are compared in these steps: small calls stay together and so leave and arrive together;
/// large data is spread over several threads of both sides.
pub(super) const LOAD_STEP_BYTES: usize = 256 << 10;
/// A connection of a client.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) state: Mutex<SlotState>,
    /// Wakes the slot's thread.
    pub(super) work: Condvar,
    pub(super) handed_over: Condvar,
    /// Signals that no thread sends.
    pub(super) quiet: Condvar,
    /// A connection exists; read without the lock.
    pub(super) stands: AtomicBool,
    /// Load of the calls without an outcome; read without the lock.
    load_bytes: AtomicUsize,
    /// Milliseconds since the start until which the slot is avoided; 0 after a useful connection.
    pub(super) avoided_until: AtomicU64,
    /// Milliseconds since the start at the last received bytes.
    heard: AtomicU64,
}

#[derive(Default)]
pub(super) struct SlotState {
    pub(super) table: Table,
    pub(super) link: Option<Link>,
    /// Make a connection although no call waits.
    pub(super) wanted: bool,
    pub(super) writer_active: bool,
    pub(super) handed_over: Option<Task>,
    /// The client is stopped: no more calls.
    pub(super) stopped: bool,
    /// The slot's thread has ended.
    pub(super) ended: bool,
}

/// An established connection.
pub(super) struct Link {
    pub(super) origin: Origin,
    pub(super) since: Instant,
    /// Shut down; the receiving thread has not noticed yet.
    pub(super) given_up: bool,
}

impl Link {
    pub(super) fn give_up(&mut self) {
        self.given_up = true;
        // It may be closed already.
        let _ = self.origin.stream.shutdown(Shutdown::Both);
    }
}

/// The writer's connection and calls.
pub(super) struct Task {
    batch: Batch,
    origin: Origin,
}

impl Slot {
    /// Orders slots for the next call; the least is best. No call waits for a connection attempt,
    /// which may take long and fail, while another connection is established. Otherwise all calls
    /// wait in one slot, and leave on the first connection.
    pub(super) fn reluctance(&self, shared: &ClientShared) -> (bool, bool, usize) {
        let stands = self.stands.load(Ordering::Relaxed);
        let load_bytes = self.load_bytes.load(Ordering::Relaxed);
        let steps = load_bytes / LOAD_STEP_BYTES * usize::from(stands);
        (!stands, self.is_avoided(shared), steps)
    }

    fn is_avoided(&self, shared: &ClientShared) -> bool {
        let until = self.avoided_until.load(Ordering::Relaxed);
        until > 0 && until > shared.milliseconds()
    }

    /// Publishes the load after a change.
    pub(super) fn note_load(&self, state: &SlotState) {
        self.load_bytes
            .store(state.table.load_bytes, Ordering::Relaxed);
    }

    /// Requests a connection after a large call on any slot.
    pub(super) fn want(&self, shared: &ClientShared) {
        if self.stands.load(Ordering::Relaxed) || self.is_avoided(shared) {
            return;
        }
        let mut state = self.state.lock();
        if state.link.is_none() && !state.wanted {
            state.wanted = true;
            drop(state);
            self.work.notify_one();
        }
    }

    pub(super) fn hear(&self, shared: &ClientShared) {
        self.heard.store(shared.milliseconds(), Ordering::Relaxed);
    }

    /// Time of the last received bytes.
    pub(super) fn heard(&self, shared: &ClientShared) -> Instant {
        shared.started + Duration::from_millis(self.heard.load(Ordering::Relaxed))
    }

    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        if let Some(link) = &mut state.link {
            link.give_up();
        }
        drop(state);
        self.work.notify_all();
    }

    pub(super) fn is_usable(&self) -> bool {
        let state = self.state.lock();
        state.link.as_ref().is_some_and(|link| !link.given_up)
    }

    /// Whether the connection is established and has received bytes since.
    pub(super) fn has_brought(&self, shared: &ClientShared, since: Instant) -> bool {
        let state = self.state.lock();
        let link = state.link.as_ref();
        link.is_some_and(|link| self.heard(shared) > since.max(link.since))
    }
}

/// Rounds before the role moves on.
const ROUNDS_MAX: usize = 16;

enum Sent {
    Bytes(usize),
    /// The socket is full.
    Full,
    Broken,
}

impl Slot {
    /// Sends the outbox, unless another thread is the writer.
    pub(super) fn send(&self, mut state: MutexGuard<'_, SlotState>) {
        let Some(link) = state.link.as_ref().filter(|_| !state.writer_active) else {
            return;
        };
        if state.table.may_send(link.origin.shared.options.calls_max) {
            let task = Task {
                batch: Batch::default(),
                origin: link.origin.clone(),
            };
            state.writer_active = true;
            self.write(state, task, false);
        }
    }

    pub(super) fn run_sender(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.handed_over.take() {
                self.write(state, task, true);
                state = self.state.lock();
            } else if state.ended {
                return;
            } else {
                state = self.handed_over.wait(state);
            }
        }
    }

    /// The writer's work: takes the role from the caller, and ends or passes it on. The connection
    /// does not change meanwhile: the next one waits for the writer's end.
    fn write<'a>(&'a self, mut state: MutexGuard<'a, SlotState>, task: Task, may_wait: bool) {
        let Task { mut batch, origin } = task;
        let shared = &origin.shared;
        let mut rounds = 0;
        let mut ended = Vec::new();
        while state.link.is_some() {
            if batch.is_done() {
                batch = state.table.next_batch(shared.options.calls_max);
                shared.counted.retransmissions.add(batch.resent);
                if batch.is_done() {
                    break;
                }
            }
            if rounds == ROUNDS_MAX && !may_wait {
                return self.hand_over(state, Task { batch, origin });
            }
            rounds += 1;
            drop(state);
            let sent = send_some(&origin, &batch);
            if may_wait && matches!(sent, Sent::Full) {
                wait_until_writable(&origin.stream);
            }
            state = self.state.lock();
            match sent {
                Sent::Bytes(count) => state.table.written(batch.advance(count), &mut ended),
                Sent::Full if may_wait => {}
                Sent::Full => return self.hand_over(state, Task { batch, origin }),
                Sent::Broken => {
                    // The receiving thread sees the end, and makes the next connection.
                    let _ = origin.stream.shutdown(Shutdown::Both);
                    break;
                }
            }
            if !ended.is_empty() {
                self.note_load(&state);
                drop(state);
                deliver(&origin, &mut ended);
                state = self.state.lock();
            }
        }
        state.table.written(batch.rest(), &mut ended);
        state.writer_active = false;
        self.note_load(&state);
        drop(state);
        self.quiet.notify_all();
        deliver(&origin, &mut ended);
    }

    fn hand_over(&self, mut state: MutexGuard<'_, SlotState>, task: Task) {
        state.handed_over = Some(task);
        drop(state);
        self.handed_over.notify_one();
    }
}

fn deliver(origin: &Origin, ended: &mut Vec<(PendingCall, Finished)>) {
    for (entry, finished) in ended.drain(..) {
        entry.finish(origin, finished);
    }
}

fn send_some(origin: &Origin, batch: &Batch) -> Sent {
    // SAFETY: the calls of a batch are writing until the writer, this thread, ends that.
    let slices = unsafe { batch.slices() };
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match sendmsg(
        &origin.stream,
        &slices,
        &mut SendAncillaryBuffer::default(),
        flags,
    ) {
        Ok(count) => {
            origin.shared.counted.sent_bytes.add(count as u64);
            Sent::Bytes(count)
        }
        Err(Errno::INTR) => Sent::Bytes(0),
        Err(Errno::AGAIN) => Sent::Full,
        Err(_) => Sent::Broken,
    }
}

/// Waits until the socket takes data, or is shut down.
fn wait_until_writable(stream: &TcpStream) {
    // The next send gets the error.
    let _ = poll(&mut [PollFd::new(stream, PollFlags::OUT)], None);
}
