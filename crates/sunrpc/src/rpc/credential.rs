//! The user of a call: AUTH_NONE and AUTH_SYS (RFC 5531 sections 8.2, 10.1 and appendix A).

use crate::xdr::{Decode, Decoder, Encode, Encoder, Error, Result, Words, padded};

/// The longest body of a credential or verifier (RFC 5531 section 8.2).
pub const AUTHENTICATION_BYTES_MAX: usize = 400;
/// The most supplementary groups in AUTH_SYS (RFC 5531 appendix A).
pub const GROUPS_MAX: usize = 16;
/// The longest machine name in AUTH_SYS (RFC 5531 appendix A).
pub const MACHINE_NAME_BYTES_MAX: usize = 255;

/// Flavor AUTH_NONE.
const FLAVOR_NONE: u32 = 0;
/// Flavor AUTH_SYS, once called AUTH_UNIX.
const FLAVOR_SYSTEM: u32 = 1;

/// The user of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE: no user in particular.
    None,
    /// AUTH_SYS: a user of the caller's machine, unproven.
    System(SystemCredential<'a>),
}

/// The body of AUTH_SYS (RFC 5531 appendix A, `authsys_parms`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCredential<'a> {
    /// Any number the caller's machine chose.
    pub stamp: u32,
    /// Name of the caller's machine; at most [`MACHINE_NAME_BYTES_MAX`] bytes.
    pub machine_name: &'a [u8],
    /// Numeric user.
    pub uid: u32,
    /// Numeric primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub gids: Words<GROUPS_MAX>,
}

impl SystemCredential<'_> {
    /// Supplementary groups.
    #[inline]
    #[must_use]
    pub fn gids(&self) -> &[u32] {
        self.gids.as_slice()
    }
}

impl Encode for SystemCredential<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.stamp);
        encoder.opaque(self.machine_name);
        encoder.u32(self.uid);
        encoder.u32(self.gid);
        self.gids.encode(encoder);
    }

    fn encoded_size(&self) -> usize {
        16 + padded(self.machine_name.len()) + self.gids.encoded_size()
    }
}

impl<'a> Decode<'a> for SystemCredential<'a> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        Ok(Self {
            stamp: decoder.u32()?,
            machine_name: decoder.opaque(MACHINE_NAME_BYTES_MAX)?,
            uid: decoder.u32()?,
            gid: decoder.u32()?,
            gids: Words::decode(decoder)?,
        })
    }
}

impl Encode for Credential<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::None => encode_no_authentication(encoder),
            Self::System(system) => {
                encoder.u32(FLAVOR_SYSTEM);
                #[allow(clippy::cast_possible_truncation)] // a few hundred bytes
                encoder.u32(system.encoded_size() as u32);
                system.encode(encoder);
            }
        }
    }

    fn encoded_size(&self) -> usize {
        match self {
            Self::None => 8,
            Self::System(system) => 8 + system.encoded_size(),
        }
    }
}

/// Appends an AUTH_NONE credential or verifier.
#[inline]
pub(super) fn encode_no_authentication(encoder: &mut Encoder<'_>) {
    encoder.u32(FLAVOR_NONE);
    encoder.u32(0);
}

/// Why a credential cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialError {
    /// The record ends inside it.
    Truncated,
    /// Too long, or not what its flavor says.
    Malformed,
    /// Neither AUTH_NONE nor AUTH_SYS.
    UnknownFlavor,
}

/// Takes a credential. Bytes of the body after the last field of AUTH_SYS are skipped, as other
/// implementations do; the body of AUTH_NONE has no meaning and is skipped too.
pub(super) fn decode_credential<'a>(
    decoder: &mut Decoder<'a>,
) -> std::result::Result<Credential<'a>, CredentialError> {
    let flavor = decoder.u32().map_err(|_| CredentialError::Truncated)?;
    let body = decode_body(decoder)?;
    match flavor {
        FLAVOR_NONE => Ok(Credential::None),
        FLAVOR_SYSTEM => SystemCredential::decode(&mut Decoder::new(body))
            .map(Credential::System)
            .map_err(|_| CredentialError::Malformed),
        _ => Err(CredentialError::UnknownFlavor),
    }
}

/// Takes a verifier of any flavor, which neither AUTH_NONE nor AUTH_SYS gives a meaning.
pub(super) fn decode_verifier(
    decoder: &mut Decoder<'_>,
) -> std::result::Result<(), CredentialError> {
    decoder.u32().map_err(|_| CredentialError::Truncated)?;
    decode_body(decoder).map(|_| ())
}

fn decode_body<'a>(decoder: &mut Decoder<'a>) -> std::result::Result<&'a [u8], CredentialError> {
    decoder
        .opaque(AUTHENTICATION_BYTES_MAX)
        .map_err(|error| match error {
            Error::TooLong => CredentialError::Malformed,
            Error::Truncated | Error::BadValue => CredentialError::Truncated,
        })
}
