//! The table of the master boot record: four entries from byte 446 of the first sector, and logical
//! partitions in a chain of such records. Numbers are those of Linux: 1 to 4, then 5 and on along
//! the chain.
//!
//! ```text
//!  MBR: 1, 2, extended ─┐       starts count from
//!                       v
//!  record: 5, next ─────┐       5: this record; next: the extended partition
//!                       v
//!  record: 6            (no next: the end)
//! ```
//!
//! A record that cannot be read, has no mark or was there before ends its chain.

use pagewell_device::Device;

use super::{PARTITIONS_MAX, Partition};
use crate::Result;
use crate::bytes::{self, u32_little};

const SECTOR_BYTES: u64 = 512;
const TABLE: usize = 446;
const ENTRY_BYTES: usize = 16;
const ENTRIES: usize = 4;
/// Of DOS, of disks of more than 8 GB, and of Linux.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// Entries of a record in a chain that have a meaning.
const CHAIN_ENTRIES: usize = 2;
const FIRST_LOGICAL: usize = 5;

/// An entry; what its start counts from depends on its record.
#[derive(Clone, Copy)]
struct Entry {
    kind: u8,
    start: u64,
    sectors: u64,
}

impl Entry {
    fn is_extended(self) -> bool {
        EXTENDED.contains(&self.kind)
    }

    fn partition(self, number: usize, base: u64) -> Partition {
        Partition {
            number,
            start: (base + self.start) * SECTOR_BYTES,
            length_bytes: self.sectors * SECTOR_BYTES,
        }
    }
}

pub(super) fn partitions(device: &dyn Device) -> Result<Vec<Partition>> {
    let table = entries(device, 0)?;
    let is_used = |entry: &Entry| entry.kind != 0 && entry.start != 0;
    let used = (1..).zip(table).filter(|(_, entry)| is_used(entry));
    let used: Vec<(usize, Entry)> = used.collect();
    let primary = used
        .iter()
        .map(|(number, entry)| entry.partition(*number, 0));
    let mut partitions: Vec<Partition> = primary.collect();
    let mut number = FIRST_LOGICAL;
    let mut seen = Vec::new();
    for (_, extended) in used.into_iter().filter(|(_, entry)| entry.is_extended()) {
        let mut next = Some(extended.start);
        while let Some(sector) = next.filter(|sector| !seen.contains(sector)) {
            seen.push(sector);
            if seen.len() > PARTITIONS_MAX {
                break;
            }
            let mut record = entries(device, sector).unwrap_or_default();
            record.truncate(CHAIN_ENTRIES);
            let (links, logical): (Vec<Entry>, Vec<Entry>) =
                record.into_iter().partition(|entry| entry.is_extended());
            for entry in logical.into_iter().filter(|entry| entry.sectors != 0) {
                partitions.push(entry.partition(number, sector));
                number += 1;
            }
            let link = links.first().filter(|link| link.sectors != 0);
            next = link.map(|link| extended.start + link.start);
        }
    }
    Ok(partitions)
}

