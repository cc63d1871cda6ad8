//! One connection, as long as its client lives: made when it is needed, and made again when lost.
//!
//! Its thread connects, sends again what has no reply, receives until the connection is lost, and
//! begins anew. Since the same thread does all of this, no two connections of a slot are ever
//! received from at the same time: memory lent for replies has one writer. Before anything is sent
//! again the thread also waits until nobody sends on the lost connection, which is soon, because
//! it has been shut down.
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

use super::dial::{dial, forget};
use super::error::{CallError, ConnectError};
use super::lock;
use super::receiver::{End, Receiver};
use super::reply::Origin;
use super::sender::Task;
use super::shared::Shared;
use super::table::Table;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// For so long a connection of no use is not tried again if others stand; twice as long each time.
const AVOIDED_MS: u64 = 60_000;
/// So many times at most that is doubled: to about an hour.
const AVOIDED_DOUBLED_MAX: u32 = 6;
/// So often a connection is of no use, beside others that stand, until calls that were sent over
/// it go over another.
const USELESS_MAX: u32 = 3;
/// What is on its way on a connection counts in steps of this: small calls stay together and leave
/// and arrive together; large data is spread, so that several threads of both sides work on it.
pub(super) const LOAD_STEP_BYTES: usize = 256 << 10;
/// A call that was in flight on so many connections that turned to garbage fails.
const GARBAGE_MAX: u32 = 3;

/// One of a client's connections.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) state: Mutex<State>,
    /// There may be something to do for the thread of the connection.
    work: Condvar,
    /// There may be something to do for the sending thread.
    pub(super) handed_over: Condvar,
    /// Nobody sends any more.
    pub(super) quiet: Condvar,
    /// There is a connection, as far as that is known without the lock.
    stands: AtomicBool,
    /// Bytes of calls without an end and of their data, as far as that is known without the lock.
    load_bytes: AtomicUsize,
    /// The last connection was of no use, and this is avoided until then, in milliseconds since the
    /// client was made; 0 when it was.
    avoided_until: AtomicU64,
    /// When something was received last, in milliseconds since the client was made.
    heard: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) table: Table,
    pub(super) link: Option<Link>,
    /// A connection is to be made although there is no call for it yet.
    wanted: bool,
    /// A thread sends.
    pub(super) writer_active: bool,
    pub(super) handed_over: Option<Task>,
    /// The client is stopped: nothing enters the table.
    pub(super) stopped: bool,
    /// The thread of the connection has ended.
    pub(super) ended: bool,
}

/// A connection that stands.
pub(super) struct Link {
    pub(super) stream: Arc<TcpStream>,
    pub(super) since: Instant,
    /// It is shut down; only the receiving thread has not noticed yet.
    pub(super) given_up: bool,
}

impl Link {
    pub(super) fn give_up(&mut self) {
        self.given_up = true;
        // It may be gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Slot {
    /// How little a further call is wanted here; the least is best. No call waits for a connection
    /// in the making as long as another stands: to make one may take long, and be in vain. When
    /// none stands all wait in the same place, to leave over the first that does.
    pub(super) fn reluctance(&self, shared: &Shared) -> (bool, bool, usize) {
        let stands = self.stands.load(Ordering::Relaxed);
        let load_bytes = self.load_bytes.load(Ordering::Relaxed);
        let steps = load_bytes / LOAD_STEP_BYTES * usize::from(stands);
        (!stands, self.is_avoided(shared), steps)
    }

    fn is_avoided(&self, shared: &Shared) -> bool {
        let until = self.avoided_until.load(Ordering::Relaxed);
        until > 0 && until > shared.milliseconds()
    }

    /// Notes what there is to do. To be called when that has changed.
    pub(super) fn note_load(&self, state: &State) {
        let load_bytes = state.table.load_bytes();
        self.load_bytes.store(load_bytes, Ordering::Relaxed);
    }

    /// The thread of the connection is to look: there is a call, and no connection.
    pub(super) fn wake(&self) {
        self.work.notify_one();
    }

    /// A large call was made, of this connection or another: soon this one will be needed.
    pub(super) fn want(&self, shared: &Shared) {
        if self.stands.load(Ordering::Relaxed) || self.is_avoided(shared) {
            return;
        }
        let mut state = lock(&self.state);
        if state.link.is_none() && !state.wanted {
            state.wanted = true;
            drop(state);
            self.wake();
        }
    }

    pub(super) fn hear(&self, shared: &Shared) {
        self.heard.store(shared.milliseconds(), Ordering::Relaxed);
    }

    /// When something was received last.
    pub(super) fn heard(&self, shared: &Shared) -> Instant {
        shared.started + Duration::from_millis(self.heard.load(Ordering::Relaxed))
    }

    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopped = true;
        if let Some(link) = &mut state.link {
            link.give_up();
        }
        drop(state);
        self.work.notify_all();
    }

