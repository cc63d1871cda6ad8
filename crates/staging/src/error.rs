//! Why something is not staged.

use std::io;
use std::path::Path;

use pagewell_base::spans::Span;

/// What every call but a request returns.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file is not journaled or kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{path}: {error}")]
    File {
        /// Which file.
        path: String,
        /// The system's reason.
        error: io::Error,
    },
    /// A record names bytes that were not written.
    #[error("{name}: bytes {} to {} are not stored", span.0, span.1)]
    NotStored {
        /// The data file, and the key.
        name: String,
        /// The first that are missing.
        span: Span,
    },
    /// A record that no replay would take.
    #[error("{name}: its record {reason}")]
    Record {
        /// The data file, and the key.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A flush has failed: the system tells it once, and may have lost any byte since the last one.
    #[error("{name}: the disk has failed, and what it has is in doubt")]
    Doubtful {
        /// The data file, and the key.
        name: String,
    },
    /// It was kept for people, or is finished.
    #[error("{name}: is closed")]
    Closed {
        /// The data file, and the key.
        name: String,
    },
}

impl Error {
    /// For `map_err`: the system refused something with a file.
    pub(crate) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.display().to_string();
        move |error| Self::File { path, error }
    }
}
