//! Fair shares of connection slots or memory.
//!
//! A lone client should have nearly everything, but a second one must find something left at once.
//! So, as in switches with shared memory, a client may take more while it has less than
//! [`TIMES_WHAT_IS_LEFT`] times the rest.
//!
//! ```text
//!   clients that take all they can:   1      2      3      10     k
//!   each has of the whole:           4/5    4/9   4/13   4/41   4/(4k+1)
//!   left for the next:               1/5    1/9   1/13   1/41   1/(4k+1)
//! ```
//!
//! Weakness: a client with hundreds of addresses leaves little; do not `--allow` such networks.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};

/// Most for a lone client, enough for the next.
const TIMES_WHAT_IS_LEFT: usize = 4;

/// An IPv4 address, or the prefix of 64 bits of an IPv6 address, which one owner has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address(u128);

impl Address {
    /// No particular client.
    pub const NONE: Self = Self(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().to_bits());

    /// Of a peer.
    pub fn of(peer: IpAddr) -> Self {
        Self(match peer.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        })
    }

    /// A unique number.
    pub fn bits(&self) -> u128 {
        self.0
    }
}

/// Of a whole.
#[derive(Debug)]
pub struct Shares<K> {
    limit: usize,
    used: usize,
    by: HashMap<K, usize>,
}

impl<K: Copy + Eq + Hash> Shares<K> {
    /// All of `limit` is free.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: 0,
            by: HashMap::new(),
        }
    }

    /// Of all shares.
    pub fn used(&self) -> usize {
        self.used
    }

    /// One share.
    pub fn of(&self, key: K) -> usize {
        self.by.get(&key).copied().unwrap_or(0)
    }

    /// If the rule allows.
    pub fn take_one(&mut self, key: K) -> bool {
        let may = self.of(key) < self.left().saturating_mul(TIMES_WHAT_IS_LEFT);
        if may {
            self.add(key, 1);
        }
        may
    }

    /// Whether the rule allows `more`, which may be large: what is left after it counts.
    pub fn may_add(&self, key: K, more: usize) -> bool {
        let left = self.left().checked_sub(more);
        let share = left.map(|left| left.saturating_mul(TIMES_WHAT_IS_LEFT));
        share.is_some_and(|share| self.of(key).saturating_add(more) <= share)
    }

    /// The free rest.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used)
    }

    /// Without the rule.
    pub fn add(&mut self, key: K, more: usize) {
        self.used += more;
        *self.by.entry(key).or_default() += more;
    }

    /// Takes back.
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
