//! The server: NFSv3, MOUNT, NLM 4 and NSM on the transport [`rpcd`]; [`service`] finds the program
//! of a call.

pub mod config;
mod port_mapper;
mod served;
pub mod server;
pub mod service;

pub use config::{Config, Error, Export, Squash};
pub use pagewell_export::ending::Loss;
pub use pagewell_export::exports::Retired;
pub use pagewell_export::faults;
pub use pagewell_nfs3d::observed::watch_calls;
pub use pagewell_nlmd::locks::LockOptions;
pub use pagewell_policy::limits::Rates;
pub use pagewell_rpcd as rpcd;
pub use pagewell_rpcd::{clients, pulse, refusals};
pub use server::{Exports, Server};
