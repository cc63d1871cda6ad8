//! Locks on files, for all clients of the server: NLM version 4 and the NSM that goes with it.
//!
//! ```text
//!   service/locks.rs   what a call asks for, and may
//!          |
//!   [`Locks`]  ──── crate [`pagewell_locks`]: who holds what, who waits, who held locks before
//!          └─────── [`calls`]: calls to clients: a lock is granted, we have restarted
//! ```
//!
//! A client is an address and a name: no client can let go of the locks of another address, or be
//! called at another address than the one that asked. Of two locks in order, [`Records`] comes
//! first, then [`Table`]; most of the time one is held alone.

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

/// How often a client is notified of the restart, with a pause that doubles from
/// [`NOTIFY_AGAIN_AFTER`]: some ten minutes in all.
const NOTICES_MAX: u32 = 8;
const NOTIFY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Names of which the last restart is remembered.
const RESTARTS_MAX: usize = 1024;

/// What a server does about locks.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// Where the clients that hold locks are listed for the next life of the server; without it
    /// no client is notified of a restart.
    pub records: Option<PathBuf>,
    /// How long after a restart only locks of before are taken.
    pub grace: Duration,
    /// Answer datagrams, too, at the port of the server.
    pub datagrams: bool,
    /// The port of the port mapper of clients.
    pub port_mapper: u16,
}

impl Default for LockOptions {
    /// No records, 45 s of grace, no datagrams, port 111.
    fn default() -> Self {
        Self {
            records: None,
            grace: Duration::from_secs(45),
            datagrams: false,
            port_mapper: pagewell_sunrpc::portmap::PORT,
        }
    }
}

/// A client that has not heard of the restart.
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
    /// Which restart of a client was acted upon last.
    restarts: Mutex<HashMap<Arc<Client>, i32>>,
    calls: Calls,
}

impl Locks {
    /// The locks of a server that starts now: it reads which clients held some before.
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

    /// Whether only locks of before the restart are taken.
    pub fn in_grace(&self, now: Instant) -> bool {
        self.table.lock().in_grace(now)
    }

    /// Whether a client is listed for the next life, so that it may be given locks. Not known while
    /// the list is being written, unless the thread may wait.
    #[must_use]
    pub fn is_listed(&self, client: &Client, may_block: bool) -> bool {
        let now = Instant::now();
        if may_block {
            return self.records.lock().touch(client, now);
        }
        let records = self.records.try_lock();
        records.is_some_and(|mut records| records.touch(client, now))
    }

    /// Lists a client, which may have to wait for the device. False when that cannot be done.
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

    /// Asks for a lock; `wait` is given when the client will wait.
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

    /// What is in the way of a lock.
    pub fn test(&self, wish: &Wish) -> Option<(Owner, Piece)> {
        self.table.lock().test(wish)
    }

    /// Lets go of a range. False when a bound is reached.
    #[must_use]
    pub fn unlock(&self, wish: &Wish) -> bool {
        let (unlocked, offers) = self.table.lock().unlock(wish, Instant::now());
        self.call_back(offers);
        unlocked
    }

    /// Waits no more. False when nothing was waited for.
    #[must_use]
    pub fn cancel(&self, wish: &Wish) -> bool {
        let (cancelled, offers) = self.table.lock().cancel(wish, Instant::now());
        self.call_back(offers);
        cancelled
    }

    /// A client says that it holds nothing any more.
    pub fn free_all(&self, client: &Client) {
        self.shares.lock().free(client);
        self.free(client, None);
    }

    /// The machine at `address` says that it has restarted, and is called `name` and in its life
    /// `state`. What its former life held is free.
    ///
    /// The name is often not the one that its locks have: with a domain, or none. When the address
    /// has one client only, that is meant; of several the one whose name fits, or none.
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
            // Notices are sent until they are answered, and may come again late.
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

    /// Sends the result of a one-way call. When too many are on their way already it is lost, as a
    /// datagram would be.
    pub fn send_result(&self, to: (IpAddr, Option<IpAddr>), procedure: u32, body: Vec<u8>) {
        self.calls.queue(Job::Result {
            to,
            procedure,
            body,
        });
    }

    /// Makes a call to a client, which may wait.
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
                // The client has asked again, or cancelled, in the meantime.
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

    /// What came of a call back.
    fn answered(&self, number: u64, answer: Answer) {
        let offers = self.table.lock().answered(number, answer, Instant::now());
        self.call_back(offers);
    }

    /// What came of notifying a client of the restart.
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

    /// To be called every second or so: what is due. It never waits.
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

    /// Takes clients that hold nothing off the list.
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

    /// No more calls are made.
    pub fn stop(&self) {
        self.calls.pool.stop();
    }
}

impl CountsLocks for Locks {
    fn held_at(&self, address: IpAddr) -> usize {
        self.table.lock().held_at(address)
    }
}

/// Whether two names are of one machine: the same but for case, or one has a domain and the other
/// has none.
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
