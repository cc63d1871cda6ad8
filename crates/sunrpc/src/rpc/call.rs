//! Calls (RFC 5531 section 9, `call_body`).

use super::credential::{
    CredentialError, decode_credential, decode_verifier, encode_no_authentication,
};
use super::reply::{AuthenticationStatus, Refusal, encode_refusal};
use super::{CALL, Credential, RPC_VERSION};
use crate::xdr::{Decoder, Encode, Encoder, Error};

/// The head of a call; its arguments follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Names the call among those of one caller; the reply repeats it.
    pub xid: u32,
    /// Program, for example 100003 for NFS.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure of that version.
    pub procedure: u32,
    /// The caller.
    pub credential: Credential<'a>,
}

/// Why a record is not a call that can be carried out, and so which reply is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not a call at all: no reply can be addressed.
    #[error("the record is not a call")]
    Drop,
    /// A version of RPC that is not 2.
    #[error("the RPC version is not 2")]
    RpcMismatch {
        /// Of the call.
        xid: u32,
    },
    /// The credential is too long or not what its flavor says.
    #[error("the credential is malformed")]
    BadCredential {
        /// Of the call.
        xid: u32,
    },
    /// The verifier is too long.
    #[error("the verifier is malformed")]
    BadVerifier {
        /// Of the call.
        xid: u32,
    },
    /// The credential is neither AUTH_NONE nor AUTH_SYS.
    #[error("the flavor of the credential is not known")]
    WrongFlavor {
        /// Of the call.
        xid: u32,
    },
    /// The record ends inside the head.
    #[error("the record ends inside the head of the call")]
    Garbage {
        /// Of the call.
        xid: u32,
    },
}

impl CallError {
    /// Which call to answer and how; `None` when the record is to be dropped in silence.
    #[must_use]
    pub const fn refusal(self) -> Option<(u32, Refusal)> {
        use AuthenticationStatus::{BadCredential, BadVerifier, TooWeak};
        match self {
            Self::Drop => None,
            Self::RpcMismatch { xid } => Some((
                xid,
                Refusal::RpcMismatch {
                    low: RPC_VERSION,
                    high: RPC_VERSION,
                },
            )),
            Self::BadCredential { xid } => Some((xid, Refusal::Authentication(BadCredential))),
            Self::BadVerifier { xid } => Some((xid, Refusal::Authentication(BadVerifier))),
            Self::WrongFlavor { xid } => Some((xid, Refusal::Authentication(TooWeak))),
            Self::Garbage { xid } => Some((xid, Refusal::GarbageArguments)),
        }
    }

    /// Appends the reply that is due. False when there is none.
    pub fn encode_reply(self, encoder: &mut Encoder<'_>) -> bool {
        let refusal = self.refusal();
        if let Some((xid, refusal)) = refusal {
            encode_refusal(encoder, xid, refusal);
        }
        refusal.is_some()
    }
}

/// Reads the head of a call; the decoder that comes back stands before the arguments.
///
/// Whether the program, version and procedure exist is the caller's question.
#[inline]
pub fn parse_call(record: &[u8]) -> Result<(Call<'_>, Decoder<'_>), CallError> {
    let mut decoder = Decoder::new(record);
    let (Ok(xid), Ok(CALL)) = (decoder.u32(), decoder.u32()) else {
        return Err(CallError::Drop);
    };
    let garbage = |_: Error| CallError::Garbage { xid };
    if decoder.u32().map_err(garbage)? != RPC_VERSION {
        return Err(CallError::RpcMismatch { xid });
    }
    let program = decoder.u32().map_err(garbage)?;
    let version = decoder.u32().map_err(garbage)?;
    let procedure = decoder.u32().map_err(garbage)?;
    let credential = decode_credential(&mut decoder).map_err(|error| match error {
        CredentialError::Truncated => CallError::Garbage { xid },
        CredentialError::Malformed => CallError::BadCredential { xid },
        CredentialError::UnknownFlavor => CallError::WrongFlavor { xid },
    })?;
    decode_verifier(&mut decoder).map_err(|error| match error {
        CredentialError::Truncated => CallError::Garbage { xid },
        _ => CallError::BadVerifier { xid },
    })?;
    let call = Call {
        xid,
        program,
        version,
        procedure,
        credential,
    };
    Ok((call, decoder))
}

