//! Sending: the thread that submits sends, until the socket is full.
//!
//! Of all threads that have something for a connection, one is its *writer*. The others leave
//! their calls in the outbox and go; the writer takes what has gathered and sends it in one system
//! call. It never waits: when the socket is full, or when it has sent for others long enough, it
//! hands the role to the connection's own sending thread, which may wait. So a completion may
//! submit, although it runs on the thread that must go on receiving: a server that does not read
//! before its replies are read cannot block us.

use super::reply::{Delivery, Finished, Origin};
use super::shared::Shared;
use super::slot::{Slot, State, Task};
use super::table::Batch;
use pagewell_base::sync::MutexGuard;
use pagewell_counters::names;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Slices of one system call; the system takes 1024.
const SLICES_MAX: usize = 512;
/// System calls that a thread makes for others before it hands over.
const ROUNDS_MAX: usize = 16;

/// What a send came to.
enum Sent {
    Bytes(usize),
    /// The socket takes nothing now.
    Full,
    Broken,
}

impl Slot {
    /// Sends what is in the outbox, unless another thread is at it already.
    pub(super) fn send(&self, shared: &Arc<Shared>, mut state: MutexGuard<'_, State>) {
        if state.writer_active || !state.table.may_send(shared.options.calls_max) {
            return;
        }
        if let Some(link) = &state.link {
            let task = Task {
                batch: Batch::default(),
                stream: link.stream.clone(),
            };
            state.writer_active = true;
            self.write(shared, state, task, false);
        }
    }

    /// The sending thread.
    pub(super) fn run_sender(&self, shared: &Arc<Shared>) {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.handed_over.take() {
                self.write(shared, state, task, true);
                state = self.state.lock();
            } else if state.ended {
                return;
            } else {
                state = self.handed_over.wait(state);
            }
        }
    }

    /// The writer's work: the caller has taken the role, this gives it back or hands it over. The
    /// connection does not change under it: the next one waits until there is no writer.
    fn write<'a>(
        &'a self,
        shared: &Arc<Shared>,
        mut state: MutexGuard<'a, State>,
        task: Task,
        may_wait: bool,
    ) {
        let Task { mut batch, stream } = task;
        let mut rounds = 0;
        let mut ended = Vec::new();
        while state.link.is_some() {
            if batch.is_done() {
                let mut resent = 0;
                batch = state
                    .table
                    .next_batch(shared.options.calls_max, &mut resent);
                shared.counted.retransmissions.add(resent);
                if batch.is_done() {
                    break;
                }
            }
            if rounds == ROUNDS_MAX && !may_wait {
                return self.hand_over(state, Task { batch, stream });
            }
            rounds += 1;
            drop(state);
            let sent = send_some(&stream, &batch, shared);
            if may_wait && matches!(sent, Sent::Full) {
                wait_until_writable(&stream);
            }
            state = self.state.lock();
            match sent {
                Sent::Bytes(count) => state.table.written(batch.advance(count), &mut ended),
                Sent::Full if may_wait => {}
                Sent::Full => return self.hand_over(state, Task { batch, stream }),
                Sent::Broken => {
                    // The receiving thread learns of it, and makes the next connection.
                    let _ = stream.shutdown(Shutdown::Both);
                    break;
                }
            }
            if !ended.is_empty() {
                self.note_load(&state);
                drop(state);
                deliver(shared, &stream, &mut ended);
                state = self.state.lock();
            }
        }
        state.table.written(batch.rest(), &mut ended);
        state.writer_active = false;
        self.note_load(&state);
        drop(state);
        self.quiet.notify_all();
        deliver(shared, &stream, &mut ended);
    }

    fn hand_over(&self, mut state: MutexGuard<'_, State>, task: Task) {
        names::CLIENT_SENDS_HANDED_OVER.add(1);
        state.handed_over = Some(task);
        drop(state);
        self.handed_over.notify_one();
    }
}

fn deliver(shared: &Arc<Shared>, stream: &Arc<TcpStream>, ended: &mut Vec<(Delivery, Finished)>) {
    let origin = Origin {
        shared: shared.clone(),
        stream: stream.clone(),
    };
    for (delivery, finished) in ended.drain(..) {
        delivery.finish(&origin, finished);
    }
}

fn send_some(stream: &TcpStream, batch: &Batch, shared: &Shared) -> Sent {
    // SAFETY: the calls of a batch are writing until the writer says otherwise, which is the
    // thread that we are on.
    let slices = unsafe { batch.slices(SLICES_MAX) };
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    names::CLIENT_SEND_CALLS.add(1);
    match sendmsg(stream, &slices, &mut SendAncillaryBuffer::default(), flags) {
        Ok(count) => {
            shared.counted.sent_bytes.add(count as u64);
            Sent::Bytes(count)
        }
        Err(Errno::INTR) => Sent::Bytes(0),
        Err(Errno::AGAIN) => Sent::Full,
        Err(_) => Sent::Broken,
    }
}

/// Waits until the socket takes something, or is shut down.
fn wait_until_writable(stream: &TcpStream) {
    // An error here is met again by the next send.
    let _ = poll(&mut [PollFd::new(stream, PollFlags::OUT)], None);
}
