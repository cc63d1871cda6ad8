//! A client of RPC programs over TCP: many calls in flight on a few connections.
//!
//! ```text
//!   submit ──> table ──> outbox ──> a sending thread ────────> socket
//!   call        │                                                │
//!               └─── completion <── receiving thread <───────────┘
//! ```
//!
//! A connection has a table of calls without a reply (`slot.rs`), a receiving thread
//! (`receiver.rs`) and one that sends when a caller would have to wait (`slot.rs`). The receiving
//! thread also makes the connection, again after each loss (`life.rs`). It then sends all calls of
//! the table again with the same xid, by which servers that remember calls avoid to execute them
//! twice. READ and WRITE data travel without a copy (`call.rs`).
//!
//! The server is not trusted: records are bounded before memory is taken. Malformed results end the
//! connection, as do too many replies to no call.
//!
//! Missing: UDP, callbacks, other authentication than AUTH_NONE and AUTH_SYS, encryption. Sent
//! calls rarely move to another connection, because servers remember calls by connection.

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
