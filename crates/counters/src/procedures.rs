//! Counts and latencies of the procedures of a served program, sharded by thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Counts, Empty, Histogram, Sharded};

/// One thread's counts of a procedure.
struct ProcedureStatistics {
    calls: AtomicU64,
    errors: AtomicU64,
    bytes_received: AtomicU64,
    bytes_sent: AtomicU64,
    latency: Histogram,
}

/// Counts of one procedure, read once.
#[derive(Clone, Debug, Default)]
pub struct ProcedureCounts {
    /// Calls answered.
    pub calls: u64,
    /// Calls answered with a status that is not OK.
    pub errors: u64,
    /// Bytes of the calls.
    pub bytes_received: u64,
    /// Bytes of the replies.
    pub bytes_sent: u64,
    /// From the record's last byte in to the reply in the socket's queue.
    pub latency: Counts,
}

impl Empty for ProcedureStatistics {
    const EMPTY: Self = Self {
        calls: AtomicU64::EMPTY,
        errors: AtomicU64::EMPTY,
        bytes_received: AtomicU64::EMPTY,
        bytes_sent: AtomicU64::EMPTY,
        latency: Histogram::new(),
    };
}

/// An answered call.
pub struct Answered {
    /// Its status is not OK.
    pub failed: bool,
    /// Bytes of the call.
    pub received: usize,
    /// Bytes of the reply.
    pub sent: usize,
    /// From the record's last byte in to the reply in the socket's queue.
    pub latency: Duration,
}

/// The procedures of a program.
pub struct ProgramStatistics<const PROCEDURES: usize>(Sharded<[ProcedureStatistics; PROCEDURES]>);

impl<const PROCEDURES: usize> ProgramStatistics<PROCEDURES> {
    /// All counts zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(Sharded::new())
    }

    /// Counts a call of the procedure with this number.
    pub fn record(&self, procedure: u32, answered: &Answered) {
        let (procedures, adding) = self.0.own();
        if let Some(statistics) = procedures.get(procedure as usize) {
            adding.add(&statistics.calls, 1);
            adding.add(&statistics.errors, u64::from(answered.failed));
            adding.add(&statistics.bytes_received, answered.received as u64);
            adding.add(&statistics.bytes_sent, answered.sent as u64);
            statistics.latency.record_by(adding, answered.latency);
        }
    }

    /// The counts by procedure number.
    #[must_use]
    pub fn counts(&self) -> Vec<ProcedureCounts> {
        let mut sums = vec![ProcedureCounts::default(); PROCEDURES];
        for shard in self.0.all() {
            for (sum, statistics) in sums.iter_mut().zip(shard) {
                // Most threads never call most procedures.
                if statistics.calls.load(Ordering::Relaxed) > 0 {
                    statistics.add_to(sum);
                }
            }
        }
        sums
    }
}

impl ProcedureStatistics {
    fn add_to(&self, sum: &mut ProcedureCounts) {
        sum.calls += self.calls.load(Ordering::Relaxed);
        sum.errors += self.errors.load(Ordering::Relaxed);
        sum.bytes_received += self.bytes_received.load(Ordering::Relaxed);
        sum.bytes_sent += self.bytes_sent.load(Ordering::Relaxed);
        sum.latency.add(&self.latency.counts());
    }
}

impl<const PROCEDURES: usize> Default for ProgramStatistics<PROCEDURES> {
    fn default() -> Self {
        Self::new()
    }
}
