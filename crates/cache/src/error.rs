//! Errors.

use crate::BYTES_MIN;

/// Of reads and writes.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a read or a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not in memory, and the caller may not wait; the fetch has begun, if memory allowed.
    #[error("would block")]
    WouldBlock,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] pagewell_device::Error),
    /// Every page is in use and stayed so.
    #[error("{device}: at byte {offset}: no page of the cache came free in {seconds} s")]
    Memory {
        /// Name of the device.
        device: String,
        /// First byte that found no frame.
        offset: u64,
        /// Time of the wait.
        seconds: u64,
    },
    /// As much as may be is dirty, and the device took nothing.
    #[error("{device}: at byte {offset}: nothing could be written to the device in {seconds} s")]
    Full {
        /// Name of the device.
        device: String,
        /// First byte that was not taken.
        offset: u64,
        /// Time of the wait.
        seconds: u64,
    },
    /// The device took it and may have lost it since.
    #[error("{device}: what was written may be lost: {reason}")]
    Lost {
        /// Name of the device.
        device: String,
        /// What the device said.
        reason: pagewell_device::Error,
    },
}

/// Why a cache cannot have a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cache of {} {reason} (at least {}, at most {})",
    Mebibytes(*wanted_bytes),
    Mebibytes(BYTES_MIN),
    Mebibytes(*memory_bytes)
)]
pub struct SizeError {
    wanted_bytes: u64,
    memory_bytes: u64,
    reason: &'static str,
}

impl SizeError {
    pub(crate) fn new(wanted_bytes: u64, memory_bytes: u64, reason: &'static str) -> Self {
        Self {
            wanted_bytes,
            memory_bytes,
            reason,
        }
    }
}

/// Why a cache could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The size is impossible.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The system has no memory for it now.
    #[error("memory for the cache: {0}")]
    Memory(#[from] rustix::io::Errno),
}

struct Mebibytes(u64);

impl std::fmt::Display for Mebibytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_multiple_of(1 << 20) || self.0 > 1 << 30 {
            write!(formatter, "{} MiB", self.0 >> 20)
        } else {
            write!(formatter, "{} bytes", self.0)
        }
    }
}
