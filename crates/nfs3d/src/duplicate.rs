//! The duplicate-request cache: [`pagewell_policy::reply_cache`] with its lock, clock and counters.
//!
//! # The identity of a call
//!
//! It is a digest of all bytes of the call: SipHash of the head and the first arguments, and sums
//! of products (NH of UMAC, RFC 4418 section 5.2) of a WRITE's data. Data counts, as two runs of a
//! program may repeat identifiers and handles with other data, and a WRITE that is taken for a
//! repetition is lost. NH costs a fraction of receiving the bytes. Both are keyed, so clients
//! cannot make collisions.
//!
//! The AUTH_SYS stamp is left out (RFC 5531 appendix A: "an arbitrary ID which the caller machine
//! may generate"): some clients change it with each transmission.

use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Instant;

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_policy::reply_cache::{
    Held, Identity, Key, Moved, Place, ReplyCache, SentAt, Verdict,
};
use pagewell_rpcd::connection::{Connection, ConnectionLine, since_start};
use pagewell_rpcd::share::Address;
use siphasher::sip::SipHasher13;

/// Kept replies with their index: some twenty-eight thousand.
const KEPT_BYTES_MAX: usize = 10 << 20;

/// Bytes for SipHash: all of every call but WRITE and SYMLINK.
const HEAD_BYTES: usize = 1024;

const BLOCK_BYTES: usize = 1024;
const BLOCK_WORDS: usize = BLOCK_BYTES / 4;

/// The credential flavor and the AUTH_SYS stamp in a call (RFC 5531 section 9), behind xid, type,
/// RPC version, program, version and procedure.
const FLAVOR_AT: usize = 24;
const STAMP_AT: usize = 32;
const AUTH_SYS: [u8; 4] = [0, 0, 0, 1];

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

/// Makes identities.
struct Digester {
    secret: [u8; 16],
    words: [u32; BLOCK_WORDS],
}

impl Digester {
    fn new(secret: [u8; 16]) -> Self {
        let word = |index: usize| {
            let mut hasher = SipHasher13::new_with_key(&secret);
            hasher.write_usize(index);
            #[allow(clippy::cast_possible_truncation)] // half of a hash is a hash
            return hasher.finish() as u32;
        };
        Self {
            secret,
            words: std::array::from_fn(word),
        }
    }

    /// The identity of a call from this address.
    fn identity(&self, peer: IpAddr, xid: u32, record: &[u8]) -> Identity {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        match peer.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.write_usize(record.len());
        let (head, data) = record.split_at(record.len().min(HEAD_BYTES));
        let has_stamp = head.get(FLAVOR_AT..FLAVOR_AT + 4) == Some(&AUTH_SYS);
        match head.split_at_checked(STAMP_AT) {
            Some((before, rest)) if has_stamp => {
                hasher.write(before);
                hasher.write(rest.get(4..).unwrap_or_default());
            }
            _ => hasher.write(head),
        }
        let (blocks, rest) = data.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            hasher.write_u64(self.sum(block));
        }
        if !rest.is_empty() {
            let mut last = [0; BLOCK_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            hasher.write_u64(self.sum(&last));
        }
        Identity {
            xid,
            digest: hasher.finish(),
        }
    }

    fn sum(&self, block: &[u8; BLOCK_BYTES]) -> u64 {
        let pairs = block.as_chunks::<8>().0;
        let keys = self.words.as_chunks::<2>().0;
        let product = |(pair, key): (&[u8; 8], &[u32; 2])| {
            let [a, b, c, d, e, f, g, h] = *pair;
            let left = u32::from_le_bytes([a, b, c, d]).wrapping_add(key[0]);
            let right = u32::from_le_bytes([e, f, g, h]).wrapping_add(key[1]);
            u64::from(left) * u64::from(right)
        };
        let products = pairs.iter().zip(keys).map(product);
        products.fold(0, u64::wrapping_add)
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

    #[test]
    fn every_byte_counts_but_those_of_the_stamp() {
        let digester = Digester::new([3; 16]);
        let identity = |xid, call: &[u8]| digester.identity(IpAddr::from([10, 0, 0, 1]), xid, call);
        let mut call = vec![0x55; 5000];
        call[FLAVOR_AT..FLAVOR_AT + 4].copy_from_slice(&AUTH_SYS);
        let first = identity(1, &call);
        for at in (0..200).chain((200..call.len()).step_by(37)).chain([4999]) {
            let mut other = call.clone();
            other[at] ^= 0x10;
            let is_stamp = (STAMP_AT..STAMP_AT + 4).contains(&at);
            assert_eq!(identity(1, &other) == first, is_stamp, "byte {at}");
        }
        assert_ne!(identity(2, &call), first);
        for shorter in [
            0,
            3,
            FLAVOR_AT + 4,
            STAMP_AT,
            STAMP_AT + 2,
            1024,
            2048,
            4999,
        ] {
            assert_ne!(identity(1, &call[..shorter]), first);
        }
    }

    #[test]
    fn without_auth_sys_there_is_no_stamp() {
        let digester = Digester::new([3; 16]);
        let identity = |host, call: &[u8]| digester.identity(IpAddr::from(host), 1, call);
        let none = [0; 100];
        let mut other = none;
        other[STAMP_AT] = 1;
        let host = [10, 0, 0, 1];
        assert_ne!(identity(host, &none), identity(host, &other));
        assert_ne!(identity(host, &none), identity([10, 0, 0, 2], &none));
    }
}
