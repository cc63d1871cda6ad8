//! A small HTTP/1.1 server for the counters, and the client that `pagewell counters` uses.
//!
//! Both do as little of the protocol as serves the purpose: GET, one request a connection,
//! `Connection: close`. Everything is bounded: bytes of a request, seconds of a connection,
//! connections at once. [`host`] says which names are answered to.

pub mod client;
pub mod host;
pub mod request;
pub mod server;
