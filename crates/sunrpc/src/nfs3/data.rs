//! READ, WRITE, COMMIT (RFC 1813 sections 3.3.6, 3.3.7 and 3.3.21).

use super::{DecodeReply, FileAttributes, Handle, Reply, Verifier, WccData};
use crate::xdr::{Decoder, Result, xdr_enumeration, xdr_structure};

xdr_structure! {
    /// READ3args.
    pub struct ReadArguments<'a> {
        /// The file.
        pub file: Handle<'a>,
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub count: u32,
    }
}

xdr_structure! {
    /// READ3resok.
    pub struct ReadOk<'a> {
        /// Of the file.
        pub file_attributes: Option<FileAttributes>,
        /// Bytes read.
        pub count: u32,
        /// The last byte of the file is among them, or there was nothing to read.
        pub end_of_file: bool,
        /// The record is the limit.
        pub data: &'a [u8] = usize::MAX,
    }
}

/// READ3res; the body of a failure is of the file.
pub type ReadReply<'a> = Reply<ReadOk<'a>, Option<FileAttributes>>;

xdr_structure! {
    /// READ3resok before the bytes.
    pub struct ReadHead {
        /// Of the file.
        pub file_attributes: Option<FileAttributes>,
        /// Bytes read.
        pub count: u32,
        /// As in [`ReadOk`].
        pub end_of_file: bool,
        /// Bytes that follow.
        pub data_length: u32,
    }
}

/// READ3res without the bytes.
pub type ReadHeadReply = Reply<ReadHead, Option<FileAttributes>>;

/// Reads READ's results up to the data; returns its length, if any.
pub fn read_data_length(results: &mut Decoder<'_>) -> Result<Option<usize>> {
    let reply = ReadHeadReply::decode_reply(results)?;
    Ok(reply.ok().map(|head| head.data_length as usize))
}

xdr_enumeration! {
    /// The durability of written data (`stable_how`).
    #[derive(PartialOrd, Ord)]
    pub enum StableHow {
        /// In memory; COMMIT makes it durable.
        Unstable = 0,
        /// Data, and metadata to find it.
        DataSync = 1,
        /// Data and all attributes.
        FileSync = 2,
    }
}

xdr_structure! {
    /// WRITE3args.
    pub struct WriteArguments<'a> {
        /// The file.
        pub file: Handle<'a>,
        /// First byte.
        pub offset: u64,
        /// Bytes; correct clients have as many in `data`.
        pub count: u32,
        /// The least durability.
        pub stable: StableHow,
        /// The record is the limit.
        pub data: &'a [u8] = usize::MAX,
    }
}

xdr_structure! {
    /// WRITE3args before the bytes.
    pub struct WriteHead<'a> {
        /// The file.
        pub file: Handle<'a>,
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub count: u32,
        /// The least durability.
        pub stable: StableHow,
        /// Bytes that follow: `count`.
        pub data_length: u32,
    }
}

xdr_structure! {
    /// WRITE3resok.
    pub struct WriteOk {
        /// Of the file.
        pub file_wcc: WccData,
        /// Bytes written.
        pub count: u32,
        /// Their durability.
        pub committed: StableHow,
        /// Changes when unstable data may have been lost.
        pub verifier: Verifier,
    }
}

/// WRITE3res; the body of a failure is of the file.
pub type WriteReply = Reply<WriteOk, WccData>;

/// COMMIT3args; count 0: to the end of the file.
pub type CommitArguments<'a> = ReadArguments<'a>;

xdr_structure! {
    /// COMMIT3resok.
    pub struct CommitOk {
        /// Of the file.
        pub file_wcc: WccData,
        /// Changes when unstable data may have been lost.
        pub verifier: Verifier,
    }
}

