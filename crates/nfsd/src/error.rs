//! Why a server does not start.

use std::net::SocketAddr;

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
