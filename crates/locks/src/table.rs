//! The locks of all files, the waiting requests, and what happens on unlock.
//!
//! A lock granted to a dead client keeps all others out.
//!
//! ```text
//!   LOCK ── free ──────────────────────────────> held
//!    └── taken ──> waiting ── unlocked ──> offered ── taken up ──> held
//!                     │                       └── no response ──> the next waiter
//!                     └── not repeated, cancelled ──> gone
//! ```
//!
//! Once nothing conflicts with a waiting request, the table grants it and the client is called
//! back. The client *takes it up* by its reply or by repeating the request, which clients do every
//! half minute (Linux 30 s). After [`OFFERED_FOR`] without either the offer is undone, restoring
//! what the owner had. But if the reply to a call-back got lost, the client may believe that it
//! holds the lock, and keeps it.
//!
//! Waiters are served in order. A free lock is granted at once even if others wait for more: else a
//! client could wait for itself.
//!
//! A wait in a circle (A for B, B for A) is refused. The search is bounded and misses long chains.
//!
//! After a restart the server does not know the old locks: during *grace* only reclaims are
//! granted.
//!
//! All is bounded, by address and in total.

mod holdings;
mod offers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_fs::FileId;

use crate::file::{FileLocks, Kind, Piece};
use crate::owner::{Client, Owner};
use crate::range::Range;

/// 30 MB with owners as Linux names them (one for each process).
pub const LOCKS_MAX: usize = 65_536;
/// Of one address.
pub const LOCKS_PER_ADDRESS_MAX: usize = 8192;
/// Requests.
pub const WAITERS_MAX: usize = 4096;
/// Of one address.
pub const WAITERS_PER_ADDRESS_MAX: usize = 256;
/// Of one address, by name.
pub const CLIENTS_PER_ADDRESS_MAX: usize = 64;
/// In all.
pub const CLIENTS_MAX: usize = 1024;
/// Two repetitions by a client at 30 s.
pub const OFFERED_FOR: Duration = Duration::from_secs(60);
/// Of a request that is not repeated.
pub const WAITED_FOR: Duration = Duration::from_secs(300);

/// A file of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// The export.
    pub export: u32,
    /// What all identifiers share ([`pagewell_fs::FileSystem::object_of`]).
    pub id: FileId,
}

/// A request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The file.
    pub file: FileKey,
    /// The owner.
    pub owner: Owner,
    /// The bytes.
    pub range: Range,
    /// The kind.
    pub kind: Kind,
}

impl Wish {
    /// Once held by a client in this state.
    fn piece(&self, state: i32) -> Piece {
        Piece {
            range: self.range,
            kind: self.kind,
            state,
        }
    }
}

/// The result of LOCK or SHARE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Held.
    Granted,
    /// Another lock conflicts.
    Denied,
    /// Waiting.
    Blocked,
    /// It would wait for itself.
    Deadlock,
    /// At a bound.
    Full,
    /// Later: only reclaims in grace, none after it; see also [`Table::lock`].
    Grace,
}

/// The result of a call-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has the lock.
    Taken,
    /// It does not want the lock, or was not reached.
    Refused,
    /// It was called and may have the lock.
    Unknown,
}

/// A client to call back.
#[derive(Clone, Debug)]
pub struct Offer<C> {
    /// For [`Table::answered`].
    pub number: u64,
    /// The request.
    pub wish: Wish,
    /// The caller's context.
    pub context: C,
}

struct Waiter<C> {
    wish: Wish,
    state: i32,
    context: C,
    asked_at: Instant,
    offered: Option<Offered>,
}

struct Offered {
    at: Instant,
    /// Earlier pieces in the range.
    before: Vec<Piece>,
    called_at: Instant,
    calls: u32,
    is_called: bool,
    /// The client may believe that it holds the lock.
    may_be_taken: bool,
}

#[derive(Default)]
struct Load {
    weight: usize,
    waiters: usize,
    /// Pairs of file and owner, by client.
    clients: HashMap<Arc<Client>, usize>,
}

/// All locks of a server. `C` is the context of a call-back.
pub struct Table<C> {
    files: HashMap<FileKey, FileLocks>,
    /// Oldest first.
    waiters: BTreeMap<u64, Waiter<C>>,
    next_number: u64,
    /// In progress, by offer.
    calls: HashMap<u64, Wish>,
    loads: HashMap<IpAddr, Load>,
    weight: usize,
    grace_until: Option<Instant>,
}

impl<C: Clone> Table<C> {
    /// Without locks, in grace until `grace_until`.
    pub fn new(grace_until: Option<Instant>) -> Self {
        Self {
            files: HashMap::new(),
            waiters: BTreeMap::new(),
            next_number: 0,
            calls: HashMap::new(),
            loads: HashMap::new(),
            weight: 0,
            grace_until,
        }
    }

    /// Whether only reclaims are granted.
    pub fn in_grace(&self, now: Instant) -> bool {
        self.grace_until.is_some_and(|until| now < until)
    }

