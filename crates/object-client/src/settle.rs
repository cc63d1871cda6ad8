//! Whether a change happened whose reply was lost.
//!
//! A conditional change that is tried again then meets itself: so each object carries a token of
//! the change that made it, by which a HEAD tells them apart.

use crate::error::{Error, Result};
use crate::service::{Answer, Ended};
use crate::sign::hex;
use crate::store::Store;
use crate::version::Version;
use crate::writable::Condition;

pub(crate) const TOKEN: &str = "pagewell-write";

pub(crate) fn token() -> Result<String> {
    let mut random = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::rand::getrandom(&mut random[..], flags)
        .map_err(|error| Error::Invalid(format!("random numbers: {error}")))?;
    Ok(hex(&random))
}

pub(crate) fn unmet(error: Error, condition: &Condition) -> Error {
    match (error, condition) {
        (Error::Changed, Condition::Absent) => Error::Exists,
        (error, _) => error,
    }
}

/// The version of the object `key`, if the change of `token` made it.
pub(crate) async fn settle<S: Store>(store: &S, key: &str, token: &str) -> Result<Option<Version>> {
    match store.head(key).await {
        Ok(info) => {
            let found = info.metadata.iter().find(|(name, _)| name == TOKEN);
            let is_own = match found {
                Some((_, value)) => value == token.as_bytes(),
                // One server keeps no metadata of a folder's marker, which is as good as any other.
                None => key.ends_with('/') && info.version.length_bytes == 0,
            };
            Ok(is_own.then_some(info.version))
        }
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The end of a change with a token: its reply, or the version that it made unseen.
pub(crate) enum Settled {
    Answered(Answer),
    Made(Version),
}

/// Looks whether a change happened whose reply was lost.
pub(crate) async fn settled<S: Store>(
    store: &S,
    ended: Ended,
    key: &str,
    token: &str,
    condition: &Condition,
) -> Result<Settled> {
    let error = match ended.result {
        Ok(answer) => return Ok(Settled::Answered(answer)),
        Err(error) => error,
    };
    if !ended.is_unclear {
        return Err(unmet(error, condition));
    }
    // Where that cannot be learned, a failed condition may be this change itself.
    match settle(store, key, token).await {
        Ok(Some(version)) => Ok(Settled::Made(version)),
        Err(open @ (Error::Unreachable(_) | Error::TryLater(_) | Error::Denied(_))) => Err(open),
        Ok(None) | Err(_) => Err(unmet(error, condition)),
    }
}

/// The version that a change made, by its reply or else by a HEAD.
pub(crate) async fn seen<S: Store>(
    store: &S,
    named: Option<Version>,
    (key, token): (&str, &str),
    condition: &Condition,
) -> Result<Version> {
    if let Some(version) = named {
        return Ok(version);
    }
    let made = settle(store, key, token).await?;
    made.ok_or_else(|| unmet(Error::Changed, condition))
}

pub(crate) async fn deleted<S: Store>(
    store: &S,
    ended: Ended,
    key: &str,
    wanted: &Condition,
) -> Result<()> {
    match ended.result {
        Ok(_) => Ok(()),
        // It is gone, perhaps by a try whose reply was lost.
        Err(Error::NotFound) if *wanted == Condition::Always || ended.is_unclear => Ok(()),
        Err(Error::Changed) if ended.is_unclear => match store.head(key).await {
            Err(Error::NotFound) => Ok(()),
            Ok(_) => Err(Error::Changed),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}
