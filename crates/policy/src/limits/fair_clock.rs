//! What the clients of an export may have: equal parts, as far as each wants its own.
//!
//! The clock shows how much a client has had that always wanted its part (virtual time of
//! generalised processor sharing: Parekh and Gallager, 1993). With `n` clients in debt it runs at
//! 1/`n` of the rate. A payment moves its client's end on, from the clock or the last end; once the
//! clock is there, the connection goes on.
//!
//! ```text
//!   rate 90     clock:  0 ───────────> 30 ──────────────> 75     A, B and C pay 30, 75 and 75
//!   clients in debt:       A B C  1 s          B C  1 s          each has 30 in the 1st second,
//!   ends:                              A                  B C    B and C 45 in the 2nd
//! ```
//!
//! Weaknesses: above [`FLOWS_MAX`], clients in debt share one part. A wait is computed as if no
//! client came or went.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::time::Duration;

use super::{BURST, Client, OTHERS, duration, nanoseconds};

/// Clients in debt that are known apart.
pub const FLOWS_MAX: usize = 4096;

const SECOND: u128 = 1_000_000_000;

/// Parts of a byte, or call, in what the clock shows.
const PARTS: u128 = 1 << 32;

/// What the clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(u128);

impl Tag {
    /// Where the clock is `amount` earlier.
    #[must_use]
    pub fn less(self, amount: u64) -> Self {
        Self(self.0.saturating_sub(u128::from(amount) * PARTS))
    }
}

/// See the module.
#[derive(Debug)]
pub struct FairClock {
    rate: u128,
    shows: u128,
    seen_at: Duration,
    /// Clients in debt, and their ends.
    flows: HashMap<Client, u128>,
    ends: BTreeSet<(u128, Client)>,
}

impl FairClock {
    /// For `rate` a second.
    #[must_use]
    pub fn new(rate: NonZeroU64) -> Self {
        Self {
            rate: rate.get().into(),
            shows: 0,
            seen_at: Duration::ZERO,
            flows: HashMap::new(),
            ends: BTreeSet::new(),
        }
    }

    fn advance(&mut self, now: Duration) {
        let mut left = nanoseconds(now.saturating_sub(self.seen_at));
        self.seen_at = self.seen_at.max(now);
        while left > 0
            && let Some((end, client)) = self.ends.first().copied()
        {
            let share = SECOND * self.flows.len() as u128;
            let distance = end.saturating_sub(self.shows);
            let runs = left.saturating_mul(self.rate.saturating_mul(PARTS)) / share;
            if runs < distance {
                self.shows += runs;
                return;
            }
            let needed = distance
                .saturating_mul(share)
                .div_ceil(self.rate.saturating_mul(PARTS));
            left = left.saturating_sub(needed);
            self.shows = end;
            self.ends.pop_first();
            self.flows.remove(&client);
        }
        if self.flows.is_empty() {
            self.shows = 0;
        }
    }

    /// A client pays. Returns what the clock shows when that is paid.
    pub fn charge(&mut self, now: Duration, client: Client, amount: u64) -> Tag {
        self.advance(now);
        let client = self.account_of(client);
        let before = self.flows.get(&client).copied().unwrap_or(self.shows);
        let end = before.saturating_add(u128::from(amount) * PARTS);
        self.set_end(client, end);
        Tag(end)
    }

    /// Its own account, or the one that clients without room share.
    fn account_of(&self, client: Client) -> Client {
        let is_known = self.flows.contains_key(&client);
        let has_space = is_known || self.flows.len() < FLOWS_MAX;
        if has_space { client } else { OTHERS }
    }

    /// Where a client's debt ends.
    pub fn end_of(&mut self, now: Duration, client: Client) -> Option<Tag> {
        self.advance(now);
        let client = self.account_of(client);
        self.flows.get(&client).map(|end| Tag(*end))
    }

    /// Gives `amount` back.
    pub fn refund(&mut self, now: Duration, client: Client, amount: u64) {
        self.advance(now);
        let client = self.account_of(client);
        if let Some(end) = self.flows.get(&client) {
            let end = end.saturating_sub(u128::from(amount) * PARTS);
            self.set_end(client, end);
        }
    }

    fn set_end(&mut self, client: Client, end: u128) {
        if let Some(before) = self.flows.remove(&client) {
            self.ends.remove(&(before, client));
        }
        if end > self.shows {
            self.flows.insert(client, end);
            self.ends.insert((end, client));
        }
    }

