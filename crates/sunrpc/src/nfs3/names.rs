//! CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813 sections 3.3.8 to 3.3.11), which share a reply;
//! REMOVE, RMDIR, RENAME and LINK (sections 3.3.12 to 3.3.15).

use super::{
    DeviceNumber, DirectoryOperation, FileAttributes, FileType, Handle, PATH_BYTES_MAX, Reply,
    SetAttributes, Verifier, WccData,
};
use crate::xdr::{Decode, Decoder, Encode, Encoder, Error, Result, xdr_structure};

/// Treatment of an existing name (`createhow3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// UNCHECKED: use the existing file.
    Unchecked(SetAttributes),
    /// GUARDED: fail.
    Guarded(SetAttributes),
    /// EXCLUSIVE: fail, unless the file has the same verifier.
    Exclusive(Verifier),
}

impl Encode for CreateHow {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Unchecked(attributes) => {
                encoder.u32(0);
                attributes.encode(encoder);
            }
            Self::Guarded(attributes) => {
                encoder.u32(1);
                attributes.encode(encoder);
            }
            Self::Exclusive(verifier) => {
                encoder.u32(2);
                verifier.encode(encoder);
            }
        }
    }
}

impl<'a> Decode<'a> for CreateHow {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        match decoder.u32()? {
            0 => SetAttributes::decode(decoder).map(Self::Unchecked),
            1 => SetAttributes::decode(decoder).map(Self::Guarded),
            2 => decoder.array().map(Self::Exclusive),
            _ => Err(Error::BadValue),
        }
    }
}

xdr_structure! {
    /// CREATE3args.
    pub struct CreateArguments<'a> {
        /// The new name.
        pub what: DirectoryOperation<'a>,
        /// Treatment of an existing one.
        pub how: CreateHow,
    }
}

xdr_structure! {
    /// CREATE3resok, also of MKDIR, SYMLINK and MKNOD.
    pub struct CreateOk<'a> {
        /// The new object.
        pub object: Option<Handle<'a>>,
        /// Of the new object.
        pub object_attributes: Option<FileAttributes>,
        /// Of the directory.
        pub directory_wcc: WccData,
    }
}

/// CREATE3res, also of MKDIR, SYMLINK and MKNOD; the body of a failure is of the directory.
pub type CreateReply<'a> = Reply<CreateOk<'a>, WccData>;

xdr_structure! {
    /// MKDIR3args.
    pub struct MkdirArguments<'a> {
        /// The new name.
        pub what: DirectoryOperation<'a>,
        /// Of the new directory.
        pub attributes: SetAttributes,
    }
}

xdr_structure! {
    /// SYMLINK3args.
    pub struct SymlinkArguments<'a> {
        /// The new name.
        pub what: DirectoryOperation<'a>,
        /// Of the new link.
        pub attributes: SetAttributes,
        /// The target.
        pub target: &'a [u8] = PATH_BYTES_MAX,
    }
}

/// The object of MKNOD (`mknoddata3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeData {
    /// NF3CHR.
    CharacterDevice(SetAttributes, DeviceNumber),
    /// NF3BLK.
    BlockDevice(SetAttributes, DeviceNumber),
    /// NF3SOCK.
    Socket(SetAttributes),
    /// NF3FIFO.
    Fifo(SetAttributes),
    /// Well formed, but a case for [`super::Status::BadType`]; nothing follows the type.
    Unmakable(FileType),
}

impl NodeData {
    /// The type on the wire.
    #[must_use]
    pub const fn file_type(&self) -> FileType {
        match self {
            Self::CharacterDevice(..) => FileType::CharacterDevice,
            Self::BlockDevice(..) => FileType::BlockDevice,
            Self::Socket(_) => FileType::Socket,
            Self::Fifo(_) => FileType::Fifo,
            Self::Unmakable(file_type) => *file_type,
        }
    }
}

impl Encode for NodeData {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.file_type().encode(encoder);
        match self {
            Self::CharacterDevice(attributes, device) | Self::BlockDevice(attributes, device) => {
                attributes.encode(encoder);
                device.encode(encoder);
            }
            Self::Socket(attributes) | Self::Fifo(attributes) => attributes.encode(encoder),
            Self::Unmakable(_) => {}
        }
    }
}

