//! The state of one connection slot, and sending on it.
//!
//! **Sending.** The submitting thread sends. Of all threads with calls for a connection, one is its
//! *writer*; the others leave their calls in the outbox and return, and the writer sends them in
//! one system call. It never waits: when the socket is full, or after some rounds, it passes the
//! role to the connection's sending thread, which may. So a completion may submit, although it runs
//! on the receiving thread: a server that reads nothing until its replies are read cannot block the
//! client.
//!
//! **Calls**, from `submit` to their completion:
//!
//! ```text
//!             a writer takes it              its reply begins
//!   waiting ───────────────────> sent ──────────────────────────> receiving ──> completed
//!      ^    \_ writing until all _/ |                                 |
//!      |       of it is sent        | the connection is lost          |
//!      └────────────────────────────┴─────────────────────────────────┘
//! ```
//!
//! The memory of a *writing* call is in use by the writer, of a *receiving* one by the receiving
//! thread. Meanwhile other threads leave the call's end in `finished`, and the using thread
//! completes it.

use super::call::{CallError, ClientShared, Completion, Finished, Origin, Outgoing, PendingCall};
use pagewell_base::sync::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::IoSlice;
use std::iter;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Loads are compared in these steps: small calls stay together; large data is spread over several
/// threads of both sides.
pub(super) const LOAD_STEP_BYTES: usize = 256 << 10;
#[derive(Default)]
pub(super) struct Slot {
    pub(super) state: Mutex<SlotState>,
    /// Wakes the slot's thread.
    pub(super) work: Condvar,
    pub(super) handed_over: Condvar,
    /// No thread sends.
    pub(super) quiet: Condvar,
    /// A connection exists.
    pub(super) stands: AtomicBool,
    /// Of calls without an outcome.
    load_bytes: AtomicUsize,
    /// Milliseconds since the start until which the slot is avoided; 0 once connected.
    pub(super) avoided_until: AtomicU64,
    /// When bytes came last, in milliseconds since the start.
    heard: AtomicU64,
}

#[derive(Default)]
pub(super) struct SlotState {
    pub(super) table: Table,
    pub(super) link: Option<Link>,
    /// Connect although no call waits.
    pub(super) wanted: bool,
    pub(super) writer_active: bool,
    pub(super) handed_over: Option<Task>,
    /// No more calls.
    pub(super) stopped: bool,
    /// The slot's thread has ended.
    pub(super) ended: bool,
}

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
    /// Orders slots for the next call; the least is best. No call waits for a connection attempt
    /// while another connection is established. Otherwise all wait in one slot, and leave on the
    /// first connection.
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

    /// When bytes came last.
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

/// Of a writer that must not wait.
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

    /// Takes the writer's role from the caller, and ends or passes it on. The next connection waits
    /// for that end.
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
                    // The receiving thread makes the next connection.
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

pub(super) const WAITING_MAX: usize = 65_536;
/// Of one system call.
const BATCH_CALLS_MAX: usize = 64;
/// Of several calls.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Of one system call; Linux takes 1024.
const SLICES_MAX: usize = 512;
/// Calls in flight of which several replies are likely to come together.
const MANY: usize = 4;
/// Ended calls in the outbox, besides as many as there are others.
const OUTBOX_SLACK: usize = 64;
/// Failed calls whose replies may still come.
const LATE_MAX: usize = 4096;

pub(super) enum Known {
    /// Now receiving.
    Waiting(Arc<Outgoing>),
    /// A failed call.
    Late,
    /// No call.
    Unexpected,
}

