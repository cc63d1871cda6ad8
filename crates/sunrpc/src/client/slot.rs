//! What is known of one connection, as long as its client lives.

use super::shared::Shared;
use super::table::{Batch, Table};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pagewell_base::sync::{Condvar, Mutex};

/// What is on its way on a connection counts in steps of this: small calls stay together and leave
/// and arrive together; large data is spread, so that several threads of both sides work on it.
pub(super) const LOAD_STEP_BYTES: usize = 256 << 10;
/// One of a client's connections.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) state: Mutex<State>,
    /// There may be something to do for the thread of the connection.
    pub(super) work: Condvar,
    /// There may be something to do for the sending thread.
    pub(super) handed_over: Condvar,
    /// No thread sends any more.
    pub(super) quiet: Condvar,
    /// There is a connection, as far as that is known without the lock.
    pub(super) stands: AtomicBool,
    /// Bytes of calls without an end and of their data, as far as that is known without the lock.
    load_bytes: AtomicUsize,
    /// The last connection was of no use, and this is avoided until then, in milliseconds since the
    /// client was made; 0 when it was.
    pub(super) avoided_until: AtomicU64,
    /// When something was received last, in milliseconds since the client was made.
    heard: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) table: Table,
    pub(super) link: Option<Link>,
    /// A connection is to be made although there is no call for it yet.
    pub(super) wanted: bool,
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

/// What a writer has in hand.
pub(super) struct Task {
    pub(super) batch: Batch,
    pub(super) stream: Arc<TcpStream>,
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
        let mut state = self.state.lock();
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
        let mut state = self.state.lock();
        state.stopped = true;
        if let Some(link) = &mut state.link {
            link.give_up();
        }
        drop(state);
        self.work.notify_all();
    }

    /// Whether a connection stands.
    pub(super) fn is_usable(&self) -> bool {
        let state = self.state.lock();
        state.link.as_ref().is_some_and(|link| !link.given_up)
    }

    /// Whether the connection stands and has brought something since then.
    pub(super) fn has_brought(&self, shared: &Shared, since: Instant) -> bool {
        let state = self.state.lock();
        let link = state.link.as_ref();
        link.is_some_and(|link| self.heard(shared) > since.max(link.since))
    }
}
