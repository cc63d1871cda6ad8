//! What clients and exports may have a second: [`pagewell_policy::limits`] with a clock.
//!
//! **Problem.** A client that has had more than it may must wait, and no thread with it. **Rule.**
//! Its connection is not read, between two calls, until its time has come; what it sends fills its
//! socket, and its system waits. A reader knows the time of each connection that it does not read
//! ([`crate::receive::reader`]), and asks again after [`HELD_FOR_MAX`] at the latest, as limits and
//! other clients may have changed.
//!
//! ```text
//!   reader: call ──> answered here ──> pays calls, and bytes of call and reply
//!               └──> goes to the pool, and pays for the longest reply ──> has back what it is not
//! ```
//!
//! **Known weaknesses.** While anything is limited all calls of a server take one lock, for some
//! hundred nanoseconds. Calls about locks that come over UDP are not counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_policy::limits::{Cost, Limiter, Rates, Reason};

use crate::connection::Connection;
use crate::share::Address;
use crate::usage::ExportLabel;

/// A connection that waits asks again after so long.
const HELD_FOR_MAX: Duration = Duration::from_millis(100);

/// It waits for so long at least, and may have more at once then: a wait costs more than a call.
const HELD_FOR_MIN: Duration = Duration::from_millis(1);

/// The limits of a server.
pub struct Limits {
    is_active: AtomicBool,
    begun: Instant,
    limiter: Mutex<Limiter>,
}

/// Bytes that were paid for a reply before it was made.
#[derive(Clone, Copy, Debug)]
pub struct Prepaid {
    /// To this export.
    pub export: ExportLabel,
    /// So many.
    pub bytes: usize,
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
    /// So much each client may have from now on.
    pub fn limit_clients(&self, rates: Rates) {
        self.change(|limiter| limiter.limit_clients(rates));
    }

    /// So much the clients of these exports may have together from now on.
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

    /// Whether anything is limited.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// A connection pays.
    pub fn charge(&self, connection: &Connection, export: ExportLabel, cost: Cost) {
        let (now, client) = (self.begun.elapsed(), client_of(connection));
        let mut pass = connection.pass.lock();
        let mut limiter = self.limiter.lock();
        limiter.charge(now, (client, export.number()), cost, &mut pass);
    }

    /// A reply has so many bytes for which others were paid.
    pub fn settle(&self, connection: &Connection, paid: Prepaid, bytes: usize) {
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

    /// How long a connection must not be read, before it is to be asked for again; `None`: it may
    /// be read.
    pub fn wait(&self, connection: &Connection) -> Option<(Duration, Reason)> {
        let (now, client) = (self.begun.elapsed(), client_of(connection));
        let mut pass = connection.pass.lock();
        let wait = self.limiter.lock().wait(now, client, &mut pass);
        wait.map(|(wait, reason)| (wait.clamp(HELD_FOR_MIN, HELD_FOR_MAX), reason))
    }
}

fn client_of(connection: &Connection) -> u128 {
    Address::of(connection.peer.ip()).bits()
}
