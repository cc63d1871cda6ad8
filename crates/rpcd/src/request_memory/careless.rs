//! Addresses whose records were not ended.
//!
//! Problem: a client that begins records and does not end them loses them, and begins others at
//! once.
//! Rule: an address that has lost a record because others waited for its memory (`record`) is
//! *careless* for [`CARELESS_FOR`]. All careless addresses together have the share of one, and
//! none of them is the first while others could be: however often such records are begun, they
//! hold up others once for each address.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::share::Address;

/// How long an address is careless after it has lost a record.
const CARELESS_FOR: Duration = Duration::from_secs(60);

/// When each lost its last record.
#[derive(Default)]
pub(super) struct Careless(HashMap<Address, Instant>);

impl Careless {
    /// The address for whose share a record of `address` counts.
    pub(super) fn payer(&self, address: Address) -> Address {
        let lost_at = self.0.get(&address);
        if lost_at.is_some_and(|at| at.elapsed() < CARELESS_FOR) {
            Address::NONE
        } else {
            address
        }
    }

    /// An address has lost a record.
    pub(super) fn note(&mut self, address: Address) {
        let now = Instant::now();
        // So there are no more of them than can lose one in that time.
        self.0
            .retain(|_, at| now.saturating_duration_since(*at) < CARELESS_FOR);
        self.0.insert(address, now);
    }
}
