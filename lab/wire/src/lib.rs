//! What tests of the server share: [`client`] checks each reply to its last byte,
//! [`mount_client`], [`operations`] and [`pages`] are the calls it makes, [`fixture`] starts
//! servers in the calling process, [`writer`] remembers what a server has promised about one file,
//! and [`random`] makes a run that failed again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a test that cannot go on fails; its tools are read beside the tests"
)]

pub mod client;
pub mod fixture;
pub mod mount_client;
pub mod operations;
pub mod pages;
pub mod random;
pub mod writer;
