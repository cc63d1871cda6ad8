//! The duplicate-request cache: [`pagewell_policy::reply_cache`] with its lock, clock and counters.

mod identity;

use std::net::IpAddr;
use std::time::Instant;

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_policy::reply_cache::{Held, Key, Moved, Place, ReplyCache, SentAt, Verdict};

use crate::duplicate::identity::Digester;
use pagewell_rpcd::connection::ConnectionLine;
use pagewell_rpcd::connection::{Connection, since_start};
use pagewell_rpcd::share::Address;

/// Kept replies with their index: some twenty-eight thousand.
const KEPT_BYTES_MAX: usize = 10 << 20;

/// A call that may be new or a repetition.
#[derive(Clone, Copy, Debug)]
pub struct Undecided {
    /// Its key.
    pub key: Key,
    place: Place,
    held: Held,
}

/// The NFS state of a waiting call.
#[derive(Clone, Debug, Default)]
pub enum Pending {
    /// Changes nothing, or may run twice.
    #[default]
    Nothing,
    /// Must first be decided.
    Undecided(Box<Undecided>),
    /// A new change, by its key.
    Change(Key),
}

impl Pending {
    /// The key of a new change.
    pub fn change(&self) -> Option<&Key> {
        match self {
            Self::Change(key) => Some(key),
            Self::Nothing | Self::Undecided(_) => None,
        }
    }
}

/// What to do with a change.
pub enum Seen {
    /// Run it, then [`Duplicates::finish`] or [`Duplicates::abandon`].
    New,
    /// The original will answer: send nothing.
    InProgress,
    /// Look again soon.
    Undecided(Undecided),
    /// Send this reply; with a key, then call [`Duplicates::sent`].
    Answered(Vec<u8>, Option<Key>),
}

/// The cache.
pub struct Duplicates {
    digester: Box<Digester>,
    cache: Mutex<ReplyCache<ConnectionLine>>,
}

impl Duplicates {
    /// An empty cache; `secret` keys the digests.
    pub fn new(secret: [u8; 16]) -> Self {
        Self {
            digester: Box::new(Digester::new(secret)),
            cache: Mutex::new(ReplyCache::new(KEPT_BYTES_MAX)),
        }
    }

    /// The key of a record from `peer`.
    pub fn key(&self, peer: IpAddr, (xid, record): (u32, &[u8]), is_write: bool) -> Key {
        Key {
            share: Address::of(peer).bits(),
            identity: self.digester.identity(peer, xid, record),
            is_write,
        }
    }

    /// The first look at a call.
    pub fn look(
        &self,
        key: Key,
        connection: &Connection,
        place: Place,
        received_at: Instant,
    ) -> Seen {
        let line = (&connection.line, place);
        let now = since_start(received_at);
        let verdict = self.cache.lock().look(&key, line, None, now);
        seen(verdict, (key, place))
    }

    /// Another look at an undecided call.
    pub fn look_again(&self, call: Undecided, connection: &Connection) -> Seen {
        let Undecided { key, place, held } = call;
        let line = (&connection.line, place);
        let verdict = self
            .cache
            .lock()
            .look(&key, line, Some(held), since_start(Instant::now()));
        seen(verdict, (key, place))
    }

    /// Keeps the reply of a finished call, sent at `sent_at`.
    pub fn finish(&self, key: &Key, reply: &[u8], sent_at: SentAt) {
        let pushed_out = self
            .cache
            .lock()
            .finish(key, reply, sent_at, since_start(Instant::now()));
        names::DUPLICATES_PUSHED_OUT.add(pushed_out as u64);
    }

    /// The reply of a finished call was sent on `connection`.
    pub fn sent(&self, key: &Key, connection: &Connection, sent_at: SentAt) {
        self.cache.lock().sent(key, &connection.line, sent_at);
    }

    /// Forgets a call that was not run.
    pub fn abandon(&self, key: &Key) {
        self.cache.lock().abandon(key);
    }
}

fn seen(verdict: Verdict, (key, place): (Key, Place)) -> Seen {
    match verdict {
        Verdict::New => Seen::New,
        Verdict::InProgress => Seen::InProgress,
        Verdict::Held(held) => Seen::Undecided(Undecided { key, place, held }),
        Verdict::Answered(reply, moved) => {
            names::DUPLICATES_REPLAYED.add(1);
            Seen::Answered(reply, (moved == Moved::Yes).then_some(key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_ipv6_network_share_but_are_distinguished() {
        let duplicates = Duplicates::new([1; 16]);
        let key = |host: &str| duplicates.key(host.parse().unwrap(), (1, b"call"), false);
        let first = key("2001:db8::1");
        assert_eq!(key("2001:db8::2").share, first.share);
        assert_ne!(key("2001:db8::2").identity, first.identity);
        assert_ne!(key("2001:db8:0:1::1").share, first.share);
        let (mapped, plain) = (key("::ffff:10.0.0.1"), key("10.0.0.1"));
        assert_eq!(mapped.share, plain.share);
        assert_eq!(mapped.identity, plain.identity);
    }
}
