//! One inode-based trait for file systems, [`FileSystem`], and what sources share. Fronts (NFS
//! server, FUSE, command line) use only the trait.
//!
//! Its shape is NFSv3's (RFC 1813): a [`FileId`] names an object; each call carries the caller's
//! [`Credentials`]; a read says where the bytes are ([`Payload`]) and copies nothing by itself.
//!
//! Reading order: [`filesystem`], [`call`], [`payload`], then a source.

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
