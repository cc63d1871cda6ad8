//! Inode numbers.
//!
//! **Problem.** Programs take two names with one number, and a link count above 1, for one object.
//! Programs of 32 bits fail on numbers from 2^32 on. Only a walk over the whole image could count
//! all objects.
//!
//! **Rule.** A number is a place in the image, in units of 32 bytes: a record has at least 34, so
//! no two begin in one unit. Numbers stay below 2^32 in images up to 128 GiB.
//!
//! ```text
//! directory         the unit of its own first record, at the start of its extent
//! other object      the unit of its record
//! one with several  its data: the unit where that begins, plus a hash of its evidence within the
//! names, and data   first block; no record is there
//! one without data  behind the image: serial number + 1 + units of the image
//! ```
//!
//! **Evidence.** Rock Ridge has only serial numbers (PX), which some writers leave 0 and others may
//! repeat. Names belong to one object when serial number, first extent, size and type agree. Equal
//! extents alone prove nothing: writers store equal files once and give empty ones any extent.
//! Without data, or without a serial number, the link count must also say that there are more
//! names; without both there is no evidence. Without a serial number mode, owner and time must
//! agree, too.
//!
//! Weaknesses: of different files with one extent, one pair of 64 shares a number; overlapping
//! directories of a damaged image may, too. A mount tells such objects apart ([`Shared::key`]).

use std::hash::Hasher;
use std::num::NonZeroU32;

use pagewell_fs::Timestamp;
use siphasher::sip::SipHasher24;

pub(super) const TYPE_BITS: u32 = 0o170_000;
/// At most the bytes of the shortest record.
const UNIT_BYTES: u64 = 32;

/// The number of an object whose first record is at a place.
pub(super) fn of_place(position: u64) -> u64 {
    position / UNIT_BYTES
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Serial number of Rock Ridge; 0: not recorded.
    pub serial: u32,
    pub link_count: u32,
    /// `st_mode`.
    pub mode: u32,
    pub owner: (u32, u32),
    pub modified: Timestamp,
    pub position: u64,
    pub size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    pub number: u64,
    pub key: NonZeroU32,
}

impl Evidence {
    /// `None` when it does not prove that there are other names. An image has blocks of
    /// `block_bytes`, and `length_bytes` in all.
    pub(super) fn shared(&self, block_bytes: u32, length_bytes: u64) -> Option<Shared> {
        let has_data = self.size > 0;
        let has_serial = self.serial != 0;
        if self.link_count < 2 && !(has_data && has_serial) || !has_data && !has_serial {
            return None;
        }
        let position = if has_data { self.position } else { 0 };
        let mut hasher = SipHasher24::new();
        hasher.write_u32(self.serial.to_le());
        hasher.write_u32((self.mode & TYPE_BITS).to_le());
        hasher.write_u64(position.to_le());
        hasher.write_u64(self.size.to_le());
        if !has_serial {
            hasher.write_u32(self.mode.to_le());
            hasher.write_u32(self.owner.0.to_le());
            hasher.write_u32(self.owner.1.to_le());
            hasher.write_i64(self.modified.seconds.to_le());
            hasher.write_u32(self.modified.nanoseconds.to_le());
        }
        let hash = hasher.finish();
        let number = if has_data {
            of_place(position) + hash % of_place(u64::from(block_bytes)).max(1)
        } else {
            of_place(length_bytes) + 1 + u64::from(self.serial)
        };
        // Other bits than those of the number.
        let key = NonZeroU32::new((hash >> 32) as u32).unwrap_or(NonZeroU32::MIN);
        Some(Shared { number, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_BYTES: u32 = 2048;
    const LENGTH_BYTES: u64 = 4 << 30;

    fn evidence(serial: u32, link_count: u32, position: u64, size: u64) -> Option<Shared> {
        evidence_of(serial, link_count, position, size).shared(BLOCK_BYTES, LENGTH_BYTES)
    }

    fn evidence_of(serial: u32, link_count: u32, position: u64, size: u64) -> Evidence {
        Evidence {
            serial,
            link_count,
            mode: 0o100_644,
            owner: (7, 8),
            modified: Timestamp::default(),
            position,
            size,
        }
    }

    #[test]
    fn numbers_of_data_are_in_its_first_block() {
        for serial in 1..200 {
            let position = u64::from(serial) * 4096;
            let number = evidence(serial, 2, position, 1).unwrap().number;
            let units = position / 32..(position + 2048) / 32;
            assert!(units.contains(&number), "{number} {units:?}");
        }
    }

    #[test]
    fn any_other_evidence_is_another_object() {
        let one = evidence(5, 2, 4096, 10).unwrap();
        assert_eq!(
            evidence(5, 1, 4096, 10),
            Some(one),
            "the count is no evidence"
        );
        for other in [(6, 4096, 10), (5, 6144, 10), (5, 4096, 11)] {
            let (serial, position, size) = other;
            assert_ne!(evidence(serial, 2, position, size).unwrap().key, one.key);
        }
    }

    #[test]
    fn objects_without_data_need_a_count_and_have_numbers_behind_the_image() {
        assert_eq!(evidence(5, 1, 4096, 0), None);
        let shared = evidence(5, 2, 4096, 0).unwrap();
        assert_eq!(shared.number, LENGTH_BYTES / 32 + 6);
        assert_eq!(
            evidence(5, 2, 0, 0),
            Some(shared),
            "its extent means nothing"
        );
        assert!(evidence(u32::MAX, 2, 0, 0).unwrap().number > shared.number);
    }

    #[test]
    fn without_a_serial_number_all_else_must_agree() {
        assert_eq!(evidence(0, 1, 4096, 10), None);
        assert_eq!(evidence(0, 2, 4096, 0), None);
        let one = evidence_of(0, 2, 4096, 10);
        let others = [
            Evidence {
                mode: 0o100_600,
                ..one
            },
            Evidence {
                owner: (7, 9),
                ..one
            },
            Evidence {
                owner: (8, 8),
                ..one
            },
            Evidence {
                modified: Timestamp {
                    seconds: 1,
                    nanoseconds: 0,
                },
                ..one
            },
            Evidence {
                position: 6144,
                ..one
            },
            Evidence { size: 11, ..one },
            Evidence { serial: 5, ..one },
        ];
        let key = |evidence: &Evidence| evidence.shared(BLOCK_BYTES, LENGTH_BYTES).unwrap().key;
        for other in others {
            assert_ne!(key(&other), key(&one), "{other:?}");
        }
    }
}
