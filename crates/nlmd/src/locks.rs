//! The locks of all clients: NLM version 4 and NSM.
//!
//! ```text
//!   program.rs         requests and permissions
//!          |
//!   [`Locks`]  ──── crate [`pagewell_locks`]: held locks, waiters, clients before a restart
//!          └─────── [`calls`]: calls to clients: granted locks, restart notices
//! ```
//!
//! A client is an address and a name: no client can free another address's locks, or have another
//! address called. Lock order: [`Records`], then [`Table`]; mostly one is held alone.

pub mod calls;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_locks::file::Piece;
use pagewell_locks::owner::{Client, Owner};
use pagewell_locks::records::{Listed, Records};
use pagewell_locks::shares::Shares;
use pagewell_locks::table::{Answer, Offer, Outcome, Table, Wish};

use crate::locks::calls::{Calls, Context, Job, Peer};
use pagewell_rpcd::clients::CountsLocks;

/// Restart notices to a client, with pauses that double from [`NOTIFY_AGAIN_AFTER`]: about ten
/// minutes.
const NOTICES_MAX: u32 = 8;
const NOTIFY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Names with a remembered restart.
const RESTARTS_MAX: usize = 1024;

/// The settings of the lock manager.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// The list of clients with locks, for restart notices; without it there are none.
    pub records: Option<PathBuf>,
    /// Grace after a restart.
    pub grace: Duration,
    /// Serve UDP at the server's port.
    pub datagrams: bool,
    /// The port of clients' port mappers.
    pub port_mapper: u16,
}

impl Default for LockOptions {
    /// No records, 45 s of grace, no UDP, port 111.
    fn default() -> Self {
        Self {
            records: None,
            grace: Duration::from_secs(45),
            datagrams: false,
            port_mapper: pagewell_sunrpc::portmap::PORT,
        }
    }
}

/// A client without its restart notice.
struct Unnotified {
    listed: Listed,
    notices: u32,
    next_at: Instant,
}

/// All locks of a server.
pub struct Locks {
    table: Mutex<Table<Context>>,
    /// The share modes.
    pub shares: Mutex<Shares>,
    records: Mutex<Records>,
    unnotified: Mutex<Vec<Unnotified>>,
    /// Each client's last restart.
    restarts: Mutex<HashMap<Arc<Client>, i32>>,
    calls: Calls,
}

impl Locks {
    /// Reads the list of clients that held locks.
    pub fn open(options: &LockOptions, now: Instant) -> std::io::Result<Arc<Self>> {
        let (records, before) = Records::open(options.records.clone(), now)?;
        let grace = (!before.is_empty()).then(|| now + options.grace);
        let unnotified = before.into_iter().map(|listed| Unnotified {
            listed,
            notices: 0,
            next_at: now,
        });
        let state = records.state();
        let port_mapper = options.port_mapper;
        Ok(Arc::new_cyclic(|locks: &Weak<Self>| Self {
            table: Mutex::new(Table::new(grace)),
            shares: Mutex::default(),
            records: Mutex::new(records),
            unnotified: Mutex::new(unnotified.collect()),
            restarts: Mutex::default(),
            calls: {
                let locks = locks.clone();
                Calls::new(move |job| {
                    if let Some(locks) = locks.upgrade() {
                        locks.make_call(job, port_mapper, state);
                    }
                })
            },
        }))
    }

    /// Whether only reclaims are granted.
    pub fn in_grace(&self, now: Instant) -> bool {
        self.table.lock().in_grace(now)
    }

    /// Whether a client is listed, so that it may get locks. False while the list is written,
    /// unless the thread may block.
    #[must_use]
    pub fn is_listed(&self, client: &Client, may_block: bool) -> bool {
        let now = Instant::now();
        if may_block {
            return self.records.lock().touch(client, now);
        }
        let records = self.records.try_lock();
        records.is_some_and(|mut records| records.touch(client, now))
    }

    /// Lists a client, durably. False on failure.
    #[must_use]
    pub fn list(&self, listed: &Listed) -> bool {
        pagewell_fs::identity::act_for_server();
        match self.records.lock().add(listed, Instant::now()) {
            Ok(added) => added,
            Err(error) => {
                pagewell_export::report::report_own(
                    "the list of clients with locks",
                    &error.to_string(),
                );
                false
            }
        }
    }

    /// Requests a lock; `wait`: the context for a call-back, if the client waits.
    #[must_use]
    pub fn lock(&self, wish: &Wish, reclaim: (bool, i32), wait: Option<Context>) -> Outcome {
        let now = Instant::now();
        let (outcome, offers) = self.table.lock().lock(wish, reclaim, wait, now);
        if outcome == Outcome::Full {
            names::LOCKS_REFUSED.add(1);
        }
        self.call_back(offers);
        outcome
    }

    /// The first conflict of a lock.
    pub fn test(&self, wish: &Wish) -> Option<(Owner, Piece)> {
        self.table.lock().test(wish)
    }

    /// Unlocks a range. False: a bound is reached.
    #[must_use]
    pub fn unlock(&self, wish: &Wish) -> bool {
        let (unlocked, offers) = self.table.lock().unlock(wish, Instant::now());
        self.call_back(offers);
        unlocked
    }

    /// Stops waiting. False: there was no such request.
    #[must_use]
    pub fn cancel(&self, wish: &Wish) -> bool {
        let (cancelled, offers) = self.table.lock().cancel(wish, Instant::now());
        self.call_back(offers);
        cancelled
    }

    /// A client reports that it holds nothing.
    pub fn free_all(&self, client: &Client) {
        self.shares.lock().free(client);
        self.free(client, None);
    }

