//! Reads XDR from a borrowed record.

use super::{Error, Result, padded};

/// A position in a record. Values are taken off the front; opaque data is borrowed, not copied.
///
/// After an error the position is undefined; the record is to be refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the front of `record`.
    #[inline]
    #[must_use]
    pub const fn new(record: &'a [u8]) -> Self {
        Self {
            rest: record,
            length: record.len(),
        }
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

    /// A signed hyper integer.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        self.take().map(|bytes| i64::from_be_bytes(*bytes))
    }

    /// A boolean: 0 or 1, anything else is [`Error::BadValue`].
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::BadValue),
        }
    }

    /// Variable-length opaque data of at most `bytes_max` bytes: a length, the bytes, and padding
    /// of any value, which is skipped.
    #[inline]
    pub fn opaque(&mut self, bytes_max: usize) -> Result<&'a [u8]> {
        let length = self.u32()? as usize;
        if length > bytes_max {
            return Err(Error::TooLong);
        }
        self.fixed(length)
    }

    /// Fixed-length opaque data of `length` bytes and its padding, which is skipped.
    #[inline]
    pub fn fixed(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(padded(length))
            .ok_or(Error::Truncated)?;
        self.rest = rest;
        taken.get(..length).ok_or(Error::Truncated)
    }

    /// Fixed-length opaque data of a length known when compiling.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        if N.is_multiple_of(4) {
            return self.take().copied();
        }
        let bytes = self.fixed(N)?;
        bytes.try_into().map_err(|_| Error::Truncated)
    }

    /// Bytes that are left.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Everything that is left, without taking it.
    #[inline]
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes taken so far.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// Ends the reading: [`Error::TooLong`] when bytes are left.
    #[inline]
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Error::TooLong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_big_endian() {
        let bytes = [
            0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xfd, 0, 0, 0, 1,
        ];
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(decoder.i32(), Ok(-2));
        assert_eq!(decoder.u32(), Ok(7));
        assert_eq!(decoder.position(), 8);
        assert_eq!(decoder.u64(), Ok(0x0102_0304_0506_0708));
        assert_eq!(decoder.i64(), Ok(-3));
        assert_eq!(decoder.remaining(), 4);
        assert_eq!(decoder.finish(), Err(Error::TooLong));
        assert_eq!(decoder.bool(), Ok(true));
        assert_eq!(decoder.finish(), Ok(()));
        assert_eq!(decoder.u32(), Err(Error::Truncated));
    }

    #[test]
    fn a_boolean_is_zero_or_one() {
        assert_eq!(Decoder::new(&[0, 0, 0, 2]).bool(), Err(Error::BadValue));
        assert_eq!(Decoder::new(&[1, 0, 0, 0]).bool(), Err(Error::BadValue));
        assert_eq!(Decoder::new(&[0, 0, 0, 0]).bool(), Ok(false));
    }

    #[test]
    fn opaque_data_is_borrowed_and_its_padding_skipped() {
        let bytes = [
            0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 0xaa, 0xbb, 0xcc, 9,
        ];
        let mut decoder = Decoder::new(&bytes);
        let borrowed = decoder.opaque(5).unwrap();
        assert_eq!(borrowed, b"hello");
        assert_eq!(borrowed.as_ptr(), bytes[4..].as_ptr());
        assert_eq!(decoder.rest(), &[9]);
        assert_eq!(Decoder::new(&bytes).opaque(4), Err(Error::TooLong));
        assert_eq!(Decoder::new(&bytes[..11]).opaque(5), Err(Error::Truncated));
    }

    #[test]
    fn the_longest_length_is_only_truncated() {
        let bytes = [0xff; 8];
        assert_eq!(
            Decoder::new(&bytes).opaque(usize::MAX),
            Err(Error::Truncated)
        );
        assert_eq!(Decoder::new(&bytes).opaque(64), Err(Error::TooLong));
        assert_eq!(
            Decoder::new(&bytes).fixed(usize::MAX),
            Err(Error::Truncated)
        );
    }

    #[test]
    fn arrays_are_padded_too() {
        let bytes = [1, 2, 3, 0xff, 4];
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(decoder.array::<3>(), Ok([1, 2, 3]));
        assert_eq!(decoder.rest(), &[4]);
    }
}
