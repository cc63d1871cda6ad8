//! What a client has done, for its owner; the sums over all clients are in the program's counters.

use pagewell_counters::{Counter, Counts, Histogram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Procedures told apart: those of NFS version 3 and some more. Any above is counted as the last.
pub const PROCEDURES: usize = 32;

/// A snapshot of what a client has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// By number of the procedure; there are [`PROCEDURES`].
    pub procedures: Vec<ProcedureStatistics>,
    /// Calls made, each counted once however often it was sent.
    pub requests: u64,
    /// Calls sent again.
    pub retransmissions: u64,
    /// Attempts that got no reply in time.
    pub timeouts: u64,
    /// Replies that made no sense; each cost a connection.
    pub invalid_replies: u64,
    /// Replies to calls that were never made.
    pub unexpected_replies: u64,
    /// Replies to calls that had been given up.
    pub late_replies: u64,
    /// Connections made.
    pub connections: u64,
    /// Connections made in place of one that was lost.
    pub reconnections: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Calls that have no outcome yet.
    pub in_flight: u64,
}

/// What a client has done with one procedure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcedureStatistics {
    /// Calls made.
    pub calls: u64,
    /// Times from the call to its reply, of the calls that got one.
    pub latency: Counts,
}

#[derive(Default)]
struct Procedure {
    calls: AtomicU64,
    latency: Histogram,
}

/// The counts of a running client.
pub(super) struct Counted {
    procedures: Vec<Procedure>,
    pub(super) retransmissions: Sum,
    pub(super) timeouts: Sum,
    pub(super) invalid_replies: Sum,
    pub(super) unexpected_replies: Sum,
    pub(super) late_replies: Sum,
    pub(super) connections: Sum,
    pub(super) reconnections: Sum,
    pub(super) sent_bytes: Sum,
    pub(super) received_bytes: Sum,
}

/// A sum of this client that goes into one of the program's too.
pub(super) struct Sum(AtomicU64, &'static Counter);

impl Sum {
    const fn new(counter: &'static Counter) -> Self {
        Self(AtomicU64::new(0), counter)
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
        self.1.add(count);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counted {
    pub(super) fn new() -> Self {
        use pagewell_counters::names;
        Self {
            procedures: (0..PROCEDURES).map(|_| Procedure::default()).collect(),
            retransmissions: Sum::new(&names::CLIENT_RETRANSMISSIONS),
            timeouts: Sum::new(&names::CLIENT_TIMEOUTS),
            invalid_replies: Sum::new(&names::CLIENT_INVALID_REPLIES),
            unexpected_replies: Sum::new(&names::CLIENT_UNEXPECTED_REPLIES),
            late_replies: Sum::new(&names::CLIENT_LATE_REPLIES),
            connections: Sum::new(&names::CLIENT_CONNECTIONS),
            reconnections: Sum::new(&names::CLIENT_RECONNECTIONS),
            sent_bytes: Sum::new(&names::CLIENT_SENT_BYTES),
            received_bytes: Sum::new(&names::CLIENT_RECEIVED_BYTES),
        }
    }

    fn procedure(&self, number: u32) -> &Procedure {
        let last = self.procedures.len() - 1;
        &self.procedures[usize::try_from(number).map_or(last, |number| number.min(last))]
    }

    pub(super) fn called(&self, procedure: u32) {
        let calls = &self.procedure(procedure).calls;
        calls.fetch_add(1, Ordering::Relaxed);
        pagewell_counters::names::CLIENT_CALLS.add(1);
    }

    pub(super) fn answered(&self, procedure: u32, after: Duration) {
        self.procedure(procedure).latency.record(after);
    }

    pub(super) fn snapshot(&self, in_flight: u64) -> Statistics {
        let procedures: Vec<_> = self
            .procedures
            .iter()
            .map(|procedure| ProcedureStatistics {
                calls: procedure.calls.load(Ordering::Relaxed),
                latency: procedure.latency.counts(),
            })
            .collect();
        Statistics {
            requests: procedures.iter().map(|procedure| procedure.calls).sum(),
            procedures,
            retransmissions: self.retransmissions.get(),
            timeouts: self.timeouts.get(),
            invalid_replies: self.invalid_replies.get(),
            unexpected_replies: self.unexpected_replies.get(),
            late_replies: self.late_replies.get(),
            connections: self.connections.get(),
            reconnections: self.reconnections.get(),
            sent_bytes: self.sent_bytes.get(),
            received_bytes: self.received_bytes.get(),
            in_flight,
        }
    }
}
