//! Penalties for addresses that begin records and do not end them.
//!
//! Such a client loses a record and begins the next at once. An address that lost a record because
//! others waited for its memory (`record`) is *penalised* for [`PENALTY`]: all such addresses have
//! one share together, and none has the first record while others could. So each can delay others
//! once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::share::Address;

/// How long a lost record counts.
const PENALTY: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Penalties(HashMap<Address, Instant>);

impl Penalties {
    /// The address whose share pays for a record.
    pub(super) fn payer(&self, address: Address) -> Address {
        let lost_at = self.0.get(&address);
        if lost_at.is_some_and(|at| at.elapsed() < PENALTY) {
            Address::NONE
        } else {
            address
        }
    }

    pub(super) fn note(&mut self, address: Address) {
        let now = Instant::now();
        // Bounds the map to the losses of that time.
        self.0
            .retain(|_, at| now.saturating_duration_since(*at) < PENALTY);
        self.0.insert(address, now);
    }
}
