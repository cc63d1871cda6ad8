//! External Data Representation (RFC 4506): big-endian values in multiples of four bytes.
//!
//! [`Decoder`] borrows from a record; [`Encoder`] appends to a caller's buffer. Most types get
//! [`Encode`] and [`Decode`] from one field list, so that these cannot disagree.

mod sequence;
mod shape;

pub use sequence::{List, Words, encode_item, encode_list_end};

pub(crate) use shape::{xdr_enumeration, xdr_structure};

/// Why bytes are no value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The record ends within the value.
    #[error("the record ends before the value does")]
    Truncated,
    /// A length exceeds its bound, or bytes follow the last value.
    #[error("a length is over what is allowed")]
    TooLong,
    /// An invalid boolean or enumeration.
    #[error("a number has no meaning here")]
    BadValue,
}

/// The result of decoding.
pub type Result<T> = std::result::Result<T, Error>;

/// A value to write.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, encoder: &mut Encoder<'_>);
}

/// A value to read; it may borrow from the record.
pub trait Decode<'a>: Sized {
    /// Takes the value off the front.
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self>;
}

/// `length` rounded up to the four-byte unit of XDR.
#[inline]
#[must_use]
pub const fn padded(length: usize) -> usize {
    length.saturating_add(3) & !3
}

/// A position in a record, undefined after an error. Opaque data is borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Starts at the front.
    #[inline]
    #[must_use]
    pub const fn new(record: &'a [u8]) -> Self {
        Self { rest: record }
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned integer.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.take().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// A signed integer.
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        self.take().map(|bytes| i32::from_be_bytes(*bytes))
    }

    /// An unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.take().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// A boolean; not 0 or 1 is [`Error::BadValue`].
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::BadValue),
        }
    }

    /// Variable-length opaque data of at most `bytes_max`. Padding may have any value.
    #[inline]
    pub fn opaque(&mut self, bytes_max: usize) -> Result<&'a [u8]> {
        let length = self.u32()? as usize;
        if length > bytes_max {
            return Err(Error::TooLong);
        }
        self.fixed(length)
    }

    /// Fixed-length opaque data.
    #[inline]
    pub fn fixed(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(padded(length))
            .ok_or(Error::Truncated)?;
        self.rest = rest;
        taken.get(..length).ok_or(Error::Truncated)
    }

    /// The same of a static length.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.fixed(N)?;
        bytes.try_into().map_err(|_| Error::Truncated)
    }

    /// Remaining bytes.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Without taking them.
    #[inline]
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// [`Error::TooLong`] when bytes are left.
    #[inline]
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Error::TooLong)
        }
    }
}

/// Appends values to a caller's buffer, which several replies may share: positions count from its
/// start.
#[derive(Debug)]
pub struct Encoder<'b> {
    buffer: &'b mut Vec<u8>,
}

impl<'b> Encoder<'b> {
    /// Appends to `buffer`.
    #[inline]
    #[must_use]
    pub const fn new(buffer: &'b mut Vec<u8>) -> Self {
        Self { buffer }
    }

    /// An unsigned integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    /// A signed integer.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    /// An unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_be_bytes());
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Variable-length opaque data with its padding: less than 4 GiB, as all records are (RFC 5531
    /// section 11).
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.buffer.reserve(8 + bytes.len());
        self.count(bytes.len());
        self.fixed(bytes);
    }

    /// A length or count; above 32 bits the largest, which every reader refuses.
    #[inline]
    pub fn count(&mut self, count: usize) {
        debug_assert!(u32::try_from(count).is_ok());
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Fixed-length opaque data with its padding.
    #[inline]
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.raw(bytes);
        self.raw(padding(bytes.len()));
    }

    /// Bytes without length or padding.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The length of the buffer.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.buffer.len()
    }

    /// Overwrites the unsigned integer at `at`, which must exist.
    #[inline]
    pub fn patch_u32(&mut self, at: usize, value: u32) {
        let slot = self.buffer.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
        debug_assert!(slot.is_some());
        if let Some(slot) = slot {
            *slot = value.to_be_bytes();
        }
    }

    /// Drops the bytes from `position` on.
    #[inline]
    pub fn truncate(&mut self, position: usize) {
        self.buffer.truncate(position);
    }
}

/// The padding of opaque data of `length` bytes.
#[inline]
#[must_use]
pub const fn padding(length: usize) -> &'static [u8] {
    match length & 3 {
        0 => &[],
        1 => &[0; 3],
        2 => &[0; 2],
        _ => &[0],
    }
}

impl Encode for () {
    #[inline]
    fn encode(&self, _encoder: &mut Encoder<'_>) {}
}

impl<'a> Decode<'a> for () {
    #[inline]
    fn decode(_decoder: &mut Decoder<'a>) -> Result<Self> {
        Ok(())
    }
}

macro_rules! number {
    ($type:ident) => {
        impl Encode for $type {
            #[inline]
            fn encode(&self, encoder: &mut Encoder<'_>) {
                encoder.$type(*self);
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

number!(u32);
number!(i32);
number!(u64);
number!(bool);

/// Variable-length opaque data. No [`Decode`]: readers need a bound.
impl Encode for &[u8] {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(self);
    }
}

/// Fixed-length opaque data.
impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.fixed(self);
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        decoder.array()
    }
}

/// Optional data: a boolean, then the value if true.
impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bool(self.is_some());
        if let Some(value) = self {
            value.encode(encoder);
        }
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

/// A union: status 0 and a success, or a failure with its own status.
impl<S: Encode, E: Encode> Encode for std::result::Result<S, E> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Ok(body) => {
                encoder.u32(0);
                body.encode(encoder);
            }
            Err(failure) => failure.encode(encoder),
        }
    }
}

impl<'a, S: Decode<'a>, E: Decode<'a>> Decode<'a> for std::result::Result<S, E> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        let mut body = *decoder;
        if body.u32()? != 0 {
            return E::decode(decoder).map(Err);
        }
        *decoder = body;
        S::decode(decoder).map(Ok)
    }
}

#[cfg(test)]
mod tests;
