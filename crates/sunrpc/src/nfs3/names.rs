//! Procedures that remove, move and add names: REMOVE, RMDIR, RENAME, LINK (RFC 1813 sections
//! 3.3.12 to 3.3.15).

use super::{DirectoryOperation, FileAttributes, Handle, Reply, WccData};
use crate::xdr::xdr_structure;

/// REMOVE3res and RMDIR3res; the argument is a [`DirectoryOperation`], and both bodies tell of the
/// directory.
pub type RemoveReply = Reply<WccData, WccData>;

xdr_structure! {
    /// RENAME3args.
    pub struct RenameArguments<'a> {
        /// The old name and where.
        pub from: DirectoryOperation<'a>,
        /// The new name and where.
        pub to: DirectoryOperation<'a>,
    }
}

xdr_structure! {
    /// RENAME3resok and RENAME3resfail.
    pub struct RenameBody {
        /// Of the old directory.
        pub from_directory_wcc: WccData,
        /// Of the new directory.
        pub to_directory_wcc: WccData,
    }
}

/// RENAME3res.
pub type RenameReply = Reply<RenameBody, RenameBody>;

xdr_structure! {
    /// LINK3args.
    pub struct LinkArguments<'a> {
        /// The object that gets one more name.
        pub file: Handle<'a>,
        /// The new name and where.
        pub link: DirectoryOperation<'a>,
    }
}

xdr_structure! {
    /// LINK3resok and LINK3resfail.
    pub struct LinkBody {
        /// Of the object.
        pub file_attributes: Option<FileAttributes>,
        /// Of the directory of the new name.
        pub directory_wcc: WccData,
    }
}

/// LINK3res.
pub type LinkReply = Reply<LinkBody, LinkBody>;
