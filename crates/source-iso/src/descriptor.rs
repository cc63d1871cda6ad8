//! One volume descriptor (ECMA-119 clause 8), in either of two layouts.
//!
//! A descriptor is a sector. Its type says which tree it describes:
//!
//! | type | version | escape sequences | tree |
//! |---|---|---|---|
//! | 1 | 1 | | primary |
//! | 2 | 1 | UCS-2 | Joliet |
//! | 2 | 2 | | enhanced (ISO 9660:1999) |
//!
//! High Sierra, the draft of 1986, has eight more bytes in front and shorter fields.
//!
//! Weakness: texts of the primary descriptor are read as UTF-8, against the standard.

use std::hash::Hasher;

use pagewell_fs::Timestamp;
use siphasher::sip::SipHasher24;

use super::names::{announce_joliet, wide_text};
use super::record::Record;
use super::time;
use super::volume::{BothEndian, SECTOR_BYTES};

const ESCAPE_SEQUENCES: std::ops::Range<usize> = 88..120;
const ROOT_RECORD_BYTES: usize = 34;
/// Publisher, preparer and application (ECMA-119 clauses 8.4.20 to 8.4.22).
const LONG_TEXT_BYTES: usize = 128;
/// System and volume (clauses 8.4.5 and 8.4.6).
const SHORT_TEXT_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Boot,
    Primary,
    Joliet,
    Enhanced,
    /// A descriptor without a tree that is read.
    Other,
    Terminator,
    /// Of UDF (ECMA-167 2/9.1), which may be among them: NSR02 or NSR03.
    Udf,
    /// Of UDF: the begin, the end, or a boot descriptor.
    Extended,
}

struct Layout {
    system: usize,
    volume: usize,
    blocks: usize,
    block_bytes: usize,
    root: usize,
    publisher: usize,
    preparer: usize,
    application: usize,
    created: usize,
    time_bytes: usize,
}

const ECMA_119: Layout = Layout {
    system: 8,
    volume: 40,
    blocks: 80,
    block_bytes: 128,
    root: 156,
    publisher: 318,
    preparer: 446,
    application: 574,
    created: 813,
    time_bytes: 17,
};

const HIGH_SIERRA: Layout = Layout {
    system: 16,
    volume: 48,
    blocks: 88,
    block_bytes: 136,
    root: 180,
    publisher: 342,
    preparer: 470,
    application: 598,
    created: 790,
    time_bytes: 16,
};

#[derive(Clone)]
pub(super) struct Descriptor {
    pub is_high_sierra: bool,
    /// First byte in the image.
    pub position: u64,
    pub halves_agree: bool,
    pub label: String,
    pub system: String,
    pub publisher: String,
    pub preparer: String,
    pub application: String,
    pub created: Option<Timestamp>,
    /// The unit of extent numbers, as recorded.
    pub block_bytes: u32,
    pub volume_blocks: u32,
    /// `None`: it contradicts itself.
    pub root: Option<Record>,
    pub identity: u64,
}

/// The kind of a sector, and whether it is High Sierra's; `None` for other data.
pub(super) fn kind_of(sector: &[u8; SECTOR_BYTES]) -> Option<(Kind, bool)> {
    if &sector[9..14] == b"CDROM" {
        return Some(match sector[8] {
            0 => (Kind::Boot, true),
            1 => (Kind::Primary, true),
            255 => (Kind::Terminator, true),
            _ => (Kind::Other, true),
        });
    }
    let kind = match &sector[1..6] {
        b"CD001" => match sector[0] {
            0 => Kind::Boot,
            1 => Kind::Primary,
            2 if sector[6] == 2 => Kind::Enhanced,
            2 if announce_joliet(&sector[ESCAPE_SEQUENCES]) => Kind::Joliet,
            255 => Kind::Terminator,
            _ => Kind::Other,
        },
        b"NSR02" | b"NSR03" => Kind::Udf,
        b"BEA01" | b"TEA01" | b"BOOT2" => Kind::Extended,
        _ => return None,
    };
    Some((kind, false))
}

impl Descriptor {
    /// Reads the descriptor in `sector`, at `position` of an image of `length_bytes`.
    pub(super) fn read(
        sector: &[u8; SECTOR_BYTES],
        (kind, is_high_sierra): (Kind, bool),
        (position, length_bytes): (u64, u64),
    ) -> Self {
        let layout = if is_high_sierra {
            HIGH_SIERRA
        } else {
            ECMA_119
        };
        let text = |offset: usize, length: usize| {
            let bytes = sector.get(offset..offset + length).unwrap_or(&[]);
            match kind {
                Kind::Joliet => wide_text(bytes).trim_end_matches(['\0', ' ']).to_owned(),
                _ => text(bytes),
            }
        };
        let root = sector.get(layout.root..layout.root + ROOT_RECORD_BYTES);
        let blocks = BothEndian::read(sector, layout.blocks);
        let blocks = blocks.unwrap_or(BothEndian { little: 0, big: 0 });
        let (block_bytes, blocks_agree) = block_bytes(sector, layout.block_bytes);
        Self {
            is_high_sierra,
            position,
            halves_agree: blocks.little == blocks.big && blocks_agree,
            label: text(layout.volume, SHORT_TEXT_BYTES),
            system: text(layout.system, SHORT_TEXT_BYTES),
            publisher: text(layout.publisher, LONG_TEXT_BYTES),
            preparer: text(layout.preparer, LONG_TEXT_BYTES),
            application: text(layout.application, LONG_TEXT_BYTES),
            created: created(sector, &layout),
            block_bytes,
            volume_blocks: blocks.choose(|blocks| blocks > 0),
            root: root.and_then(|bytes| Record::root(bytes, is_high_sierra)),
            identity: identity(sector, length_bytes),
        }
    }

