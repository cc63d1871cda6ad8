//! Bounds of a server's calls, whatever they mean.

use std::sync::Arc;
use std::time::Duration;

use crate::call::CallName;
use crate::connection::{Charge, Totals};
use crate::limits::Limits;
use crate::slow::SlowCalls;

/// What it takes to answer a stalled call.
pub struct StalledCall {
    /// The charge to its connection.
    pub charge: Arc<Charge>,
    /// Its name.
    pub call: CallName,
}

/// The bounds of a server.
pub struct Bounds {
    /// Sums over all connections.
    pub totals: Arc<Totals>,
    /// Rate limits of clients and exports.
    pub limits: Limits,
    /// Calls in the pool.
    pub slow: SlowCalls<StalledCall>,
}

impl Bounds {
    /// Calls may take `slow_after`; each export has `threads`.
    pub fn new(slow_after: Duration, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            totals: Arc::default(),
            limits: Limits::default(),
            slow: SlowCalls::new(slow_after, threads.saturating_mul(2)),
        })
    }
}
