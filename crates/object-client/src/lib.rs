//! Clients of object stores that speak S3, of Azure Blob Storage and Google Cloud Storage, and of
//! web servers: objects with a version, listings, bodies into the caller's memory, and changes
//! under a condition.
//!
//! ```text
//!  caller's thread ──> Remote: head, list, put, ... ──waits──┐
//!                      fetch ──> begins, returns at once     │
//!                                                            v
//!  runtime (2 threads) ── s3, azure, google, web ── retries ── connections ── TLS ── sockets
//!                              └─> the Sink of a fetch, bytes as they come
//! ```
//!
//! The asynchronous runtime is hidden: two threads, made when the first [`Remote`] is opened. A
//! process that forks does so before that.
//!
//! Each reply of a [`Remote::fetch`] has to belong to the version that was asked for, or none of
//! its bytes are passed on.
//!
//! Weaknesses: HTTP/1.1 only, and no proxy.

mod activity;
mod at_once;
mod azure;
mod codes;
mod date;
mod error;
mod fetch;
mod google;
mod handling;
mod headers;
#[cfg(test)]
mod histories;
mod inspect;
mod json;
mod kept;
mod location;
mod lookup;
mod open;
mod options;
mod percent;
mod probe;
mod provoke;
mod range;
mod refusal;
mod remote;
mod runtime;
mod s3;
mod service;
mod settle;
mod sign;
mod store;
mod store_remote;
#[cfg(test)]
mod testing;
mod transport;
mod version;
mod web;
mod whole;
mod writable;
mod xml;

pub use activity::Activity;
pub use bytes::Bytes;

pub use error::{Error, Result};
pub use handling::{Acknowledge, Defaults, Handling, MetadataFrom, RenameLimits};
pub use location::{Location, Origin, PROTOCOLS};
pub use open::{files_of, open};
pub use options::{Keys, Options};
pub use probe::{Answer, Class, Question, Report, probe};
pub use remote::{ListPage, ListQuery, ListedObject, ObjectInfo, Remote, Sink};
pub use version::Version;
pub use writable::{Condition, Copies, ListedUpload, Metadata, Part, Upload, WritableRemote};
