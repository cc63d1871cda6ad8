//! READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17).
//!
//! A server writes a list by [`ReaddirOk::encode_head`], [`encode_item`](crate::xdr::encode_item)
//! for each entry that fits, [`ReaddirOk::encode_tail`]. READDIR's `count` and READDIRPLUS's
//! `maxcount` bound the whole, with [`TAIL_SIZE`].

use super::{FileAttributes, Handle, NAME_BYTES_MAX, Reply, Verifier};
use crate::xdr::{Encode, Encoder, List, encode_list_end, padded, xdr_structure};

/// Bytes behind the last entry.
pub const TAIL_SIZE: usize = 8;

xdr_structure! {
    /// READDIR3args.
    pub struct ReaddirArguments<'a> {
        /// The directory.
        pub directory: Handle<'a>,
        /// Continue behind this; 0: from the start.
        pub cookie: u64,
        /// That of the cookie; zeros at the start.
        pub verifier: Verifier,
        /// The most bytes of READDIR3resok.
        pub count: u32,
    }
}

xdr_structure! {
    /// `entry3`.
    pub struct ReaddirEntry<'a> {
        /// Of the object, within the file system.
        pub file_id: u64,
        /// Its name.
        pub name: &'a [u8] = NAME_BYTES_MAX,
        /// Continues behind this entry.
        pub cookie: u64,
    }
}

xdr_structure! {
    /// READDIR3resok.
    pub struct ReaddirOk<'a> {
        /// Of the directory.
        pub directory_attributes: Option<FileAttributes>,
        /// Goes with each cookie.
        pub verifier: Verifier,
        /// In the server's order.
        pub entries: List<'a, ReaddirEntry<'a>>,
        /// The directory ends here.
        pub end: bool,
    }
}

impl ReaddirOk<'_> {
    /// Appends the part before the entries, without the status.
    #[inline]
    pub fn encode_head(
        encoder: &mut Encoder<'_>,
        directory_attributes: &Option<FileAttributes>,
        verifier: &Verifier,
    ) {
        directory_attributes.encode(encoder);
        verifier.encode(encoder);
    }

    /// Appends the part behind them: [`TAIL_SIZE`] bytes.
    #[inline]
    pub fn encode_tail(encoder: &mut Encoder<'_>, end: bool) {
        encode_list_end(encoder);
        encoder.bool(end);
    }
}

/// READDIR3res; the body of a failure is of the directory.
pub type ReaddirReply<'a> = Reply<ReaddirOk<'a>, Option<FileAttributes>>;

xdr_structure! {
    /// READDIRPLUS3args.
    pub struct ReaddirPlusArguments<'a> {
        /// The directory.
        pub directory: Handle<'a>,
        /// Continue behind this; 0: from the start.
        pub cookie: u64,
        /// That of the cookie; zeros at the start.
        pub verifier: Verifier,
        /// The most bytes of names, cookies and file ids.
        pub directory_count: u32,
        /// The most bytes of READDIRPLUS3resok.
        pub count_max: u32,
    }
}

xdr_structure! {
    /// `entryplus3`.
    pub struct ReaddirPlusEntry<'a> {
        /// Of the object, within the file system.
        pub file_id: u64,
        /// Its name.
        pub name: &'a [u8] = NAME_BYTES_MAX,
        /// Continues behind this entry.
        pub cookie: u64,
        /// Of the object.
        pub attributes: Option<FileAttributes>,
        /// The object.
        pub handle: Option<Handle<'a>>,
    }
}

impl ReaddirPlusEntry<'_> {
    /// The bytes that count towards `directory_count`: those of READDIR.
    #[inline]
    #[must_use]
    pub fn directory_size(&self) -> usize {
        // Boolean, file id, length of the name, cookie.
        24 + padded(self.name.len())
    }
}

