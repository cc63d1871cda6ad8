//! Counts and latencies per procedure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pagewell_counters::{Counts, Histogram};

/// Names of the NFSv3 procedures by number (RFC 1813 section 3).
pub const NFS_PROCEDURES: [&str; 22] = [
    "null",
    "getattr",
    "setattr",
    "lookup",
    "access",
    "readlink",
    "read",
    "write",
    "create",
    "mkdir",
    "symlink",
    "mknod",
    "remove",
    "rmdir",
    "rename",
    "link",
    "readdir",
    "readdirplus",
    "fsstat",
    "fsinfo",
    "pathconf",
    "commit",
];

/// Names of the MOUNT v3 procedures by number (RFC 1813 appendix I).
pub const MOUNT_PROCEDURES: [&str; 6] = ["null", "mnt", "dump", "umnt", "umntall", "export"];

/// Counts of one procedure.
#[derive(Default)]
pub struct ProcedureStatistics {
    calls: AtomicU64,
    errors: AtomicU64,
    bytes_received: AtomicU64,
    bytes_sent: AtomicU64,
    latency: Histogram,
}

/// Counts of one procedure, read once.
#[derive(Clone, Debug)]
pub struct ProcedureCounts {
    /// Calls answered.
    pub calls: u64,
    /// Of these, with a status that is not OK.
    pub errors: u64,
    /// Bytes of the calls.
    pub bytes_received: u64,
    /// Bytes of the replies.
    pub bytes_sent: u64,
    /// From the record's last byte in to the reply handed to the socket's queue.
    pub latency: Counts,
}

impl ProcedureStatistics {
    const fn new() -> Self {
        Self {
            calls: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            bytes_received: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            latency: Histogram::new(),
        }
    }

    /// Counts one answered call.
    pub fn record(&self, failed: bool, received: usize, sent: usize, latency: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.bytes_received
            .fetch_add(received as u64, Ordering::Relaxed);
        self.bytes_sent.fetch_add(sent as u64, Ordering::Relaxed);
        self.latency.record(latency);
    }

    /// Reads it.
    #[must_use]
    pub fn counts(&self) -> ProcedureCounts {
        ProcedureCounts {
            calls: self.calls.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            latency: self.latency.counts(),
        }
    }
}

/// The NFS procedures of this process, by number.
pub static NFS: [ProcedureStatistics; 22] = [const { ProcedureStatistics::new() }; 22];

/// The MOUNT procedures of this process, by number.
pub static MOUNT: [ProcedureStatistics; 6] = [const { ProcedureStatistics::new() }; 6];
