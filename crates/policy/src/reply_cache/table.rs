//! What is known of calls, and for how long.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::reply_cache::{Answer, Call, Equal, Held, Identity, Key, Line, Place, SentAt, Verdict};

/// The longest reply kept; CREATE's, the longest of them, has 300 bytes.
pub const REPLY_BYTES_MAX: usize = 1024;

/// How long a reply is kept at most: several client timeouts (Linux: 60 s), but short enough that
/// an identifier that comes around again is not mistaken.
pub const KEPT_FOR: Duration = Duration::from_secs(300);

/// How often old replies of all addresses are looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// What a remembered call takes beside its reply: its entries in the table and the queue.
const ENTRY_BYTES: usize = 256;

/// The cache. Times are since any fixed moment.
pub struct ReplyCache<L> {
    shares: HashMap<u128, Calls<L>>,
    /// Of all shares.
    bytes: usize,
    bytes_max: usize,
    swept_at: Option<Duration>,
}

/// The calls of one address.
struct Calls<L> {
    calls: HashMap<Identity, Call<L>>,
    /// Those of writes are the second queue, apart, so that a stream of writes does not push out
    /// the replies to the others.
    queues: [Queue; 2],
    next_number: u64,
}

/// What was done, oldest first.
#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    bytes: usize,
}

struct Entry {
    identity: Identity,
    number: u64,
    done_at: Duration,
    bytes: usize,
}

impl<L: Line> ReplyCache<L> {
    /// An empty cache that keeps so many bytes at most.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shares: HashMap::new(),
            bytes: 0,
            bytes_max,
            swept_at: None,
        }
    }

    /// Looks at a call that came on `line`, and has it under way when it is new. `held` is what an
    /// earlier look at it gave.
    pub fn look(
        &mut self,
        key: &Key,
        (line, place): (&L, Place),
        held: Option<Held>,
        now: Duration,
    ) -> Verdict {
        self.sweep(now);
        let share = self.shares.entry(key.share).or_default();
        if let Some(call) = share.calls.get_mut(&key.identity) {
            match call.compare(line, place, held, now) {
                Equal::New => {}
                Equal::InProgress => return Verdict::InProgress,
                Equal::Answered(reply, moved) => return Verdict::Answered(reply, moved),
                Equal::Held => {
                    let came_now = || Held {
                        came_at: now,
                        arrived_after: line.arrived_after(place.overlaps, now),
                    };
                    return Verdict::Held(held.unwrap_or_else(came_now));
                }
            }
        }
        let call = Call {
            line: line.clone(),
            number: place.number,
            came_at: held.map_or(now, |held| held.came_at),
            answer: None,
        };
        share.calls.insert(key.identity, call);
        Verdict::New
    }

    /// A call that was under way is done, and answered. Returns how many older replies were pushed
    /// out.
    pub fn finish(&mut self, key: &Key, reply: &[u8], sent_at: SentAt, now: Duration) -> usize {
        if reply.len() > REPLY_BYTES_MAX {
            self.abandon(key);
            return 0;
        }
        let Some(share) = self.shares.get_mut(&key.share) else {
            return 0;
        };
        self.bytes += share.finish(key, reply, sent_at, now);
        self.push_out(key.share)
    }

    /// Forgets a call that was under way and was not done.
    pub fn abandon(&mut self, key: &Key) {
        if let Some(share) = self.shares.get_mut(&key.share)
            && let Some(call) = share.calls.get(&key.identity)
            && call.answer.is_none()
        {
            share.calls.remove(&key.identity);
        }
    }

    /// The reply to a call that is done, or that moved, was sent on `line`. It may have moved on.
    pub fn sent(&mut self, key: &Key, line: &L, sent_at: SentAt) {
        let share = self.shares.get_mut(&key.share);
        let call = share.and_then(|share| share.calls.get_mut(&key.identity));
        let call = call.filter(|call| call.line.token() == line.token());
        if let Some(answer) = call.and_then(|call| call.answer.as_mut())
            && answer.sent_at == SentAt::UNKNOWN
        {
            answer.sent_at = sent_at;
        }
    }

    /// Bytes of all that is kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes kept for each address.
    pub fn shares(&self) -> impl Iterator<Item = (u128, usize)> + '_ {
        let shares = self.shares.iter();
        shares.map(|(address, share)| (*address, share.bytes()))
    }

    /// Forgets what is too old, now and then.
    fn sweep(&mut self, now: Duration) {
        let is_due = |at| now.saturating_sub(at) >= SWEEP_PERIOD;
        if self.swept_at.is_some_and(|at| !is_due(at)) {
            return;
        }
        self.swept_at = Some(now);
        self.shares.retain(|_, share| {
            share.forget_old(now);
            !share.calls.is_empty()
        });
        self.bytes = self.shares.values().map(Calls::bytes).sum();
    }

    /// Brings the bytes below the bound. `latest` is the address that was added to: it loses its
    /// own unless others have more than their share.
    fn push_out(&mut self, latest: u128) -> usize {
        let mut pushed_out = 0;
        while self.bytes > self.bytes_max {
            let fair = self.bytes_max / self.shares.len().max(1);
            let has_more = |share: &&mut Calls<L>| share.bytes() > fair;
            let victim = match self.shares.get_mut(&latest).filter(has_more) {
                Some(_) => self.shares.get_mut(&latest),
                None => self.shares.values_mut().max_by_key(|share| share.bytes()),
            };
            let Some(victim) = victim else {
                break;
            };
            let before = victim.bytes();
            victim.forget_one();
            let freed = before - victim.bytes();
            assert!(
                0 < freed && freed <= self.bytes,
                "{freed} bytes of replies are pushed out, of {}",
                self.bytes
            );
            self.bytes -= freed;
            pushed_out += 1;
        }
        pushed_out
    }
}

impl<L> Default for Calls<L> {
    fn default() -> Self {
        Self {
            calls: HashMap::new(),
            queues: Default::default(),
            next_number: 0,
        }
    }
}

impl<L> Calls<L> {
    /// Bytes of what was done.
    fn bytes(&self) -> usize {
        self.queues.iter().map(|queue| queue.bytes).sum()
    }

    /// Ends a call that was under way and keeps its reply. Returns the bytes that this takes.
    fn finish(&mut self, key: &Key, reply: &[u8], sent_at: SentAt, now: Duration) -> usize {
        let call = self.calls.get_mut(&key.identity);
        let Some(call) = call.filter(|call| call.answer.is_none()) else {
            return 0;
        };
        let number = self.next_number;
        self.next_number += 1;
        call.answer = Some(Answer {
            reply: reply.into(),
            made_at: now,
            sent_at,
            number,
        });
        let bytes = reply.len() + ENTRY_BYTES;
        let queue = &mut self.queues[usize::from(key.is_write)];
        queue.bytes += bytes;
        queue.entries.push_back(Entry {
            identity: key.identity,
            number,
            done_at: now,
            bytes,
        });
        bytes
    }

    /// Forgets what is too old to be asked for.
    fn forget_old(&mut self, now: Duration) {
        let is_old = |queue: &Queue| {
            let first = queue.entries.front();
            first.is_some_and(|entry| now.saturating_sub(entry.done_at) >= KEPT_FOR)
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
        let answer = call.and_then(|call| call.answer.as_ref());
        if answer.is_some_and(|answer| answer.number == entry.number) {
            self.calls.remove(&entry.identity);
        }
    }
}

#[cfg(test)]
mod tests;
