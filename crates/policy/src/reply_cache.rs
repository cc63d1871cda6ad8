//! The duplicate-request cache: a call that changes something is done once.
//!
//! A client that lost the reply to a REMOVE repeats the call. Done twice, it gives NOENT; a WRITE
//! destroys what was written in between. But clients also make *new* calls equal to old ones
//! (identifiers from a constant, or the clock). Answered from the cache, such a call was never
//! made: two programs hold one lock.
//!
//! Equal are calls of one address with the same identifier, credential and content ([`Identity`]),
//! from any port. Over TCP a client repeats a call only on a new connection, when it lost one
//! before the reply (RFC 1813 section 4.5; RFC 5531 section 9). So the question is: **has the
//! client the first reply?** It *has arrived* when the client's machine acknowledged it on a
//! connection that lives or ended in order; a reset proves nothing.
//!
//! ```text
//!  an equal call came ...          first under way   reply arrived   not yet known   reply lost
//!  on the same connection          say nothing       the kept reply while nothing but this call
//!                                                    came since, or calls overlap; else new
//!  on another one, late            wait              kept reply      wait            kept reply
//!  on another one                  wait              new, where the  wait            kept reply
//!                                                    first lives
//!                                                    after a while
//! ```
//!
//! *Calls overlap* on a connection that ever had two under way: its client needs unique
//! identifiers. *Late* is a call that may have arrived more than [`GIVEN_UP_AFTER_MIN`] before the
//! answered one, or on the older connection when that is over or its calls overlap: it may be an
//! earlier transmission. *A while* is [`SETTLED_AFTER`]. *Not yet known* ends with the
//! acknowledgement, the connection, or [`HELD_FOR`] after the reply, which then is lost.
//!
//! **What is kept** is bounded in bytes. Each address has an equal share and what others leave, and
//! loses its own oldest replies first. Writes push out writes.
//!
//! Weaknesses: a *new* call gets the kept reply of an equal one whose connection was reset, when
//! nothing came in between, its client has just lost the connection (that call is then done again)
//! or ended its sending early, or the server left the new call unread for long. A proxy
//! acknowledges what its client may never get. Equal calls that overlap others on the older
//! connection count as repetitions. The repetition of a call whose reply was pushed out is done
//! again. A restart forgets all.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// No client gives up a connection sooner (shortest known: 0.8 s).
pub const GIVEN_UP_AFTER_MIN: Duration = Duration::from_millis(500);

/// How long another connection can overtake a reset: the kernel notes none while a thread has the
/// socket, which on a busy machine may not run for long.
pub const SETTLED_AFTER: Duration = Duration::from_millis(200);

/// How long to wait for an acknowledgement: machines put it off by 0.2 s, and may by 0.5 s (RFC
/// 9293 section 3.8.6.3).
pub const HELD_FOR: Duration = Duration::from_secs(1);

/// The longest reply kept; CREATE's, the longest, has 300 bytes.
pub const REPLY_BYTES_MAX: usize = 1024;

/// How long a reply is kept: several client timeouts (Linux: 60 s), but no repeated identifier.
pub const KEPT_FOR: Duration = Duration::from_secs(300);

const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// Of a call beside its reply.
const ENTRY_BYTES: usize = 256;

/// What equal calls of one address have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The call's identifier.
    pub xid: u32,
    /// Of credential and content.
    pub digest: u64,
}

/// Names a call.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Whose memory it takes.
    pub share: u128,
    /// Shared with repetitions.
    pub identity: Identity,
    /// Replies to writes push out only each other.
    pub is_write: bool,
}

/// A reply's way to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Arrived.
    Arrived,
    /// May still arrive.
    Open,
    /// The connection ended, and the reply is not known to have arrived.
    Lost,
}

/// Where a reply ends in what its connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentAt {
    /// At or before this byte of the stream.
    Byte(u64),
    /// In what leaves at the end of this turn of the connection's reader.
    Turn(u64),
}

impl SentAt {
    /// Not sent: cannot have arrived.
    pub const UNKNOWN: Self = Self::Byte(u64::MAX);
}

/// A connection.
pub trait Line: Clone {
    /// The number; later connections have larger ones.
    fn token(&self) -> u64;
    /// Whether a reply sent there has arrived.
    fn delivery(&self, sent_at: SentAt) -> Delivery;
    /// Lower bound for the last call's arrival; `overlaps`: others may have come too.
    fn arrived_after(&self, overlaps: bool, now: Duration) -> Duration;
    /// False when the client is known to have ended or lost it.
    fn is_live(&self) -> bool;
}

/// A call's place among those of its connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// How many calls came until it.
    pub number: u64,
    /// Whether several were ever under way at once.
    pub overlaps: bool,
}

/// A call that may be new; it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Of the first look.
    came_at: Duration,
    arrived_after: Duration,
}

