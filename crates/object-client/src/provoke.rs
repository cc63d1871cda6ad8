//! Requests that a server should refuse, and that no other call sends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::headers::{MD5, value};
use crate::service::{Service, Wanted, attempt, exchange};
use crate::sign;
use crate::transport::Call;
use crate::version::Version;

pub(crate) const BODY: &[u8] = b"not what the hash says";
pub(crate) const WRONG_DIGEST: [u8; 16] = [0; 16];
/// A tag that no object has: a digest to some stores, a number to others.
const GONE: &str = "\"00000000000000000000000000000001\"";

const MISMATCH: [&str; 3] = ["XAmzContentSHA256Mismatch", "BadDigest", "InvalidDigest"];

pub(crate) fn damaged(mut put: Call) -> Result<Call> {
    put.body = Bytes::from_static(BODY);
    let wrong = STANDARD.encode(WRONG_DIGEST);
    put.headers.insert(MD5, value(wrong.as_bytes(), "MD5")?);
    Ok(put)
}

/// Gives a call such a body, and no hash but the signed one.
pub(crate) fn signed(mut put: Call) -> Call {
    put.body = Bytes::from_static(BODY);
    put.body_hash = sign::hash(BODY);
    put
}

/// Whether a PUT with a wrong MD5 of its body is refused.
pub(crate) async fn compares_hashes<S: Service>(service: &S, mut put: Call) -> Result<bool> {
    // Once: `exchange` tries a wrong hash again, as damage on the way.
    let Err(refusal) = attempt(service, &mut put, Wanted::Head).await else {
        return Ok(false);
    };
    match refusal.failure.error {
        Error::Invalid(_) | Error::TryLater(_) if !refusal.failure.is_unclear => Ok(true),
        error => Err(error),
    }
}

/// Whether a call with a signed hash alone is taken, and refused when that hash is wrong. A refusal
/// for another reason says nothing.
pub(crate) async fn compares_signed_hash<S: Service>(service: &S, mut right: Call) -> Result<bool> {
    let mut wrong = right.clone();
    wrong.body_hash = sign::hash(&WRONG_DIGEST);
    if let Err(refusal) = attempt(service, &mut right, Wanted::Head).await {
        return Err(match refusal.failure.error {
            Error::Invalid(text) => Error::Unsupported(text),
            error => error,
        });
    }
    match attempt(service, &mut wrong, Wanted::Head).await {
        Ok(_) => Ok(false),
        Err(refusal) if MISMATCH.contains(&refusal.code.as_str()) => Ok(true),
        Err(refusal) => Err(refusal.failure.error),
    }
}

pub(crate) async fn honours_if_match<S: Service>(service: &S, mut get: Call) -> Result<bool> {
    service.pin(&mut get, &Version::made(GONE.to_owned(), 0))?;
    match exchange(service, &get, Wanted::Head).await.result {
        Ok(_) => Ok(false),
        Err(Error::Changed) => Ok(true),
        Err(error) => Err(error),
    }
}
