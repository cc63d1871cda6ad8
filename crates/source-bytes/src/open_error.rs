//! Errors of opening a device.

use std::path::Path;

use pagewell_device::Error as DeviceError;
use pagewell_fs::source::OpenError;
use rustix::io::Errno;

/// The message for the user of the source at `path`.
#[must_use]
pub fn open_error(path: &Path, error: DeviceError) -> OpenError {
    let name = path.display().to_string();
    match error {
        DeviceError::InUse { .. } => OpenError::in_use(&name),
        DeviceError::Open { errno, .. } if errno == Errno::INVAL => {
            OpenError::new(&name, "neither a directory, a file nor a block device")
        }
        DeviceError::Open { errno, .. } => OpenError::new(&name, &errno.to_string()),
        other => OpenError::new(&name, &other.to_string()),
    }
}
