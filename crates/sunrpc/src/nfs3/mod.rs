//! NFS version 3 (RFC 1813): arguments and results of its 22 procedures.
//!
//! A procedure `X` has `XArguments` and `XReply`, a [`Reply`] of `XOk` and the body of a failure. A
//! structure of one field is that field's type. Handles, names and data are borrowed.
//!
//! Reading order: `types`, then the procedures: `object`, `data`, `names`, `directory`, `volume`.

mod data;
mod directory;
mod names;
mod object;
mod types;
mod volume;

pub use data::*;
pub use directory::*;
pub use names::*;
pub use object::*;
pub use types::*;
pub use volume::*;

use crate::xdr::{Decode, Decoder, Encode, Encoder, Result, xdr_enumeration};

/// The program number (section 3).
pub const PROGRAM: u32 = 100_003;
/// The version.
pub const VERSION: u32 = 3;

/// Bound of a decoded name. The protocol has none (section 2.4). A name between a file system's
/// bound and this one gets [`Status::NameTooLong`]; a longer one makes the record garbage.
pub const NAME_BYTES_MAX: usize = 4096;
/// Bound of a decoded link target: PATH_MAX of common systems.
pub const PATH_BYTES_MAX: usize = 4096;

/// Eight bytes that their sender chooses and compares (section 2.4: `cookieverf3`, `createverf3`,
/// `writeverf3`).
pub type Verifier = [u8; 8];

xdr_enumeration! {
    /// A procedure.
    pub enum Procedure {
        /// Does nothing.
        Null = 0 => "null",
        /// Attributes.
        Getattr = 1 => "getattr",
        /// Sets attributes.
        Setattr = 2 => "setattr",
        /// Looks up a name.
        Lookup = 3 => "lookup",
        /// Checks permission.
        Access = 4 => "access",
        /// Reads a symbolic link.
        Readlink = 5 => "readlink",
        /// Reads from a file.
        Read = 6 => "read",
        /// Writes to a file.
        Write = 7 => "write",
        /// Creates a file.
        Create = 8 => "create",
        /// Creates a directory.
        Mkdir = 9 => "mkdir",
        /// Creates a symbolic link.
        Symlink = 10 => "symlink",
        /// Creates a device, socket or pipe.
        Mknod = 11 => "mknod",
        /// Removes a file.
        Remove = 12 => "remove",
        /// Removes a directory.
        Rmdir = 13 => "rmdir",
        /// Renames.
        Rename = 14 => "rename",
        /// Creates a hard link.
        Link = 15 => "link",
        /// Lists a directory.
        Readdir = 16 => "readdir",
        /// Lists a directory with attributes and handles.
        ReaddirPlus = 17 => "readdirplus",
        /// Sizes that change.
        Fsstat = 18 => "fsstat",
        /// The server's limits.
        Fsinfo = 19 => "fsinfo",
        /// POSIX limits.
        Pathconf = 20 => "pathconf",
        /// Makes data durable.
        Commit = 21 => "commit",
    }
}

xdr_enumeration! {
    /// The status of a reply (`nfsstat3`).
    pub enum Status {
        /// NFS3_OK.
        Ok = 0 => "ok",
        /// NFS3ERR_PERM: not the owner.
        NotPermitted = 1 => "perm",
        /// NFS3ERR_NOENT.
        NotFound = 2 => "noent",
        /// NFS3ERR_IO.
        Io = 5 => "io",
        /// NFS3ERR_NXIO: no such device.
        NoDevice = 6 => "nxio",
        /// NFS3ERR_ACCES.
        AccessDenied = 13 => "acces",
        /// NFS3ERR_EXIST.
        Exists = 17 => "exist",
        /// NFS3ERR_XDEV: another file system.
        CrossDevice = 18 => "xdev",
        /// NFS3ERR_NODEV.
        DeviceUnsupported = 19 => "nodev",
        /// NFS3ERR_NOTDIR.
        NotDirectory = 20 => "notdir",
        /// NFS3ERR_ISDIR.
        IsDirectory = 21 => "isdir",
        /// NFS3ERR_INVAL.
        Invalid = 22 => "inval",
        /// NFS3ERR_FBIG.
        FileTooLarge = 27 => "fbig",
        /// NFS3ERR_NOSPC.
        NoSpace = 28 => "nospc",
        /// NFS3ERR_ROFS.
        ReadOnly = 30 => "rofs",
        /// NFS3ERR_MLINK: too many hard links.
        TooManyLinks = 31 => "mlink",
        /// NFS3ERR_NAMETOOLONG.
        NameTooLong = 63 => "nametoolong",
        /// NFS3ERR_NOTEMPTY.
        NotEmpty = 66 => "notempty",
        /// NFS3ERR_DQUOT: the user's quota is used up.
        QuotaExceeded = 69 => "dquot",
        /// NFS3ERR_STALE: no such object.
        Stale = 70 => "stale",
        /// NFS3ERR_REMOTE.
        Remote = 71 => "remote",
        /// NFS3ERR_BADHANDLE: malformed.
        BadHandle = 10001 => "badhandle",
        /// NFS3ERR_NOT_SYNC: the guard of SETATTR does not match.
        NotSynchronized = 10002 => "not_sync",
        /// NFS3ERR_BAD_COOKIE.
        BadCookie = 10003 => "bad_cookie",
        /// NFS3ERR_NOTSUPP.
        NotSupported = 10004 => "notsupp",
        /// NFS3ERR_TOOSMALL: the buffer or request.
        TooSmall = 10005 => "toosmall",
        /// NFS3ERR_SERVERFAULT: no other number fits.
        ServerFault = 10006 => "serverfault",
        /// NFS3ERR_BADTYPE: the server cannot make it.
        BadType = 10007 => "badtype",
        /// NFS3ERR_JUKEBOX: the client tries again later.
        Jukebox = 10008 => "jukebox",
    }
}

