//! The program as its users run it.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "what a test cannot do makes it fail"
)]

#[path = "../../../nfsd/tests/wire/client.rs"]
#[allow(dead_code, reason = "the client is that of the server's tests")]
mod client;
#[path = "../../../nfsd/tests/wire/mount_client.rs"]
#[allow(dead_code, reason = "the client is that of the server's tests")]
mod mount_client;
#[path = "../../../nfsd/tests/wire/operations.rs"]
#[allow(dead_code, reason = "the client is that of the server's tests")]
mod operations;

mod as_cp;
mod bad_input;
mod copying;
mod documents;
mod everyday;
mod hostile;
mod images;
mod measuring;
mod mirror_halves;
mod mirrors;
mod reading;
mod remote;
mod serving;
mod support;
mod unrecognised;
mod watching;
mod writing;
