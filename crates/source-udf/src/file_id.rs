//! Identifiers of objects in an image: the place of an ICB.
//!
//! A place in a read-only image always means one object, so an identifier survives restart. It is
//! not trusted: the image must match, and the entry is read and checked again (in `tree`).
//!
//! 16 bytes, little-endian:
//!
//! ```text
//! 0  image      hash of the volume descriptors and the length
//! 8  layout     1
//! 9             0
//! 10 partition  index of a partition map
//! 12 block      of the ICB
//! ```

use pagewell_fs::{Error, FileId, Result};

use super::fields::{Fields, Place};

const LAYOUT: u8 = 1;
const ID_BYTES: usize = 16;

pub(crate) fn encode(image: u64, place: Place) -> FileId {
    let mut bytes = [0; ID_BYTES];
    bytes[..8].copy_from_slice(&image.to_le_bytes());
    bytes[8] = LAYOUT;
    bytes[10..12].copy_from_slice(&place.partition.to_le_bytes());
    bytes[12..].copy_from_slice(&place.block.to_le_bytes());
    FileId::of(&bytes)
}

/// [`Error::BadId`] for what this layout never had, [`Error::Stale`] for another image.
pub(crate) fn decode(image: u64, id: &FileId) -> Result<Place> {
    let bytes = id.as_bytes();
    let fields = Fields::new(bytes);
    if bytes.len() != ID_BYTES || fields.u8(8) != LAYOUT || fields.u8(9) != 0 {
        return Err(Error::BadId);
    }
    if fields.u64(0) != image {
        return Err(Error::Stale);
    }
    Ok(Place {
        partition: fields.u16(10),
        block: fields.u32(12),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_come_back_and_others_are_refused() {
        let place = Place {
            partition: 1,
            block: 1 << 30,
        };
        let id = encode(7, place);
        assert_eq!(decode(7, &id), Ok(place));
        assert_eq!(decode(8, &id), Err(Error::Stale));
        for length in 0..=32usize {
            let mut bytes = id.as_bytes().to_vec();
            bytes.resize(length, 0);
            let result = decode(7, &FileId::new(&bytes).unwrap());
            assert_eq!(result.is_ok(), length == ID_BYTES);
        }
        for at in [8, 9] {
            let mut bytes = id.as_bytes().to_vec();
            bytes[at] = 9;
            let result = decode(7, &FileId::new(&bytes).unwrap());
            assert_eq!(result, Err(Error::BadId));
        }
    }
}
