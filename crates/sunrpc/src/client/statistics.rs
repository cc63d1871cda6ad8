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

struct Procedure {
    calls: AtomicU64,
    latency: Histogram,
}

impl Procedure {
    const fn new() -> Self {
        Self {
            calls: AtomicU64::new(0),
            latency: Histogram::new(),
        }
    }

    fn snapshot(&self) -> ProcedureStatistics {
        ProcedureStatistics {
            calls: self.calls.load(Ordering::Relaxed),
            latency: self.latency.counts(),
        }
    }
}

/// The procedures of NFS of all clients of this process, those that are gone included.
static NFS: [Procedure; PROCEDURES] = [const { Procedure::new() }; PROCEDURES];

/// What all clients of NFS in this process have done, by number of the procedure.
#[must_use]
pub fn nfs_procedures() -> Vec<ProcedureStatistics> {
    NFS.iter().map(Procedure::snapshot).collect()
}

/// The counts of a running client.
pub(super) struct Counted {
    procedures: Vec<Procedure>,
    /// Those of all clients of the same program, if they are counted.
    of_program: Option<&'static [Procedure]>,
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
    pub(super) fn new(program: u32) -> Self {
        use pagewell_counters::names;
        Self {
            procedures: (0..PROCEDURES).map(|_| Procedure::new()).collect(),
            of_program: (program == crate::nfs3::PROGRAM).then_some(&NFS),
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

    /// Where a procedure is counted.
    fn each(&self, number: u32) -> impl Iterator<Item = &Procedure> {
        let index =
            usize::try_from(number).map_or(PROCEDURES - 1, |number| number.min(PROCEDURES - 1));
        let all = std::iter::once(self.procedures.as_slice()).chain(self.of_program);
        all.filter_map(move |procedures| procedures.get(index))
    }

    pub(super) fn called(&self, procedure: u32) {
        for counted in self.each(procedure) {
            counted.calls.fetch_add(1, Ordering::Relaxed);
        }
        pagewell_counters::names::CLIENT_CALLS.add(1);
    }

    pub(super) fn answered(&self, procedure: u32, after: Duration) {
        for counted in self.each(procedure) {
            counted.latency.record(after);
        }
    }

    pub(super) fn snapshot(&self, in_flight: u64) -> Statistics {
        let procedures: Vec<_> = self.procedures.iter().map(Procedure::snapshot).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mount3, nfs3};

    #[test]
    fn the_program_counts_what_its_clients_do_and_no_other_program() {
        // A number that no other test calls.
        const NUMBER: u32 = 29;
        let calls = || nfs_procedures()[NUMBER as usize].calls;
        assert_eq!(calls(), 0);
        for _ in 0..2 {
            let client = Counted::new(nfs3::PROGRAM);
            client.called(NUMBER);
            client.answered(NUMBER, Duration::from_millis(1));
            assert_eq!(client.snapshot(0).procedures[NUMBER as usize].calls, 1);
        }
        Counted::new(mount3::PROGRAM).called(NUMBER);
        assert_eq!(calls(), 2);
        assert_eq!(nfs_procedures()[NUMBER as usize].latency.count(), 2);
    }

    #[test]
    fn a_number_too_high_is_the_last() {
        let client = Counted::new(mount3::PROGRAM);
        client.called(u32::MAX);
        let statistics = client.snapshot(0);
        assert_eq!(
            (
                statistics.procedures[PROCEDURES - 1].calls,
                statistics.requests
            ),
            (1, 1)
        );
    }
}
