//! NFS version 3 (RFC 1813): arguments and results of its 22 procedures.
//!
//! For a procedure `X` there are `XArguments` and `XReply`, which is a [`Reply`] of `XOk` and what
//! goes with a failure. One field alone is no structure: the type of the field stands for it. What
//! a structure holds of the record (handles, names, data) is borrowed. The bodies of NULL are `()`.
//!
//! Reading order: `types`, `reply`, then the procedures by what they act on:
//! `object`, `data`, `creation`, `names`, `directory`, `volume`.

mod creation;
mod data;
mod directory;
mod names;
mod object;
mod procedure;
mod reply;
mod types;
mod volume;

pub use creation::*;
pub use data::*;
pub use directory::*;
pub use names::*;
pub use object::*;
pub use procedure::*;
pub use reply::*;
pub use types::*;
pub use volume::*;

/// The program number (RFC 1813 section 3).
pub const PROGRAM: u32 = 100_003;
/// The version.
pub const VERSION: u32 = 3;

/// The longest name a decoder accepts. The protocol sets no limit (RFC 1813 section 2.4); a name
/// between what a file system takes and this can still be answered with
/// [`Status::NameTooLong`], and a longer one makes the record garbage.
pub const NAME_BYTES_MAX: usize = 4096;
/// The longest target of a symbolic link a decoder accepts: PATH_MAX of common systems.
pub const PATH_BYTES_MAX: usize = 4096;

/// Eight bytes that a server or client chose and compares (RFC 1813 section 2.4: `cookieverf3`,
/// `createverf3`, `writeverf3`).
pub type Verifier = [u8; 8];
