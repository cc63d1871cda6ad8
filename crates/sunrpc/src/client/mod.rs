//! A client of RPC programs over TCP: many calls in flight on a few connections.
//!
//! ```text
//!   submit ──> table ──> outbox ──> a sending thread ────────> socket
//!   call        │                                                │
//!               └─── completion <── receiving thread <───────────┘
//! ```
//!
//! Each connection has a table of calls without a reply (`slot.rs`), a receiving thread
//! (`receiver.rs`) and one that sends when the caller would have to wait (`slot.rs`). The receiving
//! thread also makes the connection, again after each loss (`life.rs`); all calls without a reply
//! are then sent again with the same xid, so that a server that remembers calls answers without
//! executing them twice. A reply says whether its call was sent more than once.
//!
//! READ data goes from the socket straight to the caller's memory, WRITE data straight from there
//! (`call.rs`).
//!
//! The server is not trusted: records are bounded before memory is taken. Malformed results end the
//! connection, as do too many replies to no call.
//!
//! Not included: UDP, callbacks from the server, authentication other than AUTH_NONE and AUTH_SYS,
//! encryption. Sent calls move to another connection only when their own fails repeatedly, because
//! servers remember calls by connection.

mod call;
mod connection;
mod dial;
mod life;
mod mount;
mod options;
mod receiver;
mod slot;
mod statistics;
mod watcher;

pub use call::{
    Answer, BorrowedSlice, CallError, DataSegments, EncodedCredential, Locate, Outcome, Outgoing,
    Reply, Sink,
};
pub use connection::Client;
pub use dial::ConnectError;
pub use mount::{MountError, MountOptions, Mounted, has_newer_versions_only, mount};
pub use options::{CONNECTIONS_MAX, Log, Options, Patience, SourcePort};
pub use statistics::{PROCEDURES, ProcedureStatistics, Statistics, Sum, nfs_procedures};
