//! Shares of something that all clients use, such as connection slots or memory.
//!
//! Problem: one client may be the only one, and should then have nearly everything; but when
//! another comes there must be something left for it at once, without taking from the first.
//!
//! Rule (dynamic thresholds, as in switches that share one memory among their ports): a client
//! may take more as long as it has less than [`TIMES_WHAT_IS_LEFT`] times what is left.
//!
//! ```text
//!   clients that take all they can:   1      2      3      10     k
//!   each has of the whole:           4/5    4/9   4/13   4/41   4/(4k+1)
//!   left for the next:               1/5    1/9   1/13   1/41   1/(4k+1)
//! ```
//!
//! Known weakness: a client with hundreds of addresses leaves little. Such a network is not one
//! that `--allow` should name.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};

/// A lone client is to have most of it, the next one enough to work with.
const TIMES_WHAT_IS_LEFT: usize = 4;

/// What has a share: an IPv4 address, or the 64 bits of an IPv6 address that its owner was given
/// (the other 64 are the owner's to choose).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address(u128);

impl Address {
    /// That of no client in particular.
    pub const NONE: Self = Self(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().to_bits());

    /// That of a peer.
    pub fn of(peer: IpAddr) -> Self {
        Self(match peer.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        })
    }

    /// A number of its own.
    pub fn bits(&self) -> u128 {
        self.0
    }
}

/// What each client has of a whole.
#[derive(Debug)]
pub struct Shares<K> {
    limit: usize,
    used: usize,
    by: HashMap<K, usize>,
}

impl<K: Copy + Eq + Hash> Shares<K> {
    /// No client has anything of `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: 0,
            by: HashMap::new(),
        }
    }

    /// What all have together.
    pub fn used(&self) -> usize {
        self.used
    }

    /// What one has.
    pub fn of(&self, key: K) -> usize {
        self.by.get(&key).copied().unwrap_or(0)
    }

    /// Gives `key` one more, if it may have that.
    pub fn take_one(&mut self, key: K) -> bool {
        let may = self.of(key) < self.left().saturating_mul(TIMES_WHAT_IS_LEFT);
        if may {
            self.add(key, 1);
        }
        may
    }

    /// Whether `key` may have `more`, which may be so much that only what is left after it counts.
    pub fn may_add(&self, key: K, more: usize) -> bool {
        let left = self.left().checked_sub(more);
        let share = left.map(|left| left.saturating_mul(TIMES_WHAT_IS_LEFT));
        share.is_some_and(|share| self.of(key).saturating_add(more) <= share)
    }

    /// What no client has.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used)
    }

    /// Gives it more, whatever the rule says.
    pub fn add(&mut self, key: K, more: usize) {
        self.used += more;
        *self.by.entry(key).or_default() += more;
    }

    /// Takes some back.
    pub fn subtract(&mut self, key: K, less: usize) {
        let own = self.of(key);
        assert!(
            less <= own && own <= self.used,
            "a share gives back {less} of {own}, of {} in all",
            self.used
        );
        self.used -= less;
        if own == less {
            self.by.remove(&key);
        } else {
            self.by.insert(key, own - less);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_share_and_something_is_left_for_the_next() {
        let mut shares = Shares::new(1000);
        let fill = |shares: &mut Shares<u32>, key| {
            while shares.take_one(key) {}
        };
        fill(&mut shares, 1);
        assert_eq!(shares.of(1), 800);
        fill(&mut shares, 2);
        assert_eq!(shares.of(2), 160, "four fifths of the rest");
        fill(&mut shares, 3);
        assert!(shares.of(3) >= 30 && shares.used() < 1000);
        shares.subtract(1, 800);
        assert_eq!(shares.of(1), 0);
        fill(&mut shares, 3);
        assert!(shares.of(3) > 600, "what was given back is there for all");
        assert!(!shares.may_add(4, 1000), "more than there is");
        let left = shares.left();
        assert!(!shares.may_add(4, left), "nothing would be left");
        assert!(shares.may_add(4, left * 4 / 5));
    }

    #[test]
    fn an_owner_of_ipv6_addresses_is_one_client() {
        let of = |text: &str| Address::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
