//! The procedures (RFC 1813 section 3.3).

use crate::xdr::xdr_enumeration;

xdr_enumeration! {
    /// A procedure of NFS version 3.
    pub enum Procedure {
        /// Do nothing.
        Null = 0 => "null",
        /// Get attributes.
        Getattr = 1 => "getattr",
        /// Set attributes.
        Setattr = 2 => "setattr",
        /// Look up a name.
        Lookup = 3 => "lookup",
        /// Check permission.
        Access = 4 => "access",
        /// Read a symbolic link.
        Readlink = 5 => "readlink",
        /// Read from a file.
        Read = 6 => "read",
        /// Write to a file.
        Write = 7 => "write",
        /// Create a file.
        Create = 8 => "create",
        /// Create a directory.
        Mkdir = 9 => "mkdir",
        /// Create a symbolic link.
        Symlink = 10 => "symlink",
        /// Create a device, socket or pipe.
        Mknod = 11 => "mknod",
        /// Remove a file.
        Remove = 12 => "remove",
        /// Remove a directory.
        Rmdir = 13 => "rmdir",
        /// Rename.
        Rename = 14 => "rename",
        /// Create a hard link.
        Link = 15 => "link",
        /// Read a directory.
        Readdir = 16 => "readdir",
        /// Read a directory with attributes and handles.
        ReaddirPlus = 17 => "readdirplus",
        /// Get sizes that change.
        Fsstat = 18 => "fsstat",
        /// Get what the server can do.
        Fsinfo = 19 => "fsinfo",
        /// Get POSIX limits.
        Pathconf = 20 => "pathconf",
        /// Bring data to stable storage.
        Commit = 21 => "commit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_rfc() {
        assert_eq!(Procedure::ALL.len(), 22);
        for (number, procedure) in (0..).zip(Procedure::ALL) {
            assert_eq!(procedure.number(), number);
            assert_eq!(Procedure::from_number(number), Some(*procedure));
            assert_eq!(procedure.name(), format!("{procedure:?}").to_lowercase());
        }
        assert_eq!(Procedure::from_number(22), None);
    }
}
