//! The options of a client.

use pagewell_base::line::one_line;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The most connections of one client.
pub const CONNECTIONS_MAX: usize = 16;

/// How a [`Client`](super::Client) connects and how long it waits.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the server in messages.
    pub server: String,
    /// Addresses of the server, tried in order for each connection.
    pub addresses: Vec<SocketAddr>,
    /// Connections that share the calls: 1 to [`CONNECTIONS_MAX`]. Unneeded ones are not made.
    pub connections: usize,
    /// The source ports of connections.
    pub source_port: SourcePort,
    /// What happens to a call without a reply.
    pub patience: Patience,
    /// How long one attempt waits for its reply. Then the connection is given up, and its calls in
    /// flight are sent again over a new one. The second attempt of a call waits twice as long, the
    /// third three times, up to ten times.
    pub timeout: Duration,
    /// How long a connection to one address may take.
    pub connect_timeout: Duration,
    /// Calls in flight on one connection, at least 1. More calls wait for their turn.
    pub calls_max: usize,
    /// For measurements: the shortest time from sending a call to delivering its reply.
    pub delay: Option<Duration>,
    /// The target of the few messages for people.
    pub log: Log,
}

impl Options {
    /// The usual settings: one connection from any port, hard, 60 s.
    #[must_use]
    pub fn new(server: impl Into<String>, addresses: Vec<SocketAddr>) -> Self {
        Self {
            server: server.into(),
            addresses,
            connections: 1,
            source_port: SourcePort::Any,
            patience: Patience::Hard,
            timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            calls_max: 256,
            delay: None,
            log: Log::default(),
        }
    }
}

/// The source ports of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePort {
    /// The choice of the system.
    #[default]
    Any,
    /// One below 1024, which needs a privilege. Many servers insist on it.
    Reserved,
    /// One below 1024 if the process has the privilege, else any.
    ReservedIfPossible,
}

/// What happens to a call without a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// It is sent again until one comes.
    #[default]
    Hard,
    /// It fails with [`CallError::TimedOut`](super::CallError::TimedOut).
    Soft {
        /// Attempts without a reply.
        attempts: u32,
        /// The longest time from the call to its end.
        timeout: Duration,
    },
}

/// The target of messages for people.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// A function. It gets one line without its end, and must not wait.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Writes a line. Control characters, which a name or a server may contain, are escaped.
    pub(super) fn write(&self, text: &str) {
        (self.0)(&one_line(text));
    }
}

impl Default for Log {
    /// The log of the program.
    fn default() -> Self {
        Self::new(|text| tracing::warn!("{text}"))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Log")
    }
}
