//! A local directory as a file system: kind `dir`.
//!
//! The kernel's page cache is the cache; this layer finds objects, judges callers, and keeps the
//! further promises of NFSv3.
//!
//! ```text
//!  identifier ──> table of open objects ──hit─────────────────────> object ──> statx, pread, ...
//!                        └─miss─> kernel handle, or path hint ──────┘
//!  directory + name ──> openat2, one name, no links (resolve) ──> inode ──> object
//! ```
//!
//! From below: `system`, `resolve`, `object`, `access`, `syncs`, [`durability`], `table`,
//! `identifier`, `bounds`, `path_hint`, `objects`, `metadata_sync`, `listings`, `data`,
//! `attributes`, `extended`, `names`, and `directory`, which joins them. `blocking` has the answers
//! of threads that may not wait.
//!
//! Not promised: local programs' concurrent changes are not excluded, so `before` in a
//! [`pagewell_fs::Change`] is true with respect to changes through Pagewell. Special files are
//! never opened. Reading updates access times by the mount options.

mod access;
mod attributes;
mod blocking;
mod bounds;
mod data;
mod directory;
pub mod durability;
mod entries;
mod extended;
mod identifier;
mod listings;
mod metadata_sync;
mod names;
mod object;
mod objects;
mod options;
mod path_hint;
mod recent_names;
mod resolve;
mod syncs;
mod system;
mod table;

#[cfg(test)]
mod tests;

pub use directory::Directory;
pub use options::{OpenError, Options};