impl<'a> Decode<'a> for NodeData {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        let file_type = FileType::decode(decoder)?;
        Ok(match file_type {
            FileType::CharacterDevice => {
                Self::CharacterDevice(Decode::decode(decoder)?, Decode::decode(decoder)?)
            }
            FileType::BlockDevice => {
                Self::BlockDevice(Decode::decode(decoder)?, Decode::decode(decoder)?)
            }
            FileType::Socket => Self::Socket(Decode::decode(decoder)?),
            FileType::Fifo => Self::Fifo(Decode::decode(decoder)?),
            FileType::Regular | FileType::Directory | FileType::Symlink => {
                Self::Unmakable(file_type)
            }
        })
    }
}

xdr_structure! {
    /// MKNOD3args.
    pub struct MknodArguments<'a> {
        /// The new name.
        pub what: DirectoryOperation<'a>,
        /// What to make.
        pub node: NodeData,
    }
}

/// REMOVE3res and RMDIR3res; the argument is a [`DirectoryOperation`]. Both bodies are of the
/// directory.
pub type RemoveReply = Reply<WccData, WccData>;

xdr_structure! {
    /// RENAME3args.
    pub struct RenameArguments<'a> {
        /// The old name.
        pub from: DirectoryOperation<'a>,
        /// The new name.
        pub to: DirectoryOperation<'a>,
    }
}

xdr_structure! {
    /// RENAME3resok and RENAME3resfail.
    #[derive(Default)]
    pub struct RenameBody {
        /// Of the old directory.
        pub from_directory_wcc: WccData,
        /// Of the new directory.
        pub to_directory_wcc: WccData,
    }
}

/// RENAME3res.
pub type RenameReply = Reply<RenameBody, RenameBody>;

xdr_structure! {
    /// LINK3args.
    pub struct LinkArguments<'a> {
        /// The object.
        pub file: Handle<'a>,
        /// Its new name.
        pub link: DirectoryOperation<'a>,
    }
}

xdr_structure! {
    /// LINK3resok and LINK3resfail.
    #[derive(Default)]
    pub struct LinkBody {
        /// Of the object.
        pub file_attributes: Option<FileAttributes>,
        /// Of the directory of the new name.
        pub directory_wcc: WccData,
    }
}

/// LINK3res.
pub type LinkReply = Reply<LinkBody, LinkBody>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_create_has_the_bytes_of_the_rfc() {
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 2, 0xfa, 0xfb, 0, 0, // directory
            0, 0, 0, 1, b'n', 0, 0, 0, // name
            0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, // EXCLUSIVE, verifier
        ];
        let arguments = CreateArguments::decode(&mut Decoder::new(&bytes)).unwrap();
        assert_eq!(arguments.what.name, b"n");
        assert_eq!(
            arguments.how,
            CreateHow::Exclusive([1, 2, 3, 4, 5, 6, 7, 8])
        );
        let mut buffer = Vec::new();
        arguments.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, bytes);
    }

    #[test]
    fn a_directory_cannot_be_made_by_mknod_but_is_understood() {
        let node = NodeData::decode(&mut Decoder::new(&[0, 0, 0, 2]));
        assert_eq!(node, Ok(NodeData::Unmakable(FileType::Directory)));
        let strange = NodeData::decode(&mut Decoder::new(&[0, 0, 0, 8]));
        assert_eq!(strange, Err(Error::BadValue));
    }

    #[test]
    fn a_name_over_the_limit_is_too_long() {
        for (length, expected) in [(4096, None), (4097, Some(Error::TooLong))] {
            let name = vec![b'x'; length];
            let what = DirectoryOperation {
                directory: Handle::new(&[]).unwrap(),
                name: &name,
            };
            let mut buffer = Vec::new();
            what.encode(&mut Encoder::new(&mut buffer));
            let result = DirectoryOperation::decode(&mut Decoder::new(&buffer));
            assert_eq!(result.err(), expected);
        }
    }
}