xdr_structure! {
    /// READDIRPLUS3resok.
    pub struct ReaddirPlusOk<'a> {
        /// Of the directory.
        pub directory_attributes: Option<FileAttributes>,
        /// Goes with each cookie.
        pub verifier: Verifier,
        /// In the server's order.
        pub entries: List<'a, ReaddirPlusEntry<'a>>,
        /// The directory ends here.
        pub end: bool,
    }
}

/// READDIRPLUS3res; the body of a failure is of the directory.
pub type ReaddirPlusReply<'a> = Reply<ReaddirPlusOk<'a>, Option<FileAttributes>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{Decode, Decoder, encode_item};

    fn item_size(entry: &impl Encode) -> usize {
        let mut buffer = Vec::new();
        encode_item(&mut Encoder::new(&mut buffer), entry);
        buffer.len()
    }

    #[test]
    fn a_list_written_piece_by_piece_has_the_bytes_of_the_rfc() {
        let mut buffer = Vec::new();
        let mut encoder = Encoder::new(&mut buffer);
        ReaddirOk::encode_head(&mut encoder, &None, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(encoder.position(), 12);
        let entry = ReaddirEntry {
            file_id: 5,
            name: b"hello",
            cookie: 6,
        };
        encode_item(&mut encoder, &entry);
        ReaddirOk::encode_tail(&mut encoder, true);
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, // no attributes, verifier
            0, 0, 0, 1, // an entry
            0, 0, 0, 0, 0, 0, 0, 5, // file id
            0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 0, 0, 0, // name
            0, 0, 0, 0, 0, 0, 0, 6, // cookie
            0, 0, 0, 0, 0, 0, 0, 1, // no more entries, end
        ];
        assert_eq!(buffer, expected);
        let decoded = ReaddirOk::decode(&mut Decoder::new(&buffer)).unwrap();
        assert_eq!(decoded.entries.iter().collect::<Vec<_>>(), [entry]);
        assert!(decoded.end);
    }

    #[test]
    fn directory_size_leaves_attributes_and_handle_out() {
        let entry = ReaddirPlusEntry {
            file_id: 5,
            name: b"hello",
            cookie: 6,
            attributes: None,
            handle: Handle::new(&[1; 33]),
        };
        let plain = ReaddirEntry {
            file_id: 5,
            name: b"hello",
            cookie: 6,
        };
        assert_eq!(entry.directory_size(), item_size(&plain));
        assert_eq!(item_size(&entry), entry.directory_size() + 4 + 4 + 4 + 36);
    }

    #[test]
    fn readdirplus_has_the_bytes_of_the_rfc() {
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 1, 0x68, 0, 0, 0, // directory
            0, 0, 0, 0, 0, 0, 0, 9, // cookie
            1, 2, 3, 4, 5, 6, 7, 8, // verifier
            0, 0, 2, 0, 0, 0, 0x10, 0, // dircount, maxcount
        ];
        let arguments = ReaddirPlusArguments {
            directory: Handle::new(b"h").unwrap(),
            cookie: 9,
            verifier: [1, 2, 3, 4, 5, 6, 7, 8],
            directory_count: 512,
            count_max: 4096,
        };
        let decoded = ReaddirPlusArguments::decode(&mut Decoder::new(&bytes));
        assert_eq!(decoded, Ok(arguments));
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 0, 0, 0, 0, 5, // file id
            0, 0, 0, 1, b'n', 0, 0, 0, // name
            0, 0, 0, 0, 0, 0, 0, 6, // cookie
            0, 0, 0, 0, // no attributes
            0, 0, 0, 1, 0, 0, 0, 2, 7, 8, 0, 0, // handle
        ];
        let entry = ReaddirPlusEntry {
            file_id: 5,
            name: b"n",
            cookie: 6,
            attributes: None,
            handle: Handle::new(&[7, 8]),
        };
        let decoded = ReaddirPlusEntry::decode(&mut Decoder::new(&bytes));
        assert_eq!(decoded, Ok(entry));
    }
}
