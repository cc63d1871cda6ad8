//! The options of a client.

use pagewell_base::line::one_line;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Of one client.
pub const CONNECTIONS_MAX: usize = 16;

/// Of a [`Client`](super::Client).
#[derive(Clone, Debug)]
pub struct Options {
    /// In messages.
    pub server: String,
    /// Tried in order for each connection.
    pub addresses: Vec<SocketAddr>,
    /// 1 to [`CONNECTIONS_MAX`], made on demand.
    pub connections: usize,
    /// Of connections.
    pub source_port: SourcePort,
    /// The end of calls without a reply.
    pub patience: Patience,
    /// The time of a call's first attempt; the second gets twice as much, the third three times, up
    /// to ten times. Then the connection is given up, and its calls are sent again over a new one.
    pub timeout: Duration,
    /// For one address.
    pub connect_timeout: Duration,
    /// Calls in flight on one connection, at least 1. More calls wait.
    pub calls_max: usize,
    /// For measurements: the shortest time from call to reply.
    pub delay: Option<Duration>,
    /// Of messages for people.
    pub log: Log,
}

impl Options {
    /// One connection from any port, hard, 60 s.
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
    /// The system's choice.
    #[default]
    Any,
    /// Below 1024, which needs a privilege. Many servers insist.
    Reserved,
    /// Below 1024 with the privilege, else any.
    ReservedIfPossible,
}

/// The end of calls without a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// They are sent again until a reply comes.
    #[default]
    Hard,
    /// They fail with [`CallError::TimedOut`](super::CallError::TimedOut).
    Soft {
        /// Attempts without a reply.
        attempts: u32,
        /// From the call on.
        timeout: Duration,
    },
}

/// The target of messages for people.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// `write` gets a line without its end, and must not wait.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Escapes control characters of names and servers.
    pub(super) fn write(&self, text: &str) {
        (self.0)(&one_line(text));
    }
}

impl Default for Log {
    /// The program's log.
    fn default() -> Self {
        Self::new(|text| tracing::warn!("{text}"))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Log")
    }
}
