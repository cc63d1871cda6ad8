//! Every message of the crate: what is written can be read back, and nothing that arrives makes
//! a reader panic.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod fuzz;
mod round_trip;
mod sample;
mod sample_locks;
mod sample_nfs3;
