//! How to read, and how to write.

use pagewell_device::Issuer;
use pagewell_policy::readahead::Bounds;

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMode {
    /// Else what is not in memory gives [`Error::WouldBlock`](crate::Error::WouldBlock), and is
    /// fetched meanwhile.
    pub may_block: bool,
    /// For whom: a reader, or the structure of a file system.
    pub issuer: Issuer,
    /// The file on the device: read-ahead stays inside until a reader leaves it.
    pub bounds: Option<Bounds>,
}

impl ReadMode {
    /// A reader that waits.
    pub const WAIT: Self = Self {
        may_block: true,
        issuer: Issuer::Reader,
        bounds: None,
    };
    /// A reader that does not.
    pub const TRY: Self = Self {
        may_block: false,
        issuer: Issuer::Reader,
        bounds: None,
    };
}

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteMode {
    /// Else a wait for memory, a device, or a fetch gives
    /// [`Error::WouldBlock`](crate::Error::WouldBlock).
    pub may_block: bool,
}

impl WriteMode {
    /// A writer that waits.
    pub const WAIT: Self = Self { may_block: true };
    /// A writer that does not.
    pub const TRY: Self = Self { may_block: false };
}
