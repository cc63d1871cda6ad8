//! The NFSv3 and MOUNT v3 server.

pub mod config;
pub mod server;
pub mod statistics;

pub use config::{Config, Export, Network, Squash};
pub use server::{Error, Server};
