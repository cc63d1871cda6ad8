//! A client of RPC programs over TCP: many calls in flight on a few connections.
//!
//! ```text
//!   submit ──> table ──> outbox ──> a sending thread ────────> socket
//!   call        │                                                │
//!               └─── completion <── receiving thread <───────────┘
//! ```
//!
//! Each connection has a table of the calls without a reply (`table.rs`), one thread that receives
//! (`receiver.rs`) and one that sends when the caller would have to wait (`slot.rs`). Replies are
//! matched by xid. The receiving thread also makes the connection, again and again (`life.rs`); all
//! calls without a reply are then sent again with the same xid, so that a server which remembers
//! calls answers without carrying them out twice. A reply says whether its call was sent more than
//! once.
//!
//! The data of READ goes from the socket straight to the memory of the caller, that of WRITE
//! straight from there (`outgoing.rs`).
//!
//! The client does not trust a server: it bounds records before it takes memory. Too many replies
//! to no call cost the connection, and malformed results do so at once.
//!
//! Not included: UDP, callbacks from the server, authentication other than AUTH_NONE and AUTH_SYS,
//! encryption. Calls that were sent move to another connection only when their own has failed for
//! good, because servers remember calls by connection; others move as soon as theirs cannot be
//! made.

mod call;
mod connection;
mod dial;
mod life;
mod mount;
mod options;
mod outgoing;
mod receiver;
mod slot;
mod statistics;
mod table;
mod watcher;

pub use call::{Answer, CallError, Outcome, Reply};
pub use connection::Client;
pub use dial::ConnectError;
pub use mount::{MountError, MountOptions, Mounted, has_newer_versions_only, mount};
pub use options::{CONNECTIONS_MAX, Log, Options, Patience, SourcePort};
pub use outgoing::{BorrowedSlice, DataSegments, EncodedCredential, Locate, Outgoing, Sink};
pub use statistics::{PROCEDURES, ProcedureStatistics, Statistics, Sum, nfs_procedures};
