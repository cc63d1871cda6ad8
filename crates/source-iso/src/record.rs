//! Directory records (ECMA-119 clause 9.1) and the walk over them.
//!
//! A record never crosses a 2048-byte sector. A length byte of 0 marks the rest of the sector as
//! padding. A record that contradicts itself makes the rest of its sector unreadable.

use pagewell_fs::Result;
use pagewell_source_bytes::Window;

use super::volume::{BothEndian, SECTOR_BYTES, Volume};

const RECORD_BYTES_MIN: usize = 34;
const IDENTIFIER_START: usize = 33;
const ZONE: usize = 24;
const FLAGS: usize = 25;

const FLAG_DIRECTORY: u8 = 0x02;
const FLAG_ASSOCIATED: u8 = 0x04;
const FLAG_MORE_SECTIONS: u8 = 0x80;

/// Of a directory's own record, its first.
pub(super) const IDENTIFIER_SELF: &[u8] = &[0];
/// Of the parent's record, the second.
pub(super) const IDENTIFIER_PARENT: &[u8] = &[1];

#[derive(Clone)]
pub(super) struct Record {
    bytes: [u8; 255],
    length: usize,
    identifier_length: usize,
}

impl Record {
    /// The record at the start of `rest`, which ends with the sector or the directory. `None` for
    /// contradicting lengths. High Sierra's flags, in the place of the zone, move to where ECMA-119
    /// has them.
    pub(super) fn parse(rest: &[u8], is_high_sierra: bool) -> Option<Self> {
        let length = usize::from(*rest.first()?);
        let source = rest.get(..length)?;
        if length < RECORD_BYTES_MIN {
            return None;
        }
        let mut bytes = [0; 255];
        bytes.get_mut(..length)?.copy_from_slice(source);
        if is_high_sierra {
            bytes[FLAGS] = bytes[ZONE];
            bytes[ZONE] = 0;
        }
        let identifier_length = usize::from(bytes[32]);
        if identifier_length == 0 || IDENTIFIER_START + identifier_length > length {
            return None;
        }
        Some(Self {
            bytes,
            length,
            identifier_length,
        })
    }

    /// The root directory's record in a volume descriptor (ECMA-119 clause 8.4.18), of 34 bytes;
    /// length and identifier, wrong on old discs, are ignored. `None` when it leads nowhere.
    pub(super) fn root(source: &[u8], is_high_sierra: bool) -> Option<Self> {
        let mut whole = [0; RECORD_BYTES_MIN];
        whole.copy_from_slice(source.get(..RECORD_BYTES_MIN)?);
        whole[0] = RECORD_BYTES_MIN as u8;
        whole[32..].copy_from_slice(&[1, 0]);
        Self::parse(&whole, is_high_sierra)
            .filter(|record| record.both(2) != BothEndian { little: 0, big: 0 })
    }

    pub(super) fn identifier(&self) -> &[u8] {
        &self.bytes[IDENTIFIER_START..IDENTIFIER_START + self.identifier_length]
    }

    /// The bytes after the identifier and its padding (ECMA-119 clause 9.1.13).
    pub(super) fn system_use(&self) -> &[u8] {
        let padded = IDENTIFIER_START + (self.identifier_length | 1);
        self.bytes[..self.length].get(padded..).unwrap_or(&[])
    }

    pub(super) fn is_directory(&self) -> bool {
        self.bytes[FLAGS] & FLAG_DIRECTORY != 0
    }

    pub(super) fn is_associated(&self) -> bool {
        self.bytes[FLAGS] & FLAG_ASSOCIATED != 0
    }

    /// The next record is another section of the file.
    pub(super) fn has_more_sections(&self) -> bool {
        self.bytes[FLAGS] & FLAG_MORE_SECTIONS != 0
    }

    /// File unit size and interleave gap in blocks; `None` for contiguous data. Both must be set
    /// (ECMA-119 clause 6.4.3).
    pub(super) fn interleave(&self) -> Option<(u8, u8)> {
        let (unit, gap) = (self.bytes[26], self.bytes[27]);
        (unit > 0 && gap > 0).then_some((unit, gap))
    }

    pub(super) fn time_bytes(&self) -> &[u8] {
        &self.bytes[18..25]
    }

    /// First byte of the data, behind the extended attribute record (ECMA-119 clause 6.5.1).
    pub(super) fn data_position(&self, volume: &Volume) -> u64 {
        let attribute_blocks = u64::from(self.bytes[1]);
        let system_area_blocks = 16 * SECTOR_BYTES as u64 / u64::from(volume.block_bytes);
        let extent = self.both(2).choose(|block| {
            u64::from(block) >= system_area_blocks
                && volume.contains(volume.block_position(block), 1)
        });
        volume.block_position(extent) + attribute_blocks * u64::from(volume.block_bytes)
    }

