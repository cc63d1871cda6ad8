//! What a server makes of requests that it should refuse, and that no other call sends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::headers::{MD5, value};
use crate::service::{Service, Wanted, attempt, exchange};
use crate::sign;
use crate::transport::Call;
use crate::version::Version;
use crate::writable::BodyHash;

/// A body, and a hash that is not its own.
pub(crate) const BODY: &[u8] = b"not what the hash says";
pub(crate) const WRONG_DIGEST: [u8; 16] = [0; 16];
/// A tag that no object has: a digest to some stores, a number to others.
const GONE: &str = "\"00000000000000000000000000000001\"";

/// Gives a call such a body, and the hash.
pub(crate) fn damaged(mut put: Call, hash: BodyHash) -> Result<Call> {
    put.body = Bytes::from_static(BODY);
    match hash {
        BodyHash::Md5 => {
            let wrong = STANDARD.encode(WRONG_DIGEST);
            put.headers.insert(MD5, value(wrong.as_bytes(), "MD5")?);
        }
        BodyHash::Signed => put.body_hash = sign::hash(&WRONG_DIGEST),
    }
    Ok(put)
}

/// Whether a PUT with another hash than that of its body is refused.
pub(crate) async fn compares_hashes<S: Service>(service: &S, mut put: Call) -> Result<bool> {
    // Once: a hash that is wrong is tried again by others, as damage on the way.
    let Err(refusal) = attempt(service, &mut put, Wanted::Head).await else {
        return Ok(false);
    };
    match refusal.failure.error {
        Error::Invalid(_) | Error::TryLater(_) if !refusal.failure.is_unclear => Ok(true),
        error => Err(error),
    }
}

/// Whether a GET of a version that there is not is refused.
pub(crate) async fn honours_if_match<S: Service>(service: &S, mut get: Call) -> Result<bool> {
    service.pin(&mut get, &Version::made(GONE.to_owned(), 0))?;
    match exchange(service, &get, Wanted::Head).await.result {
        Ok(_) => Ok(false),
        Err(Error::Changed) => Ok(true),
        Err(error) => Err(error),
    }
}
