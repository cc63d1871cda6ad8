//! What tests of the server share: [`client`] checks each reply to its last byte,
//! [`mount_client`], [`operations`] and [`pages`] are the calls it makes, [`fixture`] starts
//! servers in the calling process, [`process`] one in a process of its own that can be killed and
//! measured, [`layer`] file systems that stall, fail and count, [`writer`] remembers what a server
//! has promised about one file, and [`random`] makes a run that failed again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a test that cannot go on fails; its tools are read beside the tests"
)]

pub mod client;
pub mod fixture;
pub mod layer;
pub mod mount_client;
pub mod operations;
pub mod pages;
pub mod process;
pub mod random;
pub mod writer;
