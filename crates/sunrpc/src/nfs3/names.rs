//! Procedures that remove, move and add names: REMOVE, RMDIR, RENAME, LINK (RFC 1813 sections
//! 3.3.12 to 3.3.15).

use super::{DirectoryOperation, FileAttributes, Handle, Reply, WccData};
use crate::xdr::xdr_structure;

xdr_structure! {
    /// REMOVE3args.
    pub struct RemoveArguments<'a> {
        /// The name and where.
        pub object: DirectoryOperation<'a>,
    }
}

xdr_structure! {
    /// RMDIR3args.
    pub struct RmdirArguments<'a> {
        /// The name and where.
        pub object: DirectoryOperation<'a>,
    }
}

xdr_structure! {
    /// REMOVE3resok and RMDIR3resok.
    pub struct RemoveOk {
        /// Of the directory.
        pub directory_wcc: WccData,
    }
}

xdr_structure! {
    /// REMOVE3resfail and RMDIR3resfail.
    #[derive(Default)]
    pub struct RemoveFailure {
        /// Of the directory.
        pub directory_wcc: WccData,
    }
}

/// REMOVE3res and RMDIR3res.
pub type RemoveReply = Reply<RemoveOk, RemoveFailure>;

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
    /// RENAME3resok.
    pub struct RenameOk {
        /// Of the old directory.
        pub from_directory_wcc: WccData,
        /// Of the new directory.
        pub to_directory_wcc: WccData,
    }
}

xdr_structure! {
    /// RENAME3resfail.
    #[derive(Default)]
    pub struct RenameFailure {
        /// Of the old directory.
        pub from_directory_wcc: WccData,
        /// Of the new directory.
        pub to_directory_wcc: WccData,
    }
}

/// RENAME3res.
pub type RenameReply = Reply<RenameOk, RenameFailure>;

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
    /// LINK3resok.
    pub struct LinkOk {
        /// Of the object.
        pub file_attributes: Option<FileAttributes>,
        /// Of the directory of the new name.
        pub directory_wcc: WccData,
    }
}

xdr_structure! {
    /// LINK3resfail.
    #[derive(Default)]
    pub struct LinkFailure {
        /// Of the object.
        pub file_attributes: Option<FileAttributes>,
        /// Of the directory of the new name.
        pub directory_wcc: WccData,
    }
}

/// LINK3res.
pub type LinkReply = Reply<LinkOk, LinkFailure>;
