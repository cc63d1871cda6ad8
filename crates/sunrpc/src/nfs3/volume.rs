//! Procedures on a whole file system: FSSTAT, FSINFO, PATHCONF (RFC 1813 sections 3.3.18 to
//! 3.3.20).

use super::{FileAttributes, Handle, Reply, Time};
use crate::xdr::xdr_structure;

xdr_structure! {
    /// FSSTAT3args.
    pub struct FsstatArguments<'a> {
        /// Any object, usually the root.
        pub root: Handle<'a>,
    }
}

xdr_structure! {
    /// FSSTAT3resok.
    pub struct FsstatOk {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// Size in bytes.
        pub bytes_total: u64,
        /// Free bytes.
        pub bytes_free: u64,
        /// Free bytes for the caller.
        pub bytes_available: u64,
        /// Objects there can be.
        pub files_total: u64,
        /// Objects that can still be made.
        pub files_free: u64,
        /// Objects the caller can still make.
        pub files_available: u64,
        /// For how many seconds this is not expected to change.
        pub stable_seconds: u32,
    }
}

xdr_structure! {
    /// FSSTAT3resfail, FSINFO3resfail and PATHCONF3resfail.
    #[derive(Default)]
    pub struct VolumeFailure {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
    }
}

/// FSSTAT3res.
pub type FsstatReply = Reply<FsstatOk, VolumeFailure>;

/// Bits of [`FsinfoOk::properties`] (RFC 1813 section 3.3.19).
pub mod properties {
    /// Hard links can be made.
    pub const HARD_LINKS: u32 = 0x01;
    /// Symbolic links can be made.
    pub const SYMLINKS: u32 = 0x02;
    /// PATHCONF is the same for all objects.
    pub const HOMOGENEOUS: u32 = 0x08;
    /// SETATTR can set times to any value.
    pub const TIMES_SETTABLE: u32 = 0x10;
}

xdr_structure! {
    /// FSINFO3args.
    pub struct FsinfoArguments<'a> {
        /// Any object, usually the root.
        pub root: Handle<'a>,
    }
}

xdr_structure! {
    /// FSINFO3resok.
    pub struct FsinfoOk {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// The most bytes of one READ.
        pub read_bytes_max: u32,
        /// The best size of a READ, in bytes.
        pub read_bytes_preferred: u32,
        /// Sizes of READ are best multiples of this, in bytes.
        pub read_bytes_multiple: u32,
        /// The most bytes of one WRITE.
        pub write_bytes_max: u32,
        /// The best size of a WRITE, in bytes.
        pub write_bytes_preferred: u32,
        /// Sizes of WRITE are best multiples of this, in bytes.
        pub write_bytes_multiple: u32,
        /// The best size of a READDIR, in bytes.
        pub directory_bytes_preferred: u32,
        /// The largest length of a file, in bytes.
        pub file_bytes_max: u64,
        /// The grain of times.
        pub time_grain: Time,
        /// Bits of [`properties`].
        pub properties: u32,
    }
}

/// FSINFO3res.
pub type FsinfoReply = Reply<FsinfoOk, VolumeFailure>;

xdr_structure! {
    /// PATHCONF3args.
    pub struct PathconfArguments<'a> {
        /// Any object.
        pub object: Handle<'a>,
    }
}

xdr_structure! {
    /// PATHCONF3resok.
    pub struct PathconfOk {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// The most hard links of an object.
        pub links_max: u32,
        /// The longest name, in bytes.
        pub name_bytes_max: u32,
        /// Whether a longer name is refused, not cut.
        pub no_truncation: bool,
        /// Whether only the superuser may change the owner.
        pub ownership_restricted: bool,
        /// Whether names differing in case only are the same.
        pub case_insensitive: bool,
        /// Whether the case of a name is kept.
        pub case_preserving: bool,
    }
}

/// PATHCONF3res.
pub type PathconfReply = Reply<PathconfOk, VolumeFailure>;
