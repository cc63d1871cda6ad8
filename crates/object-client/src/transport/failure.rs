//! Why one try of a request failed, and whether another one may help.

use std::time::Duration;

use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What the call ends with when there is no other try.
    pub error: Error,
    pub is_passing: bool,
    pub is_unclear: bool,
    pub is_throttled: bool,
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn lasting(error: Error) -> Self {
        Self {
            error,
            is_passing: false,
            is_unclear: false,
            is_throttled: false,
            retry_after: None,
        }
    }

    /// The request could not be made ready.
    pub(crate) fn unready(error: Error) -> Self {
        Self {
            is_passing: matches!(error, Error::TryLater(_) | Error::Unreachable(_)),
            ..Self::lasting(error)
        }
    }

    pub(crate) fn not_sent(text: String) -> Self {
        Self {
            is_passing: true,
            ..Self::lasting(Error::Unreachable(text))
        }
    }

    /// The request went, and no whole reply came.
    pub(crate) fn lost(text: String) -> Self {
        Self {
            is_unclear: true,
            ..Self::not_sent(text)
        }
    }
}

/// The innermost reason of an error, for people.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    let mut error = error;
    for _ in 0..8 {
        match error.source() {
            Some(source) => error = source,
            None => break,
        }
    }
    error.to_string()
}
