//! The procedures (RFC 1813 section 3.3).

use crate::xdr::xdr_enumeration;

xdr_enumeration! {
    /// A procedure of NFS version 3.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Get attributes.
        Getattr = 1,
        /// Set attributes.
        Setattr = 2,
        /// Look up a name.
        Lookup = 3,
        /// Check permission.
        Access = 4,
        /// Read a symbolic link.
        Readlink = 5,
        /// Read from a file.
        Read = 6,
        /// Write to a file.
        Write = 7,
        /// Create a file.
        Create = 8,
        /// Create a directory.
        Mkdir = 9,
        /// Create a symbolic link.
        Symlink = 10,
        /// Create a device, socket or pipe.
        Mknod = 11,
        /// Remove a file.
        Remove = 12,
        /// Remove a directory.
        Rmdir = 13,
        /// Rename.
        Rename = 14,
        /// Create a hard link.
        Link = 15,
        /// Read a directory.
        Readdir = 16,
        /// Read a directory with attributes and handles.
        ReaddirPlus = 17,
        /// Get sizes that change.
        Fsstat = 18,
        /// Get what the server can do.
        Fsinfo = 19,
        /// Get POSIX limits.
        Pathconf = 20,
        /// Bring data to stable storage.
        Commit = 21,
    }
}

impl Procedure {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name that nfsstat prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Getattr => "getattr",
            Self::Setattr => "setattr",
            Self::Lookup => "lookup",
            Self::Access => "access",
            Self::Readlink => "readlink",
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Mkdir => "mkdir",
            Self::Symlink => "symlink",
            Self::Mknod => "mknod",
            Self::Remove => "remove",
            Self::Rmdir => "rmdir",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Readdir => "readdir",
            Self::ReaddirPlus => "readdirplus",
            Self::Fsstat => "fsstat",
            Self::Fsinfo => "fsinfo",
            Self::Pathconf => "pathconf",
            Self::Commit => "commit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_rfc() {
        assert_eq!(Procedure::COUNT, 22);
        for (number, procedure) in (0..).zip(Procedure::ALL) {
            assert_eq!(procedure.number(), number);
            assert_eq!(Procedure::from_number(number), Some(*procedure));
            assert_eq!(procedure.name(), format!("{procedure:?}").to_lowercase());
        }
        assert_eq!(Procedure::from_number(22), None);
    }
}
