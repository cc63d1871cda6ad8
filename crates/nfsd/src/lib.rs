//! The server: NFSv3 and MOUNT with the lock manager (NLM 4) and status monitor (NSM), put together
//! of a transport, exports and programs.
//!
//! The life of a call: a [reader](pagewell_rpcd::receive::reader) receives bytes, a
//! [receiver](pagewell_rpcd::receive::receiver) finds the record in them, the [`service`] knows the
//! program that answers it. A hit is answered there and then, into the block of replies that leaves
//! with one system call ([`pagewell_rpcd::reply`]). What may wait goes to the
//! [pool](pagewell_rpcd::pool).

pub mod config;
mod port_mapper;
mod served;
pub mod server;
pub mod service;

pub use config::{Config, Error, Export, Squash};
pub use pagewell_export::ending::Loss;
pub use pagewell_export::faults;
pub use pagewell_export::in_force::Retired;
pub use pagewell_nfs3d::observed::watch_calls;
pub use pagewell_nlmd::locks::LockOptions;
pub use pagewell_policy::limits::Rates;
pub use pagewell_rpcd as rpcd;
pub use pagewell_rpcd::{clients, pulse, refusals};
pub use server::{Exports, Server};
