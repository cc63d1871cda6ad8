//! How long must a client wait, so that it has no more than it may?
//!
//! Calls and bytes a second are limited, of each client and of an export that its clients share. A
//! call's cost is known when it is answered, so it is paid afterwards; a connection that has to
//! wait is not read. A payment gives the connection its own time, which payments of others do not
//! change. A new connection waits until its client has paid for all. A client has a [`bucket`] each
//! for calls and bytes, an export a [`fair_clock`] each.
//!
//! ```text
//!   call ──> answer ──> charge(client, export, cost) ──> Pass ──> wait(Pass): None, go on
//!                                                                        Some, that long
//! ```
//!
//! Weaknesses: a call that costs more than a second's worth goes through. Clients that come one
//! after the other each have their burst. Changed limits forgive debts. All exports of one
//! connection wait together; a new connection waits for the one with the most debt. Above
//! [`CLIENTS_MAX`], clients in debt share one bucket.

pub mod bucket;
pub mod fair_clock;

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::time::Duration;

use self::bucket::Bucket;
use self::fair_clock::{FairClock, Tag};

/// A client may go on with so much unpaid.
pub const BURST: Duration = Duration::from_millis(100);

/// Clients in debt that are known apart.
pub const CLIENTS_MAX: usize = 16 << 10;

const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A client, by its address.
pub type Client = u128;

/// An export, by the caller's number.
pub type Export = usize;

const OTHERS: Client = Client::MAX;

/// What is allowed a second; `None`: without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Calls a second.
    pub calls: Option<NonZeroU64>,
    /// Bytes of calls and replies a second.
    pub bytes: Option<NonZeroU64>,
}

impl Rates {
    /// Whether anything is limited.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.calls.is_some() || self.bytes.is_some()
    }
}

/// What is to be paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls.
    pub calls: u64,
    /// Bytes of calls and replies.
    pub bytes: u64,
}

/// When a connection may go on; the default of a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Of its limits; 0: none.
    generation: u64,
    /// When its client's calls, and bytes, are paid.
    calls_at: Duration,
    bytes_at: Duration,
    export: Option<(Export, Tags)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tags {
    calls: Option<Tag>,
    bytes: Option<Tag>,
}

/// What limits a connection that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its client's limit.
    Client,
    /// That of all clients of an export.
    Export,
}

#[derive(Debug, Default)]
struct Buckets {
    calls: Bucket,
    bytes: Bucket,
}

#[derive(Debug)]
struct Clocks {
    rates: Rates,
    calls: Option<FairClock>,
    bytes: Option<FairClock>,
}

/// All limits of a server.
#[derive(Debug, Default)]
pub struct Limiter {
    generation: u64,
    rates: Rates,
    clients: HashMap<Client, Buckets>,
    swept_at: Duration,
    exports: HashMap<Export, Clocks>,
}

impl Limiter {
    /// Sets what each client may have.
    pub fn limit_clients(&mut self, rates: Rates) {
        self.generation += 1;
        if self.rates != rates {
            self.rates = rates;
            self.clients = HashMap::new();
        }
    }

    /// Sets what exports' clients may have; unchanged exports keep debts.
    pub fn limit_exports(&mut self, exports: impl IntoIterator<Item = (Export, Rates)>) {
        self.generation += 1;
        let mut before = std::mem::take(&mut self.exports);
        let limited = exports.into_iter().filter(|(_, rates)| rates.is_limit());
        let clocks = limited.map(|(export, rates)| {
            let kept = before
                .remove(&export)
                .filter(|clocks| clocks.rates == rates);
            let new = || Clocks {
                rates,
                calls: rates.calls.map(FairClock::new),
                bytes: rates.bytes.map(FairClock::new),
            };
            (export, kept.unwrap_or_else(new))
        });
        self.exports = clocks.collect();
    }