#[derive(Default)]
pub(super) struct Table {
    entries: HashMap<u32, PendingCall>,
    /// To be sent, in order; some may have ended.
    outbox: VecDeque<u32>,
    /// Entries sent on this connection.
    sent: usize,
    /// Of these, with a sink.
    sinks: usize,
    late: HashSet<u32>,
    sequence: u64,
    /// Of all calls.
    pub(super) load_bytes: usize,
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() - self.sent >= WAITING_MAX
    }

    /// Whether several replies may come at once, none with data for a sink.
    pub(super) const fn awaits_many_without_data(&self) -> bool {
        self.sinks == 0 && self.sent >= MANY
    }

    pub(super) fn contains(&self, xid: u32) -> bool {
        self.entries.contains_key(&xid) || self.late.contains(&xid)
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut PendingCall> {
        self.entries.values_mut()
    }

    pub(super) fn insert(&mut self, call: Arc<Outgoing>, completion: Completion) {
        self.adopt(PendingCall {
            call,
            completion,
            submitted: Instant::now(),
            sequence: 0,
            sent: None,
            sent_last: None,
            resent: false,
            timeouts: 0,
            garbage: 0,
            writing: false,
            receiving: false,
            finished: None,
        });
    }

    pub(super) fn adopt(&mut self, mut entry: PendingCall) {
        let xid = entry.call.xid;
        entry.sequence = self.sequence;
        self.sequence += 1;
        self.load_bytes += entry.call.load_bytes();
        self.entries.insert(xid, entry);
        self.outbox.push_back(xid);
    }

    /// Takes out unsent calls, in order, and with `sent_too` those of lost connections. Only
    /// without a connection and a thread that writes or receives.
    pub(super) fn take(&mut self, sent_too: bool) -> Vec<PendingCall> {
        let goes = |entry: &PendingCall| {
            let was_sent = entry.sent_last.is_some();
            (sent_too || !was_sent) && entry.sent.is_none() && entry.finished.is_none()
        };
        let going = self.entries.iter().filter(|(_, entry)| goes(entry));
        let xids: Vec<u32> = going.map(|(xid, _)| *xid).collect();
        let mut taken: Vec<PendingCall> = xids.iter().filter_map(|xid| self.remove(*xid)).collect();
        taken.sort_unstable_by_key(|entry| entry.sequence);
        self.outbox.retain(|xid| self.entries.contains_key(xid));
        taken
    }

    pub(super) fn may_send(&self, calls_max: usize) -> bool {
        !self.outbox.is_empty() && self.sent < calls_max
    }

    /// The next calls, now writing.
    pub(super) fn next_batch(&mut self, calls_max: usize) -> Batch {
        let mut batch = Batch::default();
        let mut bytes = 0usize;
        while batch.calls.len() < BATCH_CALLS_MAX && self.sent < calls_max {
            let Some(xid) = self.outbox.front() else {
                break;
            };
            let Some(entry) = self.entries.get_mut(xid) else {
                self.outbox.pop_front();
                continue;
            };
            bytes = bytes.saturating_add(entry.call.wire_bytes());
            if bytes > BATCH_BYTES_MAX && !batch.calls.is_empty() {
                break;
            }
            self.outbox.pop_front();
            let now = Instant::now();
            entry.resent |= entry.sent_last.is_some();
            batch.resent += u64::from(entry.sent_last.is_some());
            entry.sent = Some(now);
            entry.sent_last = entry.sent;
            entry.writing = true;
            self.sent += 1;
            self.sinks += usize::from(entry.call.sink().is_some());
            batch.calls.push(entry.call.clone());
        }
        batch
    }

    /// Ends writing. Adds the calls that have ended meanwhile to `ended`.
    pub(super) fn written(
        &mut self,
        calls: &[Arc<Outgoing>],
        ended: &mut Vec<(PendingCall, Finished)>,
    ) {
        for call in calls {
            if let Some(entry) = self.entries.get_mut(&call.xid) {
                entry.writing = false;
            }
            ended.extend(self.settle(call.xid));
        }
    }

    pub(super) fn begin_reply(&mut self, xid: u32) -> Known {
        match self.entries.get_mut(&xid) {
            Some(entry) if entry.sent.is_some() && !matches!(entry.finished, Some(Ok(_))) => {
                entry.receiving = true;
                Known::Waiting(entry.call.clone())
            }
            Some(_) => Known::Unexpected,
            None if self.late.remove(&xid) => Known::Late,
            None => Known::Unexpected,
        }
    }

    /// Returns the call, or keeps its end while it is writing.
    pub(super) fn end_reply(
        &mut self,
        xid: u32,
        finished: &Finished<&[u8]>,
    ) -> Option<PendingCall> {
        let entry = self.entries.get_mut(&xid)?;
        entry.receiving = false;
        if entry.writing {
            let kept = finished.clone();
            entry.finished = Some(kept.map(|(results, data_bytes)| (results.to_vec(), data_bytes)));
            return None;
        }
        self.remove(xid)
    }

    /// Fails a call: at once, or (second value) when its memory is released. Its reply may still
    /// come.
    pub(super) fn give_up(
        &mut self,
        xid: u32,
        now: Instant,
    ) -> (Option<(PendingCall, Duration)>, bool) {
        let Some(entry) = self.entries.get_mut(&xid) else {
            return (None, false);
        };
        let after = now.saturating_duration_since(entry.submitted);
        if entry.is_held() {
            let error = CallError::TimedOut { after };
            entry.finished.get_or_insert(Err(error));
            return (None, true);
        }
        if entry.sent.is_some() && self.late.len() < LATE_MAX {
            self.late.insert(xid);
        }
        let given_up = self.remove(xid);
        // Unsent ones, while no thread sends.
        if self.outbox.len() > 2 * self.entries.len() + OUTBOX_SLACK {
            self.outbox.retain(|xid| self.entries.contains_key(xid));
        }
        (given_up.map(|entry| (entry, after)), false)
    }

    /// When the longest waiting call was sent.
    pub(super) fn oldest_sent(&self) -> Option<Instant> {
        self.entries.values().filter_map(|entry| entry.sent).min()
    }

    pub(super) fn oldest_submitted(&self) -> Option<Instant> {
        self.entries.values().map(|entry| entry.submitted).min()
    }

    /// Returns the ended calls of a lost connection, and queues the others. Only when no thread
    /// writes or receives.
    pub(super) fn reset(&mut self) -> Vec<(PendingCall, Finished)> {
        self.late.clear();
        self.sent = 0;
        self.sinks = 0;
        let mut ended = Vec::new();
        let mut order = Vec::with_capacity(self.entries.len());
        for (xid, entry) in &mut self.entries {
            entry.sent = None;
            entry.writing = false;
            entry.receiving = false;
            if entry.finished.is_some() {
                ended.push(*xid);
            } else {
                order.push((entry.sequence, *xid));
            }
        }
        order.sort_unstable();
        self.outbox = order.into_iter().map(|(_, xid)| xid).collect();
        ended
            .into_iter()
            .filter_map(|xid| self.settle(xid))
            .collect()
    }

    /// Only when no thread writes or receives.
    pub(super) fn take_all(&mut self) -> Vec<PendingCall> {
        std::mem::take(self).entries.into_values().collect()
    }

    fn settle(&mut self, xid: u32) -> Option<(PendingCall, Finished)> {
        let entry = self.entries.get(&xid)?;
        if entry.is_held() || entry.finished.is_none() {
            return None;
        }
        let mut entry = self.remove(xid)?;
        entry.finished.take().map(|finished| (entry, finished))
    }

    fn remove(&mut self, xid: u32) -> Option<PendingCall> {
        let entry = self.entries.remove(&xid)?;
        self.load_bytes -= entry.call.load_bytes();
        if entry.sent.is_some() {
            self.sent -= 1;
            self.sinks -= usize::from(entry.call.sink().is_some());
        }
        Some(entry)
    }
}

