//! The page and the counters over HTTP, and the client of `pagewell counters`.
//!
//! The library hyper reads requests and writes answers, here without an asynchronous runtime:
//!
//! ```text
//!   acceptor ──> connections ──> a thread for each ──> socket: hyper, driven by poll(2)
//!   (allow list)  (at most 16)                           └─> site: host, token, path ──> answer
//! ```
//!
//! It is read-only (GET and HEAD), with one request a connection. Everything is bounded: a
//! request's head, a connection's time, connections and threads.
//!
//! Known weakness: no TLS: a token travels readable; a reverse proxy at the Unix socket can add it.

mod answer;
pub mod client;
mod connections;
pub mod host;
mod page;
pub mod place;
pub mod server;
mod site;
mod socket;
pub mod token;