    /// Whether anything is limited.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.rates.is_limit() || !self.exports.is_empty()
    }

    /// A client pays for what it had of an export; `pass` says when it may go on.
    pub fn charge(
        &mut self,
        now: Duration,
        (client, export): (Client, Export),
        cost: Cost,
        pass: &mut Pass,
    ) {
        self.renew(now, client, pass);
        if self.rates.is_limit() {
            let rates = self.rates;
            let account = self.account_of(now, client);
            let buckets = self.clients.entry(account).or_default();
            let calls = rates
                .calls
                .map(|rate| buckets.calls.charge(now, rate, cost.calls));
            let bytes = rates
                .bytes
                .map(|rate| buckets.bytes.charge(now, rate, cost.bytes));
            pass.calls_at = pass.calls_at.max(calls.unwrap_or_default());
            pass.bytes_at = pass.bytes_at.max(bytes.unwrap_or_default());
        }
        if let Some(clocks) = self.exports.get_mut(&export) {
            let calls = clocks.calls.as_mut();
            let bytes = clocks.bytes.as_mut();
            let tags = Tags {
                calls: calls.map(|clock| clock.charge(now, client, cost.calls)),
                bytes: bytes.map(|clock| clock.charge(now, client, cost.bytes)),
            };
            let other = pass.export.replace((export, tags));
            if let Some(other) = other.filter(|other| other.0 != export) {
                // Of two exports, one is waited for as long as it takes now.
                let until = now + self.wait_for_export(now, other);
                pass.calls_at = pass.calls_at.max(until);
            }
        }
    }

    /// Its own account, or the one that clients without room share.
    fn account_of(&mut self, now: Duration, client: Client) -> Client {
        let is_full = self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&client);
        if is_full && now.saturating_sub(self.swept_at) >= SWEEP_EVERY {
            self.swept_at = now;
            self.clients.retain(|_, buckets| {
                buckets.calls.is_in_debt(now) || buckets.bytes.is_in_debt(now)
            });
        }
        let has_space = !is_full || self.clients.len() < CLIENTS_MAX;
        if has_space { client } else { OTHERS }
    }

    /// A new pass, or one of other limits, takes over its client's debts.
    fn renew(&mut self, now: Duration, client: Client, pass: &mut Pass) {
        if pass.generation == self.generation {
            return;
        }
        let account = self.account_of(now, client);
        let buckets = self.clients.get(&account);
        let (calls_at, bytes_at) = buckets.map_or_else(Default::default, |buckets| {
            (buckets.calls.next_at(), buckets.bytes.next_at())
        });
        let exports = self.exports.iter_mut().map(|(export, clocks)| {
            let end = |clock: &mut Option<FairClock>| clock.as_mut()?.end_of(now, client);
            let tags = Tags {
                calls: end(&mut clocks.calls),
                bytes: end(&mut clocks.bytes),
            };
            (clocks.wait(now, tags), (*export, tags))
        });
        let latest = exports.max_by_key(|(wait, _)| *wait);
        *pass = Pass {
            generation: self.generation,
            calls_at,
            bytes_at,
            export: latest.map(|(_, export)| export),
        };
    }

    /// `bytes` less than were paid for were had.
    pub fn refund(
        &mut self,
        now: Duration,
        (client, export): (Client, Export),
        bytes: u64,
        pass: &mut Pass,
    ) {
        self.renew(now, client, pass);
        let account = self.account_of(now, client);
        if let Some(rate) = self.rates.bytes
            && let Some(buckets) = self.clients.get_mut(&account)
        {
            let time = buckets.bytes.refund(now, rate, bytes);
            pass.bytes_at = pass.bytes_at.saturating_sub(time);
        }
        let clocks = self.exports.get_mut(&export);
        if let Some(clock) = clocks.and_then(|clocks| clocks.bytes.as_mut()) {
            clock.refund(now, client, bytes);
            if let Some((waited_for, tags)) = &mut pass.export
                && *waited_for == export
            {
                tags.bytes = tags.bytes.map(|tag| tag.less(bytes));
            }
        }
    }

    /// How long to wait, and why. Asking earlier is allowed: others may leave more.
    pub fn wait(
        &mut self,
        now: Duration,
        client: Client,
        pass: &mut Pass,
    ) -> Option<(Duration, Reason)> {
        self.renew(now, client, pass);
        let export = pass.export;
        let export = export.map_or(Duration::ZERO, |export| self.wait_for_export(now, export));
        let client = pass.calls_at.max(pass.bytes_at).saturating_sub(now);
        match (client.max(export), client >= export) {
            (Duration::ZERO, _) => None,
            (wait, true) => Some((wait, Reason::Client)),
            (wait, false) => Some((wait, Reason::Export)),
        }
    }

    fn wait_for_export(&mut self, now: Duration, (export, tags): (Export, Tags)) -> Duration {
        let clocks = self.exports.get_mut(&export);
        clocks.map_or(Duration::ZERO, |clocks| clocks.wait(now, tags))
    }
}

impl Clocks {
    fn wait(&mut self, now: Duration, tags: Tags) -> Duration {
        let wait = |clock: &mut Option<FairClock>, tag: Option<Tag>| {
            let both = clock.as_mut().zip(tag);
            both.map_or(Duration::ZERO, |(clock, tag)| clock.wait(now, tag))
        };
        wait(&mut self.calls, tags.calls).max(wait(&mut self.bytes, tags.bytes))
    }
}

fn nanoseconds(time: Duration) -> u128 {
    time.as_nanos()
}

fn duration(nanoseconds: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
