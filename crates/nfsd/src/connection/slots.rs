//! Connection slots: how many connections there may be, and how many of one address.
//!
//! Each address has its [share](crate::share) of the slots, so that a new client finds one. An
//! acceptor that finds none asks an idle connection to leave
//! ([`crate::acceptor`]).

use std::sync::Arc;

use pagewell_base::sync::Mutex;

use crate::share::{Address, Shares};

/// The slots of a server.
pub struct Slots(Mutex<Shares<Address>>);

/// A slot that is taken; free again when dropped.
pub struct Slot {
    slots: Arc<Slots>,
    address: Address,
}

impl Slots {
    /// As many as `limit`.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shares::new(limit))))
    }

    /// A slot for a connection of an address, if there is one in its share.
    #[must_use]
    pub fn take(self: &Arc<Self>, address: Address) -> Option<Slot> {
        let mut shares = self.0.lock();
        if !shares.may_add_one(address) {
            return None;
        }
        shares.add(address, 1);
        Some(Slot {
            slots: self.clone(),
            address,
        })
    }

    /// How many an address has.
    pub fn of(&self, address: Address) -> usize {
        self.0.lock().of(address)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.0.lock().subtract(self.address, 1);
    }
}
