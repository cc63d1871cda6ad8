//! ONC RPC version 2 (RFC 5531): the envelope of calls and replies (section 9), and the user of a
//! call: AUTH_NONE and AUTH_SYS (sections 8.2, 10.1, appendix A).

use crate::xdr::{Decode, Decoder, Encode, Encoder, Error, Words, xdr_enumeration, xdr_structure};

/// `rpcvers`.
pub const RPC_VERSION: u32 = 2;

/// `msg_type` of a call.
const CALL: u32 = 0;
/// `msg_type` of a reply.
const REPLY: u32 = 1;

/// The head of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Identifies the call among its caller's, and its reply.
    pub xid: u32,
    /// Program; 100003 is NFS.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Procedure.
    pub procedure: u32,
    /// The caller.
    pub credential: Credential<'a>,
}

/// Reads the head of a call; the decoder continues with the arguments. An invalid call gives the
/// xid and the refusal to send; `None` when no reply is possible. Program, version and procedure
/// are not checked.
#[inline]
pub fn parse_call(record: &[u8]) -> Result<(Call<'_>, Decoder<'_>), Option<(u32, Refusal)>> {
    let mut decoder = Decoder::new(record);
    let (Ok(xid), Ok(CALL)) = (decoder.u32(), decoder.u32()) else {
        return Err(None);
    };
    match decode_call(&mut decoder, xid) {
        Ok(call) => Ok((call, decoder)),
        Err(refusal) => Err(Some((xid, refusal))),
    }
}

#[inline]
fn decode_call<'a>(decoder: &mut Decoder<'a>, xid: u32) -> Result<Call<'a>, Refusal> {
    if decoder.u32()? != RPC_VERSION {
        return Err(Refusal::RpcMismatch {
            low: RPC_VERSION,
            high: RPC_VERSION,
        });
    }
    let program = decoder.u32()?;
    let version = decoder.u32()?;
    let procedure = decoder.u32()?;
    let credential = decode_credential(decoder)?;
    // AUTH_NONE and AUTH_SYS do not use the verifier.
    decoder.u32()?;
    decode_body(decoder, AuthenticationStatus::BadVerifier)?;
    Ok(Call {
        xid,
        program,
        version,
        procedure,
        credential,
    })
}

/// Appends the head of a call, with an AUTH_NONE verifier.
pub fn encode_call(encoder: &mut Encoder<'_>, call: &Call<'_>) {
    encoder.u32(call.xid);
    encoder.u32(CALL);
    encoder.u32(RPC_VERSION);
    encoder.u32(call.program);
    encoder.u32(call.version);
    encoder.u32(call.procedure);
    call.credential.encode(encoder);
    encode_no_authentication(encoder);
}

/// The longest body of a credential or verifier (RFC 5531 section 8.2).
pub const AUTHENTICATION_BYTES_MAX: usize = 400;
/// The most supplementary groups in AUTH_SYS (appendix A).
pub const GROUPS_MAX: usize = 16;
/// The longest machine name in AUTH_SYS (appendix A).
pub const MACHINE_NAME_BYTES_MAX: usize = 255;

const FLAVOR_NONE: u32 = 0;
const FLAVOR_SYSTEM: u32 = 1;

/// The user of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS: an unproven user of the caller's machine.
    System(SystemCredential<'a>),
}

xdr_structure! {
    /// The body of AUTH_SYS (`authsys_parms`).
    pub struct SystemCredential<'a> {
        /// An arbitrary number.
        pub stamp: u32,
        /// Name of the caller's machine.
        pub machine_name: &'a [u8] = MACHINE_NAME_BYTES_MAX,
        /// User.
        pub uid: u32,
        /// Primary group.
        pub gid: u32,
        /// Supplementary groups.
        pub gids: Words<GROUPS_MAX>,
    }
}