#[derive(Default)]
pub(super) struct Batch {
    calls: Vec<Arc<Outgoing>>,
    /// Of these, sent again.
    pub(super) resent: u64,
    /// Whole calls.
    done: usize,
    /// Bytes sent of the next one.
    offset: usize,
}

impl Batch {
    pub(super) fn is_done(&self) -> bool {
        self.done == self.calls.len()
    }

    /// The rest.
    ///
    /// # Safety
    /// The calls stay writing while the slices are in use.
    pub(super) unsafe fn slices(&self) -> Vec<IoSlice<'_>> {
        let skips = iter::once(self.offset).chain(iter::repeat(0));
        let calls = self.calls[self.done..].iter().zip(skips);
        // SAFETY: a call that is writing is not completed.
        let all = calls.flat_map(|(call, skip)| unsafe { call.slices(skip) });
        let mut slices = Vec::with_capacity(SLICES_MAX.min(4 * self.calls.len()));
        slices.extend(all.take(SLICES_MAX));
        slices
    }

    /// Notes `count` more bytes as sent. Returns the calls that this completes.
    pub(super) fn advance(&mut self, count: usize) -> &[Arc<Outgoing>] {
        let first = self.done;
        self.offset += count;
        while let Some(call) = self.calls.get(self.done) {
            let bytes = call.wire_bytes();
            if self.offset < bytes {
                break;
            }
            self.offset -= bytes;
            self.done += 1;
        }
        &self.calls[first..self.done]
    }

    /// Calls not sent as a whole.
    pub(super) fn rest(&self) -> &[Arc<Outgoing>] {
        &self.calls[self.done..]
    }
}
