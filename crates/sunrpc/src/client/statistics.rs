//! Counts of one client; their sums are in the program's counters.

use pagewell_counters::{Counter, Counts, Histogram, names};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Those of NFS version 3 and some more. Higher ones count as the last.
pub const PROCEDURES: usize = 32;

/// Of one procedure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcedureStatistics {
    /// Calls made.
    pub calls: u64,
    /// From call to reply.
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

/// Of all clients of this process, also stopped ones.
static NFS: [Procedure; PROCEDURES] = [const { Procedure::new() }; PROCEDURES];

/// Counts of all NFS clients of this process, by procedure number.
#[must_use]
pub fn nfs_procedures() -> Vec<ProcedureStatistics> {
    NFS.iter().map(Procedure::snapshot).collect()
}

/// Of a client.
pub struct Statistics {
    procedures: Vec<Procedure>,
    /// Those of all clients, if counted.
    of_program: Option<&'static [Procedure]>,
    in_flight: AtomicI64,
    /// Calls sent again.
    pub retransmissions: Sum,
    /// Attempts without a timely reply.
    pub timeouts: Sum,
    /// Malformed replies; each ended a connection.
    pub invalid_replies: Sum,
    /// Replies to no call.
    pub unexpected_replies: Sum,
    /// Replies to failed calls.
    pub late_replies: Sum,
    /// Connections made.
    pub connections: Sum,
    /// In place of a lost one.
    pub reconnections: Sum,
    /// Bytes sent.
    pub sent_bytes: Sum,
    /// Bytes received.
    pub received_bytes: Sum,
}

/// A count, of some also in the program's counters.
pub struct Sum(AtomicU64, Option<&'static Counter>);

impl Sum {
    const fn new(counter: &'static Counter) -> Self {
        Self(AtomicU64::new(0), Some(counter))
    }

    const fn own() -> Self {
        Self(AtomicU64::new(0), None)
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
        if let Some(counter) = self.1 {
            counter.add(count);
        }
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Statistics {
    pub(super) fn new(program: u32) -> Self {
        Self {
            procedures: (0..PROCEDURES).map(|_| Procedure::new()).collect(),
            of_program: (program == crate::nfs3::PROGRAM).then_some(&NFS),
            in_flight: AtomicI64::new(0),
            retransmissions: Sum::new(&names::CLIENT_RETRANSMISSIONS),
            timeouts: Sum::new(&names::CLIENT_TIMEOUTS),
            invalid_replies: Sum::own(),
            unexpected_replies: Sum::own(),
            late_replies: Sum::own(),
            connections: Sum::own(),
            reconnections: Sum::new(&names::CLIENT_RECONNECTIONS),
            sent_bytes: Sum::new(&names::CLIENT_SENT_BYTES),
            received_bytes: Sum::new(&names::CLIENT_RECEIVED_BYTES),
        }
    }

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
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        names::CLIENT_CALLS_IN_FLIGHT.add(1);
    }

    pub(super) fn answered(&self, procedure: u32, after: Duration) {
        for counted in self.each(procedure) {
            counted.latency.record(after);
        }
    }

    pub(super) fn left(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        names::CLIENT_CALLS_IN_FLIGHT.add(-1);
    }

    /// By number; [`PROCEDURES`] of them.
    #[must_use]
    pub fn procedures(&self) -> Vec<ProcedureStatistics> {
        self.procedures.iter().map(Procedure::snapshot).collect()
    }

    /// Calls without an outcome.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        u64::try_from(self.in_flight.load(Ordering::Relaxed)).unwrap_or(0)
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
            let client = Statistics::new(nfs3::PROGRAM);
            client.called(NUMBER);
            client.answered(NUMBER, Duration::from_millis(1));
            assert_eq!(client.procedures()[NUMBER as usize].calls, 1);
        }
        Statistics::new(mount3::PROGRAM).called(NUMBER);
        assert_eq!(calls(), 2);
        assert_eq!(nfs_procedures()[NUMBER as usize].latency.count(), 2);
    }

    #[test]
    fn a_number_too_high_is_the_last() {
        let client = Statistics::new(mount3::PROGRAM);
        client.called(u32::MAX);
        let calls = client.procedures().into_iter().map(|one| one.calls);
        assert_eq!(
            calls.collect::<Vec<_>>(),
            [vec![0; PROCEDURES - 1], vec![1]].concat()
        );
    }
}
