//! What is said of a slot on the disk.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as WideHasher};

/// Bytes of a page and of a slot: those of a page of the cache.
pub const PAGE_BYTES: usize = 64 << 10;
/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"PWt1";

/// A page of one version of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageName {
    /// A hash of where the object is, of its key and of its version.
    pub object: [u8; 16],
    /// The number of the page in it.
    pub page: u64,
}

impl PageName {
    /// Over the name and these bytes.
    pub(super) fn checksum(&self, bytes: &[u8]) -> [u8; 16] {
        let mut hasher = WideHasher::new();
        hasher.write(&self.object);
        hasher.write_u64(self.page.to_le());
        hasher.write(bytes);
        hasher.finish128().as_bytes()
    }
}

/// What a slot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub name: PageName,
    /// Bytes of the page: fewer than a slot has only at the end of an object.
    pub length: u32,
    pub checksum: [u8; 16],
}

impl Record {
    pub(super) fn of(name: PageName, bytes: &[u8]) -> Self {
        Self {
            length: u32::try_from(bytes.len()).unwrap_or(0),
            checksum: name.checksum(bytes),
            name,
        }
    }

    /// Little-endian: magic, length, object, page, checksum, a check over all of these, zeros.
    pub(super) fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.name.object);
        bytes[24..32].copy_from_slice(&self.name.page.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.checksum);
        let check = check(&bytes[..48]);
        bytes[48..56].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// `None` for what is no record.
    pub(super) fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let (body, rest) = bytes.split_at(48);
        let right = rest.get(..8)? == check(body).to_le_bytes() && body.get(..4)? == MAGIC;
        let length = u32::from_le_bytes(body.get(4..8)?.try_into().ok()?);
        let fits = length > 0 && length as usize <= PAGE_BYTES;
        (right && fits).then_some(Self {
            name: PageName {
                object: body.get(8..24)?.try_into().ok()?,
                page: u64::from_le_bytes(body.get(24..32)?.try_into().ok()?),
            },
            length,
            checksum: body.get(32..48)?.try_into().ok()?,
        })
    }
}

fn check(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damaged_ones_do_not() {
        let name = PageName {
            object: *b"sixteen bytes...",
            page: 7,
        };
        let record = Record::of(name, b"content");
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        for at in 0..56 {
            for bit in 0..8 {
                let mut damaged = bytes;
                damaged[at] ^= 1 << bit;
                assert_eq!(Record::decode(&damaged), None, "{at} {bit}");
            }
        }
        assert_eq!(Record::decode(&[0; RECORD_BYTES]), None);
    }

    #[test]
    fn a_checksum_is_of_the_name_too() {
        let name = |object: u8, page| PageName {
            object: [object; 16],
            page,
        };
        let sum = name(1, 1).checksum(b"x");
        assert_ne!(sum, name(2, 1).checksum(b"x"));
        assert_ne!(sum, name(1, 2).checksum(b"x"));
        assert_ne!(sum, name(1, 1).checksum(b"y"));
    }
}
