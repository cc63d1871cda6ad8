//! Writes XDR to the end of a buffer.

/// Appends values to a buffer that the caller owns.
///
/// Positions count from the start of the buffer, not from where the encoder began, so that
/// several replies can be gathered in one buffer and their record marks patched afterwards.
#[derive(Debug)]
pub struct Encoder<'b> {
    buffer: &'b mut Vec<u8>,
}

impl<'b> Encoder<'b> {
    /// Appends to `buffer`, whose contents stay.
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

    /// A signed hyper integer.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Variable-length opaque data: its length, the bytes, zeros up to a multiple of four.
    ///
    /// `bytes` must be shorter than 4 GiB; no record is longer (RFC 5531 section 11).
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        debug_assert!(u32::try_from(bytes.len()).is_ok());
        self.buffer.reserve(8 + bytes.len());
        #[allow(clippy::cast_possible_truncation)] // the contract above
        self.u32(bytes.len() as u32);
        self.fixed(bytes);
    }

    /// Fixed-length opaque data: the bytes, zeros up to a multiple of four.
    #[inline]
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.raw(bytes);
        let padding = bytes.len().wrapping_neg() & 3;
        if padding != 0 {
            self.raw(&[0; 3][..padding]);
        }
    }

    /// Bytes as they are, without length or padding.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Where the next value goes: the length of the buffer, in bytes.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.buffer.len()
    }

    /// Overwrites the unsigned integer written at position `at`. Nothing happens when no four
    /// bytes are there.
    #[inline]
    pub fn patch_u32(&mut self, at: usize, value: u32) {
        let slot = self.buffer.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
        debug_assert!(slot.is_some());
        if let Some(slot) = slot {
            *slot = value.to_be_bytes();
        }
    }

    /// Takes back everything written from `position` on.
    #[inline]
    pub fn truncate(&mut self, position: usize) {
        self.buffer.truncate(position);
    }

    /// Reserves memory for `bytes` more bytes at once.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        self.buffer.reserve(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_big_endian_and_padded_with_zeros() {
        let mut buffer = vec![0xee];
        let mut encoder = Encoder::new(&mut buffer);
        assert_eq!(encoder.position(), 1);
        encoder.u32(0x0102_0304);
        encoder.i32(-2);
        encoder.u64(0x0506_0708_090a_0b0c);
        encoder.i64(-1);
        encoder.bool(true);
        encoder.opaque(b"hello");
        encoder.fixed(b"ab");
        encoder.opaque(b"");
        encoder.patch_u32(1, 0x1112_1314);
        let expected = [
            0xee, 0x11, 0x12, 0x13, 0x14, 0xff, 0xff, 0xff, 0xfe, 5, 6, 7, 8, 9, 10, 11, 12, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 5, b'h', b'e', b'l',
            b'l', b'o', 0, 0, 0, b'a', b'b', 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(buffer, expected);
    }

    #[test]
    fn what_was_written_can_be_taken_back() {
        let mut buffer = Vec::new();
        let mut encoder = Encoder::new(&mut buffer);
        encoder.u32(1);
        let mark = encoder.position();
        encoder.u64(2);
        encoder.truncate(mark);
        assert_eq!(buffer, [0, 0, 0, 1]);
    }
}
