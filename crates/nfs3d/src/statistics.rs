//! Counts and latencies of procedures, for the whole process.

use pagewell_counters::procedures::ProgramStatistics;
use pagewell_sunrpc::{mount3, nfs3};

/// NFS.
pub static NFS: ProgramStatistics<{ nfs3::Procedure::ALL.len() }> = ProgramStatistics::new();

/// MOUNT.
pub static MOUNT: ProgramStatistics<{ mount3::Procedure::ALL.len() }> = ProgramStatistics::new();