    /// First block, that of the extended attribute record if there is one.
    pub(super) fn extent_halves(&self) -> BothEndian {
        self.both(2)
    }

    pub(super) fn length_halves(&self) -> BothEndian {
        self.both(10)
    }

    pub(super) fn data_length(&self, volume: &Volume) -> u32 {
        let number = self.both(10);
        if number.little == number.big {
            return number.little;
        }
        let start = self.data_position(volume);
        number.choose(|length| length > 0 && volume.contains(start, u64::from(length)))
    }

    fn both(&self, offset: usize) -> BothEndian {
        BothEndian::read(&self.bytes, offset).unwrap_or(BothEndian { little: 0, big: 0 })
    }
}

pub(super) struct RecordCursor<'a> {
    last: u64,
    volume: &'a Volume,
    window: Window<'a>,
    start: u64,
    length: u64,
    offset: u64,
}

impl<'a> RecordCursor<'a> {
    /// A walk over the records from `offset` of a directory of `length` bytes at `start`. At least
    /// `step_bytes` are read at once.
    pub(super) fn new(
        volume: &'a Volume,
        (start, length, offset): (u64, u64, u64),
        (may_block, step_bytes): (bool, usize),
    ) -> Self {
        Self {
            volume,
            window: Window::new(&volume.bytes, may_block, step_bytes),
            last: offset,
            start,
            length,
            offset,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<(u64, Record)>> {
        self.next_before(u64::MAX)
    }

    /// The next record, if it begins before `limit`; sectors behind that are not read.
    pub(super) fn next_before(&mut self, limit: u64) -> Result<Option<(u64, Record)>> {
        const SECTOR: u64 = SECTOR_BYTES as u64;
        let is_high_sierra = self.volume.is_high_sierra;
        while self.offset < self.length.min(limit) {
            let sector_start = self.offset - self.offset % SECTOR;
            let sector_length = (self.length - sector_start).min(SECTOR);
            let sector = self
                .window
                .get(self.start + sector_start, sector_length as usize)?;
            let rest = sector
                .get((self.offset - sector_start) as usize..)
                .unwrap_or(&[]);
            if let Some(record) = Record::parse(rest, is_high_sierra) {
                let at = self.offset;
                self.last = at;
                self.offset += record.length as u64;
                return Ok(Some((at, record)));
            }
            if let Some(1..) = rest.first() {
                let position = self.start + self.offset;
                self.note_contradiction(position);
            }
            self.offset = sector_start + SECTOR;
        }
        Ok(None)
    }

    pub(super) fn record_position(&self) -> u64 {
        self.start + self.last
    }

    fn note_contradiction(&self, position: u64) {
        self.volume.note(
            position,
            "ECMA-119 9.1.1",
            "a directory record whose lengths contradict each other; the rest of its sector is \
             skipped",
        );
    }

    /// Offset of the next record, or of the padding before it.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Continues with the record at `offset`.
    pub(super) fn rewind(&mut self, offset: u64) {
        self.offset = offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_must_agree() {
        let mut bytes = vec![0u8; 40];
        bytes[0] = 40;
        bytes[32] = 4;
        bytes[33..37].copy_from_slice(b"A.B;");
        bytes[38..40].copy_from_slice(b"xy");
        let record = Record::parse(&bytes, false).unwrap();
        assert_eq!(record.identifier(), b"A.B;");
        assert_eq!(record.system_use(), b"xy", "after one pad byte");
        assert!(
            Record::parse(&bytes[..39], false).is_none(),
            "past the sector"
        );
        for identifier_length in [0, 8, 255] {
            bytes[32] = identifier_length;
            assert!(Record::parse(&bytes, false).is_none());
        }
        bytes[32] = 7;
        assert_eq!(Record::parse(&bytes, false).unwrap().system_use(), b"");
        bytes[24..26].copy_from_slice(&[FLAG_DIRECTORY, 0]);
        let high_sierra = Record::parse(&bytes, true).unwrap();
        assert!(high_sierra.is_directory() && high_sierra.time_bytes()[6] == 0);
        bytes[0] = 33;
        assert!(Record::parse(&bytes, false).is_none());
        assert!(Record::parse(&[], false).is_none());
    }

    #[test]
    fn the_root_record_needs_only_a_place() {
        let mut bytes = [0u8; 34];
        assert!(Record::root(&bytes, false).is_none(), "leads nowhere");
        bytes[2] = 20;
        for (length, identifier_length, identifier) in [(34, 1, 0), (68, 1, 0), (0, 0, 7)] {
            bytes[0] = length;
            bytes[32] = identifier_length;
            bytes[33] = identifier;
            let root = Record::root(&bytes, false).unwrap();
            assert_eq!((root.identifier(), root.both(2).little), (&[0][..], 20));
            assert_eq!(root.system_use(), b"");
        }
        assert!(Record::root(&bytes[..33], false).is_none());
    }
}
