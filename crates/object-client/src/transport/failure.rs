//! Why one try of a request failed, and whether another one may help.

use std::time::Duration;

use crate::error::Error;

/// A try that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What the call ends with when there is no other try.
    pub error: Error,
    /// Whether another try may help.
    pub is_passing: bool,
    /// Whether the server may have done what it was asked.
    pub is_unclear: bool,
    /// Whether the server wants fewer requests.
    pub is_throttled: bool,
    /// For how long the server wants none.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// No other try helps.
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

    /// The server was not reached.
    pub(crate) fn not_sent(text: String) -> Self {
        Self {
            is_passing: true,
            ..Self::lasting(Error::Unreachable(text))
        }
    }

    /// The request went, and the answer did not come, or not whole.
    pub(crate) fn lost(text: String) -> Self {
        Self {
            is_unclear: true,
            ..Self::not_sent(text)
        }
    }
}

/// The innermost reason of an error, which is what people want to read.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    let mut error = error;
    // As deep as libraries nest them.
    for _ in 0..8 {
        match error.source() {
            Some(source) => error = source,
            None => break,
        }
    }
    error.to_string()
}
