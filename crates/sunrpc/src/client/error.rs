//! Why there is no connection, and why there is no reply.

use crate::rpc::Refusal;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a client could not connect.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The options name no address.
    #[error("{server} has no address")]
    NoAddress {
        /// Name of the server.
        server: String,
    },
    /// No port below 1024 could be had.
    #[error("no port below 1024 can be used to connect to {server}: {error}")]
    ReservedPort {
        /// Name of the server.
        server: String,
        /// What the system says.
        error: io::Error,
    },
    /// No address takes the connection; this is what the last one did.
    #[error("cannot connect to {server} ({address}): {error}")]
    Failed {
        /// Name of the server.
        server: String,
        /// The address tried last.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The system has no thread for it.
    #[error("the system gives no thread: {0}")]
    Thread(io::Error),
    /// The client was stopped meanwhile.
    #[error("the client was stopped")]
    Stopped,
}

/// Why a call has no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The client was stopped.
    #[error("the client was stopped")]
    Stopped,
    /// There was no reply in time. The server may have carried the call out.
    #[error("the server did not answer within {after:?}")]
    TimedOut {
        /// Time since the call was made.
        after: Duration,
    },
    /// The server did not carry out the call.
    #[error("the server refused the call: {0:?}")]
    Refused(Refusal),
    /// The reply makes no sense; the connection was given up.
    #[error("the server answers garbage: {reason}")]
    Garbage {
        /// What makes no sense.
        reason: String,
    },
    /// The call is longer than a record can be. Nothing was sent.
    #[error("a call of {bytes} bytes is too long")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Too many calls wait already. Nothing was sent.
    #[error("too many calls wait for the server")]
    QueueFull,
}
