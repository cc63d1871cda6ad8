//! Which calls that change something are new: the server's cache of replies.
//!
//! The rule is [`pagewell_policy::reply_cache`]; here are its lock, its clock and its counters.

mod identity;

use std::net::IpAddr;
use std::time::Instant;

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_policy::reply_cache::{Held, Key, Moved, Place, ReplyCache, SentAt, Verdict};

use crate::duplicate::identity::Digester;
use pagewell_rpcd::connection::line::{ConnectionLine, now};
use pagewell_rpcd::connection::{Connection, since_start};
use pagewell_rpcd::share::Address;

/// Bytes of the replies kept, with what it takes to find them: some twenty-eight thousand.
const KEPT_BYTES_MAX: usize = 10 << 20;

/// A call of which it is not known yet whether it is new.
#[derive(Clone, Copy, Debug)]
pub struct Undecided {
    /// What it is known by.
    pub key: Key,
    place: Place,
    held: Held,
}

/// What is remembered of a call that waits.
#[derive(Clone, Debug, Default)]
pub enum Pending {
    /// It changes nothing, or may be done twice.
    #[default]
    Nothing,
    /// It is to be found out first whether it is new.
    Undecided(Box<Undecided>),
    /// A change that is new is known by this.
    Change(Key),
}

impl Pending {
    /// What a change is known by that was found to be new.
    pub fn change(&self) -> Option<&Key> {
        match self {
            Self::Change(key) => Some(key),
            Self::Nothing | Self::Undecided(_) => None,
        }
    }
}

/// What is to be done about a change.
pub enum Seen {
    /// It is new: do it, then [`Duplicates::finish`] or [`Duplicates::abandon`].
    New,
    /// Its reply will come: say nothing.
    InProgress,
    /// Not known yet: look again soon.
    Undecided(Undecided),
    /// It was done: send this reply, and then call [`Duplicates::sent`] if there is a key.
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

    /// The key of a call record from `peer`.
    pub fn key(&self, peer: IpAddr, (xid, record): (u32, &[u8]), is_write: bool) -> Key {
        Key {
            share: Address::of(peer).bits(),
            identity: self.digester.identity(peer, xid, record),
            is_write,
        }
    }

    /// Looks at a call that was received at `received_at`.
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

    /// Looks again at one that is undecided.
    pub fn look_again(&self, call: Undecided, connection: &Connection) -> Seen {
        let Undecided { key, place, held } = call;
        let line = (&connection.line, place);
        let verdict = self.cache.lock().look(&key, line, Some(held), now());
        seen(verdict, (key, place))
    }

    /// A call is done. Its reply is kept, and is sent where `sent_at` says.
    pub fn finish(&self, key: &Key, reply: &[u8], sent_at: SentAt) {
        let pushed_out = self.cache.lock().finish(key, reply, sent_at, now());
        names::DUPLICATES_PUSHED_OUT.add(pushed_out as u64);
    }

    /// The reply to a call that is done was sent on `connection`.
    pub fn sent(&self, key: &Key, connection: &Connection, sent_at: SentAt) {
        self.cache.lock().sent(key, &connection.line, sent_at);
    }

    /// Forgets a call that was not done.
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
    fn hosts_of_one_ipv6_network_share_but_are_told_apart() {
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