    /// The thread of the connection. `first` is a connection made before.
    pub(super) fn run(&self, shared: &Arc<Shared>, first: Option<TcpStream>) {
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
                            self.make_way(shared, &mut useless, None);
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
            if receiver.has_good_replies() {
                backoff = BACKOFF_MIN;
                useless = 0;
            } else if since.elapsed() < BACKOFF_MAX || !lock(&self.state).table.is_empty() {
                // Not one that was closed because nobody had used it for long.
                self.make_way(shared, &mut useless, Some(since));
            }
            self.pause(&mut backoff);
        }
        self.end(shared);
    }

    /// False when the client was stopped.
    fn wait_for_work(&self, shared: &Shared, connected: bool) -> bool {
        let mut state = lock(&self.state);
        while !state.stopped && state.table.is_empty() && !state.wanted && !connected {
            let wait = self.work.wait(state);
            state = wait.unwrap_or_else(PoisonError::into_inner);
        }
        // Once: a connection that nobody needs is not made again when it fails or is lost.
        state.wanted = false;
        !state.stopped && !shared.is_stopped()
    }

    /// There is no connection, or one since then was of no use. If another stands, this one is
    /// avoided, and calls go over the other.
    fn make_way(&self, shared: &Arc<Shared>, useless: &mut u32, since: Option<Instant>) {
        lock(&self.state).wanted = false;
        let others = shared.slots.iter().filter(|slot| slot.is_usable());
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

    /// Whether a connection stands.
    fn is_usable(&self) -> bool {
        let state = lock(&self.state);
        state.link.as_ref().is_some_and(|link| !link.given_up)
    }

    /// Whether the connection stands and has brought something since then.
    fn has_brought(&self, shared: &Shared, since: Instant) -> bool {
        let state = lock(&self.state);
        let link = state.link.as_ref();
        link.is_some_and(|link| self.heard(shared) > since.max(link.since))
    }

    /// Gives calls to another connection: those that were never sent, or also the others.
    fn pass_on(&self, shared: &Arc<Shared>, other: &Self, sent_too: bool) {
        let mut state = lock(&self.state);
        let taken = state.table.take(sent_too);
        self.note_load(&state);
        drop(state);
        if taken.is_empty() {
            return;
        }
        let mut state = lock(&other.state);
        if state.stopped {
            drop(state);
            for entry in taken {
                entry.into_delivery().0.fail(shared, CallError::Stopped);
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
            other.wake();
        }
        other.send(shared, state);
        let mut state = lock(&self.state);
        for entry in left {
            state.table.adopt(entry);
        }
        self.note_load(&state);
    }

    fn pause(&self, backoff: &mut Duration) {
        let until = Instant::now() + *backoff;
        *backoff = (*backoff * 2).min(BACKOFF_MAX);
        let mut state = lock(&self.state);
        while !state.stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let wait = self.work.wait_timeout(state, left);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn connected(&self, origin: &Origin, again: bool) {
        let shared = &origin.shared;
        let mut state = lock(&self.state);
        let mut link = Link {
            stream: origin.stream.clone(),
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
            shared.epoch.fetch_add(1, Ordering::AcqRel);
        }
        self.send(shared, state);
    }

    /// The connection is gone; afterwards everything waits to be sent again.
    fn lost(&self, origin: &Origin, end: End) {
        let shared = &origin.shared;
        // Not under the lock: the thread that tells may be kept waiting.
        if let End::Garbage { reason, .. } = &end {
            shared.tell_garbage(reason);
        }
        let mut state = lock(&self.state);
        self.stands.store(false, Ordering::Relaxed);
        if let Some(mut link) = state.link.take() {
            if !state.stopped {
                forget(&link.stream);
            }
            link.give_up();
        }
        state = self.wait_until_quiet(state);
        let mut failed = Vec::new();
        if let End::Garbage { reason, xid } = end {
            for (number, entry) in state.table.entries_mut() {
                entry.garbage += u32::from(entry.sent.is_some());
                if Some(number) == xid || entry.garbage >= GARBAGE_MAX {
                    failed.push(number);
                }
            }
            let error = CallError::Garbage { reason };
            for number in &failed {
                state.table.fail(*number, error.clone());
            }
        }
        let ended = state.table.reset();
        self.note_load(&state);
        drop(state);
        for (delivery, finished) in ended {
            delivery.finish(origin, finished);
        }
    }

    fn wait_until_quiet<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.writer_active {
            let wait = self.quiet.wait(state);
            state = wait.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// The client was stopped.
    fn end(&self, shared: &Shared) {
        let mut state = self.wait_until_quiet(lock(&self.state));
        // Nobody adds a call behind the last that is taken out.
        state.stopped = true;
        let deliveries = state.table.take_all();
        state.ended = true;
        self.note_load(&state);
        drop(state);
        self.handed_over.notify_all();
        for delivery in deliveries {
            delivery.fail(shared, CallError::Stopped);
        }
    }
}
