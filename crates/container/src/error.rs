//! The error of this crate.

use pagewell_device::Device;

/// What opening a wrapping returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a wrapping could not be taken off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The device below failed.
    #[error(transparent)]
    Device(#[from] pagewell_device::Error),
    /// A wrapping was recognised and cannot be read.
    #[error("{device}: {what}")]
    Damaged {
        /// [`Device::name`].
        device: String,
        /// What it is and what is wrong, such as "a CSO image whose index is cut short".
        what: String,
    },
    /// A file that a sheet names cannot be opened, and why.
    #[error("a sheet whose file cannot be opened: {0}")]
    Unopened(String),
}

impl Error {
    pub(crate) fn damaged(device: &dyn Device, what: impl Into<String>) -> Self {
        Self::Damaged {
            device: device.name().to_owned(),
            what: what.into(),
        }
    }
}
