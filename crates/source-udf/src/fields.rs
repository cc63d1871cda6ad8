//! Fields of descriptors: numbers with the least significant byte first (ECMA-167 1/7.1), places,
//! identifiers of entities.

/// The bytes of a descriptor. A field past their end reads as zero: parsers compare the length with
/// the fixed part first.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// `length` bytes at `at`, or none.
    pub(crate) fn bytes(self, at: usize, length: usize) -> &'a [u8] {
        self.0
            .get(at..)
            .and_then(|rest| rest.get(..length))
            .unwrap_or(&[])
    }

    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let rest = self.0.get(at..).unwrap_or(&[]);
        rest.first_chunk::<N>().copied().unwrap_or([0; N])
    }

    pub(crate) fn u8(self, at: usize) -> u8 {
        self.array::<1>(at)[0]
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    /// A recorded address (ECMA-167 4/7.1), 6 bytes.
    pub(crate) fn place(self, at: usize) -> Place {
        Place {
            block: self.u32(at),
            partition: self.u16(at + 4),
        }
    }

    /// A long allocation descriptor (ECMA-167 4/14.14.2), 16 bytes.
    pub(crate) fn long_ad(self, at: usize) -> LongAd {
        LongAd {
            length_bytes: self.u32(at) & LENGTH_MASK,
            place: self.place(at + 4),
        }
    }

    /// A contiguous run of sectors of the volume (ECMA-167 3/7.1), 8 bytes.
    pub(crate) fn volume_extent(self, at: usize) -> VolumeExtent {
        VolumeExtent {
            length_bytes: self.u32(at),
            block: self.u32(at + 4),
        }
    }

    /// Whether the entity identifier (ECMA-167 1/7.4) at `at` is `name`.
    pub(crate) fn is_entity(self, at: usize, name: &[u8]) -> bool {
        self.bytes(at + 1, name.len()) == name
    }
}

/// A length without the two bits of its type (ECMA-167 4/14.14.1.1).
pub(crate) const LENGTH_MASK: u32 = 0x3fff_ffff;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Index of its partition map.
    pub partition: u16,
    pub block: u32,
}

impl From<Place> for u64 {
    fn from(place: Place) -> Self {
        Self::from(place.partition) << 32 | Self::from(place.block)
    }
}

impl Place {
    /// The block so many behind this one; `None` past the largest address.
    pub(crate) fn after(self, blocks: u64) -> Option<Self> {
        let block = u32::try_from(u64::from(self.block).checked_add(blocks)?).ok()?;
        Some(Self { block, ..self })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongAd {
    pub length_bytes: u32,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeExtent {
    pub length_bytes: u32,
    pub block: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_past_the_end_are_zero() {
        let fields = Fields::new(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(fields.u32(0), 0x0403_0201);
        assert_eq!(fields.u32(3), 0);
        assert_eq!(fields.u64(usize::MAX - 1), 0);
        assert_eq!(fields.bytes(4, 3), b"");
        let place = Place {
            block: 0x0403_0201,
            partition: 0x0605,
        };
        assert_eq!(fields.place(0), place);
        assert_eq!(place.after(u64::MAX), None);
    }
}
