//! Load on NFS servers, measurement, and comparison.
//!
//! [`load`] makes NFS version 3 calls as fast as a server answers them and can check every byte.
//! [`measure`] judges runs and the difference of two results. [`report`] makes lines and tables for
//! people and rows for programs, [`compare`] has several servers do the same in turn, and [`limit`]
//! is a bare server, the measure of a real one.
//!
//! The binaries are `pagewell-load`, the command line of this crate, and `pagewell-limit`.

pub mod compare;
pub mod limit;
pub mod load;
pub mod measure;
mod named;
pub mod report;
