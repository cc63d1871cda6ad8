//! Which owner holds which lock of all files, which waits, and what happens when one is let go of.
//!
//! Problem: the clients of a lock are machines that may not answer, and a lock that was given to
//! one that is not there any more keeps all others out. Rules:
//!
//! ```text
//!   LOCK ── free ──────────────────────────────> held
//!    └── taken ──> waiting ── let go of ──> offered ── taken up ──> held
//!                     │                        └── not heard of ──> the next that waits
//!                     └── not asked for any more, cancelled ──> gone
//! ```
//!
//! A lock that is waited for is put into the table for the first of them as soon as nothing
//! is in its way, and the client is called back. It is *taken up* when the client says so, or asks
//! for the lock again: clients do that every half minute or so, whether they can be called or not
//! (Linux 30 s). When neither has happened after [`OFFERED_FOR`], the client has given up, and the
//! offer is taken back, with what its owner had there before in its place. That is only done while
//! the client cannot believe that it has the lock: after a call back whose answer got lost it may,
//! and then the lock stays with it, like any lock of a client that is gone.
//!
//! Waiting is in the order of asking. A lock that is free is given at once, also when others
//! wait for more than that: to hold it back could make a client wait for itself.
//!
//! A wait that would end in itself (A waits for B, which waits for A) is refused. The search for it
//! is bounded; a longer chain is not found.
//!
//! After a restart it is not known which client held what. For a while only locks are taken that
//! clients had before (*grace*), so that no other client gets between.
//!
//! Everything is bounded, for each address and in all: see the constants. Nothing here has a clock
//! or does input and output.

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

/// Locks of all clients. With owners as Linux names them (a process each at the most) 30 MB.
pub const LOCKS_MAX: usize = 65_536;
/// Locks of one address.
pub const LOCKS_PER_ADDRESS_MAX: usize = 8192;
/// Those that wait.
pub const WAITERS_MAX: usize = 4096;
/// Those of one address that wait.
pub const WAITERS_PER_ADDRESS_MAX: usize = 256;
/// Clients of one address, which are told apart by name.
pub const CLIENTS_PER_ADDRESS_MAX: usize = 64;
/// Clients in all.
pub const CLIENTS_MAX: usize = 1024;
/// How long an offer stands: two rounds of a client that asks every 30 s.
pub const OFFERED_FOR: Duration = Duration::from_secs(60);
/// How long a client waits without asking again.
pub const WAITED_FOR: Duration = Duration::from_secs(300);

/// A file of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// The export's number.
    pub export: u32,
    /// The part of its identifier that all its identifiers have
    /// ([`pagewell_fs::FileSystem::object_of`]).
    pub id: FileId,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Of which file.
    pub file: FileKey,
    /// Its owner.
    pub owner: Owner,
    /// Where.
    pub range: Range,
    /// How.
    pub kind: Kind,
}

impl Wish {
    /// It, as it is held by a client in this state.
    fn piece(&self, state: i32) -> Piece {
        Piece {
            range: self.range,
            kind: self.kind,
            state,
        }
    }
}

/// What became of a LOCK, or of a SHARE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is held.
    Granted,
    /// Another one is in the way.
    Denied,
    /// It waits.
    Blocked,
    /// It would wait for itself.
    Deadlock,
    /// A bound is reached.
    Full,
    /// Only locks of before the restart are taken now; or no longer; or not yet, see
    /// [`Table::lock`].
    Grace,
}

/// What a client said when it was called back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has the lock now.
    Taken,
    /// It does not want it, or not yet, or was not asked.
    Refused,
    /// It was asked, and may have taken it.
    Unknown,
}

/// A client is to be called back.
#[derive(Clone, Debug)]
pub struct Offer<C> {
    /// Names it in [`Table::answered`].
    pub number: u64,
    /// What was asked for.
    pub wish: Wish,
    /// What the caller gave with it.
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
    /// What the owner had there before.
    before: Vec<Piece>,
    called_at: Instant,
    calls: u32,
    /// A call back is under way.
    is_called: bool,
    /// The client may believe that it has the lock.
    may_be_taken: bool,
}

#[derive(Default)]
struct Load {
    weight: usize,
    waiters: usize,
    /// How often each client is an owner in a file.
    clients: HashMap<Arc<Client>, usize>,
}

/// All locks of a server. `C` is what is needed to call back a client that waits.
pub struct Table<C> {
    files: HashMap<FileKey, FileLocks>,
    /// Oldest first.
    waiters: BTreeMap<u64, Waiter<C>>,
    next_number: u64,
    /// Calls that are under way, or wait for that, by the number of their offer.
    calls: HashMap<u64, Wish>,
    loads: HashMap<IpAddr, Load>,
    weight: usize,
    grace_until: Option<Instant>,
}

impl<C: Clone> Table<C> {
    /// An empty one, which until then takes only locks of before.
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

    /// Whether only locks of before the restart are taken.
    pub fn in_grace(&self, now: Instant) -> bool {
        self.grace_until.is_some_and(|until| now < until)
    }

    /// Whether a client holds something.
    pub fn holds(&self, client: &Arc<Client>) -> bool {
        self.loads
            .get(&client.address)
            .is_some_and(|load| load.clients.contains_key(client))
    }

    /// The clients at an address that hold something.
    pub fn clients_at(&self, address: IpAddr) -> Vec<Arc<Client>> {
        self.loads
            .get(&address)
            .map_or_else(Vec::new, |load| load.clients.keys().cloned().collect())
    }

    /// Files in which programs at an address hold locks, each counted for each program.
    pub fn held_at(&self, address: IpAddr) -> usize {
        let load = self.loads.get(&address);
        load.map_or(0, |load| load.clients.values().sum())
    }

    /// What is in the way of a lock, if anything.
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

    /// Asks for a lock. `state` is that of the client's status monitor; `wait` gives what is needed
    /// to call back, when the client will wait.
    ///
    /// A client cannot tell for which of its requests it is called back. So while a call for the
    /// same lock is under way that the client did not wait for (it has asked again, and let go, and
    /// wants it once more), it cannot wait anew: it is asked to come back, as after a restart.
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
        // A weaker lock instead of a stronger one lets others in.
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

    /// Lets go of the range of `wish`. False when splitting a lock would pass a bound.
    pub fn unlock(&mut self, wish: &Wish, now: Instant) -> (bool, Vec<Offer<C>>) {
        self.settle_all_of(wish);
        (self.change(wish, &[]), self.offer(&wish.file, now))
    }

    /// Waits no more. False when nothing was waited for.
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

    /// A client is gone: all it has is free, but what it has locked in a life of its status monitor
    /// that goes on.
    pub fn free(&mut self, client: &Client, keep: Option<i32>, now: Instant) -> Vec<Offer<C>> {
        let mut settled = Vec::new();
        let mine = |(number, waiter): (&u64, &Waiter<C>)| {
            (*waiter.wish.owner.client == *client).then_some(*number)
        };
        for number in self.waiters.iter().filter_map(mine).collect::<Vec<_>>() {
            if self.is_open(number) {
                // What it had and was offered is all freed below, or all kept.
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