/// What to do about a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// New: do it, then [`ReplyCache::finish`] or [`ReplyCache::abandon`].
    New,
    /// Say nothing: its reply will come on this connection.
    InProgress,
    /// Look again.
    Held(Held),
    /// Send this reply, and if *moved*, call [`ReplyCache::sent`].
    Answered(Vec<u8>, Moved),
}

/// Where a reply that was sent again is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// On the connection of the repetition.
    Yes,
    /// Where it was sent before.
    No,
}

struct Call<L> {
    /// Where its reply goes, or went last.
    line: L,
    /// Of the latest repetition there.
    number: u64,
    came_at: Duration,
    answer: Option<Answer>,
}

struct Answer {
    reply: Box<[u8]>,
    made_at: Duration,
    sent_at: SentAt,
    /// An entry with another number is of an earlier equal call.
    number: u64,
}

enum Equal {
    New,
    InProgress,
    Held,
    Answered(Vec<u8>, Moved),
}

impl<L: Line> Call<L> {
    fn compare(&mut self, line: &L, place: Place, held: Option<Held>, now: Duration) -> Equal {
        if self.line.token() == line.token() {
            self.on_the_same(place, held, now)
        } else {
            self.on_another(line, place, held, now)
        }
    }

    fn on_the_same(&mut self, place: Place, held: Option<Held>, now: Duration) -> Equal {
        if held.is_some() {
            // A further copy; the reply goes to the first.
            return Equal::InProgress;
        }
        let is_next = place.number == self.number + 1;
        if self.answer.is_some() && !is_next && !place.overlaps {
            return Equal::New;
        }
        (self.number, self.came_at) = (place.number, now);
        let answer = self.answer.as_ref();
        answer.map_or(Equal::InProgress, |answer| {
            Equal::Answered(answer.reply.to_vec(), Moved::No)
        })
    }

    fn on_another(&mut self, line: &L, place: Place, held: Option<Held>, now: Duration) -> Equal {
        let Some(answer) = &mut self.answer else {
            return Equal::Held;
        };
        let delivery = self.line.delivery(answer.sent_at);
        if delivery == Delivery::Open && now < answer.made_at + HELD_FOR {
            return Equal::Held;
        }
        let is_earlier = line.token() < self.line.token();
        let arrived_after = held.map_or_else(
            || line.arrived_after(place.overlaps, now),
            |held| held.arrived_after,
        );
        let is_late = arrived_after + GIVEN_UP_AFTER_MIN < self.came_at
            || (is_earlier && (place.overlaps || !line.is_live()));
        let is_settled = held.is_some_and(|held| now >= held.came_at + SETTLED_AFTER);
        let moved = match delivery {
            Delivery::Arrived if !is_late && !is_settled && self.line.is_live() => {
                return Equal::Held;
            }
            Delivery::Arrived if !is_late => return Equal::New,
            Delivery::Arrived => Moved::No,
            Delivery::Open | Delivery::Lost if is_late && is_earlier => Moved::No,
            Delivery::Open | Delivery::Lost => {
                self.line = line.clone();
                self.number = place.number;
                self.came_at = held.map_or(now, |held| held.came_at);
                (answer.made_at, answer.sent_at) = (now, SentAt::UNKNOWN);
                Moved::Yes
            }
        };
        Equal::Answered(answer.reply.to_vec(), moved)
    }
}

/// The cache; times are since any fixed moment.
pub struct ReplyCache<L> {
    shares: HashMap<u128, Calls<L>>,
    bytes: usize,
    bytes_max: usize,
    swept_at: Option<Duration>,
}

struct Calls<L> {
    calls: HashMap<Identity, Call<L>>,
    /// The second of writes, which do not push out others.
    queues: [Queue; 2],
    next_number: u64,
}

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
    /// Keeps at most so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shares: HashMap::new(),
            bytes: 0,
            bytes_max,
            swept_at: None,
        }
    }

    /// Looks at a call that came on `line`; `held` is of an earlier look.
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

    /// A call is done. Returns how many replies were pushed out.
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

    /// Forgets a call that was not done.
    pub fn abandon(&mut self, key: &Key) {
        if let Some(share) = self.shares.get_mut(&key.share)
            && let Some(call) = share.calls.get(&key.identity)
            && call.answer.is_none()
        {
            share.calls.remove(&key.identity);
        }
    }

    /// The reply to a call that is done, or moved, was sent on `line`.
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

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes kept, by address.
    pub fn shares(&self) -> impl Iterator<Item = (u128, usize)> + '_ {
        let shares = self.shares.iter();
        shares.map(|(address, share)| (*address, share.bytes()))
    }

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

    /// `latest` loses its own while above its share, else the address with the most does.
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
    fn bytes(&self) -> usize {
        self.queues.iter().map(|queue| queue.bytes).sum()
    }

    /// Keeps a call's reply. Returns the bytes that takes.
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
