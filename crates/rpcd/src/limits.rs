//! Rate limits of clients and exports: [`pagewell_policy::limits`] with a clock.
//!
//! A throttled connection is not read between two calls until its time comes: the client waits, not
//! a thread. The reader checks again after [`WAIT_MAX`], as limits and other clients change.
//!
//! ```text
//!   reader: call ──> answered here ──> pays calls, and bytes of call and reply
//!               └──> goes to the pool, pays for the longest reply ──> gets the difference back
//! ```
//!
//! Weaknesses: under any limit all calls take one lock, for some hundred nanoseconds. UDP calls do
//! not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_policy::limits::{Cost, Limiter, Rates, Reason};

use crate::connection::Connection;
use crate::share::Address;
use crate::usage::ExportLabel;

/// Until the next check.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// With more calls behind it: a wait costs more than a call.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Of a server.
pub struct Limits {
    is_active: AtomicBool,
    begun: Instant,
    limiter: Mutex<Limiter>,
}

/// A payment for a reply before it exists. Whatever ends the call, also a defect: what no reply
/// took returns on drop.
pub struct Prepaid {
    limits: Arc<Limits>,
    connection: Arc<Connection>,
    export: ExportLabel,
    bytes: usize,
    is_settled: AtomicBool,
}

impl Prepaid {
    /// Charges a connection for a call of `received_bytes` and a reply of `reply_bytes`.
    pub fn pay(
        limits: &Arc<Limits>,
        connection: &Arc<Connection>,
        export: ExportLabel,
        (received_bytes, reply_bytes): (usize, usize),
    ) -> Arc<Self> {
        let cost = Cost {
            calls: 1,
            bytes: (received_bytes + reply_bytes) as u64,
        };
        limits.charge(connection, export, cost);
        Arc::new(Self {
            limits: limits.clone(),
            connection: connection.clone(),
            export,
            bytes: reply_bytes,
            is_settled: AtomicBool::new(false),
        })
    }

    /// Corrects the payment by the reply's real length, once.
    pub fn settle(&self, bytes: usize) {
        if !self.is_settled.swap(true, Ordering::AcqRel) {
            self.limits.settle(self, bytes);
        }
    }
}

impl Drop for Prepaid {
    fn drop(&mut self) {
        self.settle(0);
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            is_active: AtomicBool::new(false),
            begun: Instant::now(),
            limiter: Mutex::default(),
        }
    }
}

impl Limits {
    /// Of each client.
    pub fn limit_clients(&self, rates: Rates) {
        self.change(|limiter| limiter.limit_clients(rates));
    }

    /// Each for all clients of an export.
    pub fn limit_exports(&self, exports: impl IntoIterator<Item = (ExportLabel, Rates)>) {
        let exports = exports.into_iter();
        let numbered = exports.map(|(export, rates)| (export.number(), rates));
        self.change(|limiter| limiter.limit_exports(numbered));
    }

    fn change(&self, change: impl FnOnce(&mut Limiter)) {
        let mut limiter = self.limiter.lock();
        change(&mut limiter);
        self.is_active.store(limiter.is_limit(), Ordering::Relaxed);
    }

    /// Whether any limit is set.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Charges a connection.
    pub fn charge(&self, connection: &Connection, export: ExportLabel, cost: Cost) {
        let (now, client) = (self.begun.elapsed(), client_of(connection));
        let mut pass = connection.pass.lock();
        let mut limiter = self.limiter.lock();
        limiter.charge(now, (client, export.number()), cost, &mut pass);
    }

    fn settle(&self, paid: &Prepaid, bytes: usize) {
        let connection = &paid.connection;
        let more = bytes.saturating_sub(paid.bytes) as u64;
        if more > 0 {
            let cost = Cost {
                calls: 0,
                bytes: more,
            };
            return self.charge(connection, paid.export, cost);
        }
        let (now, client) = (self.begun.elapsed(), client_of(connection));
        let less = (paid.bytes - bytes) as u64;
        let mut pass = connection.pass.lock();
        let mut limiter = self.limiter.lock();
        limiter.refund(now, (client, paid.export.number()), less, &mut pass);
    }

    /// How long not to read a connection, and why; `None`: it may be read.
    pub fn wait(&self, connection: &Connection) -> Option<(Duration, Reason)> {
        let (now, client) = (self.begun.elapsed(), client_of(connection));
        let mut pass = connection.pass.lock();
        let wait = self.limiter.lock().wait(now, client, &mut pass);
        wait.map(|(wait, reason)| (wait.clamp(WAIT_MIN, WAIT_MAX), reason))
    }
}

fn client_of(connection: &Connection) -> u128 {
    Address::of(connection.peer.ip()).bits()
}
