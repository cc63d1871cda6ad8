//! FSSTAT, FSINFO, PATHCONF (RFC 1813 sections 3.3.18 to 3.3.20). The argument is the
//! [`Handle`](super::Handle) of any object; the body of a failure is of that.

use super::{FileAttributes, Reply, Time};
use crate::xdr::xdr_structure;

xdr_structure! {
    /// FSSTAT3resok.
    pub struct FsstatOk {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// Bytes.
        pub bytes_total: u64,
        /// Free bytes.
        pub bytes_free: u64,
        /// Free bytes for the caller.
        pub bytes_available: u64,
        /// Possible objects.
        pub files_total: u64,
        /// Possible new objects.
        pub files_free: u64,
        /// Those for the caller.
        pub files_available: u64,
        /// Seconds without an expected change.
        pub stable_seconds: u32,
    }
}

/// FSSTAT3res.
pub type FsstatReply = Reply<FsstatOk, Option<FileAttributes>>;

/// Bits of [`FsinfoOk::properties`].
pub mod properties {
    /// Hard links can be made.
    pub const HARD_LINKS: u32 = 0x01;
    /// Symbolic links can be made.
    pub const SYMLINKS: u32 = 0x02;
    /// PATHCONF is the same for all objects.
    pub const HOMOGENEOUS: u32 = 0x08;
    /// SETATTR can set times exactly.
    pub const TIMES_SETTABLE: u32 = 0x10;
}

xdr_structure! {
    /// FSINFO3resok.
    pub struct FsinfoOk {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// The most bytes of a READ.
        pub read_bytes_max: u32,
        /// The best size of a READ, in bytes.
        pub read_bytes_preferred: u32,
        /// Of which it should be a multiple, in bytes.
        pub read_bytes_multiple: u32,
        /// The most bytes of a WRITE.
        pub write_bytes_max: u32,
        /// The best size of a WRITE, in bytes.
        pub write_bytes_preferred: u32,
        /// Of which it should be a multiple, in bytes.
        pub write_bytes_multiple: u32,
        /// The best size of a READDIR, in bytes.
        pub directory_bytes_preferred: u32,
        /// The largest file, in bytes.
        pub file_bytes_max: u64,
        /// Of times.
        pub time_grain: Time,
        /// Of [`properties`].
        pub properties: u32,
    }
}

/// FSINFO3res.
pub type FsinfoReply = Reply<FsinfoOk, Option<FileAttributes>>;

xdr_structure! {
    /// PATHCONF3resok.
    pub struct PathconfOk {
        /// Of the object.
        pub object_attributes: Option<FileAttributes>,
        /// The most hard links of an object.
        pub links_max: u32,
        /// The longest name, in bytes.
        pub name_bytes_max: u32,
        /// Longer names are refused, not cut.
        pub no_truncation: bool,
        /// Only the superuser may change the owner.
        pub ownership_restricted: bool,
        /// Names that differ in case only are the same.
        pub case_insensitive: bool,
        /// Names keep their case.
        pub case_preserving: bool,
    }
}

/// PATHCONF3res.
pub type PathconfReply = Reply<PathconfOk, Option<FileAttributes>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{Decode, Decoder, Encode, Encoder};

    /// The bytes of these numbers; a hyper integer where it says true.
    fn bytes_of(numbers: &[(u8, bool)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, hyper) in numbers {
            bytes.resize(bytes.len() + if *hyper { 7 } else { 3 }, 0);
            bytes.push(*number);
        }
        bytes
    }

    #[test]
    fn fsinfo_has_the_order_of_the_rfc() {
        let fsinfo = FsinfoOk {
            object_attributes: None,
            read_bytes_max: 1,
            read_bytes_preferred: 2,
            read_bytes_multiple: 3,
            write_bytes_max: 4,
            write_bytes_preferred: 5,
            write_bytes_multiple: 6,
            directory_bytes_preferred: 7,
            file_bytes_max: 8,
            time_grain: Time {
                seconds: 9,
                nanoseconds: 10,
            },
            properties: 11,
        };
        let numbers: Vec<_> = (0..=11).map(|number| (number, number == 8)).collect();
        let mut buffer = Vec::new();
        fsinfo.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, bytes_of(&numbers));
        assert_eq!(FsinfoOk::decode(&mut Decoder::new(&buffer)), Ok(fsinfo));
    }

    #[test]
    fn fsstat_has_the_order_of_the_rfc() {
        let fsstat = FsstatOk {
            object_attributes: None,
            bytes_total: 1,
            bytes_free: 2,
            bytes_available: 3,
            files_total: 4,
            files_free: 5,
            files_available: 6,
            stable_seconds: 7,
        };
        let numbers: Vec<_> = (0..=7).map(|n| (n, (1..=6).contains(&n))).collect();
        let mut buffer = Vec::new();
        fsstat.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, bytes_of(&numbers));
        assert_eq!(FsstatOk::decode(&mut Decoder::new(&buffer)), Ok(fsstat));
    }

    #[test]
    fn pathconf_has_the_order_of_the_rfc() {
        let pathconf = PathconfOk {
            object_attributes: None,
            links_max: 8,
            name_bytes_max: 255,
            no_truncation: true,
            ownership_restricted: false,
            case_insensitive: false,
            case_preserving: true,
        };
        let numbers = [0, 8, 255, 1, 0, 0, 1].map(|number| (number, false));
        let mut buffer = Vec::new();
        pathconf.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, bytes_of(&numbers));
        assert_eq!(PathconfOk::decode(&mut Decoder::new(&buffer)), Ok(pathconf));
    }
}
