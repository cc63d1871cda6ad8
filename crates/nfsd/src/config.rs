//! The settings of a server, and its errors.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

pub use pagewell_export::config::{Export, Squash};
use pagewell_policy::limits::Rates;
use pagewell_rpcd::server;
pub use pagewell_rpcd::server::POLL_FOR;

use pagewell_nlmd::locks::LockOptions;

/// The settings of a server.
pub struct Config {
    /// Port 0 picks one.
    pub listen: SocketAddr,
    /// Sockets that a service manager has opened, instead.
    pub listeners: Vec<TcpListener>,
    /// At least one; unique names.
    pub exports: Vec<Export>,
    /// Threads of each export that may wait for storage.
    pub threads: usize,
    /// Authenticates file handles; another key makes all handles stale.
    pub handle_key: [u8; 16],
    /// Then a call for stalled storage gets NFS3ERR_JUKEBOX.
    pub slow_after: Duration,
    /// Connections, fewer if the limit of open files is lower.
    pub connections_max: usize,
    /// How long an idle reader polls before it sleeps, where that pays.
    pub poll_for: Duration,
    /// The lock manager.
    pub locks: LockOptions,
    /// Limits of each client, by address.
    pub client_limits: Rates,
}

impl Config {
    /// Loopback port 20490, 64 threads.
    pub fn new(exports: Vec<Export>, handle_key: [u8; 16]) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 20490)),
            listeners: Vec::new(),
            exports,
            threads: 64,
            handle_key,
            slow_after: Duration::from_secs(5),
            connections_max: 1024,
            poll_for: POLL_FOR,
            locks: LockOptions::default(),
            client_limits: Rates::default(),
        }
    }
}

/// Why a server did not start, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        reason: String,
    },
    /// The settings contradict each other.
    #[error("{0}")]
    Config(String),
    /// The system refused a resource (a thread, an epoll descriptor).
    #[error("cannot start: {0}")]
    System(String),
}

impl From<server::Error> for Error {
    fn from(error: server::Error) -> Self {
        match error {
            server::Error::Listen { address, reason } => Self::Listen { address, reason },
            server::Error::System(reason) => Self::System(reason),
        }
    }
}

impl From<pagewell_export::Error> for Error {
    fn from(error: pagewell_export::Error) -> Self {
        Self::Config(error.0)
    }
}
