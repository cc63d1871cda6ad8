//! The duplicate-request cache.
//!
//! Problem: a client that lost the reply to a REMOVE (its connection broke) sends the call again.
//! Done twice, the second gives NOENT, and the program on the client sees a failure that was
//! none. Rule: the reply to a call that must not be done twice is kept and given again. A call
//! is the same when address, xid and a keyed hash of its bytes (program, procedure, credential,
//! arguments) are the same; the port is not compared, because a new connection has another one,
//! and another user's call differs in its credential.
//!
//! ```text
//!   begin ── unknown ──> running ── finish ──> done (reply kept) ── oldest out / too old
//!               running: the answer also goes to the connection that asked again
//!               done:    the kept reply is sent
//! ```
//!
//! WRITE is only kept while it runs: its repetition is harmless, except while the first is still
//! under way and could overtake a later write of the same bytes.
//!
//! Both operations are O(1). Constants: [`REPLIES_MAX`] replies of at most [`REPLY_BYTES_MAX`];
//! [`KEPT_FOR`] is several client timeouts (Linux: 60 s) but short enough that an xid that comes
//! around again is not mistaken. Known weakness: a client that restarts with the same xid and
//! the same bytes within that time is given the old reply.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher13;

/// Replies kept.
pub const REPLIES_MAX: usize = 4096;

/// The longest reply kept; CREATE's, the longest of them, has 300 bytes.
pub const REPLY_BYTES_MAX: usize = 1024;

/// How long a reply is kept at most.
pub const KEPT_FOR: Duration = Duration::from_secs(300);

/// How many bytes of a call are compared: all of every call but WRITE and SYMLINK.
const HASHED_BYTES_MAX: usize = 1024;

/// Names a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    peer: IpAddr,
    xid: u32,
    hash: u64,
    length: usize,
}

/// What is known of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Never seen: do it, then [`Duplicates::finish`] or [`Duplicates::abandon`].
    New,
    /// Being done: say nothing, the answer will come.
    Running,
    /// Done: send this reply.
    Done(Vec<u8>),
}

enum Slot<W> {
    Running { waiter: Option<W> },
    Done { reply: Box<[u8]> },
}

/// The cache. `W` is whom to answer too when a call is repeated while it runs.
pub struct Duplicates<W> {
    secret: [u8; 16],
    state: Mutex<State<W>>,
}

struct State<W> {
    slots: HashMap<Key, Slot<W>>,
    /// Keys of done slots and when they were done, oldest first.
    done: VecDeque<(Key, Instant)>,
}

impl<W> State<W> {
    /// Lets go of replies that are too many or too old: each is let go of once.
    fn forget_old(&mut self, now: Instant) {
        while let Some((key, at)) = self.done.front() {
            if self.done.len() <= REPLIES_MAX && now.duration_since(*at) < KEPT_FOR {
                break;
            }
            self.slots.remove(key);
            self.done.pop_front();
        }
    }
}

impl<W> Duplicates<W> {
    /// An empty cache; `secret` keys the hash, so that nobody can make two calls look alike.
    #[must_use]
    pub fn new(secret: [u8; 16]) -> Self {
        let state = State {
            slots: HashMap::new(),
            done: VecDeque::new(),
        };
        Self {
            secret,
            state: Mutex::new(state),
        }
    }

    /// The key of a call record from `peer`.
    #[must_use]
    pub fn key(&self, peer: IpAddr, xid: u32, record: &[u8]) -> Key {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write(&record[..record.len().min(HASHED_BYTES_MAX)]);
        Key {
            peer: peer.to_canonical(),
            xid,
            hash: hasher.finish(),
            length: record.len(),
        }
    }

