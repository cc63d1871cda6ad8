//! What bounds the calls of a server, whatever they mean.

use std::sync::Arc;
use std::time::Duration;

use crate::call::CallName;
use crate::connection::{Charge, Totals};
use crate::limits::Limits;
use crate::slow::SlowCalls;

/// What is needed to answer a call that storage holds.
pub struct HeldCall {
    /// What its connection is charged.
    pub charge: Arc<Charge>,
    /// Which it is.
    pub call: CallName,
}

/// What bounds the calls of a server.
pub struct Bounds {
    /// What all connections have together.
    pub totals: Arc<Totals>,
    /// What clients and exports may have a second.
    pub limits: Limits,
    /// The calls that run in the pool.
    pub slow: SlowCalls<HeldCall>,
}

impl Bounds {
    /// Of a server in which a call may take so long, with so many threads for each export.
    pub fn new(slow_after: Duration, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            totals: Arc::default(),
            limits: Limits::default(),
            slow: SlowCalls::new(slow_after, threads.saturating_mul(2)),
        })
    }
}
