//! Errors of remotes as errors of file systems and of devices.

use pagewell_device::Error as DeviceError;
use pagewell_fs::Error;
use pagewell_object_client::Error as RemoteError;
use rustix::io::Errno;

pub(super) fn of_call(error: RemoteError) -> Error {
    match error {
        RemoteError::NotFound => Error::NotFound,
        RemoteError::Changed => Error::Stale,
        RemoteError::Exists => Error::Exists,
        RemoteError::Denied(text) => {
            tracing::warn!("{text}");
            Error::AccessDenied
        }
        RemoteError::Unreachable(text)
        | RemoteError::TryLater(text)
        | RemoteError::Protocol(text)
        | RemoteError::Invalid(text)
        | RemoteError::Unsupported(text) => Error::Io(text),
    }
}

/// Of a fetch, which ended at this byte of the object.
pub(super) fn of_fetch(name: &str, at: u64, error: &RemoteError) -> DeviceError {
    let errno = match error {
        RemoteError::NotFound | RemoteError::Changed => Errno::STALE,
        RemoteError::Denied(_) => Errno::ACCESS,
        RemoteError::Unsupported(_) => Errno::OPNOTSUPP,
        RemoteError::Unreachable(_) | RemoteError::TryLater(_) => Errno::TIMEDOUT,
        RemoteError::Exists | RemoteError::Protocol(_) | RemoteError::Invalid(_) => Errno::IO,
    };
    DeviceError::failed(name, at, errno)
}
