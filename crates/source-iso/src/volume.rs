//! The image as numbered bytes: bounds, block numbers, numbers in both byte orders.

use std::fmt::Display;
use std::sync::Arc;

use pagewell_fs::Error;
use pagewell_source_bytes::{Bytes, Violations};

/// Bytes of a logical sector (ECMA-119 clause 6.1.2), the unit of descriptors and directories with
/// any block size.
pub(super) const SECTOR_BYTES: usize = 2048;

/// A number recorded twice, in both byte orders (ECMA-119 clause 7.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BothEndian {
    pub little: u32,
    pub big: u32,
}

impl BothEndian {
    pub(super) fn read(bytes: &[u8], offset: usize) -> Option<Self> {
        let (little, rest) = bytes.get(offset..)?.split_first_chunk::<4>()?;
        let (big, _) = rest.split_first_chunk::<4>()?;
        Some(Self {
            little: u32::from_le_bytes(*little),
            big: u32::from_be_bytes(*big),
        })
    }

    pub(super) fn little(bytes: &[u8], offset: usize) -> Option<u32> {
        Self::read(bytes, offset).map(|number| number.little)
    }

    /// The little-endian copy, unless only the other one fits: many old images have one wrong copy,
    /// mostly the big-endian.
    pub(super) fn choose(self, fits: impl Fn(u32) -> bool) -> u32 {
        if self.little == self.big {
            return self.little;
        }
        if !fits(self.little) && fits(self.big) {
            self.big
        } else {
            self.little
        }
    }
}

/// An image and the facts of its descriptor. Clones share the image.
#[derive(Clone)]
pub(super) struct Volume {
    pub bytes: Bytes,
    /// The image's real length.
    pub length_bytes: u64,
    /// The unit of extent numbers (ECMA-119 clause 6.2.2).
    pub block_bytes: u32,
    /// Hash of the volume descriptor and the length.
    pub identity: u64,
    pub is_high_sierra: bool,
    pub violations: Option<Arc<Violations>>,
}

impl Volume {
    pub(super) fn block_position(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.block_bytes)
    }

    pub(super) fn contains(&self, position: u64, length: u64) -> bool {
        self.bytes.contains(position, length)
    }

    pub(super) fn is_checked(&self) -> bool {
        self.violations.is_some()
    }

    /// Notes a departure from the format that reading survives.
    pub(super) fn note(&self, position: u64, clause: &'static str, text: impl Display) {
        if let Some(violations) = &self.violations {
            violations.note(position, clause, text);
        }
    }

    pub(super) fn fault(&self, position: u64, what: &str) -> Error {
        self.bytes.fault(position, what)
    }
}

#[cfg(test)]
impl Volume {
    /// An image in memory, behind a small cache.
    pub(super) fn of_memory(bytes: Vec<u8>) -> Self {
        let options = pagewell_cache::CacheOptions::new(pagewell_cache::BYTES_MIN);
        let cache = pagewell_cache::Cache::new(options).unwrap();
        let length_bytes = bytes.len() as u64;
        let device = pagewell_device::RamDevice::holding("m", &bytes);
        Self {
            bytes: Bytes::new(cache.open(std::sync::Arc::new(device))),
            length_bytes,
            block_bytes: 2048,
            identity: 1,
            is_high_sierra: false,
            violations: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_little_half_wins_unless_only_the_big_one_fits() {
        let number = BothEndian {
            little: 900,
            big: 20,
        };
        assert_eq!(number.choose(|_| true), 900);
        assert_eq!(number.choose(|value| value < 100), 20);
        assert_eq!(number.choose(|_| false), 900);
        assert_eq!(BothEndian::read(&[0; 9], 2), None);
        let bytes = [1, 0, 0, 0, 0, 0, 0, 2];
        assert_eq!(
            BothEndian::read(&bytes, 0),
            Some(BothEndian { little: 1, big: 2 })
        );
    }
}
