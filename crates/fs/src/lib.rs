//! File systems as Pagewell sees them: one inode-based trait, and the code that the sources which
//! implement it share. Each source is a crate of its own.
//!
//! A front (the NFS server, FUSE, the command line) talks to every source through [`FileSystem`].
//! The trait has the shape of NFSv3 (RFC 1813): a [`FileId`] names an object, and survives rename
//! and, where the source can, restart; every call carries the caller's [`Credentials`]; a read says
//! where the bytes are ([`Payload`]) and copies nothing by itself.
//!
//! Reading order: [`filesystem`] (the trait), [`call`] (arguments and results of its methods),
//! [`payload`], then one of the sources.

pub mod access;
pub mod attributes;
mod batch_cache;
mod batched;
pub mod call;
mod compact_id;
pub mod error;
pub mod extended;
pub mod filesystem;
mod forward;
pub mod identity;
mod local;
pub mod name;
pub mod payload;
pub mod source;
pub mod trim;
pub mod verifier;

pub use attributes::{
    Access, Attributes, Change, FileType, SetAttributes, SetTime, Timestamp, WccAttributes,
};
pub use batch_cache::BatchCache;
pub use batched::Batched;
pub use call::{
    Call, Coherence, Committed, CreateMode, Created, DirectoryEntry, DirectoryPage, Entry, Finish,
    Hold, Limits, NodeKind, Opened, ReadReply, RenameMode, Seek, Space, Stability, Statistics,
    Written,
};
pub use compact_id::CompactId;
pub use error::{Error, Result};
pub use extended::{ExtendedAttributes, Presence};
pub use filesystem::FileSystem;
pub use identity::{Credentials, FileId};
pub use local::LocalFiles;
pub use payload::{OpenFile, PageSlice, Payload};
