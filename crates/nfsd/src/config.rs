//! A server: what it serves, where, and what it may take; and why that cannot be done.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

pub use pagewell_export::config::{Export, Squash};
use pagewell_policy::limits::Rates;
use pagewell_rpcd::server;
pub use pagewell_rpcd::server::POLL_FOR;

use pagewell_nlmd::locks::LockOptions;

/// A server.
pub struct Config {
    /// Where to listen; port 0 picks one.
    pub listen: SocketAddr,
    /// What listens already, instead: sockets that a service manager has opened.
    pub listeners: Vec<TcpListener>,
    /// What to serve; at least one, names unique.
    pub exports: Vec<Export>,
    /// Threads that may wait for storage.
    pub threads: usize,
    /// Secret that authenticates file handles; the same after a restart, or all handles die.
    pub handle_key: [u8; 16],
    /// A call for an object that has kept a thread this long is answered NFS3ERR_JUKEBOX.
    pub slow_after: Duration,
    /// Connections at once, fewer where the limit of open files does not allow as many.
    pub connections_max: usize,
    /// For how long a thread without work looks for it before it sleeps, where that pays.
    pub poll_for: Duration,
    /// Locks on files.
    pub locks: LockOptions,
    /// What each client may have, by its address.
    pub client_limits: Rates,
}

impl Config {
    /// The defaults for one export list: loopback port 20490, 64 threads.
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
