//! The logical volume descriptor (ECMA-167 3/10.6) and its partition maps (3/10.7, UDF 2.2.8 to
//! 2.2.10 and 2.2.18): which partitions the places of a file system are in.

use super::fields::{Fields, LongAd};
use super::text;

const MAPS_START: usize = 440;
/// Writers make two.
const MAPS_MAX: usize = 16;
/// Bytes of a map of type 1 and of type 2.
const PHYSICAL_BYTES: usize = 6;
const LOGICAL_BYTES: usize = 64;
/// Sparing tables of a map (UDF 2.2.9).
const TABLES_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    /// Number of the partition of the volume that it lies in.
    pub number: u16,
    pub kind: MapKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    Physical,
    Virtual,
    /// With damaged packets moved.
    Sparable {
        packet_blocks: u32,
        /// Bytes of each table, and first blocks of the tables.
        table_bytes: u32,
        tables: Vec<u32>,
    },
    Metadata {
        /// Blocks of the file's entry and of its mirror's.
        main: u32,
        mirror: u32,
    },
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogicalVolume {
    pub label: String,
    /// In binary coded decimals: 0x0250 is 2.50.
    pub revision: u16,
    pub block_bytes: u32,
    pub file_sets: LongAd,
    pub maps: Vec<Map>,
}

impl LogicalVolume {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let fields = Fields::new(bytes);
        let length = fields.u32(264) as usize;
        let area = bytes.get(MAPS_START..).unwrap_or(&[]);
        let area = area.get(..length).unwrap_or(area);
        let count = fields.u32(268) as usize;
        Self {
            label: text::fixed(fields.bytes(84, 128)),
            revision: fields.u16(240),
            block_bytes: fields.u32(212),
            file_sets: fields.long_ad(248),
            maps: maps(area, count.min(MAPS_MAX)),
        }
    }
}

fn maps(mut area: &[u8], count: usize) -> Vec<Map> {
    let mut maps = Vec::new();
    while maps.len() < count {
        let length = usize::from(Fields::new(area).u8(1));
        let Some((map, rest)) = area.split_at_checked(length).filter(|_| length >= 2) else {
            break;
        };
        maps.push(parse_map(map));
        area = rest;
    }
    maps
}

fn parse_map(map: &[u8]) -> Map {
    let fields = Fields::new(map);
    let unknown = Map {
        number: 0,
        kind: MapKind::Unknown,
    };
    match (fields.u8(0), map.len()) {
        (1, PHYSICAL_BYTES..) => Map {
            number: fields.u16(4),
            kind: MapKind::Physical,
        },
        (2, LOGICAL_BYTES..) => Map {
            number: fields.u16(38),
            kind: logical_kind(fields),
        },
        _ => unknown,
    }
}

fn logical_kind(fields: Fields<'_>) -> MapKind {
    if fields.is_entity(4, b"*UDF Virtual Partition") {
        MapKind::Virtual
    } else if fields.is_entity(4, b"*UDF Sparable Partition") {
        let count = usize::from(fields.u8(42)).min(TABLES_MAX);
        MapKind::Sparable {
            packet_blocks: u32::from(fields.u16(40)),
            table_bytes: fields.u32(44),
            tables: (0..count).map(|index| fields.u32(48 + 4 * index)).collect(),
        }
    } else if fields.is_entity(4, b"*UDF Metadata Partition") {
        MapKind::Metadata {
            main: fields.u32(40),
            mirror: fields.u32(44),
        }
    } else {
        MapKind::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logical(name: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut map = vec![0; LOGICAL_BYTES];
        map[..2].copy_from_slice(&[2, 64]);
        map[5..5 + name.len()].copy_from_slice(name);
        map[38] = 3;
        map[40..40 + rest.len()].copy_from_slice(rest);
        map
    }

    #[test]
    fn maps_of_each_kind() {
        let area = [
            vec![1, 6, 1, 0, 3, 0],
            logical(b"*UDF Virtual Partition", b""),
            logical(
                b"*UDF Sparable Partition",
                &[32, 0, 9, 0, 0, 32, 0, 0, 7, 0, 0, 0, 8],
            ),
            logical(b"*UDF Metadata Partition", &[5, 0, 0, 0, 6]),
            logical(b"*Other", b""),
            vec![9, 2],
        ]
        .concat();
        let kinds: Vec<_> = maps(&area, 16)
            .into_iter()
            .map(|map| (map.number, map.kind))
            .collect();
        let sparable = MapKind::Sparable {
            packet_blocks: 32,
            table_bytes: 8192,
            tables: vec![7, 8, 0, 0],
        };
        let metadata = MapKind::Metadata { main: 5, mirror: 6 };
        let expected = [
            (3, MapKind::Physical),
            (3, MapKind::Virtual),
            (3, sparable),
            (3, metadata),
            (3, MapKind::Unknown),
            (0, MapKind::Unknown),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn maps_that_contradict_their_table_end_it() {
        let physical = [1, 6, 1, 0, 3, 0];
        assert_eq!(maps(&physical, 0), []);
        assert_eq!(maps(&physical, 9).len(), 1);
        assert_eq!(maps(&[1, 0, 1, 6], 9), []);
        assert_eq!(maps(&[1, 60, 1, 0, 3, 0], 9), []);
        assert_eq!(maps(&[1, 2, 1, 2], 9).len(), 2);
        assert_eq!(maps(&[], 9), []);
    }
}
