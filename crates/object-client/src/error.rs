//! What can go wrong with a remote object, by what the caller can do about it.

/// The result of a call to a remote.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. Texts are one line that names the URL and the reason, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such object, bucket or upload.
    #[error("there is no such object")]
    NotFound,
    /// The server refuses: keys, rights, clock, region.
    #[error("{0}")]
    Denied(String),
    /// The object is another version now.
    #[error("the object has changed")]
    Changed,
    /// An object that had to be absent is there.
    #[error("the object exists already")]
    Exists,
    /// No server answers, or TLS fails; the budget of retries is spent.
    #[error("{0}")]
    Unreachable(String),
    /// The server answers that it cannot do it now; the budget of retries is spent.
    #[error("{0}")]
    TryLater(String),
    /// The answer is none of what was asked.
    #[error("{0}")]
    Protocol(String),
    /// The request makes no sense, or the server does not take it.
    #[error("{0}")]
    Invalid(String),
    /// This server, or this kind of remote, cannot do it.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    /// The text without a place at its begin, for a line that has named it.
    #[must_use]
    pub fn behind(&self, place: &str) -> String {
        let text = self.to_string();
        let rest = text
            .strip_prefix(place)
            .and_then(|rest| rest.strip_prefix(": "));
        rest.map_or_else(|| text.clone(), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_once() {
        let error = Error::Protocol("http://h/x: too short".to_owned());
        assert_eq!(error.behind("http://h/x"), "too short");
        assert_eq!(error.behind("http://h/"), "http://h/x: too short");
    }
}
