//! How a client connects and how long it waits.

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
    /// Where the server is. They are tried in order each time a connection is made.
    pub addresses: Vec<SocketAddr>,
    /// Connections that share the calls: 1 to [`CONNECTIONS_MAX`]. Those that are not needed are
    /// not made.
    pub connections: usize,
    /// From which ports connections come.
    pub source_port: SourcePort,
    /// What happens to a call that gets no reply.
    pub patience: Patience,
    /// How long one attempt waits for its reply. After that the connection is given up, and what
    /// was in flight is sent again over a new one. The second attempt of a call waits twice as
    /// long, the third three times, up to ten times.
    pub timeout: Duration,
    /// How long a connection to one address may take.
    pub connect_timeout: Duration,
    /// Calls on their way to the server on one connection, at least 1. More wait for their turn.
    pub calls_max: usize,
    /// For measurements: a reply is delivered no earlier than this after its call was sent.
    pub delay: Option<Duration>,
    /// Where the few messages for people go.
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

/// From which ports connections come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePort {
    /// Whatever the system gives.
    #[default]
    Any,
    /// One below 1024, which needs a privilege. Many servers ask for it.
    Reserved,
    /// One below 1024 when the process may have it, else any.
    ReservedIfPossible,
}

/// What happens to a call that gets no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// It is sent again until there is one.
    #[default]
    Hard,
    /// It fails with [`CallError::TimedOut`](super::CallError::TimedOut).
    Soft {
        /// Attempts that may wait for a reply in vain.
        attempts: u32,
        /// All the time that a call may take.
        timeout: Duration,
    },
}

/// Where messages for people go.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// To a function. It gets one line without its end, and must not wait.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Says it. Control characters, which a name or a server may have brought in, are escaped.
    pub(super) fn write(&self, text: &str) {
        (self.0)(&one_line(text));
    }
}

impl Default for Log {
    /// To the log of the program.
    fn default() -> Self {
        Self::new(|text| tracing::warn!("{text}"))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Log")
    }
}
