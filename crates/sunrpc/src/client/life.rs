//! The life of one connection slot.
//!
//! The slot's thread connects, sends again what has no reply, and receives until the connection is
//! lost. So no two connections of a slot receive at the same time: memory borrowed for replies has
//! one writer. The thread sends again only when no other sends on the lost connection, which is
//! shut down.
//!
//! After a failure it waits 10 ms, then twice as long each time up to 5 s, until a good reply.
//! Without calls here, or large ones elsewhere, it makes no connection: a server may close idle
//! ones.
//!
//! A server may take fewer connections than the options allow: it refuses the next one, closes it
//! at once, or never replies on it. While another connection is established, such a slot is avoided
//! for a minute, then two, up to an hour, until a good reply. Its unsent calls move at once; sent
//! ones only after repeated failures or when the server answers there, as it may then execute them
//! twice.

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
/// Doubles each time.
const AVOIDED_MS: u64 = 60_000;
/// To about an hour.
const AVOIDED_DOUBLED_MAX: u32 = 6;
/// Failures in a row, while another connection works, before sent calls move.
const USELESS_MAX: u32 = 3;
/// Connections with garbage that fail a call in flight on all of them.
const GARBAGE_MAX: u32 = 3;

impl Slot {
    /// The slot's thread. `first` is its first connection.
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
                // The server may close a connection after a long idle time.
                self.make_way((shared, all), &mut useless, Some(since));
            }
            self.pause(&mut backoff);
        }
        self.end(shared);
    }

    /// False after a stop.
    fn wait_for_work(&self, shared: &ClientShared, connected: bool) -> bool {
        let mut state = self.state.lock();
        while !state.stopped && state.table.is_empty() && !state.wanted && !connected {
            state = self.work.wait(state);
        }
        // Once: an unneeded connection is not retried.
        state.wanted = false;
        !state.stopped && !shared.is_stopped()
    }

    /// After a failed attempt, or a connection without good replies since `since`: if another is
    /// established, avoids this one and moves its calls.
    fn make_way(
        &self,
        (shared, all): (&Arc<ClientShared>, &[Self]),
        useless: &mut u32,
        since: Option<Instant>,
    ) {
        self.state.lock().wanted = false;
        let others = all.iter().filter(|slot| slot.is_usable());
        let Some(other) = others.min_by_key(|slot| slot.reluctance(shared)) else {
            // The server is unreachable: no connection is better.
            return;
        };
        let avoided = AVOIDED_MS << (*useless).min(AVOIDED_DOUBLED_MAX);
        let until = shared.milliseconds().saturating_add(avoided);
        self.avoided_until.store(until, Ordering::Relaxed);
        *useless = useless.saturating_add(1);
        let answers = since.is_some_and(|since| other.has_brought(shared, since));
        self.pass_on(shared, other, answers || *useless >= USELESS_MAX);
    }

    /// Moves unsent calls to another connection, with `sent_too` all.
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
            // Lost meanwhile.
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
        // A reader of the count finds the connection.
        shared.counted.connections.add(1);
        if again {
            shared.counted.reconnections.add(1);
        }
        self.send(state);
    }

    /// Queues all calls of a lost connection.
    fn lost(&self, origin: &Origin, end: End) {
        let shared = &origin.shared;
        // Not under the lock: the log may wait.
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

    fn end(&self, shared: &ClientShared) {
        let mut state = self.wait_until_quiet(self.state.lock());
        // So that no call is added after the last is taken.
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
