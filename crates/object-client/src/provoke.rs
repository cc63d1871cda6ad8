//! What a server makes of requests that it should refuse, and that no other call sends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::{HeaderValue, IF_MATCH};

use crate::error::{Error, Result};
use crate::headers::{MD5, value};
use crate::service::{Service, Wanted, attempt, exchange};
use crate::transport::Call;

/// Whether a PUT with another MD5 than that of its body is refused.
pub(crate) async fn compares_hashes<S: Service>(service: &S, mut put: Call) -> Result<bool> {
    put.body = Bytes::from_static(b"not what the hash says");
    let wrong = STANDARD.encode([0; 16]);
    put.headers.insert(MD5, value(wrong.as_bytes(), "MD5")?);
    // Once: a hash that is wrong is tried again by others, as damage on the way.
    let Err(refusal) = attempt(service, &mut put, Wanted::Head).await else {
        return Ok(false);
    };
    match refusal.failure.error {
        Error::Invalid(_) | Error::TryLater(_) if !refusal.failure.is_unclear => Ok(true),
        error => Err(error),
    }
}

/// Whether a GET under a condition that fails is refused.
pub(crate) async fn honours_if_match<S: Service>(service: &S, mut get: Call) -> Result<bool> {
    let other = HeaderValue::from_static("\"00000000000000000000000000000000\"");
    get.headers.insert(IF_MATCH, other);
    match exchange(service, &get, Wanted::Head).await.result {
        Ok(_) => Ok(false),
        Err(Error::Changed) => Ok(true),
        Err(error) => Err(error),
    }
}