    /// The machine at `address` reports a restart, under `name` and NSM state `state`: frees its
    /// older locks.
    ///
    /// The name often differs from that of its locks (a domain, or none). A lone client of the
    /// address is meant in any case; of several, the one that fits.
    pub fn restarted(&self, address: IpAddr, name: &[u8], state: i32) {
        let mut clients = self.shares.lock().clients_at(address);
        clients.extend(self.table.lock().clients_at(address));
        let clients: Vec<_> = clients.into_iter().collect();
        let fitting = clients.iter().find(|client| fits(&client.name, name));
        let client = match (fitting, clients.as_slice()) {
            (Some(client), _) | (None, [client]) => client,
            (None, _) => {
                return;
            }
        };
        let mut restarts = self.restarts.lock();
        if restarts.get(client) == Some(&state) {
            // Notices repeat until answered, and may come late.
            return;
        }
        if restarts.len() >= RESTARTS_MAX {
            restarts.clear();
        }
        restarts.insert(client.clone(), state);
        drop(restarts);
        self.shares.lock().free(client);
        self.free(client, Some(state));
    }

    fn free(&self, client: &Client, keep: Option<i32>) {
        let offers = self.table.lock().free(client, keep, Instant::now());
        self.call_back(offers);
    }

    /// Sends the result of a one-way call. Over the bound it is lost, like a datagram.
    pub fn send_result(&self, to: (IpAddr, Option<IpAddr>), procedure: u32, body: Vec<u8>) {
        self.calls.queue(Job::Result {
            to,
            procedure,
            body,
        });
    }

    /// Calls a client; may block.
    fn make_call(&self, job: Job, port_mapper: u16, state: i32) {
        let peer = |address, local| Peer {
            address,
            local,
            port_mapper,
        };
        let count = |reached: bool| {
            names::LOCK_CALL_FAILURES.add(u64::from(!reached));
        };
        match job {
            Job::Granted(offer) => {
                let client = peer(offer.wish.owner.client.address, offer.context.local);
                // Meanwhile the client may have repeated its request, or cancelled.
                let answer = if self.table.lock().is_open(offer.number) {
                    client.grant(&offer)
                } else {
                    Answer::Refused
                };
                count(answer == Answer::Taken);
                self.answered(offer.number, answer);
            }
            Job::Result {
                to: (address, local),
                procedure,
                body,
            } => count(peer(address, local).send_result(procedure, &body)),
            Job::Restarted(listed) => {
                let client = peer(listed.client.address, listed.local);
                let heard = client.notify_restart(state);
                count(heard);
                self.notified(&listed.client, heard);
            }
            Job::Clean => self.clean(),
        }
    }

    /// Takes the result of a call-back.
    fn answered(&self, number: u64, answer: Answer) {
        let offers = self.table.lock().answered(number, answer, Instant::now());
        self.call_back(offers);
    }

    /// Takes the result of a restart notice.
    fn notified(&self, client: &Client, heard: bool) {
        let mut unnotified = self.unnotified.lock();
        let Some(at) = unnotified
            .iter()
            .position(|one| *one.listed.client == *client)
        else {
            return;
        };
        if heard || unnotified[at].notices >= NOTICES_MAX {
            unnotified.swap_remove(at);
            drop(unnotified);
            self.records.lock().heard(client);
        }
    }

    fn call_back(&self, offers: Vec<Offer<Context>>) {
        for offer in offers {
            let number = offer.number;
            if !self.calls.queue(Job::Granted(offer)) {
                self.answered(number, Answer::Refused);
            }
        }
    }

    /// Does what is due; call about once a second. Never waits.
    pub fn tick(&self, now: Instant) {
        let offers = self.table.lock().tick(now);
        self.call_back(offers);
        let mut due = Vec::new();
        for unnotified in self.unnotified.lock().iter_mut() {
            if now >= unnotified.next_at {
                unnotified.next_at =
                    now + NOTIFY_AGAIN_AFTER * 2u32.pow(unnotified.notices.min(NOTICES_MAX));
                unnotified.notices += 1;
                due.push(unnotified.listed.clone());
            }
        }
        for listed in due {
            let client = listed.client.clone();
            if !self.calls.queue(Job::Restarted(listed)) {
                self.notified(&client, false);
            }
        }
        let holds = |client: &Arc<Client>| self.table.lock().holds(client);
        if self
            .records
            .try_lock()
            .is_some_and(|records| records.is_stale(now, holds))
        {
            self.calls.queue(Job::Clean);
        }
    }

    /// Unlists clients without locks.
    fn clean(&self) {
        let holds = |client: &Arc<Client>| self.table.lock().holds(client);
        let cleaned = self.records.lock().clean(Instant::now(), holds);
        if let Err(error) = cleaned {
            pagewell_export::report::report_own(
                "the list of clients with locks",
                &error.to_string(),
            );
        }
    }

    /// Makes no more calls.
    pub fn stop(&self) {
        self.calls.pool.stop();
    }
}

impl CountsLocks for Locks {
    fn held_at(&self, address: IpAddr) -> usize {
        self.table.lock().held_at(address)
    }
}

/// Whether two names can be of one machine: equal but for case, or one lacks the domain.
fn fits(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() <= other.len() {
        (one, other)
    } else {
        (other, one)
    };
    let (begin, rest) = long.split_at(short.len());
    let host = !short.is_empty() && begin.eq_ignore_ascii_case(short);
    host && (rest.is_empty() || (rest[0] == b'.' && !short.contains(&b'.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_with_and_without_its_domain() {
        assert!(fits(b"anna", b"Anna") && fits(b"anna", b"anna.example.org"));
        assert!(fits(b"anna.example.org", b"anna"));
        for (one, other) in [("anna", "annabel"), ("", "anna"), ("10.0", "10.0.0.1")] {
            assert!(!fits(one.as_bytes(), other.as_bytes()), "{one} {other}");
        }
    }
}
