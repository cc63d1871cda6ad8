//! The NFSv3 and MOUNT v3 server, with the lock manager (NLM 4) and status monitor (NSM).
//!
//! The life of a call: [`reader`] receives bytes, [`receive`] finds the record in them,
//! `service` answers it. A hit is answered there and then, into the block of replies that leaves
//! with one system call ([`reply`], [`output`]). What may wait goes to the [`pool`].

pub mod admission;
pub mod arrivals;
pub mod config;
pub mod connection;
pub mod convert;
pub mod cookies;
pub mod duplicate;
pub mod growth;
pub mod handle;
pub mod locks;
pub mod memory;
pub mod mounts;
pub mod output;
pub mod parking;
pub mod pipe;
pub mod pool;
pub mod reader;
pub mod receive;
pub mod reply;
pub mod resident;
pub mod server;
pub mod service;
pub mod slow;
pub mod statistics;
mod trouble;
pub mod unsent;

pub use config::{Config, Export, Network, Squash};
pub use locks::LockOptions;
pub use server::{Error, Loss, Server};
