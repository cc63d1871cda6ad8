//! What is remembered of the calls of one address.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::duplicate::identity::Identity;
use crate::share::Address;

/// How long a reply is kept at most: several client timeouts (Linux: 60 s), but short enough that
/// an identifier that comes around again is not mistaken.
pub const KEPT_FOR: Duration = Duration::from_secs(300);

/// How many connections may wait for the answer to one call.
pub(super) const WAITERS_MAX: usize = 16;

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
    pub(super) share: Address,
    pub(super) identity: Identity,
    pub(super) is_write: bool,
    /// A later connection has this number or a larger one.
    pub(super) connections_then: u64,
}

/// What a remembered call takes beside its reply: its entries in the table and the queue.
const ENTRY_BYTES: usize = 256;

/// What is known of one call.
pub(super) enum Call<A> {
    InProgress(InProgress<A>),
    Answered(Answered<A>),
}

/// A call that waits to be done or is being done.
pub(super) struct InProgress<A> {
    pub(super) first: Arc<A>,
    /// Those that asked again, the latest one last.
    waiters: Vec<Arc<A>>,
    /// See [`Answered::asked_from`].
    asked_from: u64,
}

/// A call that was done.
pub(super) struct Answered<A> {
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
pub(super) struct Calls<A> {
    pub(super) calls: HashMap<Identity, Call<A>>,
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
    pub(super) fn new(first: Arc<A>, asked_from: u64) -> Self {
        Self {
            first,
            waiters: Vec::new(),
            asked_from,
        }
    }

    /// Remembers what asks again. Dead ones go, and when too many are left the oldest.
    pub(super) fn wait(&mut self, asker: &Arc<A>) {
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
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiters.iter().any(|waiter| !waiter.is_gone())
    }
}

impl<A: Asker> Answered<A> {
    /// The reply, for one that asks again.
    pub(super) fn again(&mut self, asker: &A) -> Vec<u8> {
        if asker.port() != self.port {
            self.asked_from = self.asked_from.min(asker.token());
        }
        self.reply.to_vec()
    }

    /// Whether a call that looks like this one is not its repetition but another program's.
    pub(super) fn is_of_another(&self, asker: &A) -> bool {
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
    pub(super) fn bytes(&self) -> usize {
        self.queues.iter().map(|queue| queue.bytes).sum()
    }

    /// Ends a running call and keeps its reply, if it is to be kept. Returns what else waits.
    pub(super) fn finish(&mut self, key: &Key, reply: Option<&[u8]>, now: Instant) -> Vec<Arc<A>> {
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
    pub(super) fn forget_old(&mut self, now: Instant) {
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
    pub(super) fn forget_one(&mut self) {
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
