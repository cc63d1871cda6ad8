//! The trait that every device implements, and its one error type.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

/// What every request returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why one request failed. Other requests are not affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not in memory and the caller may not wait.
    #[error("would block")]
    WouldBlock,
    /// It could not be opened; `EINVAL` is neither a regular file nor a block device.
    #[error("{device}: {errno}")]
    Open {
        /// The path.
        device: String,
        /// The system's reason.
        errno: Errno,
    },
    /// The request reaches past the last byte of the device.
    #[error("{device}: {length} bytes at byte {offset} reach past the end")]
    PastEnd {
        /// [`Device::name`].
        device: String,
        /// First byte of the request.
        offset: u64,
        /// Bytes asked for.
        length: usize,
    },
    /// The system refused.
    #[error("{device}: at byte {offset}: {errno}")]
    Failed {
        /// [`Device::name`].
        device: String,
        /// First byte that could not be read.
        offset: u64,
        /// The system's reason.
        errno: Errno,
    },
}

/// Sizes that requests should respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Smallest unit the device itself transfers, in bytes; 1 when it does not matter.
    pub logical_block_bytes: u32,
    /// Transfers of a multiple of this many bytes go best.
    pub optimal_transfer_bytes: u32,
}

/// A run of bytes with a fixed length.
pub trait Device: Send + Sync {
    /// What people call it: a path, or what it is. Part of every error.
    fn name(&self) -> &str;

    /// Bytes it had when it was opened.
    fn length_bytes(&self) -> u64;

    /// Sizes that requests should respect.
    fn geometry(&self) -> Geometry;

    /// Fills `target` with the bytes from `offset`: all of it, or an error and `target` holds
    /// anything. With `may_block` false, bytes that are not in memory give
    /// [`Error::WouldBlock`] instead of a wait.
    fn read_at(&self, offset: u64, target: &mut [u8], may_block: bool) -> Result<()>;

    /// The open file whose byte N is the device's byte N, when there is one: its ranges can be
    /// sent without being copied.
    fn file(&self) -> Option<&Arc<OwnedFd>> {
        None
    }
}
