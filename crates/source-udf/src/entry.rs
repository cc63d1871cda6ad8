//! File entries (ECMA-167 4/14.9) and extended ones (4/14.17), with their ICB tag (4/14.6).
//!
//! ```text
//! tag | ICB tag | owner, modes, sizes, times | attributes (L_EA) | allocation descriptors (L_AD)
//! ```

use pagewell_fs::Timestamp;

use super::fields::{Fields, LENGTH_MASK};
use super::tag::EXTENDED_FILE_ENTRY;
use super::time::{TIME_BYTES, timestamp};

/// ECMA-167 4/14.6.
pub(crate) const FILE_TYPE: usize = 27;
/// File types (ECMA-167 4/14.6.6 and UDF 2.3.5.2).
pub(crate) const TYPE_DIRECTORY: u8 = 4;
pub(crate) const TYPE_BLOCK_DEVICE: u8 = 6;
pub(crate) const TYPE_CHARACTER_DEVICE: u8 = 7;
pub(crate) const TYPE_FIFO: u8 = 9;
pub(crate) const TYPE_SOCKET: u8 = 10;
pub(crate) const TYPE_SYMLINK: u8 = 12;
pub(crate) const TYPE_UNSPECIFIED: u8 = 0;
pub(crate) const TYPE_VIRTUAL_TABLE: u8 = 248;
pub(crate) const TYPE_METADATA: u8 = 250;
pub(crate) const TYPE_METADATA_MIRROR: u8 = 251;

struct Layout {
    blocks: usize,
    times: [usize; 3],
    lengths: usize,
    fixed: usize,
}

const PLAIN: Layout = Layout {
    blocks: 64,
    times: [72, 84, 96],
    lengths: 168,
    fixed: 176,
};
const EXTENDED: Layout = Layout {
    blocks: 72,
    times: [80, 92, 116],
    lengths: 208,
    fixed: 216,
};

/// The stream directory's ICB in an extended entry.
const STREAMS: usize = 152;
/// Headers of all attributes, and of each (ECMA-167 4/14.10.1 and 4/14.10.2).
const ATTRIBUTES_HEADER_BYTES: usize = 24;
const ATTRIBUTE_BYTES_MIN: usize = 12;
/// Device specification (ECMA-167 4/14.10.7).
const ATTRIBUTE_DEVICE: u32 = 12;

pub(crate) struct Entry<'a> {
    pub strategy: u16,
    /// Entries that the ICB has room for.
    pub entries_max: u16,
    pub file_type: u8,
    pub flags: u16,
    pub uid: u32,
    pub gid: u32,
    pub permissions: u32,
    pub link_count: u16,
    /// Information length: bytes of the object's data.
    pub size: u64,
    pub blocks_recorded: u64,
    /// Of access, of modification and of the change of attributes.
    pub times: [&'a [u8]; 3],
    pub has_streams: bool,
    pub attributes: &'a [u8],
    pub descriptors: &'a [u8],
    /// Where the allocation descriptors begin in the block.
    pub descriptors_start: usize,
}

impl<'a> Entry<'a> {
    /// Parses the block of an entry of `kind`, the identifier of its tag; `None` when its areas
    /// reach past it.
    pub(crate) fn parse(bytes: &'a [u8], kind: u16) -> Option<Self> {
        let is_extended = kind == EXTENDED_FILE_ENTRY;
        let layout = if is_extended { &EXTENDED } else { &PLAIN };
        let fields = Fields::new(bytes);
        let area = bytes.get(layout.fixed..)?;
        let (attributes, rest) = area.split_at_checked(fields.u32(layout.lengths) as usize)?;
        let descriptors = rest.get(..fields.u32(layout.lengths + 4) as usize)?;
        Some(Self {
            strategy: fields.u16(20),
            entries_max: fields.u16(24),
            file_type: fields.u8(FILE_TYPE),
            flags: fields.u16(34),
            uid: fields.u32(36),
            gid: fields.u32(40),
            permissions: fields.u32(44),
            link_count: fields.u16(48),
            size: fields.u64(56),
            blocks_recorded: fields.u64(layout.blocks),
            times: layout.times.map(|at| fields.bytes(at, TIME_BYTES)),
            has_streams: is_extended && fields.u32(STREAMS) & LENGTH_MASK != 0,
            attributes,
            descriptors,
            descriptors_start: layout.fixed + attributes.len(),
        })
    }

    pub(crate) fn dates(&self) -> [Option<Timestamp>; 3] {
        self.times.map(timestamp)
    }

    pub(crate) fn length(&self) -> usize {
        self.descriptors_start + self.descriptors.len()
    }

    pub(crate) fn device(&self) -> Option<(u32, u32)> {
        let mut rest = self.attributes.get(ATTRIBUTES_HEADER_BYTES..)?;
        // Each step takes at least 12 bytes of the block.
        while rest.len() >= ATTRIBUTE_BYTES_MIN {
            let fields = Fields::new(rest);
            let length = fields.u32(8) as usize;
            if fields.u32(0) == ATTRIBUTE_DEVICE && rest.len() >= 24 {
                return Some((fields.u32(16), fields.u32(20)));
            }
            rest = rest.get(length.max(ATTRIBUTE_BYTES_MIN)..)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::FILE_ENTRY;

    #[test]
    fn areas_must_fit_into_the_block() {
        let mut bytes = vec![0; 512];
        bytes[27] = TYPE_CHARACTER_DEVICE;
        bytes[168] = 48;
        bytes[172] = 100;
        let attribute = &mut bytes[176 + 24..];
        attribute[0] = 12;
        attribute[8] = 24;
        attribute[16] = 5;
        attribute[20] = 1;
        let entry = Entry::parse(&bytes, FILE_ENTRY).unwrap();
        assert_eq!(entry.device(), Some((5, 1)));
        assert_eq!(entry.descriptors_start, 224);
        assert_eq!(entry.descriptors.len(), 100);
        for (at, value) in [(168, 255), (171, 1), (173, 2), (175, 128)] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            assert!(Entry::parse(&damaged, FILE_ENTRY).is_none(), "{at}");
        }
        assert!(Entry::parse(&bytes[..175], FILE_ENTRY).is_none());
    }

    #[test]
    fn attributes_without_a_device_end() {
        let mut bytes = vec![0; 512];
        bytes[168..170].copy_from_slice(&[80, 1]);
        let entry = Entry::parse(&bytes, FILE_ENTRY).unwrap();
        assert_eq!(entry.device(), None, "lengths of zero");
        bytes[176 + 24 + 8..176 + 24 + 12].fill(255);
        let entry = Entry::parse(&bytes, FILE_ENTRY).unwrap();
        assert_eq!(entry.device(), None);
        bytes[168..170].copy_from_slice(&[10, 0]);
        assert_eq!(Entry::parse(&bytes, FILE_ENTRY).unwrap().device(), None);
    }
}
