//! NFS version 3 (RFC 1813): arguments and results of its 22 procedures.
//!
//! For a procedure `X` there are `XArguments`, `XOk`, usually `XFailure`, and `XReply`, which is
//! [`Reply`] of the last two. What a structure holds of the record (handles, names, data) is
//! borrowed. The bodies of NULL are `()`.
//!
//! Reading order: [`types`], [`reply`], then the procedures by what they act on:
//! [`object`], [`data`], [`creation`], [`names`], [`directory`], [`volume`].

pub mod creation;
pub mod data;
pub mod directory;
pub mod names;
pub mod object;
pub mod procedure;
pub mod reply;
pub mod status;
pub mod types;
pub mod volume;

pub use creation::{
    CreateArguments, CreateFailure, CreateHow, CreateOk, CreateReply, MkdirArguments,
    MknodArguments, NodeData, SymlinkArguments,
};
pub use data::{
    CommitArguments, CommitFailure, CommitOk, CommitReply, ReadArguments, ReadFailure, ReadHead,
    ReadHeadReply, ReadOk, ReadReply, StableHow, WriteArguments, WriteFailure, WriteHead, WriteOk,
    WriteReply, locate_read_data,
};
pub use directory::{
    ReaddirArguments, ReaddirEntry, ReaddirFailure, ReaddirOk, ReaddirPlusArguments,
    ReaddirPlusEntry, ReaddirPlusOk, ReaddirPlusReply, ReaddirReply,
};
pub use names::{
    LinkArguments, LinkFailure, LinkOk, LinkReply, RemoveArguments, RemoveFailure, RemoveOk,
    RemoveReply, RenameArguments, RenameFailure, RenameOk, RenameReply, RmdirArguments,
};
pub use object::{
    AccessArguments, AccessFailure, AccessOk, AccessReply, DirectoryOperation, GetattrArguments,
    GetattrOk, GetattrReply, LookupArguments, LookupFailure, LookupOk, LookupReply,
    ReadlinkArguments, ReadlinkFailure, ReadlinkOk, ReadlinkReply, SetattrArguments,
    SetattrFailure, SetattrOk, SetattrReply,
};
pub use procedure::Procedure;
pub use reply::{Failure, Reply};
pub use status::Status;
pub use types::{
    DeviceNumber, FileAttributes, FileType, HANDLE_BYTES_MAX, Handle, SetAttributes, SetTime, Time,
    WccAttributes, WccData,
};
pub use volume::{
    FsinfoArguments, FsinfoOk, FsinfoReply, FsstatArguments, FsstatOk, FsstatReply,
    PathconfArguments, PathconfOk, PathconfReply, VolumeFailure,
};

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
