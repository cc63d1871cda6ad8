//! What a volume is kept in: a run of bytes that survives when it was told to, on a machine whose
//! power can be cut.

use std::sync::Arc;

use crate::random::Random;

/// What went wrong, for people.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// A power cut leaves each run of so many bytes as it was or as it was written.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// A run of bytes. A write is seen by the next read; it survives a power cut when a `sync` that
/// began after it has returned well, and perhaps otherwise, in any part.
pub(crate) trait Store: Send + Sync {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<()>;
    fn write(&self, offset: u64, data: &[u8]) -> Result<()>;
    fn sync(&self) -> Result<()>;
    /// A sync of some bytes only.
    fn sync_range(&self, _offset: u64, _length: u64) -> Result<()> {
        self.sync()
    }
    /// Whether the power is off: everything fails from now on.
    fn is_cut(&self) -> bool;
}

/// A machine with a store whose bytes outlive a power cut.
pub(crate) trait Machine {
    /// Switches it on. The power fails at the operation with the number `cut_after`, whatever the
    /// machine takes for an operation; what that leaves behind follows from `random`.
    fn power_on(&mut self, cut_after: u64, random: Random) -> Arc<dyn Store>;

    /// Cuts the power if it is still on. Nobody uses the store any more.
    fn power_off(&mut self);
}
