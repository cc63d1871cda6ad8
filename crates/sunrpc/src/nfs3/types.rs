//! Common types (RFC 1813 section 2.5). `post_op_attr` is `Option<FileAttributes>`, `pre_op_attr`
//! is `Option<WccAttributes>`.

use crate::xdr::{Decode, Decoder, Encode, Encoder, Error, Result, xdr_enumeration, xdr_structure};

/// The longest handle (section 2.4, `NFS3_FHSIZE`).
pub const HANDLE_BYTES_MAX: usize = 64;

/// A server's opaque identifier of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handle<'a>(&'a [u8]);

impl<'a> Handle<'a> {
    /// `None` above [`HANDLE_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= HANDLE_BYTES_MAX {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// The bytes, perhaps none.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl Encode for Handle<'_> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(self.0);
    }
}

impl<'a> Decode<'a> for Handle<'a> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        decoder.opaque(HANDLE_BYTES_MAX).map(Self)
    }
}

xdr_enumeration! {
    /// The type of an object (`ftype3`).
    pub enum FileType {
        /// Regular file.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Block special device.
        BlockDevice = 3,
        /// Character special device.
        CharacterDevice = 4,
        /// Symbolic link.
        Symlink = 5,
        /// Socket.
        Socket = 6,
        /// Named pipe.
        Fifo = 7,
    }
}

xdr_structure! {
    /// A point in time (`nfstime3`): from 1970 to 2106.
    #[derive(Default, Hash, PartialOrd, Ord)]
    pub struct Time {
        /// Since 1970-01-01 00:00 UTC.
        pub seconds: u32,
        /// 0 to 999,999,999; not checked here.
        pub nanoseconds: u32,
    }
}

xdr_structure! {
    /// The number of a device (`specdata3`).
    #[derive(Default)]
    pub struct DeviceNumber {
        /// Major number.
        pub major: u32,
        /// Minor number.
        pub minor: u32,
    }
}

/// All attributes of an object (`fattr3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// Type.
    pub file_type: FileType,
    /// Permissions, set-user-id, set-group-id and sticky.
    pub mode: u32,
    /// Hard links.
    pub link_count: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Storage used, in bytes.
    pub used: u64,
    /// Of a device; else zeros.
    pub device: DeviceNumber,
    /// Identifies the file system.
    pub filesystem_id: u64,
    /// Identifies the object within it.
    pub file_id: u64,
    /// Last access.
    pub accessed: Time,
    /// Last change of the data.
    pub modified: Time,
    /// Last change of data or attributes.
    pub changed: Time,
}

impl FileAttributes {
    /// Bytes on the wire.
    pub const SIZE: usize = 84;

    /// The part that weak cache consistency compares.
    #[must_use]
    pub const fn wcc(&self) -> WccAttributes {
        WccAttributes {
            size: self.size,
            modified: self.modified,
            changed: self.changed,
        }
    }
}

/// In one piece: nearly every reply has these 21 words.
impl Encode for FileAttributes {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        let words = [
            self.file_type.number(),
            self.mode,
            self.link_count,
            self.uid,
            self.gid,
            high(self.size),
            low(self.size),
            high(self.used),
            low(self.used),
            self.device.major,
            self.device.minor,
            high(self.filesystem_id),
            low(self.filesystem_id),
            high(self.file_id),
            low(self.file_id),
            self.accessed.seconds,
            self.accessed.nanoseconds,
            self.modified.seconds,
            self.modified.nanoseconds,
            self.changed.seconds,
            self.changed.nanoseconds,
        ];
        let mut bytes = [0; Self::SIZE];
        for (slot, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *slot = word.to_be_bytes();
        }
        encoder.raw(&bytes);
    }
}

#[inline]
const fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

#[inline]
const fn low(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

impl<'a> Decode<'a> for FileAttributes {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        Ok(Self {
            file_type: Decode::decode(decoder)?,
            mode: decoder.u32()?,
            link_count: decoder.u32()?,
            uid: decoder.u32()?,
            gid: decoder.u32()?,
            size: decoder.u64()?,
            used: decoder.u64()?,
            device: Decode::decode(decoder)?,
            filesystem_id: decoder.u64()?,
            file_id: decoder.u64()?,
            accessed: Decode::decode(decoder)?,
            modified: Decode::decode(decoder)?,
            changed: Decode::decode(decoder)?,
        })
    }
}

xdr_structure! {
    /// The attributes before a change (`wcc_attr`).
    pub struct WccAttributes {
        /// Length in bytes.
        pub size: u64,
        /// Last change of the data.
        pub modified: Time,
        /// Last change of data or attributes.
        pub changed: Time,
    }
}

xdr_structure! {
    /// An object before and after a change (`wcc_data`), if known.
    #[derive(Default)]
    pub struct WccData {
        /// Before.
        pub before: Option<WccAttributes>,
        /// After.
        pub after: Option<FileAttributes>,
    }
}

