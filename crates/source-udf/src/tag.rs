//! Descriptor tags (ECMA-167 3/7.2, 4/7.2): the first 16 bytes of every descriptor.
//!
//! ```text
//! 0 identifier | 2 version | 4 checksum | 6 serial | 8 CRC | 10 CRC length | 12 location
//! ```
//!
//! The checksum is over the tag, the CRC over as many bytes behind it as the tag says. A wrong
//! location is only noted: some writers count from another start, and the CRC proves the descriptor
//! whole.

use std::fmt;

use super::fields::Fields;

pub(crate) const TAG_BYTES: usize = 16;
pub(crate) const CLAUSE: &str = "ECMA-167 3/7.2";

pub(crate) const PRIMARY_VOLUME: u16 = 1;
pub(crate) const ANCHOR: u16 = 2;
pub(crate) const VOLUME_POINTER: u16 = 3;
pub(crate) const PARTITION: u16 = 5;
pub(crate) const LOGICAL_VOLUME: u16 = 6;
pub(crate) const TERMINATING: u16 = 8;
pub(crate) const FILE_SET: u16 = 256;
pub(crate) const FILE_IDENTIFIER: u16 = 257;
pub(crate) const ALLOCATION_EXTENT: u16 = 258;
pub(crate) const INDIRECT_ENTRY: u16 = 259;
pub(crate) const TERMINAL_ENTRY: u16 = 260;
pub(crate) const FILE_ENTRY: u16 = 261;
pub(crate) const EXTENDED_FILE_ENTRY: u16 = 266;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub identifier: u16,
    /// The block of the descriptor as its writer counts.
    pub location: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagFault {
    /// Zeros.
    Unrecorded,
    /// Of the tag, or too few bytes for one.
    Checksum,
    /// Of the descriptor, or a CRC length past what can belong to it.
    Crc,
}

impl fmt::Display for TagFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unrecorded => "nothing is recorded there",
            Self::Checksum => "the checksum of a descriptor's tag is wrong",
            Self::Crc => "the CRC of a descriptor is wrong",
        })
    }
}

pub(crate) fn head(bytes: &[u8]) -> Result<Tag, TagFault> {
    let tag = bytes.get(..TAG_BYTES).ok_or(TagFault::Checksum)?;
    if tag.iter().all(|byte| *byte == 0) {
        return Err(TagFault::Unrecorded);
    }
    let sum = tag.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let fields = Fields::new(tag);
    if sum.wrapping_sub(fields.u8(4)) != fields.u8(4) {
        return Err(TagFault::Checksum);
    }
    Ok(Tag {
        identifier: fields.u16(0),
        location: fields.u32(12),
    })
}

/// The tag of the descriptor at the start of `bytes`, which end where it must have ended.
pub(crate) fn whole(bytes: &[u8]) -> Result<Tag, TagFault> {
    let tag = head(bytes)?;
    let fields = Fields::new(bytes);
    let covered = usize::from(fields.u16(10));
    let behind = bytes.get(TAG_BYTES..).unwrap_or(&[]);
    let covered = behind.get(..covered).ok_or(TagFault::Crc)?;
    if crc(covered) == fields.u16(8) {
        Ok(tag)
    } else {
        Err(TagFault::Crc)
    }
}

/// CRC of ITU-T V.41: polynomial 0x1021, most significant bit first, from zero. Each table is for a
/// byte with as many bytes behind it as its number, so that a step takes four.
const TABLES: [[u16; 256]; 4] = {
    let mut tables = [[0u16; 256]; 4];
    let mut index = 0;
    while index < 256 {
        let mut value = (index as u16) << 8;
        let mut step = 0;
        while step < 32 {
            let carry = value & 0x8000 != 0;
            value <<= 1;
            if carry {
                value ^= 0x1021;
            }
            step += 1;
            if step % 8 == 0 {
                tables[step / 8 - 1][index] = value;
            }
        }
        index += 1;
    }
    tables
};

pub(crate) fn crc(bytes: &[u8]) -> u16 {
    let (fours, rest) = bytes.as_chunks::<4>();
    let of_fours = fours.iter().fold(0u16, |crc, [a, b, c, d]| {
        let [high, low] = crc.to_be_bytes();
        TABLES[3][usize::from(high ^ a)]
            ^ TABLES[2][usize::from(low ^ b)]
            ^ TABLES[1][usize::from(*c)]
            ^ TABLES[0][usize::from(*d)]
    });
    rest.iter().fold(of_fours, |crc, byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ TABLES[0][usize::from(high ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; TAG_BYTES];
        bytes[..2].copy_from_slice(&ANCHOR.to_le_bytes());
        bytes[8..10].copy_from_slice(&crc(body).to_le_bytes());
        bytes[10..12].copy_from_slice(&u16::try_from(body.len()).unwrap().to_le_bytes());
        bytes[12] = 7;
        bytes[4] = bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte));
        [bytes, body.to_vec()].concat()
    }

    #[test]
    fn bytes_are_taken_one_by_one_and_four_by_four() {
        let bitwise = |bytes: &[u8]| {
            let step = |crc: u16| (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            bytes.iter().fold(0u16, |crc, byte| {
                (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| step(crc))
            })
        };
        let bytes: Vec<u8> = (0..=255).rev().collect();
        for length in 0..=bytes.len() {
            assert_eq!(crc(&bytes[..length]), bitwise(&bytes[..length]));
        }
    }

    #[test]
    fn checksum_and_crc_are_compared() {
        assert_eq!(crc(&[0x70, 0x6a, 0x77]), 0x3299, "the example of UDF 6.5");
        let sound = descriptor(b"some bytes");
        let tag = Tag {
            identifier: ANCHOR,
            location: 7,
        };
        assert_eq!(whole(&sound), Ok(tag));
        assert_eq!(whole(&descriptor(b"")), Ok(tag), "a CRC over nothing");
        assert_eq!(whole(&sound[..20]), Err(TagFault::Crc));
        assert_eq!(head(&sound[..15]), Err(TagFault::Checksum));
        assert_eq!(whole(&[0; 40]), Err(TagFault::Unrecorded));
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x10;
            let expected = if at < TAG_BYTES {
                TagFault::Checksum
            } else {
                TagFault::Crc
            };
            assert_eq!(whole(&damaged), Err(expected), "{at}");
        }
    }
}
