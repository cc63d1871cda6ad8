//! Places for connections.
//!
//! Problem: there can only be so many connections, and a client that has one may keep it for ever
//! without a word. Rule: each address has its [share](crate::share) of the places, so that a new
//! client finds one. When an address has no place left in its share, the connection that has been
//! without a call for longest is asked to leave, first of all one of the address with the most
//! connections, and never one of an address that has fewer than the newcomer. One with a call
//! under way, or a reply that has not left, stays. A client that is asked to leave connects anew
//! when it has something to ask; NFS clients do so without telling anybody.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::share::{Address, Shares};

/// A connection with so recent a call is in the middle of something.
const IDLE_MIN: Duration = Duration::from_secs(5);

/// The places of a server.
pub struct Places(Mutex<State>);

struct State {
    shares: Shares<Address>,
    taken: HashMap<u64, (Address, Weak<Connection>)>,
}

/// A place that is taken; free again when dropped.
pub struct Place {
    places: Arc<Places>,
    address: Address,
    token: u64,
}

impl Places {
    /// As many as `limit`.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            shares: Shares::new(limit),
            taken: HashMap::new(),
        })))
    }

    /// A place for the connection `token` of an address, if there is one in its share.
    #[must_use]
    pub fn take(self: &Arc<Self>, address: Address, token: u64) -> Option<Place> {
        let mut state = self.lock();
        if !state.shares.may_add_one(address) {
            return None;
        }
        state.shares.add(address, 1);
        Some(Place {
            places: self.clone(),
            address,
            token,
        })
    }

    /// Says which connection has taken a place, so that it can be asked to leave.
    pub fn seat(&self, connection: &Arc<Connection>) {
        let address = Address::of(connection.peer());
        let seated = (address, Arc::downgrade(connection));
        self.lock().taken.insert(connection.token(), seated);
    }

    /// The connection that should leave so that one of `newcomer` can have a place; without a
    /// newcomer any.
    #[must_use]
    pub fn idlest(&self, newcomer: Option<Address>, now: Instant) -> Option<Arc<Connection>> {
        let state = self.lock();
        let fewest = newcomer.map_or(1, |address| state.shares.of(address));
        let seated: Vec<(usize, Arc<Connection>)> = state
            .taken
            .values()
            .map(|(address, connection)| (state.shares.of(*address), connection))
            .filter(|(count, _)| *count >= fewest)
            .filter_map(|(count, connection)| Some((count, connection.upgrade()?)))
            .collect();
        // The thread that lets go of a connection last frees its place, which takes the lock.
        drop(state);
        let idle = seated.into_iter().filter(|(_, connection)| {
            !connection.is_busy() && connection.idle_for(now) >= IDLE_MIN
        });
        let (_, idlest) =
            idle.min_by_key(|(count, connection)| Reverse((*count, connection.idle_for(now))))?;
        Some(idlest)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The number of the connection that it is for.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.shares.subtract(self.address, 1);
        state.taken.remove(&self.token);
    }
}
