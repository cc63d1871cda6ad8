//! The shape of every result: a status, then one of two bodies (RFC 1813 section 3.3).

use super::Status;
use crate::xdr::{Decode, Decoder, Encode, Encoder, Result};

/// What a procedure answers: `S` when all went well, else a status with `F`.
///
/// `encode` writes the status too. A server that knows which it is may also write
/// [`Status::Ok`] and the body itself.
pub type Reply<S, F> = std::result::Result<S, Failure<F>>;

/// A status that is not [`Status::Ok`], and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<F> {
    /// Why. Never [`Status::Ok`], which would make the reply one of success.
    pub status: Status,
    /// Attributes as far as the server has them.
    pub body: F,
}

impl<S: Encode, F: Encode> Encode for Reply<S, F> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Ok(body) => {
                Status::Ok.encode(encoder);
                body.encode(encoder);
            }
            Err(failure) => {
                debug_assert_ne!(failure.status, Status::Ok);
                failure.status.encode(encoder);
                failure.body.encode(encoder);
            }
        }
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        4 + match self {
            Ok(body) => body.encoded_size(),
            Err(failure) => failure.body.encoded_size(),
        }
    }
}

impl<'a, S: Decode<'a>, F: Decode<'a>> Decode<'a> for Reply<S, F> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        match Status::decode(decoder)? {
            Status::Ok => S::decode(decoder).map(Ok),
            status => {
                let body = F::decode(decoder)?;
                Ok(Err(Failure { status, body }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Error;

    #[test]
    fn the_status_chooses_the_body() {
        type Sample = Reply<u32, u64>;
        let failed: Sample = Err(Failure {
            status: Status::Stale,
            body: 7,
        });
        for (reply, expected) in [
            (Ok(5), &[0, 0, 0, 0, 0, 0, 0, 5][..]),
            (failed, &[0, 0, 0, 70, 0, 0, 0, 0, 0, 0, 0, 7]),
        ] {
            let mut buffer = Vec::new();
            reply.encode(&mut Encoder::new(&mut buffer));
            assert_eq!(buffer, expected);
            assert_eq!(reply.encoded_size(), expected.len());
            assert_eq!(Sample::decode(&mut Decoder::new(expected)), Ok(reply));
        }
        let strange = [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        let result = Sample::decode(&mut Decoder::new(&strange));
        assert_eq!(result, Err(Error::BadValue));
    }
}
