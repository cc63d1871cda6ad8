//! Counts and latencies of the procedures of this process.

use pagewell_counters::procedures::ProgramStatistics;
use pagewell_sunrpc::{mount3, nfs3};

/// The NFS procedures of this process.
pub static NFS: ProgramStatistics<{ nfs3::Procedure::ALL.len() }> = ProgramStatistics::new();

/// The MOUNT procedures of this process.
pub static MOUNT: ProgramStatistics<{ mount3::Procedure::ALL.len() }> = ProgramStatistics::new();
