//! Why something is not staged.

use std::io;
use std::path::Path;

use pagewell_base::spans::Span;

/// Of every call but a request.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file is not journaled or kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// The system's reason.
        error: io::Error,
    },
    /// A record names bytes that were not written.
    #[error("{name}: bytes {} to {} are not stored", span.0, span.1)]
    NotStored {
        /// Data file and key.
        name: String,
        /// The first that are missing.
        span: Span,
    },
    /// A record that no replay would take.
    #[error("{name}: its record {reason}")]
    Record {
        /// Data file and key.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A flush has failed: any byte since the last good one may be lost.
    #[error("{name}: the disk has failed, and what it has is in doubt")]
    Doubtful {
        /// Data file and key.
        name: String,
    },
    /// It is kept for people, or finished.
    #[error("{name}: is closed")]
    Closed {
        /// Data file and key.
        name: String,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.display().to_string();
        move |error| Self::File { path, error }
    }
}
