//! External Data Representation (RFC 4506): big-endian values in multiples of four bytes.
//!
//! [`Decoder`] reads from a borrowed record and never copies or allocates; [`Encoder`] appends to
//! a buffer that the caller owns and may reuse. A type that goes both ways implements [`Encode`]
//! and [`Decode`]; most get both from one field list, so that the two cannot disagree.

mod decoder;
mod encoder;
mod list;
mod shape;
mod words;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use list::{ITEM_MARK_SIZE, List, ListItems, encode_item, encode_list_end};
pub use words::Words;

pub(crate) use shape::{xdr_enumeration, xdr_structure};

/// Why bytes are not the value that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The record ends before the value does.
    #[error("the record ends before the value does")]
    Truncated,
    /// A length is over what the field allows, or bytes are left after the last value.
    #[error("a length is over what is allowed")]
    TooLong,
    /// A boolean or enumeration has a number without meaning.
    #[error("a number has no meaning here")]
    BadValue,
}

/// What decoding gives.
pub type Result<T> = std::result::Result<T, Error>;

/// A value that can be written.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, encoder: &mut Encoder<'_>);

    /// Bytes that [`Encode::encode`] appends, without writing them.
    fn encoded_size(&self) -> usize;
}

/// A value that can be read; it may borrow from the record.
pub trait Decode<'a>: Sized {
    /// Takes the value off the front of what is left.
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self>;
}

/// `length` rounded up to the four-byte unit of XDR.
#[inline]
#[must_use]
pub const fn padded(length: usize) -> usize {
    length.saturating_add(3) & !3
}

impl Encode for () {
    #[inline]
    fn encode(&self, _encoder: &mut Encoder<'_>) {}

    #[inline]
    fn encoded_size(&self) -> usize {
        0
    }
}

impl<'a> Decode<'a> for () {
    #[inline]
    fn decode(_decoder: &mut Decoder<'a>) -> Result<Self> {
        Ok(())
    }
}

macro_rules! number {
    ($type:ident, $size:expr) => {
        impl Encode for $type {
            #[inline]
            fn encode(&self, encoder: &mut Encoder<'_>) {
                encoder.$type(*self);
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                $size
            }
        }

        impl<'a> Decode<'a> for $type {
            #[inline]
            fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
                decoder.$type()
            }
        }
    };
}

number!(u32, 4);
number!(i32, 4);
number!(u64, 8);
number!(i64, 8);
number!(bool, 4);

/// Variable-length opaque data. There is no matching [`Decode`]: a reader names its limit.
impl Encode for &[u8] {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(self);
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        4 + padded(self.len())
    }
}

/// Fixed-length opaque data.
impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.fixed(self);
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        padded(N)
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        decoder.array()
    }
}

/// Optional data: a boolean, then the value when it is true.
impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bool(self.is_some());
        if let Some(value) = self {
            value.encode(encoder);
        }
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        4 + self.as_ref().map_or(0, Encode::encoded_size)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        if decoder.bool()? {
            T::decode(decoder).map(Some)
        } else {
            Ok(None)
        }
    }
}