/// The entries of a record; none without its mark.
fn entries(device: &dyn Device, sector: u64) -> Result<Vec<Entry>> {
    let record = bytes::read(device, sector * SECTOR_BYTES, SECTOR_BYTES as usize)?;
    let record = record.unwrap_or_default();
    if !record.ends_with(b"\x55\xaa") {
        return Ok(Vec::new());
    }
    let table = record.get(TABLE..).unwrap_or_default();
    let entries = table.chunks_exact(ENTRY_BYTES).take(ENTRIES);
    let entries = entries.filter_map(|entry| {
        Some(Entry {
            kind: *entry.get(4)?,
            start: u64::from(u32_little(entry, 8)?),
            sectors: u64::from(u32_little(entry, 12)?),
        })
    });
    Ok(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_device::RamDevice;

    type Table<'t> = &'t [(u8, u32, u32)];

    /// A disk of 4000 sectors with these records.
    fn disk(records: &[(usize, Table<'_>)]) -> Vec<u8> {
        let mut disk = vec![0; 4000 * 512];
        for (sector, table) in records {
            let record = &mut disk[sector * 512..][..512];
            record[510..].copy_from_slice(b"\x55\xaa");
            for (entry, (kind, start, sectors)) in record[TABLE..].chunks_mut(16).zip(*table) {
                entry[4] = *kind;
                entry[8..12].copy_from_slice(&start.to_le_bytes());
                entry[12..16].copy_from_slice(&sectors.to_le_bytes());
            }
        }
        disk
    }

    /// Numbers, and first sectors and sectors.
    fn found(disk: &[u8]) -> Vec<(usize, u64, u64)> {
        let all = partitions(&RamDevice::holding("disk", disk)).unwrap();
        let all = all.into_iter();
        all.map(|it| (it.number, it.start / 512, it.length_bytes / 512))
            .collect()
    }

    #[test]
    fn logical_partitions_count_from_five_wherever_their_records_are() {
        let chain = disk(&[
            (0, &[(0x83, 8, 90), (0, 0, 0), (5, 1000, 2000)]),
            (1000, &[(0x83, 63, 100), (5, 500, 600)]),
            // An empty one, as some programs leave them, has no number.
            (1500, &[(0, 0, 0), (5, 200, 300)]),
            (1200, &[(0x17, 1, 10), (0, 0, 0), (0xaa, 77, 77)]),
        ]);
        let expected = [(1, 8, 90), (3, 1000, 2000), (5, 1063, 100), (6, 1201, 10)];
        assert_eq!(found(&chain), expected);
    }

    #[test]
    fn each_extended_partition_has_a_chain() {
        let two = disk(&[
            (0, &[(0x0f, 100, 200), (0x85, 400, 200)]),
            (100, &[(0x83, 1, 9)]),
            (400, &[(0x83, 2, 9)]),
        ]);
        let expected = [(1, 100, 200), (2, 400, 200), (5, 101, 9), (6, 402, 9)];
        assert_eq!(found(&two), expected);
    }

    #[test]
    fn damage_ends_a_chain_and_keeps_what_is_before_it() {
        let first: (usize, Table<'_>) = (100, &[(0x83, 1, 9), (5, 50, 100)]);
        let table: Table<'_> = &[(5, 100, 1000)];
        let expected = [(1, 100, 1000), (5, 101, 9)];
        // No mark there.
        assert_eq!(found(&disk(&[(0, table), first])), expected);
        // Around: a link to the first record.
        let mut around = expected.to_vec();
        around.push((6, 152, 9));
        let second: (usize, Table<'_>) = (150, &[(0x83, 2, 9), (5, 0, 100)]);
        assert_eq!(found(&disk(&[(0, table), first, second])), around);
        // Out of the disk, at both ends of what can be written.
        let far: (usize, Table<'_>) = (100, &[(0x83, 1, 9), (5, u32::MAX, u32::MAX)]);
        assert_eq!(found(&disk(&[(0, table), far])), expected);
        let beyond = disk(&[(0, &[(0x0f, u32::MAX, u32::MAX)])]);
        let end = u64::from(u32::MAX);
        assert_eq!(found(&beyond), [(1, end, end)]);
    }

    #[test]
    fn a_chain_is_followed_for_so_long() {
        let mut disk = disk(&[(0, &[(5, 1, 3999)])]);
        for sector in 1..3999u32 {
            let record = &mut disk[sector as usize * 512..][..512];
            record[510..].copy_from_slice(b"\x55\xaa");
            for (entry, kind, start) in [(0, 0x83, 1), (1, 5, sector)] {
                let entry = &mut record[TABLE + 16 * entry..][..16];
                entry[4] = kind;
                entry[8..12].copy_from_slice(&start.to_le_bytes());
                entry[12] = 1;
            }
        }
        assert_eq!(found(&disk).len(), 1 + PARTITIONS_MAX);
    }
}
