//! The life of one connection slot: its connection is made when it is needed, and again when lost.
//!
//! The slot's thread connects, sends again what has no reply, receives until the connection is
//! lost, and begins anew. As one thread does all of this, no two connections of a slot are ever
//! received from at the same time: memory borrowed for replies has one writer. Before it sends
//! again it also waits until no thread sends on the lost connection, which is soon, as that has
//! been shut down.
//!
//! After a failure it waits 10 ms, then twice as long each time up to 5 s, until a good reply
//! comes. It makes no connection while there are no calls, or no large ones elsewhere: a server may
//! close idle connections.
//!
//! A server may take fewer connections than the options allow: it refuses the next one, closes it
//! at once, or leaves it without replies. While another connection is established, such a slot is
//! avoided for a minute, then for two, up to an hour, until it has brought a good reply. Its calls
//! that were never sent go over another connection at once. Those that were sent follow only when
//! the connection has failed often: the server may then carry them out twice, which callers must
//! expect of each call that is resent.

use super::call::{CallError, ClientShared, Origin};
use super::dial::{ConnectError, dial, forget};
use super::receiver::{End, Receiver};
use super::slot::{Link, Slot, SlotState};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagewell_base::sync::MutexGuard;

const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long a useless connection is avoided at first, in milliseconds; twice as long each time.
const AVOIDED_MS: u64 = 60_000;
/// The most doublings: to about an hour.
const AVOIDED_DOUBLED_MAX: u32 = 6;
/// Failures of a connection in a row, beside another that works, until its sent calls go over
/// another.
const USELESS_MAX: u32 = 3;
/// Connections with garbage until a call that was in flight on all of them fails.
const GARBAGE_MAX: u32 = 3;

impl Slot {
    /// The thread of this slot, which is one of `all`. `first` is its first connection.
    pub(super) fn run(&self, shared: &Arc<ClientShared>, all: &[Self], first: Option<TcpStream>) {
        let mut next = first;
        let mut port = None;
        let mut backoff = BACKOFF_MIN;
        let mut useless = 0;
        while self.wait_for_work(shared, next.is_some()) {
            let stream = match next.take() {
                Some(stream) => stream,
                None => match dial(&shared.options, port, || !shared.is_stopped()) {
                    Ok(stream) => stream,
                    Err(error) => {
                        if !matches!(error, ConnectError::Stopped) {
                            pagewell_counters::names::CLIENT_CONNECT_FAILURES.add(1);
                            self.make_way((shared, all), &mut useless, None);
                        }
                        self.pause(&mut backoff);
                        continue;
                    }
                },
            };
            let origin = Origin {
                shared: shared.clone(),
                stream: Arc::new(stream),
            };
            let since = Instant::now();
            self.connected(&origin, port.is_some());
            port = Some(origin.stream.local_addr().map_or(0, |local| local.port()));
            let mut receiver = Receiver::new(self, &origin);
            let end = receiver.run();
            self.lost(&origin, end);
            if receiver.good_replies {
                backoff = BACKOFF_MIN;
                useless = 0;
            } else if since.elapsed() < BACKOFF_MAX || !self.state.lock().table.is_empty() {
                // Not one that the server closed because it was idle for long.
                self.make_way((shared, all), &mut useless, Some(since));
            }
            self.pause(&mut backoff);
        }
        self.end(shared);
    }

    /// False when the client was stopped.
    fn wait_for_work(&self, shared: &ClientShared, connected: bool) -> bool {
        let mut state = self.state.lock();
        while !state.stopped && state.table.is_empty() && !state.wanted && !connected {
            state = self.work.wait(state);
        }
        // Once: an unneeded connection is not made again after a failure.
        state.wanted = false;
        !state.stopped && !shared.is_stopped()
    }

    /// Notes that no connection could be made, or that one since then was useless. If another is
    /// established, this one is avoided, and its calls go over the other.
    fn make_way(
        &self,
        (shared, all): (&Arc<ClientShared>, &[Self]),
        useless: &mut u32,
        since: Option<Instant>,
    ) {
        self.state.lock().wanted = false;
        let others = all.iter().filter(|slot| slot.is_usable());
        let Some(other) = others.min_by_key(|slot| slot.reluctance(shared)) else {
            // The server is gone, so this connection is as good as any.
            return;
        };
        let avoided = AVOIDED_MS << (*useless).min(AVOIDED_DOUBLED_MAX);
        let until = shared.milliseconds().saturating_add(avoided);
        self.avoided_until.store(until, Ordering::Relaxed);
        *useless = useless.saturating_add(1);
        // Sent calls follow if the server answers elsewhere, or if this connection has failed
        // often.
        let answers = since.is_some_and(|since| other.has_brought(shared, since));
        self.pass_on(shared, other, answers || *useless >= USELESS_MAX);
    }