    /// Looks a call up and, when it is new, marks it as running. `waiter` is remembered when it
    /// is running already (the latest one wins: older connections are dead).
    pub fn begin(&self, key: Key, waiter: impl FnOnce() -> W, now: Instant) -> Verdict {
        let mut state = self.lock();
        state.forget_old(now);
        match state.slots.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Slot::Running { waiter: None });
                Verdict::New
            }
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Slot::Running { waiter: slot } => {
                    *slot = Some(waiter());
                    Verdict::Running
                }
                Slot::Done { reply } => Verdict::Done(reply.to_vec()),
            },
        }
    }

    /// Whether the call is being done.
    #[must_use]
    pub fn is_running(&self, key: &Key) -> bool {
        matches!(self.lock().slots.get(key), Some(Slot::Running { .. }))
    }

    /// Ends a running call; its reply is kept if it is to be. Returns who else waits for it.
    pub fn finish(&self, key: Key, reply: Option<&[u8]>, now: Instant) -> Option<W> {
        let mut state = self.lock();
        let slot = match reply {
            Some(reply) if reply.len() <= REPLY_BYTES_MAX => {
                state.done.push_back((key, now));
                state.slots.insert(
                    key,
                    Slot::Done {
                        reply: reply.into(),
                    },
                )
            }
            _ => state.slots.remove(&key),
        };
        state.forget_old(now);
        match slot {
            Some(Slot::Running { waiter }) => waiter,
            _ => None,
        }
    }

    /// Gives up a call that was never done, unless somebody waits for it.
    pub fn abandon(&self, key: Key) -> bool {
        let mut state = self.lock();
        let waited_for = matches!(
            state.slots.get(&key),
            Some(Slot::Running { waiter: Some(_) })
        );
        if !waited_for {
            state.slots.remove(&key);
        }
        !waited_for
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (Duplicates<u32>, Instant) {
        (Duplicates::new([1; 16]), Instant::now())
    }

    fn key(cache: &Duplicates<u32>, xid: u32, record: &[u8]) -> Key {
        cache.key("10.0.0.1".parse().unwrap(), xid, record)
    }

    #[test]
    fn a_done_call_is_replayed_and_a_running_one_is_not_begun_again() {
        let (cache, now) = cache();
        let call = key(&cache, 5, b"remove a");
        assert_eq!(cache.begin(call, || 1, now), Verdict::New);
        assert_eq!(cache.begin(call, || 2, now), Verdict::Running);
        assert_eq!(cache.finish(call, Some(b"ok"), now), Some(2));
        assert_eq!(cache.begin(call, || 3, now), Verdict::Done(b"ok".to_vec()));
        for other in [key(&cache, 6, b"remove a"), key(&cache, 5, b"remove b")] {
            assert_eq!(cache.begin(other, || 1, now), Verdict::New);
        }
        let elsewhere = cache.key("10.0.0.2".parse().unwrap(), 5, b"remove a");
        assert_eq!(cache.begin(elsewhere, || 1, now), Verdict::New);
        assert_eq!(
            cache.begin(call, || 1, now + KEPT_FOR),
            Verdict::New,
            "too old"
        );
    }

    #[test]
    fn abandoned_calls_are_forgotten_unless_waited_for() {
        let (cache, now) = cache();
        let call = key(&cache, 5, b"x");
        cache.begin(call, || 1, now);
        assert!(cache.abandon(call));
        assert_eq!(cache.begin(call, || 1, now), Verdict::New);
        cache.begin(call, || 2, now);
        assert!(!cache.abandon(call));
        assert_eq!(cache.finish(call, None, now), Some(2));
        assert_eq!(cache.begin(call, || 1, now), Verdict::New, "not kept");
    }

    #[test]
    fn a_million_calls_leave_no_more_than_the_bound() {
        let (cache, now) = cache();
        for xid in 0..1_000_000 {
            let call = key(&cache, xid, b"remove");
            assert_eq!(cache.begin(call, || 1, now), Verdict::New);
            cache.finish(call, Some(b"ok"), now);
        }
        let state = cache.lock();
        assert_eq!(state.slots.len(), REPLIES_MAX);
        assert_eq!(state.done.len(), REPLIES_MAX);
        assert!(state.slots.capacity() <= 4 * REPLIES_MAX);
    }
}