impl Encode for Credential<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::None => encode_no_authentication(encoder),
            Self::System(system) => {
                encoder.u32(FLAVOR_SYSTEM);
                let length_at = encoder.position();
                encoder.u32(0);
                system.encode(encoder);
                // Some hundred bytes.
                let length = encoder.position() - length_at - 4;
                encoder.patch_u32(length_at, u32::try_from(length).unwrap_or(u32::MAX));
            }
        }
    }
}

#[inline]
fn encode_no_authentication(encoder: &mut Encoder<'_>) {
    encoder.u32(FLAVOR_NONE);
    encoder.u32(0);
}

/// Skips bytes behind AUTH_SYS, as other implementations do, and the body of AUTH_NONE.
fn decode_credential<'a>(decoder: &mut Decoder<'a>) -> Result<Credential<'a>, Refusal> {
    let flavor = decoder.u32()?;
    let malformed = AuthenticationStatus::BadCredential;
    let body = decode_body(decoder, malformed)?;
    match flavor {
        FLAVOR_NONE => Ok(Credential::None),
        FLAVOR_SYSTEM => SystemCredential::decode(&mut Decoder::new(body))
            .map(Credential::System)
            .map_err(|_| Refusal::Authentication(malformed)),
        _ => Err(Refusal::Authentication(AuthenticationStatus::TooWeak)),
    }
}

fn decode_body<'a>(
    decoder: &mut Decoder<'a>,
    too_long: AuthenticationStatus,
) -> Result<&'a [u8], Refusal> {
    let body = decoder.opaque(AUTHENTICATION_BYTES_MAX);
    body.map_err(|error| match error {
        Error::TooLong => Refusal::Authentication(too_long),
        Error::Truncated | Error::BadValue => Refusal::GarbageArguments,
    })
}

/// Bytes of [`encode_success`].
pub const SUCCESS_SIZE: usize = 24;

/// `reply_stat`.
const ACCEPTED: u32 = 0;
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
    /// Why a caller is refused (`auth_stat`).
    pub enum AuthenticationStatus {
        /// No error.
        Ok = 0,
        /// Malformed credential.
        BadCredential = 1,
        /// The caller must begin a new session.
        RejectedCredential = 2,
        /// Malformed verifier.
        BadVerifier = 3,
        /// Expired or replayed verifier.
        RejectedVerifier = 4,
        /// For security reasons.
        TooWeak = 5,
        /// Bogus verifier of the reply.
        InvalidResponse = 6,
        /// For an unknown reason.
        Failed = 7,
        /// Kerberos: any error.
        KerberosGeneric = 8,
        /// Kerberos: expired credential.
        TimeExpired = 9,
        /// Kerberos: the file of tickets.
        TicketFile = 10,
        /// Kerberos: undecodable authenticator.
        Decode = 11,
        /// Kerberos: a ticket for another address.
        NetworkAddress = 12,
        /// RPCSEC_GSS: no credentials for the user.
        GssCredentialProblem = 13,
        /// RPCSEC_GSS: no context.
        GssContextProblem = 14,
    }
}

/// A reply without results: the call was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// PROG_UNAVAIL.
    ProgramUnavailable,
    /// PROG_MISMATCH.
    ProgramMismatch {
        /// Lowest version; 0 if not given.
        low: u32,
        /// Highest version; 0 if not given.
        high: u32,
    },
    /// PROC_UNAVAIL.
    ProcedureUnavailable,
    /// GARBAGE_ARGS.
    GarbageArguments,
    /// SYSTEM_ERR.
    SystemError,
    /// RPC_MISMATCH: other versions of RPC.
    RpcMismatch {
        /// Lowest version; 0 if not given.
        low: u32,
        /// Highest version; 0 if not given.
        high: u32,
    },
    /// AUTH_ERROR.
    Authentication(AuthenticationStatus),
}

impl Refusal {
    /// Whether a served version lacks the procedure, which some servers call a missing version.
    #[must_use]
    pub fn lacks_procedure(&self, version: u32) -> bool {
        match self {
            Self::ProcedureUnavailable | Self::ProgramMismatch { low: 0, high: 0 } => true,
            Self::ProgramMismatch { low, high } => (*low..=*high).contains(&version),
            _ => false,
        }
    }
}

