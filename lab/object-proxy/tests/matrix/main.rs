//! What the clients of `pagewell-object-client` get of other people's servers: each test is a row
//! of the tables of docs/INTEROPERABILITY.md, and writes the cell of the server that it ran on.
//!
//! `tests/objects/run.sh` starts a server and these tests, which are ignored without one. Whatever
//! a server does, no test accepts wrong bytes, bytes of two versions, or an object that was
//! replaced although the client says that it was not.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod bucket;
mod faults;
mod files;
mod place;
mod support;
mod web;
mod writes;
