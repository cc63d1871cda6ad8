//! Buckets of object stores, and files of web servers, as file systems.
//!
//! ```text
//!   key dir/sub/file ──> names dir, sub, file        an object whose key ends so is a file
//!   prefix dir/sub/  ──> a directory                 what keys below it have in common
//! ```
//!
//! **Names and attributes** come from listings, one request for up to 1,000 names, kept for a time
//! that the URL says. A file whose directory was listed costs no request of its own. **Data** comes
//! in ranged requests of whole cache pages, placed by read-ahead; every page belongs to one
//! [version](Version) of one object, with which each reply is compared. A replaced object is
//! another object of the cache: new bytes never stand beside old ones.
//!
//! **Changes** stay in memory and in a staging folder until fsync, COMMIT or close; then the object
//! is made, if it is still what the change is based on (`writer.rs`, `sending.rs`).
//!
//! **Identifiers** need no table, and are the same in every process that serves the bucket
//! (`identifier.rs`).
//!
//! **Known weaknesses.** A change by others shows when the last listing is too old. Mode, owner and
//! links that others left in metadata are not shown by default: they cost a request for each file.
//! A bucket whose names come in no listing cannot be walked.

mod ahead;
mod backing;
mod changed;
mod content;
mod data;
mod device;
mod directory;
mod error;
mod file;
mod filesystem;
mod guard;
mod identifier;
mod kept_probe;
mod leftovers;
mod listing;
mod listings;
mod making;
mod metadata;
mod moves;
mod moving;
mod name;
mod node;
mod nodes;
mod open;
mod opens;
mod overlay;
mod renaming;
mod seen;
mod sending;
mod shown;
mod side_by_side;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transfer;
mod tree;
mod upload;
mod walk;
mod writer;
mod writing;

pub use device::ObjectDevice;
pub use filesystem::ObjectFileSystem;
pub use kept_probe::KeptProbe;
pub use open::{
    AZURE_OPTIONS, NO_OBJECT, OPTIONS, Opened, OpenedObject, check, is_bucket, open, open_object,
};
pub use pagewell_object_client::Version;
pub use writing::Writing;
