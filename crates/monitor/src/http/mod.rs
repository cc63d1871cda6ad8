//! The page and the counters by HTTP, and the client that `pagewell counters` uses.
//!
//! The library hyper reads requests and writes answers; it needs no asynchronous runtime here:
//!
//! ```text
//!   acceptor ──> connections ──> a thread for each ──> socket: hyper, driven by poll(2)
//!   (allow list)  (at most 16)                           └─> site: host, token, path ──> answer
//! ```
//!
//! Only reading is possible (GET and HEAD), one request a connection. Everything is bounded: bytes
//! of a request's head, seconds of a connection, connections and threads at once. [`host`] says
//! which names are answered to.
//!
//! Known weakness: there is no TLS. Beyond this machine a token travels readable; a reverse proxy
//! at the Unix socket has TLS.

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
