//! The duplicate-request cache: a call that changes something is done once.
//!
//! Problem: a client that lost the reply to a REMOVE (its connection broke) sends the call again.
//! Done twice, the second gives NOENT, and the program on the client sees a failure that was
//! none. A WRITE that is done twice is worse: between the two the client, or another one, may
//! have written something newer, which the second destroys. Rule: a call that changes something
//! is known from when it is first looked at until long after it was answered; while it waits or
//! runs it is not begun again, and once it is done the first reply is given again.
//!
//! ```text
//!   begin ── unknown ──> running ── finish ──> done (reply kept) ── pushed out / too old
//!               running: the answer also goes to the connections that asked again
//!               done:    the kept reply is sent
//! ```
//!
//! **The same call** is one from the same address with the same identifier, credential and
//! content (see [`Identity`]). The port does not count by itself: most clients come back from
//! another one, and of a call that is late on an old connection and was sent again on a new one
//! the ports differ too. Two programs behind one address that choose equal identifiers are told
//! apart when the second one's connection is known to be another conversation: it has another
//! port, was open before the first call came, has been answered since the first was done and has
//! acknowledged it, and only then did the call arrive on it, the first time; and the first one's
//! connection lives and its client's machine has acknowledged every byte that was sent to it.
//!
//! **What is kept** is bounded in bytes ([`KEPT_BYTES_MAX`]). Each address has an equal share; one
//! that makes many calls uses what others leave, and loses its own oldest replies first. Writes
//! push out writes. IPv6 addresses of one /64 have one share.
//!
//! Known weaknesses: a client that restarts with the same identifiers and the same bytes within
//! [`KEPT_FOR`] is given the old reply; an address that has made so many changes since that a
//! reply was pushed out has its repetition done again. All is forgotten when the server ends.

mod calls;
mod identity;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::names;

pub use crate::duplicate::calls::{Asker, KEPT_FOR, Key};
use crate::duplicate::calls::{Call, Calls, InProgress};
use crate::duplicate::identity::Digester;
pub use crate::duplicate::identity::Identity;
use crate::share::Address;

/// Bytes of the replies kept, with what it takes to find them: some twenty-eight thousand.
pub const KEPT_BYTES_MAX: usize = 10 << 20;

/// The longest reply kept; CREATE's, the longest of them, has 300 bytes.
pub const REPLY_BYTES_MAX: usize = 1024;

/// How often old replies of all addresses are looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// Whether a call has been seen before.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// Never seen: do it, then [`Duplicates::finish`] or [`Duplicates::abandon`].
    New,
    /// Waits or is being done: say nothing, the answer will come.
    InProgress,
    /// Done: send this reply.
    Answered(Vec<u8>),
}

/// The cache.
pub struct Duplicates<A> {
    digester: Box<Digester>,
    bytes_max: usize,
    state: Mutex<State<A>>,
}

struct State<A> {
    shares: HashMap<Address, Calls<A>>,
    /// Of all shares.
    bytes: usize,
    swept_at: Option<Instant>,
}

impl<A: Asker> State<A> {
    /// Forgets what is too old, now and then.
    fn sweep(&mut self, now: Instant) {
        let due = |at| now.saturating_duration_since(at) >= SWEEP_PERIOD;
        if self.swept_at.is_some_and(|at| !due(at)) {
            return;
        }
        self.swept_at = Some(now);
        self.shares.retain(|_, share| {
            share.forget_old(now);
            !share.calls.is_empty()
        });
        let left = self.shares.values().map(Calls::bytes).sum();
        assert!(
            left <= self.bytes,
            "{left} bytes of replies are left, of {}",
            self.bytes
        );
        self.bytes = left;
    }

    /// Brings the bytes below the bound. `latest` is the address that was added to: it loses its
    /// own unless others have more than their share.
    fn push_out(&mut self, latest: Address, bytes_max: usize) {
        while self.bytes > bytes_max {
            let fair = bytes_max / self.shares.len().max(1);
            let has_more = |share: &&mut Calls<A>| share.bytes() > fair;
            let victim = match self.shares.get_mut(&latest).filter(has_more) {
                Some(_) => self.shares.get_mut(&latest),
                None => self.shares.values_mut().max_by_key(|share| share.bytes()),
            };
            let Some(victim) = victim else {
                return;
            };
            let before = victim.bytes();
            victim.forget_one();
            names::DUPLICATES_PUSHED_OUT.add(1);
            let freed = before - victim.bytes();
            assert!(
                0 < freed && freed <= self.bytes,
                "{freed} bytes of replies are pushed out, of {}",
                self.bytes
            );
            self.bytes -= freed;
        }
    }
}

impl<A: Asker> Duplicates<A> {
    /// An empty cache; `secret` keys the digests.
    #[must_use]
    pub fn new(secret: [u8; 16], bytes_max: usize) -> Self {
        let state = State {
            shares: HashMap::new(),
            bytes: 0,
            swept_at: None,
        };
        Self {
            digester: Box::new(Digester::new(secret)),
            bytes_max,
            state: Mutex::new(state),
        }
    }

    /// The key of a call record from `peer`. Connections that are opened from now on have numbers
    /// from `connections_then` on.
    #[must_use]
    pub fn key(
        &self,
        peer: IpAddr,
        (xid, record): (u32, &[u8]),
        is_write: bool,
        connections_then: u64,
    ) -> Key {
        Key {
            share: Address::of(peer),
            identity: self.digester.identity(peer, xid, record),
            is_write,
            connections_then,
        }
    }

    /// Looks a call up and, when it is new, marks it as running. When it is running already,
    /// `asker` is remembered.
    pub fn begin(&self, key: &Key, asker: &Arc<A>, now: Instant) -> Seen {
        let mut state = self.state.lock();
        state.sweep(now);
        let share = state.shares.entry(key.share).or_default();
        match share.calls.get_mut(&key.identity) {
            Some(Call::InProgress(call)) => {
                call.wait(asker);
                return Seen::InProgress;
            }
            Some(Call::Answered(answered)) if !answered.is_of_another(asker) => {
                return Seen::Answered(answered.again(asker));
            }
            _ => {}
        }
        let call = Call::InProgress(InProgress::new(asker.clone(), key.connections_then));
        share.calls.insert(key.identity, call);
        Seen::New
    }

    /// Ends a running call; its reply is kept if it is to be. Returns what else waits for it.
    pub fn finish(&self, key: &Key, reply: Option<&[u8]>, now: Instant) -> Vec<Arc<A>> {
        let mut state = self.state.lock();
        let Some(share) = state.shares.get_mut(&key.share) else {
            return Vec::new();
        };
        let before = share.bytes();
        let reply = reply.filter(|reply| reply.len() <= REPLY_BYTES_MAX);
        let waiters = share.finish(key, reply, now);
        let added = share.bytes() - before;
        state.bytes += added;
        state.push_out(key.share, self.bytes_max);
        waiters
    }

    /// Gives up a call that was never begun, unless a client waits for it.
    #[must_use]
    pub fn abandon(&self, key: &Key) -> bool {
        let mut state = self.state.lock();
        let Some(share) = state.shares.get_mut(&key.share) else {
            return true;
        };
        let call = share.calls.get(&key.identity);
        if matches!(call, Some(Call::InProgress(call)) if call.is_waited_for()) {
            return false;
        }
        share.calls.remove(&key.identity);
        true
    }
}

#[cfg(test)]
mod tests;
