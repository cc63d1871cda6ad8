//! Bounds of a server's calls, whatever they mean.

use std::sync::Arc;
use std::time::Duration;

use crate::call::CallName;
use crate::connection::{Charge, Totals};
use crate::limits::Limits;
use crate::slow::SlowCalls;

/// What answers a stalled call.
pub struct StalledCall {
    /// To its connection.
    pub charge: Arc<Charge>,
    /// Its name.
    pub call: CallName,
}

/// Of a server.
pub struct Bounds {
    /// Over all connections.
    pub totals: Arc<Totals>,
    /// Of clients and exports.
    pub limits: Arc<Limits>,
    /// In the pool.
    pub slow: SlowCalls<StalledCall>,
}

impl Bounds {
    /// Calls may take `slow_after`; each export has `threads`.
    pub fn new(slow_after: Duration, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            totals: Arc::default(),
            limits: Arc::default(),
            slow: SlowCalls::new(slow_after, threads.saturating_mul(2)),
        })
    }
}
