//! File handles (RFC 1813 section 2.5, `nfs_fh3`).

use crate::xdr::{Decode, Decoder, Encode, Encoder, Result};
use std::fmt;

/// The longest handle (RFC 1813 section 2.4, `NFS3_FHSIZE`).
pub const HANDLE_BYTES_MAX: usize = 64;

/// The bytes by which a server names an object; no other looks into them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle<'a>(&'a [u8]);

impl<'a> Handle<'a> {
    /// A handle of these bytes; `None` when they are more than [`HANDLE_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= HANDLE_BYTES_MAX {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// The bytes; there may be none.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Handle<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Handle(")?;
        for byte in self.0 {
            write!(formatter, "{byte:02x}")?;
        }
        formatter.write_str(")")
    }
}

impl Encode for Handle<'_> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(self.0);
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        self.0.encoded_size()
    }
}

impl<'a> Decode<'a> for Handle<'a> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        decoder.opaque(HANDLE_BYTES_MAX).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Error;

    #[test]
    fn a_handle_has_at_most_64_bytes() {
        assert!(Handle::new(&[1; 64]).is_some());
        assert!(Handle::new(&[1; 65]).is_none());
        let mut buffer = Vec::new();
        Encoder::new(&mut buffer).opaque(&[1; 65]);
        let result = Handle::decode(&mut Decoder::new(&buffer));
        assert_eq!(result, Err(Error::TooLong));
    }
}