/// Appends the head of a call with an AUTH_NONE verifier; the arguments are to follow.
pub fn encode_call(encoder: &mut Encoder<'_>, call: &Call<'_>) {
    encoder.reserve(32 + call.credential.encoded_size());
    encoder.u32(call.xid);
    encoder.u32(CALL);
    encoder.u32(RPC_VERSION);
    encoder.u32(call.program);
    encoder.u32(call.version);
    encoder.u32(call.procedure);
    call.credential.encode(encoder);
    encode_no_authentication(encoder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::SystemCredential;
    use crate::xdr::Words;

    /// NFS version 3 GETATTR by user 1000 of machine "pc", its handle still to come.
    const SYSTEM_CALL: [u8; 72] = [
        0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 2, // xid, CALL, RPC version
        0x00, 0x01, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 1, // 100003, version 3, GETATTR
        0, 0, 0, 1, 0, 0, 0, 32, 0xaa, 0xbb, 0xcc, 0xdd, // AUTH_SYS, 32 bytes, stamp
        0, 0, 0, 2, b'p', b'c', 0, 0, // machine name
        0, 0, 3, 0xe8, 0, 0, 0, 100, // uid, gid
        0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 24, // two groups
        0, 0, 0, 0, 0, 0, 0, 0, // verifier
    ];

    fn system_call() -> Call<'static> {
        Call {
            xid: 0x1234_5678,
            program: 100_003,
            version: 3,
            procedure: 1,
            credential: Credential::System(SystemCredential {
                stamp: 0xaabb_ccdd,
                machine_name: b"pc",
                uid: 1000,
                gid: 100,
                gids: Words::new(&[4, 24]).unwrap(),
            }),
        }
    }

    /// The call with the four bytes at `at` replaced.
    fn with_word(at: usize, value: u32) -> Vec<u8> {
        let mut bytes = SYSTEM_CALL.to_vec();
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        bytes
    }

    #[test]
    fn a_call_has_the_bytes_of_the_rfc() {
        let (call, decoder) = parse_call(&SYSTEM_CALL).unwrap();
        assert_eq!(call, system_call());
        assert_eq!(decoder.remaining(), 0);
        let mut buffer = Vec::new();
        encode_call(&mut Encoder::new(&mut buffer), &call);
        assert_eq!(buffer, SYSTEM_CALL);
    }

    #[test]
    fn arguments_follow_the_head() {
        let mut record = SYSTEM_CALL.to_vec();
        record.extend_from_slice(&[0, 0, 0, 9]);
        let (_, mut decoder) = parse_call(&record).unwrap();
        assert_eq!(decoder.u32(), Ok(9));
    }

    #[test]
    fn a_record_that_ends_early_is_dropped_or_garbage() {
        for length in 0..SYSTEM_CALL.len() {
            let error = parse_call(&SYSTEM_CALL[..length]).unwrap_err();
            if length < 8 {
                assert_eq!(error, CallError::Drop);
            } else {
                assert_eq!(error, CallError::Garbage { xid: 0x1234_5678 });
            }
        }
        assert_eq!(parse_call(&with_word(4, 1)), Err(CallError::Drop));
    }

    #[test]
    fn each_fault_has_its_reply() {
        let xid = 0x1234_5678;
        let mismatch = CallError::RpcMismatch { xid };
        assert_eq!(parse_call(&with_word(8, 3)), Err(mismatch));
        let flavor = CallError::WrongFlavor { xid };
        assert_eq!(parse_call(&with_word(24, 6)), Err(flavor));
        let credential = CallError::BadCredential { xid };
        assert_eq!(parse_call(&with_word(28, 401)), Err(credential));
        assert_eq!(parse_call(&with_word(28, 28)), Err(credential));
        assert_eq!(parse_call(&with_word(36, 256)), Err(credential));
        assert_eq!(parse_call(&with_word(52, 17)), Err(credential));
        let verifier = CallError::BadVerifier { xid };
        assert_eq!(parse_call(&with_word(68, 401)), Err(verifier));
        let mut buffer = Vec::new();
        assert!(!CallError::Drop.encode_reply(&mut Encoder::new(&mut buffer)));
        assert!(credential.encode_reply(&mut Encoder::new(&mut buffer)));
        assert_eq!(
            buffer,
            [
                0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1
            ]
        );
    }

    #[test]
    fn sixteen_groups_are_kept_and_seventeen_refused() {
        let gids: Vec<u32> = (0..17).collect();
        assert_eq!(Words::<16>::new(&gids), None);
        let call = Call {
            credential: Credential::System(SystemCredential {
                stamp: 0,
                machine_name: &[b'm'; 255],
                uid: u32::MAX,
                gid: 0,
                gids: Words::new(&gids[..16]).unwrap(),
            }),
            ..system_call()
        };
        let mut buffer = Vec::new();
        encode_call(&mut Encoder::new(&mut buffer), &call);
        assert_eq!(parse_call(&buffer).unwrap().0, call);
    }

    #[test]
    fn nobody_may_call() {
        let call = Call {
            credential: Credential::None,
            ..system_call()
        };
        let mut buffer = Vec::new();
        encode_call(&mut Encoder::new(&mut buffer), &call);
        assert_eq!(buffer.len(), 40);
        assert_eq!(parse_call(&buffer).unwrap().0, call);
    }
}
