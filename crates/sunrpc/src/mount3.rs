//! MOUNT version 3 (RFC 1813 appendix I): from the path of an export to its root handle.

use crate::nfs3::Handle;
/// The status of MNT: `mountstat3` is a subset of the statuses of NFS.
pub use crate::nfs3::Status;
use crate::xdr::{List, Words, xdr_enumeration, xdr_structure};

/// The program number.
pub const PROGRAM: u32 = 100_005;
/// The version.
pub const VERSION: u32 = 3;
/// The first version (RFC 1094 appendix A). Only MNT differs before [`VERSION`]: it returns handles
/// of NFS version 2.
pub const FIRST_VERSION: u32 = 1;
/// The longest path of an export (`MNTPATHLEN`).
pub const PATH_BYTES_MAX: usize = 1024;
/// The longest name of a client or group (`MNTNAMLEN`).
pub const NAME_BYTES_MAX: usize = 255;
/// Flavors in a reply. The protocol has no limit; fewer exist.
pub const FLAVORS_MAX: usize = 16;

xdr_enumeration! {
    /// A procedure of MOUNT.
    pub enum Procedure {
        /// Does nothing.
        Null = 0 => "null",
        /// Returns the handle of a path, and notes the mount.
        Mnt = 1 => "mnt",
        /// Lists the mounts of clients.
        Dump = 2 => "dump",
        /// Removes the note of a mount.
        Umnt = 3 => "umnt",
        /// Removes all notes of the client.
        UmntAll = 4 => "umntall",
        /// Lists the exports.
        Export = 5 => "export",
    }
}

xdr_structure! {
    /// The argument of MNT and UMNT (`dirpath`).
    pub struct PathArguments<'a> {
        /// Its path.
        pub path: &'a [u8] = PATH_BYTES_MAX,
    }
}

xdr_structure! {
    /// `mountres3_ok`.
    pub struct MountOk<'a> {
        /// The root of the export.
        pub handle: Handle<'a>,
        /// Accepted authentication flavors, the preferred first.
        pub flavors: Words<FLAVORS_MAX>,
    }
}

/// `mountres3`. The status in `Err` is never [`Status::Ok`].
pub type MountReply<'a> = std::result::Result<MountOk<'a>, Status>;

xdr_structure! {
    /// A mount of a client (`mountbody`).
    pub struct MountEntry<'a> {
        /// The client.
        pub host: &'a [u8] = NAME_BYTES_MAX,
        /// Its path.
        pub path: &'a [u8] = PATH_BYTES_MAX,
    }
}

/// The result of DUMP (`mountlist`).
pub type DumpReply<'a> = List<'a, MountEntry<'a>>;

xdr_structure! {
    /// Hosts that may mount an export (`groupnode`).
    pub struct Group<'a> {
        /// A host, network or group.
        pub name: &'a [u8] = NAME_BYTES_MAX,
    }
}

xdr_structure! {
    /// An export (`exportnode`).
    pub struct ExportEntry<'a> {
        /// Its path.
        pub path: &'a [u8] = PATH_BYTES_MAX,
        /// Hosts that may mount it; empty: all.
        pub groups: List<'a, Group<'a>>,
    }
}

/// The result of EXPORT (`exports`).
pub type ExportReply<'a> = List<'a, ExportEntry<'a>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{Decode, Decoder, Encode, Encoder, encode_item, encode_list_end};

    #[test]
    fn a_mount_reply_has_the_bytes_of_the_rfc() {
        let reply: MountReply<'_> = Ok(MountOk {
            handle: Handle::new(&[9, 8, 7]).unwrap(),
            flavors: Words::new(&[1, 0]).unwrap(),
        });
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 0, 0, 0, 0, 3, 9, 8, 7, 0, // OK, handle
            0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, // AUTH_SYS, AUTH_NONE
        ];
        let mut buffer = Vec::new();
        reply.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, expected);
        assert_eq!(MountReply::decode(&mut Decoder::new(&buffer)), Ok(reply));
        let refused = MountReply::decode(&mut Decoder::new(&[0, 0, 0, 13]));
        assert_eq!(refused, Ok(Err(Status::AccessDenied)));
    }

    #[test]
    fn exports_have_the_bytes_of_the_rfc() {
        let mut groups = Vec::new();
        encode_item(&mut Encoder::new(&mut groups), &Group { name: b"a.net" });
        let export = ExportEntry {
            path: b"/x",
            groups: List::from_items(&groups).unwrap(),
        };
        let mut buffer = Vec::new();
        let mut encoder = Encoder::new(&mut buffer);
        encode_item(&mut encoder, &export);
        encode_list_end(&mut encoder);
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 1, 0, 0, 0, 2, b'/', b'x', 0, 0, // an export
            0, 0, 0, 1, 0, 0, 0, 5, b'a', b'.', b'n', b'e', b't', 0, 0, 0, // a group
            0, 0, 0, 0, 0, 0, 0, 0, // no more groups, no more exports
        ];
        assert_eq!(buffer, expected);
        let exports = ExportReply::decode(&mut Decoder::new(&buffer)).unwrap();
        assert_eq!(exports.iter().collect::<Vec<_>>(), [export]);
    }

    #[test]
    fn procedures_have_the_numbers_of_the_rfc() {
        for (number, procedure) in (0..).zip(Procedure::ALL) {
            assert_eq!(procedure.number(), number);
            assert_eq!(procedure.name(), format!("{procedure:?}").to_lowercase());
        }
        assert_eq!(Procedure::ALL.len(), 6);
    }
}
