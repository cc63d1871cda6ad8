//! A client of NFS version 3 (RFC 1813): an export of a server as a file system.
//!
//! ```text
//!   FileSystem ──> names, attributes (remembered) ──> calls ──> sunrpc::client ──> server
//!        └──> CachedObject ──> RemoteFile ──> READ, WRITE, COMMIT ────┘
//! ```
//!
//! Data goes through the page cache: a mount is one store, and each file whose data was read or
//! written one object of it (`remote/`: the calls for a request). Names and attributes are
//! remembered as long as they are believed; weak cache consistency shows which changes were our own
//! (`attributes.rs`).
//!
//! **Promised to programs.** What was written and closed is seen by programs that open the file
//! later, on any client (close-to-open). What was not committed survives a restart of the server,
//! not of this program. Errors of writes are reported once, to the next write, commit or close by
//! the user that wrote (`writers.rs`). A file that is removed while it is open here stays until it
//! is closed (`silly.rs`).
//!
//! **Not promised.** There are no locks. Two clients that write to one file at the same time see
//! each other's bytes in no order. Attributes of a file with unwritten data wait for its writes. A
//! name that another client makes or removes is seen when the directory's attributes are next asked
//! for, within a minute at most.
//!
//! Reading order: `url.rs`, `options.rs`; `attributes.rs`, `names.rs`, `node.rs`; `remote/`;
//! `data.rs`, `writers.rs`, `opening.rs`.

mod attributes;
mod calls;
mod convert;
mod data;
mod failures;
mod filesystem;
mod listing;
mod lookup;
mod make;
mod mount;
mod names;
mod naming;
mod node;
mod objects;
mod opening;
mod options;
mod pages;
mod remote;
mod root;
mod silly;
#[cfg(test)]
mod testing;
mod unlink;
mod url;
mod writers;

pub use attributes::Ages;
pub use filesystem::NfsFileSystem;
pub use options::{NfsOptions, OPTIONS, ParseError, ReadAhead};
pub use url::{SCHEME, Url};
