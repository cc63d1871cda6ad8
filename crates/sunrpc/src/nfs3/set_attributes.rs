//! Attributes to set (RFC 1813 section 2.5, `sattr3`).

use super::Time;
use crate::xdr::{Decode, Decoder, Encode, Encoder, Error, Result, xdr_structure};

/// How to set a time (`set_atime`, `set_mtime`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// DONT_CHANGE.
    #[default]
    Keep,
    /// SET_TO_SERVER_TIME: to the server's clock.
    ToServerTime,
    /// SET_TO_CLIENT_TIME: to this value.
    To(Time),
}

impl SetTime {
    /// `time_how` on the wire.
    const fn number(self) -> u32 {
        match self {
            Self::Keep => 0,
            Self::ToServerTime => 1,
            Self::To(_) => 2,
        }
    }
}

impl Encode for SetTime {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.number());
        if let Self::To(time) = self {
            time.encode(encoder);
        }
    }

    fn encoded_size(&self) -> usize {
        match self {
            Self::Keep | Self::ToServerTime => 4,
            Self::To(time) => 4 + time.encoded_size(),
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
    /// Attributes to set; what is `None` or [`SetTime::Keep`] stays as it is.
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
