//! The byte count that keeps a RAM file system inside its size.
//!
//! Rule: before the memory is taken, every page is charged with its bytes, every object and every
//! name with a fixed sum for its share of the tables.
//!
//! Known weaknesses: the fixed sums are estimates. A page that was replaced while a reader held it
//! is charged once although both copies exist; the fronts bound the readers in flight.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_counters::names::RAM_BYTES;
use pagewell_fs::{Error, Result};

use super::memory::Arena;

/// Charge of an object: the inode with its lock, its place in the table and the map of its pages
/// (measured together with a name: 750 bytes).
pub(super) const INODE_BYTES: u64 = 576;

/// Charge of a name beyond its own bytes: two map entries and two headers.
const NAME_BYTES: u64 = 160;

pub(super) fn name_charge(name: &[u8]) -> u64 {
    NAME_BYTES + name.len() as u64
}

/// Charge of an extended attribute beyond its own bytes: two headers and its share of the map,
/// which is largest for one alone.
const ATTRIBUTE_BYTES: u64 = 448;

pub(super) fn attribute_charge(name: &CStr, value: &[u8]) -> u64 {
    ATTRIBUTE_BYTES + (name.count_bytes() + value.len()) as u64
}

/// The least that one more object costs: an inode and a short name.
pub(super) const OBJECT_BYTES_MIN: u64 = INODE_BYTES + NAME_BYTES + 8;

/// Where the bytes of files live, and what they may take.
pub(super) struct Storage {
    pub(super) quota: Quota,
    pub(super) arena: Arc<Arena>,
}

impl Storage {
    pub(super) fn new(size_bytes: u64) -> Result<Self> {
        Ok(Self {
            quota: Quota::new(size_bytes),
            arena: Arena::new(size_bytes)?,
        })
    }
}

pub(super) struct Quota {
    total_bytes: u64,
    used_bytes: AtomicU64,
}

impl Quota {
    pub(super) fn new(total_bytes: u64) -> Self {
        Self {
            total_bytes,
            used_bytes: AtomicU64::new(0),
        }
    }

    /// Takes `bytes`, or refuses with [`Error::NoSpace`] and takes nothing.
    pub(super) fn take(&self, bytes: u64) -> Result<()> {
        let order = Ordering::Relaxed;
        let add = |used: u64| {
            used.checked_add(bytes)
                .filter(|sum| *sum <= self.total_bytes)
        };
        let taken = self.used_bytes.fetch_update(order, order, add);
        taken.map_err(|_| Error::NoSpace)?;
        RAM_BYTES.add(signed(bytes));
        Ok(())
    }

    /// Takes `new` bytes for `old` ones, or refuses to take more.
    pub(super) fn exchange(&self, old: u64, new: u64) -> Result<()> {
        match new.checked_sub(old) {
            Some(more) => self.take(more),
            None => {
                self.give(old - new);
                Ok(())
            }
        }
    }

    pub(super) fn give(&self, bytes: u64) {
        let before = self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "gave {bytes} of {before} bytes");
        RAM_BYTES.add(-signed(bytes));
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        RAM_BYTES.add(-signed(self.used_bytes()));
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_to_the_last_byte_and_no_further() {
        let quota = Quota::new(100);
        assert_eq!(quota.take(60), Ok(()));
        assert_eq!(quota.take(41), Err(Error::NoSpace));
        assert_eq!(quota.take(u64::MAX), Err(Error::NoSpace));
        assert_eq!(quota.used_bytes(), 60);
        assert_eq!(quota.take(40), Ok(()));
        quota.give(100);
        assert_eq!(quota.used_bytes(), 0);
    }

    #[test]
    fn threads_never_take_more_than_there_is() {
        let quota = Quota::new(1000);
        let taken: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..500).filter(|_| quota.take(1).is_ok()).count() as u64))
                .collect();
            workers.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
        assert_eq!(quota.used_bytes(), 1000);
    }
}