impl From<Error> for Refusal {
    fn from(_: Error) -> Self {
        Self::GarbageArguments
    }
}

/// Appends the head of a reply with results.
#[inline]
pub fn encode_success(encoder: &mut Encoder<'_>, xid: u32) {
    let mut head = [0; SUCCESS_SIZE];
    // The others are zero: accepted, an empty AUTH_NONE verifier, SUCCESS.
    head[..4].copy_from_slice(&xid.to_be_bytes());
    head[4..8].copy_from_slice(&REPLY.to_be_bytes());
    encoder.raw(&head);
}

/// Appends a refusal.
pub fn encode_refusal(encoder: &mut Encoder<'_>, xid: u32, refusal: Refusal) {
    let words: &[u32] = match refusal {
        Refusal::RpcMismatch { low, high } => &[DENIED, RPC_MISMATCH, low, high],
        Refusal::Authentication(status) => &[DENIED, AUTHENTICATION_ERROR, status.number()],
        // With an empty AUTH_NONE verifier between the two statuses.
        Refusal::ProgramUnavailable => &[ACCEPTED, FLAVOR_NONE, 0, PROGRAM_UNAVAILABLE],
        Refusal::ProgramMismatch { low, high } => {
            &[ACCEPTED, FLAVOR_NONE, 0, PROGRAM_MISMATCH, low, high]
        }
        Refusal::ProcedureUnavailable => &[ACCEPTED, FLAVOR_NONE, 0, PROCEDURE_UNAVAILABLE],
        Refusal::GarbageArguments => &[ACCEPTED, FLAVOR_NONE, 0, GARBAGE_ARGUMENTS],
        Refusal::SystemError => &[ACCEPTED, FLAVOR_NONE, 0, SYSTEM_ERROR],
    };
    for word in [xid, REPLY].iter().chain(words) {
        encoder.u32(*word);
    }
}

/// Why a record has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// Not a reply.
    #[error("the record is not a reply")]
    NotReply,
    /// A reply with a malformed head.
    #[error("the head of the reply is malformed: {error}")]
    Malformed {
        /// Of the call.
        xid: u32,
        /// The defect.
        error: Error,
    },
    /// The server did not execute the call.
    #[error("the server refused the call: {refusal:?}")]
    Refused {
        /// Of the call.
        xid: u32,
        /// Its reason.
        refusal: Refusal,
    },
}

/// Reads the head of a reply: the xid, and a decoder for the results. Skips a verifier of any
/// flavor.
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

/// Reads what follows xid and message type; `None` before results.
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
        PROGRAM_MISMATCH => {
            let (low, high) = decode_versions(decoder);
            Refusal::ProgramMismatch { low, high }
        }
        PROCEDURE_UNAVAILABLE => Refusal::ProcedureUnavailable,
        GARBAGE_ARGUMENTS => Refusal::GarbageArguments,
        SYSTEM_ERROR => Refusal::SystemError,
        _ => return Err(Error::BadValue),
    }))
}

fn decode_denied(decoder: &mut Decoder<'_>) -> Result<Refusal, Error> {
    match decoder.u32()? {
        RPC_MISMATCH => {
            let (low, high) = decode_versions(decoder);
            Ok(Refusal::RpcMismatch { low, high })
        }
        AUTHENTICATION_ERROR => {
            let status = AuthenticationStatus::decode(decoder);
            let status = status.unwrap_or(AuthenticationStatus::Failed);
            Ok(Refusal::Authentication(status))
        }
        _ => Err(Error::BadValue),
    }
}

/// Lowest and highest version; 0 from servers that end with the status.
fn decode_versions(decoder: &mut Decoder<'_>) -> (u32, u32) {
    match (decoder.u32(), decoder.u32()) {
        (Ok(low), Ok(high)) => (low, high),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests;
