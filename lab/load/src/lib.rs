//! Load on NFS servers, measurement, and comparison.
//!
//! [`load`] makes NFS version 3 calls as fast as a server answers them and can check every byte
//! that comes back. [`measure`] holds what a run is judged by: latencies, what the server process
//! used, the rows of results and how two results differ. [`report`] turns runs into lines for
//! people and rows for programs, and [`compare`] has several servers do the same in turn.
//! [`limit`] is a bare server, for what a real one is held against.
//!
//! The binary `pagewell-load` is the command line of this crate; `pagewell-limit` is the bare
//! server.

pub mod compare;
pub mod limit;
pub mod load;
pub mod measure;
mod named;
pub mod report;