/// COMMIT3res; the body of a failure is of the file.
pub type CommitReply = Reply<CommitOk, WccData>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{Decode, Encode, Encoder, Error};

    #[test]
    fn a_head_and_its_data_make_a_whole_reply() {
        let whole = ReadOk {
            file_attributes: None,
            count: 5,
            end_of_file: true,
            data: b"hello",
        };
        let mut expected = Vec::new();
        whole.encode(&mut Encoder::new(&mut expected));
        let mut buffer = Vec::new();
        let mut encoder = Encoder::new(&mut buffer);
        let head = ReadHead {
            file_attributes: None,
            count: 5,
            end_of_file: true,
            data_length: 5,
        };
        head.encode(&mut encoder);
        encoder.fixed(b"hello");
        assert_eq!(buffer, expected);
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 0, 0, 0,
        ];
        assert_eq!(buffer, bytes);
    }

    #[test]
    fn the_data_of_a_reply_is_found_from_its_beginning() {
        let mut attributes = [0; 84];
        attributes[3] = 1; // a file
        let attributes = FileAttributes::decode(&mut Decoder::new(&attributes)).unwrap();
        for file_attributes in [None, Some(attributes)] {
            let reply: ReadReply<'_> = Ok(ReadOk {
                file_attributes,
                count: 5,
                end_of_file: true,
                data: b"hello",
            });
            let mut buffer = Vec::new();
            reply.encode(&mut Encoder::new(&mut buffer));
            let start = buffer.len() - 8;
            for seen in 0..start {
                let found = read_data_length(&mut Decoder::new(&buffer[..seen]));
                assert_eq!(found, Err(Error::Truncated), "{seen}");
            }
            for seen in [start, buffer.len()] {
                let mut results = Decoder::new(&buffer[..seen]);
                assert_eq!(read_data_length(&mut results), Ok(Some(5)));
                assert_eq!(results.remaining(), seen - start);
            }
        }
        let failed: ReadReply<'_> = Err(super::super::Failure {
            status: super::super::Status::Stale,
            body: None,
        });
        let mut buffer = Vec::new();
        failed.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(read_data_length(&mut Decoder::new(&buffer)), Ok(None));
        assert_eq!(read_data_length(&mut Decoder::new(&buffer[..4])), Ok(None));
        let malformed = read_data_length(&mut Decoder::new(&[0, 0, 0, 0, 0, 0, 0, 9]));
        assert_eq!(malformed, Err(Error::BadValue));
    }

    #[test]
    fn a_write_without_its_data_has_the_same_beginning() {
        let file = Handle::new(&[1, 2, 3, 4]).unwrap();
        let (offset, stable) = (77, StableHow::Unstable);
        let mut expected = Vec::new();
        let whole = WriteArguments {
            file,
            offset,
            count: 3,
            stable,
            data: b"abc",
        };
        whole.encode(&mut Encoder::new(&mut expected));
        let mut buffer = Vec::new();
        let head = WriteHead {
            file,
            offset,
            count: 3,
            stable,
            data_length: 3,
        };
        let mut encoder = Encoder::new(&mut buffer);
        head.encode(&mut encoder);
        encoder.fixed(b"abc");
        assert_eq!(buffer, expected);
    }

    #[test]
    fn written_data_is_borrowed_from_the_record() {
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 4, 1, 2, 3, 4, // handle
            0, 0, 0, 1, 0, 0, 0, 2, // offset
            0, 0, 0, 3, // count
            0, 0, 0, 2, // FILE_SYNC
            0, 0, 0, 3, 7, 8, 9, 0, // data
        ];
        let arguments = WriteArguments::decode(&mut Decoder::new(&bytes)).unwrap();
        let expected = WriteArguments {
            file: Handle::new(&[1, 2, 3, 4]).unwrap(),
            offset: 0x1_0000_0002,
            count: 3,
            stable: StableHow::FileSync,
            data: &[7, 8, 9],
        };
        assert_eq!(arguments, expected);
        assert_eq!(arguments.data.as_ptr(), bytes[28..].as_ptr());
        let mut buffer = Vec::new();
        arguments.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, bytes);
    }
}
