//! One connection, as long as its client lives: made when it is needed, and made again when lost.
//!
//! Its thread connects, sends again what has no reply, receives until the connection is lost, and
//! begins anew. Since the same thread does all of this, no two connections of a slot are ever
//! received from at the same time: memory borrowed for replies has one writer. Before anything is
//! sent again the thread also waits until no thread sends on the lost connection, which is soon,
//! because it has been shut down.
//!
//! After a failure it waits 10 ms, then twice as long each time up to 5 s, until a good reply has
//! come. A connection is not made as long as there are no calls, or no large ones of the others: a
//! server that closes idle connections is left in peace.
//!
//! A server may take fewer connections than we would like: it refuses the next one, closes it at
//! once, or lets it stand and never answers. As long as another connection stands, such a one is
//! avoided for a minute, then for two, up to an hour, until it has brought a good reply. Its calls
//! that were never sent go over another at once, those that were when there is no hope for them:
//! the server may then carry them out twice, which callers must expect of each that is resent.

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
/// For so long a connection of no use is not tried again if others stand; twice as long each time.
const AVOIDED_MS: u64 = 60_000;
/// So many times at most that is doubled: to about an hour.
const AVOIDED_DOUBLED_MAX: u32 = 6;
/// So often a connection is of no use, beside others that stand, until calls that were sent over
/// it go over another.
const USELESS_MAX: u32 = 3;
/// A call that was in flight on so many connections that turned to garbage fails.
const GARBAGE_MAX: u32 = 3;

impl Slot {
    /// The thread of the connection, which is one of `all`. `first` is a connection made before.
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
                // Not one that was closed because it had not been used for long.
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
        // Once: a connection that is not needed is not made again when it fails or is lost.
        state.wanted = false;
        !state.stopped && !shared.is_stopped()
    }

    /// There is no connection, or one since then was of no use. If another stands, this one is
    /// avoided, and calls go over the other.
    fn make_way(
        &self,
        (shared, all): (&Arc<ClientShared>, &[Self]),
        useless: &mut u32,
        since: Option<Instant>,
    ) {
        self.state.lock().wanted = false;
        let others = all.iter().filter(|slot| slot.is_usable());
        let Some(other) = others.min_by_key(|slot| slot.reluctance(shared)) else {
            // It is the server that is gone: this connection is as good as any.
            return;
        };
        let avoided = AVOIDED_MS << (*useless).min(AVOIDED_DOUBLED_MAX);
        let until = shared.milliseconds().saturating_add(avoided);
        self.avoided_until.store(until, Ordering::Relaxed);
        *useless = useless.saturating_add(1);
        // The server answers, and not here; or it may be that it would, and there is no other way.
        let answers = since.is_some_and(|since| other.has_brought(shared, since));
        self.pass_on(shared, other, answers || *useless >= USELESS_MAX);
    }

    /// Gives calls to another connection: those that were never sent, or also the others.
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
        // A thread that sees that it was made finds it standing.
        shared.counted.connections.add(1);
        if again {
            shared.counted.reconnections.add(1);
        }
        self.send(state);
    }

    /// The connection is gone; afterwards everything waits to be sent again.
    fn lost(&self, origin: &Origin, end: End) {
        let shared = &origin.shared;
        // Not under the lock: the thread that reports may be kept waiting.
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

    /// The client was stopped.
    fn end(&self, shared: &ClientShared) {
        let mut state = self.wait_until_quiet(self.state.lock());
        // No thread adds a call behind the last that is taken out.
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