    /// Longest time until the clock shows `tag`, without new clients.
    pub fn wait(&mut self, now: Duration, tag: Tag) -> Duration {
        self.advance(now);
        if self.flows.is_empty() {
            return Duration::ZERO;
        }
        let distance = tag.0.saturating_sub(self.shows);
        let share = SECOND * self.flows.len() as u128;
        let wait = distance.saturating_mul(share) / self.rate.saturating_mul(PARTS);
        duration(wait).saturating_sub(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: f64) -> Duration {
        Duration::from_secs_f64(number)
    }

    #[test]
    fn a_part_that_is_not_wanted_goes_to_the_others() {
        let mut clock = FairClock::new(NonZeroU64::new(90).unwrap());
        let tags = [(1, 30), (2, 75), (3, 75)]
            .map(|(client, amount)| clock.charge(Duration::ZERO, client, amount));
        let wait = |clock: &mut FairClock, at, tag| clock.wait(seconds(at), tag) + BURST;
        assert_eq!(wait(&mut clock, 0.0, tags[0]), seconds(1.0));
        assert_eq!(wait(&mut clock, 0.0, tags[1]), seconds(2.5), "as it looks");
        assert!(clock.wait(seconds(0.899), tags[0]) > Duration::ZERO);
        assert_eq!(clock.wait(seconds(1.0), tags[0]), Duration::ZERO);
        let rest = wait(&mut clock, 1.1, tags[1]);
        assert!(rest.abs_diff(seconds(0.9)) < Duration::from_nanos(10));
        assert!(clock.wait(seconds(1.899), tags[2]) > Duration::ZERO);
        assert_eq!(clock.wait(seconds(2.001), tags[2]), Duration::ZERO);
        assert!(clock.flows.is_empty() && clock.ends.is_empty());
        assert_eq!(clock.charge(seconds(9.0), 1, 1), Tag(PARTS), "anew");
    }

    #[test]
    fn a_refund_makes_the_next_wait_shorter() {
        let mut clock = FairClock::new(NonZeroU64::new(100).unwrap());
        clock.charge(Duration::ZERO, 1, 300);
        clock.refund(Duration::ZERO, 1, 200);
        clock.refund(Duration::ZERO, 2, 200);
        let tag = clock.charge(Duration::ZERO, 1, 100);
        assert_eq!(clock.wait(Duration::ZERO, tag) + BURST, seconds(2.0));
        clock.refund(Duration::ZERO, 1, u64::MAX);
        assert!(clock.flows.is_empty() && clock.ends.is_empty());
    }

    #[test]
    fn the_highest_rate_and_the_longest_pause_are_no_overflow() {
        let mut clock = FairClock::new(NonZeroU64::MAX);
        let tag = clock.charge(Duration::ZERO, 1, u64::MAX);
        clock.charge(Duration::ZERO, 2, u64::MAX);
        assert!(clock.wait(seconds(1.0), tag) <= seconds(1.0));
        assert_eq!(clock.wait(Duration::MAX, tag), Duration::ZERO);
        let mut slow = FairClock::new(NonZeroU64::MIN);
        let tag = slow.charge(Duration::ZERO, 1, u64::MAX);
        assert!(slow.wait(seconds(1.0), tag) > seconds(1e9));
    }

    #[test]
    fn clients_in_debt_are_bounded() {
        let mut clock = FairClock::new(NonZeroU64::new(1).unwrap());
        for client in 0..1_000_000 {
            clock.charge(Duration::ZERO, client, 1);
        }
        assert_eq!(clock.flows.len(), FLOWS_MAX + 1);
        assert_eq!(clock.ends.len(), FLOWS_MAX + 1);
    }

    #[test]
    fn clients_without_an_account_have_the_debt_that_they_share() {
        let mut clock = FairClock::new(NonZeroU64::new(1).unwrap());
        for client in 0..FLOWS_MAX as Client {
            clock.charge(Duration::ZERO, client, 5);
        }
        let client = FLOWS_MAX as Client;
        let tag = clock.charge(Duration::ZERO, client, 20);
        assert_eq!(clock.end_of(Duration::ZERO, client), Some(tag));
        clock.refund(Duration::ZERO, client, 5);
        let end = clock.end_of(Duration::ZERO, client);
        assert_eq!(end, Some(tag.less(5)));
    }
}
