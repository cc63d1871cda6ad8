//! What is remembered of the calls of one address.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::duplicate::{Asker, Identity, KEPT_FOR, Key, WAITERS_MAX};

/// What a remembered call takes beside its reply: its places in the table and the queue.
const ENTRY_BYTES: usize = 256;

/// What is known of one call.
pub(super) enum Slot<A> {
    Running(Run<A>),
    Done(Answered<A>),
}

/// A call that waits to be done or is being done.
pub(super) struct Run<A> {
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
struct Place {
    identity: Identity,
    number: u64,
    done_at: Instant,
    bytes: usize,
}

#[derive(Default)]
struct Queue {
    places: VecDeque<Place>,
    bytes: usize,
}

/// The calls of one address.
pub(super) struct Share<A> {
    pub(super) slots: HashMap<Identity, Slot<A>>,
    /// Apart, so that a stream of writes does not push out the replies to the others.
    writes: Queue,
    others: Queue,
    next_number: u64,
}

impl<A> Default for Share<A> {
    fn default() -> Self {
        Self {
            slots: HashMap::new(),
            writes: Queue::default(),
            others: Queue::default(),
            next_number: 0,
        }
    }
}

impl<A: Asker> Run<A> {
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

    /// Whether anybody but the first waits for the answer.
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

impl<A: Asker> Share<A> {
    /// Bytes of what was done.
    pub(super) fn bytes(&self) -> usize {
        self.writes.bytes + self.others.bytes
    }

    /// Ends a running call and keeps its reply, if it is to be kept. Returns what else waits.
    pub(super) fn finish(&mut self, key: &Key, reply: Option<&[u8]>, now: Instant) -> Vec<Arc<A>> {
        let Some(Slot::Running(run)) = self.slots.remove(&key.identity) else {
            return Vec::new();
        };
        if let Some(reply) = reply {
            let number = self.next_number;
            self.next_number += 1;
            let answered = Answered {
                reply: reply.into(),
                first: Arc::downgrade(&run.first),
                port: run.first.port(),
                asked_from: run.asked_from,
                done_at: now,
                number,
            };
            self.slots.insert(key.identity, Slot::Done(answered));
            let bytes = reply.len() + ENTRY_BYTES;
            let queue = if key.is_write {
                &mut self.writes
            } else {
                &mut self.others
            };
            queue.bytes += bytes;
            queue.places.push_back(Place {
                identity: key.identity,
                number,
                done_at: now,
                bytes,
            });
        }
        run.waiters
    }

    /// Forgets what is too old to be asked for.
    pub(super) fn forget_old(&mut self, now: Instant) {
        let is_old = |queue: &Queue| {
            let first = queue.places.front();
            first.is_some_and(|place| now.saturating_duration_since(place.done_at) >= KEPT_FOR)
        };
        while is_old(&self.writes) {
            self.forget_oldest(true);
        }
        while is_old(&self.others) {
            self.forget_oldest(false);
        }
    }

    /// Forgets the oldest reply of the kind that takes more.
    pub(super) fn forget_one(&mut self) {
        self.forget_oldest(self.writes.bytes > self.others.bytes);
    }

    fn forget_oldest(&mut self, is_write: bool) {
        let queue = if is_write {
            &mut self.writes
        } else {
            &mut self.others
        };
        let Some(place) = queue.places.pop_front() else {
            return;
        };
        queue.bytes -= place.bytes;
        let slot = self.slots.get(&place.identity);
        if matches!(slot, Some(Slot::Done(answered)) if answered.number == place.number) {
            self.slots.remove(&place.identity);
        }
    }
}
