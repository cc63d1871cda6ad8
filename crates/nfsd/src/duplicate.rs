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

mod identity;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::names;

use crate::duplicate::identity::{Digester, Identity};
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
        let call = InProgress {
            first: asker.clone(),
            waiters: Vec::new(),
            asked_from: key.connections_then,
        };
        share.calls.insert(key.identity, Call::InProgress(call));
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

/// How long a reply is kept at most: several client timeouts (Linux: 60 s), but short enough that
/// an identifier that comes around again is not mistaken.
pub const KEPT_FOR: Duration = Duration::from_secs(300);

/// How many connections may wait for the answer to one call.
const WAITERS_MAX: usize = 16;

/// The connection that a call came on.
pub trait Asker {
    /// Its number: later connections have larger ones.
    fn token(&self) -> u64;
    /// The client's port.
    fn port(&self) -> u16;
    /// Whether no reply can be sent on it any more.
    fn is_gone(&self) -> bool;
    /// Whether it lives, and the other side has acknowledged everything that was sent to it.
    fn has_delivered_all(&self) -> bool;
    /// Whether something was sent on it after `then`, and what was received last had not arrived
    /// by then.
    fn has_talked_since(&self, then: Instant) -> bool;
}

/// Names a call.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Of the address.
    share: Address,
    identity: Identity,
    is_write: bool,
    /// A later connection has this number or a larger one.
    connections_then: u64,
}

/// What a remembered call takes beside its reply: its entries in the table and the queue.
const ENTRY_BYTES: usize = 256;

/// What is known of one call.
enum Call<A> {
    InProgress(InProgress<A>),
    Answered(Answered<A>),
}

/// A call that waits to be done or is being done.
struct InProgress<A> {
    first: Arc<A>,
    /// Those that asked again, the latest one last.
    waiters: Vec<Arc<A>>,
    /// See [`Answered::asked_from`].
    asked_from: u64,
}

/// A call that was done.
struct Answered<A> {
    reply: Box<[u8]>,
    first: Weak<A>,
    port: u16,
    /// A client that asks on a connection of this number or a larger one asks again: the
    /// connections that there were when the call came have smaller ones, but for those that have
    /// asked again.
    asked_from: u64,
    done_at: Instant,
    /// Tells it from another call of the same identity, of which the queue still knows.
    number: u64,
}

/// In a queue of what was done, oldest first.
struct Entry {
    identity: Identity,
    number: u64,
    done_at: Instant,
    bytes: usize,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    bytes: usize,
}

/// The calls of one address.
struct Calls<A> {
    calls: HashMap<Identity, Call<A>>,
    /// Those of writes are the second queue, apart, so that a stream of writes does not push out
    /// the replies to the others.
    queues: [Queue; 2],
    next_number: u64,
}

impl<A> Default for Calls<A> {
    fn default() -> Self {
        Self {
            calls: HashMap::new(),
            queues: Default::default(),
            next_number: 0,
        }
    }
}

impl<A: Asker> InProgress<A> {
    /// Remembers what asks again. Dead ones go, and when too many are left the oldest.
    fn wait(&mut self, asker: &Arc<A>) {
        self.waiters
            .retain(|other| !other.is_gone() && other.token() != asker.token());
        if asker.token() == self.first.token() {
            return;
        }
        self.asked_from = self.asked_from.min(asker.token());
        if self.waiters.len() >= WAITERS_MAX {
            self.waiters.remove(0);
        }
        self.waiters.push(asker.clone());
    }

    /// Whether another connection than the first waits for the answer.
    fn is_waited_for(&self) -> bool {
        self.waiters.iter().any(|waiter| !waiter.is_gone())
    }
}

impl<A: Asker> Answered<A> {
    /// The reply, for one that asks again.
    fn again(&mut self, asker: &A) -> Vec<u8> {
        if asker.port() != self.port {
            self.asked_from = self.asked_from.min(asker.token());
        }
        self.reply.to_vec()
    }

    /// Whether a call that looks like this one is not its repetition but another program's.
    fn is_of_another(&self, asker: &A) -> bool {
        asker.port() != self.port
            && asker.token() < self.asked_from
            && asker.has_talked_since(self.done_at)
            && asker.has_delivered_all()
            && self
                .first
                .upgrade()
                .is_some_and(|first| first.has_delivered_all())
    }
}

impl<A: Asker> Calls<A> {
    /// Bytes of what was done.
    fn bytes(&self) -> usize {
        self.queues.iter().map(|queue| queue.bytes).sum()
    }

    /// Ends a running call and keeps its reply, if it is to be kept. Returns what else waits.
    fn finish(&mut self, key: &Key, reply: Option<&[u8]>, now: Instant) -> Vec<Arc<A>> {
        let Some(Call::InProgress(call)) = self.calls.remove(&key.identity) else {
            return Vec::new();
        };
        if let Some(reply) = reply {
            let number = self.next_number;
            self.next_number += 1;
            let answered = Answered {
                reply: reply.into(),
                first: Arc::downgrade(&call.first),
                port: call.first.port(),
                asked_from: call.asked_from,
                done_at: now,
                number,
            };
            self.calls.insert(key.identity, Call::Answered(answered));
            let bytes = reply.len() + ENTRY_BYTES;
            let queue = &mut self.queues[usize::from(key.is_write)];
            queue.bytes += bytes;
            queue.entries.push_back(Entry {
                identity: key.identity,
                number,
                done_at: now,
                bytes,
            });
        }
        call.waiters
    }

    /// Forgets what is too old to be asked for.
    fn forget_old(&mut self, now: Instant) {
        let is_old = |queue: &Queue| {
            let first = queue.entries.front();
            first.is_some_and(|entry| now.saturating_duration_since(entry.done_at) >= KEPT_FOR)
        };
        for index in 0..self.queues.len() {
            while is_old(&self.queues[index]) {
                self.forget_oldest(index);
            }
        }
    }

    /// Forgets the oldest reply of the kind that takes more.
    fn forget_one(&mut self) {
        let [others, writes] = &self.queues;
        self.forget_oldest(usize::from(writes.bytes > others.bytes));
    }

    fn forget_oldest(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        let Some(entry) = queue.entries.pop_front() else {
            return;
        };
        assert!(
            entry.bytes <= queue.bytes,
            "a reply of {} bytes is forgotten, of {}",
            entry.bytes,
            queue.bytes
        );
        queue.bytes -= entry.bytes;
        let call = self.calls.get(&entry.identity);
        if matches!(call, Some(Call::Answered(answered)) if answered.number == entry.number) {
            self.calls.remove(&entry.identity);
        }
    }
}

#[cfg(test)]
mod tests;
