//! Replies (RFC 5531 section 9, `reply_body`).

use super::REPLY;
use super::credential::{AUTHENTICATION_BYTES_MAX, encode_no_authentication};
use crate::xdr::{Decode, Decoder, Encode, Encoder, Error, xdr_enumeration};

/// Bytes of the head that [`encode_success`] appends.
pub const SUCCESS_SIZE: usize = 24;

/// `reply_stat`: the call was looked at.
const ACCEPTED: u32 = 0;
/// `reply_stat`: the call was refused for its RPC version or its caller.
const DENIED: u32 = 1;

/// `accept_stat`.
const SUCCESS: u32 = 0;
const PROGRAM_UNAVAILABLE: u32 = 1;
const PROGRAM_MISMATCH: u32 = 2;
const PROCEDURE_UNAVAILABLE: u32 = 3;
const GARBAGE_ARGUMENTS: u32 = 4;
const SYSTEM_ERROR: u32 = 5;

/// `reject_stat`.
const RPC_MISMATCH: u32 = 0;
const AUTHENTICATION_ERROR: u32 = 1;

xdr_enumeration! {
    /// Why a caller was refused (RFC 5531 section 9, `auth_stat`).
    pub enum AuthenticationStatus {
        /// Nothing wrong.
        Ok = 0,
        /// The credential is malformed.
        BadCredential = 1,
        /// The caller must begin a new session.
        RejectedCredential = 2,
        /// The verifier is malformed.
        BadVerifier = 3,
        /// The verifier expired or was replayed.
        RejectedVerifier = 4,
        /// Refused for security reasons.
        TooWeak = 5,
        /// The verifier of the reply is bogus.
        InvalidResponse = 6,
        /// For a reason unknown.
        Failed = 7,
    }
}

/// A reply without results: the call was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// PROG_UNAVAIL: the program is not served here.
    ProgramUnavailable,
    /// PROG_MISMATCH: these versions of it are.
    ProgramMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// PROC_UNAVAIL: the version has no such procedure.
    ProcedureUnavailable,
    /// GARBAGE_ARGS: the arguments cannot be decoded.
    GarbageArguments,
    /// SYSTEM_ERR: for example out of memory.
    SystemError,
    /// RPC_MISMATCH: these versions of RPC are spoken.
    RpcMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// AUTH_ERROR: the caller was refused.
    Authentication(AuthenticationStatus),
}

/// Appends the head of a reply to a call that was carried out; the results are to follow.
#[inline]
pub fn encode_success(encoder: &mut Encoder<'_>, xid: u32) {
    let mut head = [0; SUCCESS_SIZE];
    // The other words are all zero: accepted, an empty AUTH_NONE verifier, SUCCESS.
    head[..4].copy_from_slice(&xid.to_be_bytes());
    head[4..8].copy_from_slice(&REPLY.to_be_bytes());
    encoder.raw(&head);
}

/// Appends a whole reply to a call that was not carried out.
pub fn encode_refusal(encoder: &mut Encoder<'_>, xid: u32, refusal: Refusal) {
    encoder.u32(xid);
    encoder.u32(REPLY);
    match refusal {
        Refusal::RpcMismatch { low, high } => {
            encoder.u32(DENIED);
            encoder.u32(RPC_MISMATCH);
            encoder.u32(low);
            encoder.u32(high);
        }
        Refusal::Authentication(status) => {
            encoder.u32(DENIED);
            encoder.u32(AUTHENTICATION_ERROR);
            status.encode(encoder);
        }
        Refusal::ProgramUnavailable => encode_accepted(encoder, PROGRAM_UNAVAILABLE),
        Refusal::ProgramMismatch { low, high } => {
            encode_accepted(encoder, PROGRAM_MISMATCH);
            encoder.u32(low);
            encoder.u32(high);
        }
        Refusal::ProcedureUnavailable => encode_accepted(encoder, PROCEDURE_UNAVAILABLE),
        Refusal::GarbageArguments => encode_accepted(encoder, GARBAGE_ARGUMENTS),
        Refusal::SystemError => encode_accepted(encoder, SYSTEM_ERROR),
    }
}

fn encode_accepted(encoder: &mut Encoder<'_>, status: u32) {
    encoder.u32(ACCEPTED);
    encode_no_authentication(encoder);
    encoder.u32(status);
}

/// Why a record gives no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// Not a reply.
    #[error("the record is not a reply")]
    NotReply,
    /// A reply whose head cannot be read.
    #[error("the head of the reply is malformed: {error}")]
    Malformed {
        /// Of the call.
        xid: u32,
        /// What is wrong.
        error: Error,
    },
    /// The server did not carry out the call.
    #[error("the server refused the call: {refusal:?}")]
    Refused {
        /// Of the call.
        xid: u32,
        /// Its reason.
        refusal: Refusal,
    },
}

