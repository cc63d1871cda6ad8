//! GETATTR, SETATTR, LOOKUP, ACCESS, READLINK (RFC 1813 sections 3.3.1 to 3.3.5).

use super::{
    FileAttributes, Handle, NAME_BYTES_MAX, PATH_BYTES_MAX, Reply, SetAttributes, Time, WccData,
};
use crate::xdr::xdr_structure;

xdr_structure! {
    /// A name in a directory (`diropargs3`).
    pub struct DirectoryOperation<'a> {
        /// The directory.
        pub directory: Handle<'a>,
        /// Its bytes may have any value.
        pub name: &'a [u8] = NAME_BYTES_MAX,
    }
}

/// GETATTR3res; the argument is the [`Handle`] of the object.
pub type GetattrReply = Reply<FileAttributes, ()>;

xdr_structure! {
    /// SETATTR3args.
    pub struct SetattrArguments<'a> {
        /// The object.
        pub object: Handle<'a>,
        /// Attributes to set.
        pub attributes: SetAttributes,
        /// Set only if the object has this change time (`sattrguard3`).
        pub guard: Option<Time>,
    }
}

/// SETATTR3res; both bodies are of the object.
pub type SetattrReply = Reply<WccData, WccData>;

xdr_structure! {
    /// LOOKUP3resok.
    pub struct LookupOk<'a> {
        /// The object.
        pub object: Handle<'a>,
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// Of the directory.
        pub directory_attributes: Option<FileAttributes>,
    }
}

/// LOOKUP3res; the argument is a [`DirectoryOperation`]. The body of a failure is of the directory.
pub type LookupReply<'a> = Reply<LookupOk<'a>, Option<FileAttributes>>;

/// Bits of ACCESS (RFC 1813 section 3.3.4).
pub mod access {
    /// Read data, or list a directory.
    pub const READ: u32 = 0x01;
    /// Look a name up in a directory.
    pub const LOOKUP: u32 = 0x02;
    /// Change existing data or directory entries.
    pub const MODIFY: u32 = 0x04;
    /// Add data or directory entries.
    pub const EXTEND: u32 = 0x08;
    /// Remove a directory entry.
    pub const DELETE: u32 = 0x10;
    /// Execute a file.
    pub const EXECUTE: u32 = 0x20;
}

xdr_structure! {
    /// ACCESS3args.
    pub struct AccessArguments<'a> {
        /// The object.
        pub object: Handle<'a>,
        /// Bits of [`access`] to check.
        pub access: u32,
    }
}

xdr_structure! {
    /// ACCESS3resok.
    pub struct AccessOk {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// The permitted ones of the bits.
        pub access: u32,
    }
}

/// ACCESS3res; the body of a failure is of the object.
pub type AccessReply = Reply<AccessOk, Option<FileAttributes>>;

xdr_structure! {
    /// READLINK3resok.
    pub struct ReadlinkOk<'a> {
        /// Of the link.
        pub symlink_attributes: Option<FileAttributes>,
        /// Its target.
        pub target: &'a [u8] = PATH_BYTES_MAX,
    }
}

/// READLINK3res; argument and body of a failure are of the link.
pub type ReadlinkReply<'a> = Reply<ReadlinkOk<'a>, Option<FileAttributes>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs3::SetTime;
    use crate::xdr::{Decode, Decoder, Encode, Encoder, Error};

    #[test]
    fn a_guarded_setattr_has_the_bytes_of_the_rfc() {
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 2, 0xfa, 0xfb, 0, 0, // object
            0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, // only the owner
            0, 0, 0, 0, 0, 0, 0, 1, // and the time of modification
            0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4, // guard
        ];
        let arguments = SetattrArguments {
            object: Handle::new(&[0xfa, 0xfb]).unwrap(),
            attributes: SetAttributes {
                uid: Some(7),
                modified: SetTime::ToServerTime,
                ..SetAttributes::default()
            },
            guard: Some(Time {
                seconds: 3,
                nanoseconds: 4,
            }),
        };
        let decoded = SetattrArguments::decode(&mut Decoder::new(&bytes));
        assert_eq!(decoded, Ok(arguments));
        let mut buffer = Vec::new();
        arguments.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, bytes);
    }

    #[test]
    fn a_failed_lookup_has_the_bytes_of_the_rfc() {
        let bytes = [0, 0, 0, 2, 0, 0, 0, 0];
        let reply = LookupReply::decode(&mut Decoder::new(&bytes)).unwrap();
        let failure = reply.unwrap_err();
        assert_eq!(failure.status, crate::nfs3::Status::NotFound);
        assert_eq!(failure.body, None);
    }

    #[test]
    fn bytes_after_the_arguments_are_noticed() {
        let bytes = [0, 0, 0, 0, 0, 0, 0, 0];
        let mut decoder = Decoder::new(&bytes);
        Handle::decode(&mut decoder).unwrap();
        assert_eq!(decoder.finish(), Err(Error::TooLong));
    }
}
