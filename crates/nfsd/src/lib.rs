//! The NFSv3 and MOUNT v3 server, with the lock manager (NLM 4) and status monitor (NSM).
//!
//! The life of a call: a [reader](receive::reader) receives bytes, a [receiver](receive::receiver)
//! finds the record in them, the [`service`] answers it. A hit is answered there and then, into
//! the block of replies that leaves with one system call ([`reply`]). What may wait goes to the
//! [`pool`].

pub mod acceptor;
pub mod answer;
pub mod bounds;
pub mod call;
pub mod clients;
pub mod config;
pub mod connection;
pub mod datagrams;
pub mod dispatch;
pub mod duplicate;
pub mod faults;
pub mod limits;
pub mod locks;
pub mod pool;
pub mod program;
pub mod pulse;
pub mod receive;
pub mod refusals;
pub mod reply;
mod report;
pub mod request_memory;
pub mod server;
pub mod service;
pub mod share;
pub mod slow;
pub mod statistics;
pub mod usage;

pub use config::{Config, Error, Export, Network, Squash};
pub use locks::LockOptions;
pub use pagewell_policy::limits::Rates;
pub use server::{Exports, Server};
pub use service::ending::Loss;
pub use service::in_force::Retired;