/// `S`, or a status with `F`. A server may also write [`Status::Ok`] and the body itself.
pub type Reply<S, F> = std::result::Result<S, Failure<F>>;

/// A failed status, and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<F> {
    /// Never [`Status::Ok`].
    pub status: Status,
    /// Attributes that the server has.
    pub body: F,
}

impl<F: Encode> Encode for Failure<F> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        debug_assert_ne!(self.status, Status::Ok);
        self.status.encode(encoder);
        self.body.encode(encoder);
    }
}

impl<'a, F: Decode<'a>> Decode<'a> for Failure<F> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        Ok(Self {
            status: Status::decode(decoder)?,
            body: F::decode(decoder)?,
        })
    }
}

/// Lenient decoding of replies.
pub trait DecodeReply<'a>: Sized {
    /// Accepts a failure by its status alone: some servers end with it, write another procedure's
    /// body behind it, or have a status of their own ([`Status::ServerFault`]).
    fn decode_reply(decoder: &mut Decoder<'a>) -> Result<Self>;
}

impl<'a, S: Decode<'a>, F: Decode<'a> + Default> DecodeReply<'a> for Reply<S, F> {
    fn decode_reply(decoder: &mut Decoder<'a>) -> Result<Self> {
        let number = decoder.u32()?;
        if number == Status::Ok.number() {
            return S::decode(decoder).map(Ok);
        }
        Ok(Err(Failure {
            status: Status::from_number(number).unwrap_or(Status::ServerFault),
            body: F::decode(decoder).unwrap_or_default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Error;

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

    #[test]
    fn the_status_chooses_the_body() {
        type Sample = Reply<u32, u64>;
        let failed: Sample = Err(Failure {
            status: Status::Stale,
            body: 7,
        });
        for (reply, expected) in [
            (Ok(5), &[0, 0, 0, 0, 0, 0, 0, 5][..]),
            (failed, &[0, 0, 0, 70, 0, 0, 0, 0, 0, 0, 0, 7]),
        ] {
            let mut buffer = Vec::new();
            reply.encode(&mut Encoder::new(&mut buffer));
            assert_eq!(buffer, expected);
            assert_eq!(Sample::decode(&mut Decoder::new(expected)), Ok(reply));
        }
        let strange = [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        let result = Sample::decode(&mut Decoder::new(&strange));
        assert_eq!(result, Err(Error::BadValue));
    }

    #[test]
    fn a_failure_without_a_body_that_can_be_read_is_its_status() {
        let status = |bytes: &[u8]| LinkReply::decode_reply(&mut Decoder::new(bytes));
        let body = LinkBody::default();
        let untold = |status| Ok(Err(Failure { status, body }));
        assert_eq!(status(&[0, 0, 0, 22]), untold(Status::Invalid));
        // The body of SYMLINK, which is shorter.
        assert_eq!(
            status(&[0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 0]),
            untold(Status::Invalid)
        );
        assert_eq!(status(&[0, 0, 0, 70, 0, 0, 0, 9]), untold(Status::Stale));
        assert_eq!(status(&[0, 0, 0, 95]), untold(Status::ServerFault));
        assert_eq!(status(&[0, 0, 0]), Err(Error::Truncated));
        // Of what went well all is needed.
        assert_eq!(status(&[0, 0, 0, 0]), Err(Error::Truncated));
        assert_eq!(status(&[0; 16]), Ok(Ok(LinkBody::default())));
    }

    #[test]
    fn numbers_of_local_errors_are_those_of_errno() {
        for (status, errno) in [
            (Status::NotFound, 2),
            (Status::AccessDenied, 13),
            (Status::NotDirectory, 20),
            (Status::ReadOnly, 30),
        ] {
            assert_eq!(status.number(), errno);
        }
        assert_eq!(Status::ALL.len(), 29);
        assert_eq!(Status::from_number(3), None);
    }
}