    /// Gives calls to another connection: those that were never sent, and with `sent_too` the
    /// others.
    fn pass_on(&self, shared: &Arc<ClientShared>, other: &Self, sent_too: bool) {
        let mut state = self.state.lock();
        let taken = state.table.take(sent_too);
        self.note_load(&state);
        drop(state);
        if taken.is_empty() {
            return;
        }
        let mut state = other.state.lock();
        if state.stopped {
            drop(state);
            for entry in taken {
                entry.fail(shared, CallError::Stopped);
            }
            return;
        }
        let mut left = Vec::new();
        for entry in taken {
            if state.table.contains(entry.call.xid) {
                left.push(entry);
            } else {
                state.table.adopt(entry);
            }
        }
        other.note_load(&state);
        if state.link.is_none() {
            // It was lost meanwhile.
            other.work.notify_one();
        }
        other.send(state);
        let mut state = self.state.lock();
        for entry in left {
            state.table.adopt(entry);
        }
        self.note_load(&state);
    }

    fn pause(&self, backoff: &mut Duration) {
        let until = Instant::now() + *backoff;
        *backoff = (*backoff * 2).min(BACKOFF_MAX);
        let mut state = self.state.lock();
        while !state.stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.work.wait_timeout(state, left);
        }
    }

    fn connected(&self, origin: &Origin, again: bool) {
        let shared = &origin.shared;
        let mut state = self.state.lock();
        let mut link = Link {
            origin: origin.clone(),
            since: Instant::now(),
            given_up: false,
        };
        if state.stopped {
            link.give_up();
        }
        state.link = Some(link);
        state.wanted = false;
        self.avoided_until.store(0, Ordering::Relaxed);
        self.stands.store(true, Ordering::Relaxed);
        // A thread that sees the count finds the connection.
        shared.counted.connections.add(1);
        if again {
            shared.counted.reconnections.add(1);
        }
        self.send(state);
    }

    /// After the loss of the connection all of its calls wait to be sent again.
    fn lost(&self, origin: &Origin, end: End) {
        let shared = &origin.shared;
        // Not under the lock: the log may make this thread wait.
        if let End::Garbage { reason, .. } = &end {
            shared.report_garbage(reason);
        }
        let mut state = self.state.lock();
        self.stands.store(false, Ordering::Relaxed);
        if let Some(mut link) = state.link.take() {
            if !state.stopped {
                forget(&link.origin.stream);
            }
            link.give_up();
        }
        state = self.wait_until_quiet(state);
        if let End::Garbage { reason, xid } = end {
            for entry in state.table.entries_mut() {
                entry.garbage += u32::from(entry.sent.is_some());
                if Some(entry.call.xid) == xid || entry.garbage >= GARBAGE_MAX {
                    let reason = reason.clone();
                    let error = CallError::Garbage { reason };
                    entry.finished.get_or_insert(Err(error));
                }
            }
        }
        let ended = state.table.reset();
        self.note_load(&state);
        drop(state);
        for (entry, finished) in ended {
            entry.finish(origin, finished);
        }
    }

    fn wait_until_quiet<'a>(
        &self,
        mut state: MutexGuard<'a, SlotState>,
    ) -> MutexGuard<'a, SlotState> {
        while state.writer_active {
            state = self.quiet.wait(state);
        }
        state
    }

    /// Ends after a stop.
    fn end(&self, shared: &ClientShared) {
        let mut state = self.wait_until_quiet(self.state.lock());
        // No thread adds a call after the last is taken out.
        state.stopped = true;
        let entries = state.table.take_all();
        state.ended = true;
        self.note_load(&state);
        drop(state);
        self.handed_over.notify_all();
        for entry in entries {
            entry.fail(shared, CallError::Stopped);
        }
    }
}
