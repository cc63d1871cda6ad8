//! Procedures on one object or one name: GETATTR, SETATTR, LOOKUP, ACCESS, READLINK
//! (RFC 1813 sections 3.3.1 to 3.3.5).

use super::{
    FileAttributes, Handle, NAME_BYTES_MAX, PATH_BYTES_MAX, Reply, SetAttributes, Time, WccData,
};
use crate::xdr::xdr_structure;

xdr_structure! {
    /// A name in a directory (`diropargs3`).
    pub struct DirectoryOperation<'a> {
        /// The directory.
        pub directory: Handle<'a>,
        /// The name; at most [`NAME_BYTES_MAX`] bytes, any bytes at all.
        pub name: &'a [u8] = NAME_BYTES_MAX,
    }
}

xdr_structure! {
    /// GETATTR3args.
    pub struct GetattrArguments<'a> {
        /// The object.
        pub object: Handle<'a>,
    }
}

xdr_structure! {
    /// GETATTR3resok.
    pub struct GetattrOk {
        /// Of the object.
        pub attributes: FileAttributes,
    }
}

/// GETATTR3res.
pub type GetattrReply = Reply<GetattrOk, ()>;

xdr_structure! {
    /// SETATTR3args.
    pub struct SetattrArguments<'a> {
        /// The object.
        pub object: Handle<'a>,
        /// What to set.
        pub attributes: SetAttributes,
        /// Only when the object's time of change is this (`sattrguard3`).
        pub guard: Option<Time>,
    }
}

xdr_structure! {
    /// SETATTR3resok.
    pub struct SetattrOk {
        /// Of the object.
        pub object_wcc: WccData,
    }
}

xdr_structure! {
    /// SETATTR3resfail.
    #[derive(Default)]
    pub struct SetattrFailure {
        /// Of the object.
        pub object_wcc: WccData,
    }
}

/// SETATTR3res.
pub type SetattrReply = Reply<SetattrOk, SetattrFailure>;

xdr_structure! {
    /// LOOKUP3args.
    pub struct LookupArguments<'a> {
        /// The name and where.
        pub what: DirectoryOperation<'a>,
    }
}

xdr_structure! {
    /// LOOKUP3resok.
    pub struct LookupOk<'a> {
        /// The object of that name.
        pub object: Handle<'a>,
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// Of the directory.
        pub directory_attributes: Option<FileAttributes>,
    }
}

xdr_structure! {
    /// LOOKUP3resfail.
    #[derive(Default)]
    pub struct LookupFailure {
        /// Of the directory.
        pub directory_attributes: Option<FileAttributes>,
    }
}

/// LOOKUP3res.
pub type LookupReply<'a> = Reply<LookupOk<'a>, LookupFailure>;

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
        /// Those of the bits asked for that are permitted.
        pub access: u32,
    }
}

xdr_structure! {
    /// ACCESS3resfail.
    #[derive(Default)]
    pub struct AccessFailure {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
    }
}

/// ACCESS3res.
pub type AccessReply = Reply<AccessOk, AccessFailure>;

xdr_structure! {
    /// READLINK3args.
    pub struct ReadlinkArguments<'a> {
        /// The symbolic link.
        pub symlink: Handle<'a>,
    }
}

xdr_structure! {
    /// READLINK3resok.
    pub struct ReadlinkOk<'a> {
        /// Of the link.
        pub symlink_attributes: Option<FileAttributes>,
        /// Where it points; at most [`PATH_BYTES_MAX`] bytes.
        pub target: &'a [u8] = PATH_BYTES_MAX,
    }
}

xdr_structure! {
    /// READLINK3resfail.
    #[derive(Default)]
    pub struct ReadlinkFailure {
        /// Of the link.
        pub symlink_attributes: Option<FileAttributes>,
    }
}

/// READLINK3res.
pub type ReadlinkReply<'a> = Reply<ReadlinkOk<'a>, ReadlinkFailure>;

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
        assert_eq!(failure.body, LookupFailure::default());
    }

    #[test]
    fn bytes_after_the_arguments_are_noticed() {
        let bytes = [0, 0, 0, 0, 0, 0, 0, 0];
        let mut decoder = Decoder::new(&bytes);
        GetattrArguments::decode(&mut decoder).unwrap();
        assert_eq!(decoder.finish(), Err(Error::TooLong));
    }
}