    pub(super) fn end_of_volume(&self, start: u64) -> u64 {
        let blocks = u64::from(self.volume_blocks) * u64::from(self.block_bytes);
        let start = start.saturating_mul(SECTOR_BYTES as u64);
        start.saturating_add(blocks)
    }

    /// Bytes of the volume that an image of this length lacks.
    pub(super) fn missing_bytes(&self, start: u64, length_bytes: u64) -> u64 {
        self.end_of_volume(start).saturating_sub(length_bytes)
    }

    /// Whether this reader takes the block size: ECMA-119 clause 6.2.2, and some above a sector.
    pub(super) fn has_sound_blocks(&self) -> bool {
        (512..=32768).contains(&self.block_bytes) && self.block_bytes.is_power_of_two()
    }
}

/// A 16-bit number in both byte orders, and whether they agree.
fn block_bytes(sector: &[u8; SECTOR_BYTES], offset: usize) -> (u32, bool) {
    let little = u16::from_le_bytes([sector[offset], sector[offset + 1]]);
    let big = u16::from_be_bytes([sector[offset + 2], sector[offset + 3]]);
    let sound = |size: u16| size >= 512 && size.is_power_of_two();
    let chosen = if !sound(little) && sound(big) {
        big
    } else {
        little
    };
    (u32::from(chosen), little == big)
}

fn created(sector: &[u8; SECTOR_BYTES], layout: &Layout) -> Option<Timestamp> {
    let recorded = sector.get(layout.created..layout.created + layout.time_bytes)?;
    // High Sierra has no zone.
    let mut stamp = [0; 17];
    stamp.get_mut(..recorded.len())?.copy_from_slice(recorded);
    time::long(&stamp)
}

fn identity(sector: &[u8; SECTOR_BYTES], length_bytes: u64) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(sector);
    hasher.write_u64(length_bytes.to_le());
    hasher.finish()
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' '));
    let text = bytes.get(..end.map_or(0, |last| last + 1)).unwrap_or(&[]);
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector(kind: u8, version: u8, escape: &[u8]) -> [u8; SECTOR_BYTES] {
        let mut sector = [0; SECTOR_BYTES];
        sector[0] = kind;
        sector[1..6].copy_from_slice(b"CD001");
        sector[6] = version;
        sector[88..88 + escape.len()].copy_from_slice(escape);
        sector
    }

    #[test]
    fn type_version_and_escape_sequences_give_the_kind() {
        for (sector, kind) in [
            (sector(0, 1, b""), Kind::Boot),
            (sector(1, 1, b""), Kind::Primary),
            (sector(2, 1, b"%/E"), Kind::Joliet),
            (sector(2, 2, b""), Kind::Enhanced),
            (sector(2, 2, b"%/E"), Kind::Enhanced),
            (sector(2, 1, b"%/B"), Kind::Other),
            (sector(3, 1, b""), Kind::Other),
            (sector(255, 1, b""), Kind::Terminator),
        ] {
            assert_eq!(kind_of(&sector), Some((kind, false)));
        }
        let mut other = [0; SECTOR_BYTES];
        assert_eq!(kind_of(&other), None);
        other[1..6].copy_from_slice(b"NSR03");
        assert_eq!(kind_of(&other), Some((Kind::Udf, false)));
        other[8..14].copy_from_slice(b"\x01CDROM");
        assert_eq!(kind_of(&other), Some((Kind::Primary, true)));
    }

    #[test]
    fn texts_end_before_their_padding() {
        let mut primary = sector(1, 1, b"");
        primary[40..47].copy_from_slice(b"A DISC ");
        primary[813..830].copy_from_slice(b"2026112919300050\x04");
        primary[80..88].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 2]);
        let found = Descriptor::read(&primary, (Kind::Primary, false), (0, 0));
        assert_eq!(
            (found.label.as_str(), found.system.as_str()),
            ("A DISC", "")
        );
        let created = found.created.unwrap();
        assert_eq!(
            (created.seconds, created.nanoseconds),
            (1_795_977_000, 500_000_000)
        );
        assert_eq!(found.volume_blocks, 258, "the big-endian half");
        let mut joliet = sector(2, 1, b"%/E");
        joliet[40..48].copy_from_slice(b"\0\xe4\0b\0 \0\0");
        let found = Descriptor::read(&joliet, (Kind::Joliet, false), (0, 0));
        assert_eq!(found.label, "\u{e4}b");
    }
}