    /// Whether a client holds locks.
    pub fn holds(&self, client: &Arc<Client>) -> bool {
        self.loads
            .get(&client.address)
            .is_some_and(|load| load.clients.contains_key(client))
    }

    /// The clients of an address with locks.
    pub fn clients_at(&self, address: IpAddr) -> Vec<Arc<Client>> {
        self.loads
            .get(&address)
            .map_or_else(Vec::new, |load| load.clients.keys().cloned().collect())
    }

    /// Locked files at an address, counted for each program.
    pub fn held_at(&self, address: IpAddr) -> usize {
        let load = self.loads.get(&address);
        load.map_or(0, |load| load.clients.values().sum())
    }

    /// A lock's first conflict.
    pub fn test(&self, wish: &Wish) -> Option<(Owner, Piece)> {
        let locks = self.files.get(&wish.file)?;
        let (owner, piece) = locks.conflict(&wish.owner, wish.range, wish.kind)?;
        Some((owner.clone(), *piece))
    }

    fn is_free(&self, wish: &Wish) -> bool {
        self.files.get(&wish.file).is_none_or(|locks| {
            let mut others = locks.conflicts(&wish.owner, wish.range, wish.kind);
            others.next().is_none()
        })
    }

    /// Requests a lock. `state`: the client's NSM state; `wait`: the call-back, if the client
    /// waits.
    ///
    /// A call-back does not say which request it answers. So while one is in progress for the same
    /// lock, and the client does not wait (it has unlocked and wants it again), a new wait gets
    /// [`Outcome::Grace`].
    pub fn lock(
        &mut self,
        wish: &Wish,
        (reclaim, state): (bool, i32),
        wait: Option<C>,
        now: Instant,
    ) -> (Outcome, Vec<Offer<C>>) {
        if reclaim != self.in_grace(now) {
            return (Outcome::Grace, Vec::new());
        }
        let outcome = self.ask(wish, state, wait, now);
        // A weaker lock than before may let others in.
        (outcome, self.offer(&wish.file, now))
    }

    fn ask(&mut self, wish: &Wish, state: i32, wait: Option<C>, now: Instant) -> Outcome {
        let same = self.waiter_of(wish);
        if let Some(number) = same
            && self.is_open(number)
        {
            self.settle(number);
            return Outcome::Granted;
        }
        self.settle_all_of(wish);
        if self.is_free(wish) {
            if let Some(number) = same {
                self.forget_waiter(number);
            }
            return if self.change(wish, &[wish.piece(state)]) {
                Outcome::Granted
            } else {
                Outcome::Full
            };
        }
        let Some(context) = wait else {
            if let Some(number) = same {
                self.forget_waiter(number);
            }
            return Outcome::Denied;
        };
        if let Some(waiter) = same.and_then(|number| self.waiters.get_mut(&number)) {
            waiter.asked_at = now;
            return Outcome::Blocked;
        }
        if self.calls.values().any(|call| call == wish) {
            return Outcome::Grace;
        }
        if self.would_wait_for_itself(wish) {
            return Outcome::Deadlock;
        }
        self.add_waiter(wish, state, context, now)
    }

    /// Unlocks the range. False: a split would exceed a bound.
    pub fn unlock(&mut self, wish: &Wish, now: Instant) -> (bool, Vec<Offer<C>>) {
        self.settle_all_of(wish);
        (self.change(wish, &[]), self.offer(&wish.file, now))
    }

    /// Stops waiting. False: it did not wait.
    pub fn cancel(&mut self, wish: &Wish, now: Instant) -> (bool, Vec<Offer<C>>) {
        let Some(number) = self.waiter_of(wish) else {
            return (false, Vec::new());
        };
        if self.is_open(number) {
            return (true, self.take_back(number, now));
        }
        self.forget_waiter(number);
        (true, Vec::new())
    }

    /// Frees the locks of a client that is gone, except those of the NSM state `keep`.
    pub fn free(&mut self, client: &Client, keep: Option<i32>, now: Instant) -> Vec<Offer<C>> {
        let mut settled = Vec::new();
        let mine = |(number, waiter): (&u64, &Waiter<C>)| {
            (*waiter.wish.owner.client == *client).then_some(*number)
        };
        for number in self.waiters.iter().filter_map(mine).collect::<Vec<_>>() {
            if self.is_open(number) {
                // The loop below frees or keeps its pieces.
                settled.extend(self.settle(number));
            } else if self.waiters.get(&number).map(|waiter| waiter.state) != keep {
                self.forget_waiter(number);
            }
        }
        let mut freed = Vec::new();
        for (file, locks) in &self.files {
            for (owner, pieces) in locks.owners() {
                if *owner.client == *client {
                    let stays = |piece: &&Piece| Some(piece.state) == keep;
                    let kept: Vec<Piece> = pieces.iter().filter(stays).copied().collect();
                    if kept.len() < pieces.len() {
                        freed.push((*file, owner.clone(), kept));
                    }
                }
            }
        }
        for (file, owner, kept) in freed {
            self.set(&file, &owner, kept);
            settled.push(file);
        }
        let offers = settled.iter().flat_map(|file| self.offer(file, now));
        offers.collect()
    }
}
