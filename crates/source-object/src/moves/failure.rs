//! Why something was not moved.

use pagewell_fs::Error as FileError;
use pagewell_object_client::Error as RemoteError;

use crate::error;
use crate::upload;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is nothing to move.
    NoSource,
    /// The target is not as it was named: there, absent, or another version.
    Target,
    NotEmpty,
    /// More files or bytes than are moved.
    TooMuch,
    /// A key would be longer than a store takes.
    TooLong,
    Inside,
    /// By the store.
    Remote(RemoteError),
    /// On the way through this process.
    Local(FileError),
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}

impl From<upload::Failure> for Failure {
    fn from(failure: upload::Failure) -> Self {
        match failure {
            upload::Failure::Remote(error) => Self::Remote(error),
            upload::Failure::Local(error) => Self::Local(error),
        }
    }
}

impl From<Failure> for FileError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoSource => Self::NotFound,
            Failure::Target => Self::Exists,
            Failure::NotEmpty => Self::NotEmpty,
            Failure::TooMuch => Self::CrossDevice,
            Failure::TooLong => Self::NameTooLong,
            Failure::Inside => Self::Invalid,
            Failure::Remote(error) => error::of_call(error),
            Failure::Local(error) => error,
        }
    }
}