/// What becomes of a time (`set_atime`, `set_mtime`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// DONT_CHANGE.
    #[default]
    Keep,
    /// SET_TO_SERVER_TIME.
    ToServerTime,
    /// SET_TO_CLIENT_TIME.
    To(Time),
}

impl Encode for SetTime {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Keep => encoder.u32(0),
            Self::ToServerTime => encoder.u32(1),
            Self::To(time) => {
                encoder.u32(2);
                time.encode(encoder);
            }
        }
    }
}

impl<'a> Decode<'a> for SetTime {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        match decoder.u32()? {
            0 => Ok(Self::Keep),
            1 => Ok(Self::ToServerTime),
            2 => Time::decode(decoder).map(Self::To),
            _ => Err(Error::BadValue),
        }
    }
}

xdr_structure! {
    /// `None` and [`SetTime::Keep`] leave an attribute.
    #[derive(Default)]
    pub struct SetAttributes {
        /// Permission bits.
        pub mode: Option<u32>,
        /// Owner.
        pub uid: Option<u32>,
        /// Group.
        pub gid: Option<u32>,
        /// Length in bytes.
        pub size: Option<u64>,
        /// Access time.
        pub accessed: SetTime,
        /// Modification time.
        pub modified: SetTime,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_at_most_64_bytes() {
        assert!(Handle::new(&[1; 64]).is_some());
        assert!(Handle::new(&[1; 65]).is_none());
        let mut buffer = Vec::new();
        Encoder::new(&mut buffer).opaque(&[1; 65]);
        let result = Handle::decode(&mut Decoder::new(&buffer));
        assert_eq!(result, Err(Error::TooLong));
    }

    #[test]
    fn attributes_have_the_bytes_of_the_rfc() {
        let attributes = FileAttributes {
            file_type: FileType::CharacterDevice,
            mode: 0o4755,
            link_count: 2,
            uid: 1000,
            gid: 100,
            size: 0x0000_0001_0000_0002,
            used: 4096,
            device: DeviceNumber { major: 8, minor: 1 },
            filesystem_id: 0x0a0b_0c0d_0e0f_1011,
            file_id: 0x1213_1415_1617_1819,
            accessed: Time {
                seconds: 0x6000_0000,
                nanoseconds: 999_999_999,
            },
            modified: Time {
                seconds: 0x6000_0001,
                nanoseconds: 1,
            },
            changed: Time {
                seconds: 0x6000_0002,
                nanoseconds: 2,
            },
        };
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 4, // NF3CHR
            0, 0, 0x09, 0xed, // mode
            0, 0, 0, 2, // nlink
            0, 0, 0x03, 0xe8, // uid
            0, 0, 0, 0x64, // gid
            0, 0, 0, 1, 0, 0, 0, 2, // size
            0, 0, 0, 0, 0, 0, 0x10, 0, // used
            0, 0, 0, 8, 0, 0, 0, 1, // rdev
            0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, // fsid
            0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, // fileid
            0x60, 0, 0, 0, 0x3b, 0x9a, 0xc9, 0xff, // atime
            0x60, 0, 0, 1, 0, 0, 0, 1, // mtime
            0x60, 0, 0, 2, 0, 0, 0, 2, // ctime
        ];
        let mut buffer = Vec::new();
        attributes.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, expected);
        let decoded = FileAttributes::decode(&mut Decoder::new(&expected));
        assert_eq!(decoded, Ok(attributes));
    }

    #[test]
    fn there_is_no_type_zero_or_eight() {
        for number in [0, 8] {
            assert_eq!(FileType::from_number(number), None);
        }
    }

    fn bytes_of(value: &SetAttributes) -> Vec<u8> {
        let mut buffer = Vec::new();
        value.encode(&mut Encoder::new(&mut buffer));
        buffer
    }

    #[test]
    fn attributes_to_set_have_the_bytes_of_the_rfc() {
        let some = SetAttributes {
            mode: Some(0o644),
            uid: None,
            gid: Some(5),
            size: Some(0x1_0000_0000),
            accessed: SetTime::ToServerTime,
            modified: SetTime::To(Time {
                seconds: 7,
                nanoseconds: 9,
            }),
        };
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 1, 0, 0, 1, 0xa4, // mode
            0, 0, 0, 0, // uid
            0, 0, 0, 1, 0, 0, 0, 5, // gid
            0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, // size
            0, 0, 0, 1, // atime: server
            0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 9, // mtime: client
        ];
        assert_eq!(bytes_of(&some), expected);
        let decoded = SetAttributes::decode(&mut Decoder::new(&expected));
        assert_eq!(decoded, Ok(some));
        assert_eq!(bytes_of(&SetAttributes::default()), [0; 24]);
    }

    #[test]
    fn there_is_no_third_way_to_set_a_time() {
        let result = SetTime::decode(&mut Decoder::new(&[0, 0, 0, 3]));
        assert_eq!(result, Err(Error::BadValue));
    }
}
