//! A proxy of HTTP/1.1 between a client and one server, on loopback, for tests and benchmarks of
//! clients of object stores and of web servers: it delays, limits bandwidth, breaks and changes
//! replies as a script says, and counts requests and bytes.
//!
//! ```text
//!   client ──> Proxy ──> server        Script: a Link and Rules, text or values
//!                │                     Rule: which requests, which of them, what happens
//!                └─ Counts, Seen       what came, by kind of request
//! ```
//!
//! A request goes on as it came: its target and its `Host` are not touched, since the client has
//! signed them. Each connection of a client has one of its own to the server, and ends with it.
//! What happens follows from the numbers of requests alone, never from a clock.
//!
//! Known weaknesses: no TLS, no pipelining (one request of a connection at a time), and a body's
//! chunks are cut anew, without their extensions and trailers.

mod body;
mod connection;
mod control;
mod counts;
mod fault;
mod head;
mod kind;
mod link;
mod proxy;
mod rule;
mod script;
mod shared;

pub use control::Control;
pub use counts::{Count, Counts, Seen};
pub use fault::Fault;
pub use kind::Kind;
pub use link::Link;
pub use proxy::Proxy;
pub use rule::{Rule, Which};
pub use script::Script;