/// Reads the head of a reply: the xid of its call, and a decoder that stands before the results.
///
/// A verifier of any flavor is accepted and skipped.
#[inline]
pub fn parse_reply(record: &[u8]) -> Result<(u32, Decoder<'_>), ReplyError> {
    let mut decoder = Decoder::new(record);
    let (Ok(xid), Ok(REPLY)) = (decoder.u32(), decoder.u32()) else {
        return Err(ReplyError::NotReply);
    };
    match decode_refusal(&mut decoder) {
        Ok(None) => Ok((xid, decoder)),
        Ok(Some(refusal)) => Err(ReplyError::Refused { xid, refusal }),
        Err(error) => Err(ReplyError::Malformed { xid, error }),
    }
}

/// What follows xid and message type; `None` when the results follow.
fn decode_refusal(decoder: &mut Decoder<'_>) -> Result<Option<Refusal>, Error> {
    match decoder.u32()? {
        ACCEPTED => {}
        DENIED => return decode_denied(decoder).map(Some),
        _ => return Err(Error::BadValue),
    }
    decoder.u32()?;
    decoder.opaque(AUTHENTICATION_BYTES_MAX)?;
    Ok(Some(match decoder.u32()? {
        SUCCESS => return Ok(None),
        PROGRAM_UNAVAILABLE => Refusal::ProgramUnavailable,
        PROGRAM_MISMATCH => Refusal::ProgramMismatch {
            low: decoder.u32()?,
            high: decoder.u32()?,
        },
        PROCEDURE_UNAVAILABLE => Refusal::ProcedureUnavailable,
        GARBAGE_ARGUMENTS => Refusal::GarbageArguments,
        SYSTEM_ERROR => Refusal::SystemError,
        _ => return Err(Error::BadValue),
    }))
}

fn decode_denied(decoder: &mut Decoder<'_>) -> Result<Refusal, Error> {
    match decoder.u32()? {
        RPC_MISMATCH => Ok(Refusal::RpcMismatch {
            low: decoder.u32()?,
            high: decoder.u32()?,
        }),
        AUTHENTICATION_ERROR => AuthenticationStatus::decode(decoder).map(Refusal::Authentication),
        _ => Err(Error::BadValue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RPC_VERSION;

    const HEAD: [u8; 8] = [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 1];

    /// Every refusal with what follows xid and message type.
    fn table() -> Vec<(Refusal, Vec<u8>)> {
        let accepted = |status: u8| vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, status];
        let mut mismatch = accepted(2);
        mismatch.extend_from_slice(&[0, 0, 0, 3, 0, 0, 0, 4]);
        vec![
            (Refusal::ProgramUnavailable, accepted(1)),
            (Refusal::ProgramMismatch { low: 3, high: 4 }, mismatch),
            (Refusal::ProcedureUnavailable, accepted(3)),
            (Refusal::GarbageArguments, accepted(4)),
            (Refusal::SystemError, accepted(5)),
            (
                Refusal::RpcMismatch {
                    low: RPC_VERSION,
                    high: RPC_VERSION,
                },
                vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2],
            ),
            (
                Refusal::Authentication(AuthenticationStatus::TooWeak),
                vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5],
            ),
        ]
    }

    #[test]
    fn each_refusal_has_the_bytes_of_the_rfc() {
        for (refusal, tail) in table() {
            let mut buffer = Vec::new();
            encode_refusal(&mut Encoder::new(&mut buffer), 0xdead_beef, refusal);
            assert_eq!(buffer, [&HEAD[..], &tail].concat());
            let xid = 0xdead_beef;
            let error = ReplyError::Refused { xid, refusal };
            assert_eq!(parse_reply(&buffer), Err(error));
            for length in 0..buffer.len() {
                let error = parse_reply(&buffer[..length]).unwrap_err();
                assert!(!matches!(error, ReplyError::Refused { .. }), "{length}");
            }
        }
    }

    #[test]
    fn a_success_is_followed_by_the_results() {
        let mut buffer = Vec::new();
        let mut encoder = Encoder::new(&mut buffer);
        encode_success(&mut encoder, 0xdead_beef);
        encoder.u32(7);
        let expected = [&HEAD[..], &[0; 16], &[0, 0, 0, 7]].concat();
        assert_eq!(buffer, expected);
        assert_eq!(buffer.len(), SUCCESS_SIZE + 4);
        let (xid, mut decoder) = parse_reply(&buffer).unwrap();
        assert_eq!((xid, decoder.u32()), (0xdead_beef, Ok(7)));
    }

    #[test]
    fn strange_numbers_are_no_reply() {
        let mut buffer = HEAD.to_vec();
        buffer.extend_from_slice(&[0, 0, 0, 2]);
        let malformed = ReplyError::Malformed {
            xid: 0xdead_beef,
            error: Error::BadValue,
        };
        assert_eq!(parse_reply(&buffer), Err(malformed));
        assert_eq!(parse_reply(&[0; 24]), Err(ReplyError::NotReply));
    }
}
