//! The volume of a disc in a partition: MBR, GPT and Apple's map.
//!
//! A disk that holds a volume from its first byte on (a hybrid image) keeps it. Else the first
//! partition with a volume counts, and others with one are said. Entries that are damaged, or lead
//! out of the disk, are passed over.

mod apple;
mod gpt;
mod mbr;

use std::collections::BTreeSet;
use std::sync::Arc;

use pagewell_device::Device;

use crate::window::Window;
use crate::{Error, Inside, Result, Wanted, volume};

/// Partitions of a table that are looked at; a GPT has 128 as a rule.
const PARTITIONS_MAX: usize = 128;

/// An entry of a table, as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// As the table counts, from 1.
    pub number: usize,
    /// First byte.
    pub start: u64,
    /// Its bytes.
    pub length_bytes: u64,
}

type Tables = Vec<(&'static str, Vec<Partition>)>;

/// The tables of a disk by their kinds, with their entries. Hybrid images have several.
///
/// # Errors
/// A table cannot be read, and the disk has no other.
pub fn partitions(device: &dyn Device) -> Result<Tables> {
    let (tables, unread) = tables(device);
    unread.filter(|_| tables.is_empty()).map_or(Ok(tables), Err)
}

/// Those that can be read, and why one cannot.
fn tables(device: &dyn Device) -> (Tables, Option<Error>) {
    let (mut tables, mut unread) = (Vec::new(), None);
    for (kind, read) in [
        ("GPT", gpt::partitions(device)),
        ("Apple", apple::partitions(device)),
        ("MBR", mbr::partitions(device)),
    ] {
        match read {
            Ok(mut partitions) => {
                partitions.truncate(PARTITIONS_MAX);
                tables.push((kind, partitions));
            }
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    tables.retain(|(_, partitions)| !partitions.is_empty());
    (tables, unread)
}

/// Opens the first partition with a volume, unless another one is wanted.
pub(crate) fn open(device: &Arc<dyn Device>, wanted: &mut Wanted) -> Result<Option<Inside>> {
    if wanted.partition.is_some() {
        return Ok(None);
    }
    let mut found: Vec<(&str, Partition)> = Vec::new();
    let (tables, mut unread) = tables(&**device);
    for (table, partitions) in tables {
        for partition in partitions {
            // Tables of a hybrid disk have some partitions in common.
            let is_new = |(_, it): &(_, Partition)| it.start != partition.start;
            if !found.iter().all(is_new) {
                continue;
            }
            match volume::is_at(&**device, partition.start) {
                Ok(true) => found.push((table, partition)),
                Ok(false) => {}
                Err(error) => unread = unread.or(Some(error)),
            }
        }
    }
    let Some((first, others)) = found.split_first() else {
        return unread.map_or(Ok(None), Err);
    };
    let (window, words) = window(device, *first);
    let mut inside = Inside::new(window, words);
    if let [(_, next), ..] = others {
        let number = next.number;
        let more = match others.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let trouble = format!("has another disc{more}, which partition={number} shows");
        inside.troubles.push(trouble);
    }
    Ok(Some(inside))
}

fn window(
    device: &Arc<dyn Device>,
    (table, partition): (&str, Partition),
) -> (Arc<dyn Device>, String) {
    let Partition {
        number,
        start,
        length_bytes,
    } = partition;
    let window = Window::new(device.clone(), start, length_bytes);
    let words = format!("partition {number} ({table}, at byte {start})");
    (Arc::new(window), words)
}

/// Opens the wanted partition, if any: of several tables in that with a volume there, else in the
/// first.
pub(crate) fn open_wanted(device: &Arc<dyn Device>, wanted: &mut Wanted) -> Result<Option<Inside>> {
    let Some(number) = wanted.partition else {
        return Ok(None);
    };
    let mut found = None;
    let (tables, unread) = tables(&**device);
    for (table, partitions) in tables {
        let mut partitions = partitions.into_iter();
        let Some(partition) = partitions.find(|it| it.number == number) else {
            continue;
        };
        let is_volume = volume::is_at(&**device, partition.start)?;
        if is_volume || found.is_none() {
            found = Some((table, partition));
        }
        if is_volume {
            break;
        }
    }
    let Some(found) = found else {
        return unread.map_or(Ok(None), Err);
    };
    wanted.partition = None;
    let (window, words) = window(device, found);
    Ok(Some(Inside::new(window, words)))
}

pub(crate) fn without(device: &dyn Device, number: usize) -> String {
    let tables = partitions(device).unwrap_or_default();
    let all = tables.iter().flat_map(|(_, partitions)| partitions);
    let numbers: BTreeSet<usize> = all.map(|it| it.number).collect();
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    match numbers.as_slice() {
        [] => "an image without partitions".to_owned(),
        there => format!(
            "a disk without a partition {number} (it has {})",
            there.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Depth, unwrap};
    use pagewell_device::testing::{Faulty, pattern, read};
    use pagewell_device::{Operation, RamDevice};

    const START: usize = 200 * 512;

    fn volume() -> Vec<u8> {
        let mut data = pattern(30 * 2048);
        data[32768..32774].copy_from_slice(b"\x01CD001");
        data
    }

    /// A disk with a volume at [`START`] and more behind it.
    fn disk() -> Vec<u8> {
        let mut disk = vec![0; START];
        disk.extend(volume());
        disk.extend([7; 5000]);
        disk
    }

    fn expect(disk: &[u8], words: &str) {
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding("disk", disk));
        let found = unwrap(device, Wanted::default(), Depth::Open(&|_| {})).unwrap();
        assert_eq!(found.layers[0].to_string(), words);
        let data = volume();
        assert_eq!(found.device.length_bytes(), data.len() as u64);
        assert!(read(&*found.device, 0, data.len()).1[..] == data);
    }

    fn mbr_entry(disk: &mut [u8], index: usize, kind: u8, start: u32, sectors: u32) {
        let at = 446 + 16 * index;
        disk[at + 4] = kind;
        disk[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        disk[at + 12..at + 16].copy_from_slice(&sectors.to_le_bytes());
        disk[510..512].copy_from_slice(b"\x55\xaa");
    }

    #[test]
    fn mbr() {
        let mut disk = disk();
        mbr_entry(&mut disk, 0, 0x83, 1, 3);
        mbr_entry(&mut disk, 1, 0x83, u32::MAX, u32::MAX);
        let sectors = u32::try_from(volume().len() / 512).unwrap();
        mbr_entry(&mut disk, 2, 0x17, 200, sectors);
        expect(&disk, "partition 3 (MBR, at byte 102400)");
    }

    #[test]
    fn logical() {
        let mut disk = disk();
        mbr_entry(&mut disk, 1, 0x0f, 100, 900);
        let sectors = u32::try_from(volume().len() / 512).unwrap();
        let record = &mut disk[100 * 512..];
        mbr_entry(record, 0, 0x83, 100, sectors);
        expect(&disk, "partition 5 (MBR, at byte 102400)");
    }

    #[test]
    fn gpt() {
        for block in [512usize, 4096] {
            let mut disk = disk();
            mbr_entry(&mut disk, 0, 0xee, 1, u32::MAX);
            let head = block;
            disk[head..head + 8].copy_from_slice(b"EFI PART");
            disk[head + 72] = 2;
            disk[head + 80] = 4;
            disk[head + 84] = 128;
            let entry = 2 * block + 128;
            disk[entry] = 1;
            let first = START / block;
            let last = first + volume().len() / block - 1;
            disk[entry + 32..entry + 40].copy_from_slice(&(first as u64).to_le_bytes());
            disk[entry + 40..entry + 48].copy_from_slice(&(last as u64).to_le_bytes());
            expect(&disk, "partition 2 (GPT, at byte 102400)");
        }
    }

    #[test]
    fn apple() {
        for block in [512usize, 2048] {
            let mut disk = disk();
            disk[..2].copy_from_slice(b"ER");
            disk[2..4].copy_from_slice(&(block as u16).to_be_bytes());
            let sectors = volume().len() / block;
            for (index, start, count) in [(1, 1, 2), (2, START / block, sectors)] {
                let at = index * block;
                disk[at..at + 2].copy_from_slice(b"PM");
                disk[at + 7] = 2;
                disk[at + 8..at + 12].copy_from_slice(&(start as u32).to_be_bytes());
                disk[at + 12..at + 16].copy_from_slice(&(count as u32).to_be_bytes());
            }
            expect(&disk, "partition 2 (Apple, at byte 102400)");
        }
    }

    #[test]
    fn all_tables_of_a_hybrid_disk_are_listed() {
        let mut disk = disk();
        mbr_entry(&mut disk, 1, 0xef, 8, 4);
        disk[512..514].copy_from_slice(b"PM");
        disk[512 + 7] = 1;
        disk[512 + 11] = 1;
        disk[512 + 15] = 3;
        disk[..4].copy_from_slice(b"ER\x02\0");
        let device = RamDevice::holding("disk", &disk);
        let entry = |number, start, length_bytes| Partition {
            number,
            start,
            length_bytes,
        };
        let expected = [
            ("Apple", vec![entry(1, 512, 1536)]),
            ("MBR", vec![entry(2, 4096, 2048)]),
        ];
        assert_eq!(partitions(&device).unwrap(), expected);
    }

    #[test]
    fn any_partition_can_be_taken_and_others_are_said() {
        let mut disk = disk();
        let other = disk.len();
        let sectors = u32::try_from(volume().len() / 512).unwrap();
        disk.resize(other.next_multiple_of(512), 0);
        let second = u32::try_from(disk.len() / 512).unwrap();
        disk.extend(volume());
        mbr_entry(&mut disk, 0, 0x17, 200, sectors);
        mbr_entry(&mut disk, 1, 0x83, 1, 8);
        mbr_entry(&mut disk, 3, 0x17, second, sectors);
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding("disk", &disk));
        let found = unwrap(device.clone(), Wanted::default(), Depth::Open(&|_| {})).unwrap();
        assert_eq!(
            found.troubles,
            ["has another disc, which partition=4 shows"]
        );
        let taken = |number| {
            let wanted = Wanted {
                partition: Some(number),
                ..Wanted::default()
            };
            unwrap(device.clone(), wanted, Depth::Open(&|_| {}))
        };
        let fourth = taken(4).unwrap();
        let at = u64::from(second) * 512;
        let words = format!("partition 4 (MBR, at byte {at})");
        assert_eq!(fourth.layers[0].to_string(), words);
        assert!(fourth.troubles.is_empty());
        assert!(read(&*fourth.device, 0, volume().len()).1[..] == volume());
        // One without a volume is what its reader makes of it.
        assert_eq!(taken(2).unwrap().device.length_bytes(), 8 * 512);
        for number in [0, 3, 5, usize::MAX] {
            let error = taken(number).err().unwrap().to_string();
            let part = format!("a disk without a partition {number} (it has 1, 2, 4)");
            assert!(error.ends_with(&part), "{error}");
        }
    }

    #[test]
    fn a_partition_that_cannot_be_read_costs_itself() {
        let mut disk = disk();
        disk.resize(300 << 10, 0);
        let sectors = u32::try_from(volume().len() / 512).unwrap();
        mbr_entry(&mut disk, 0, 0x17, 400, sectors);
        let opened = |disk: &[u8]| {
            let mut below = Faulty::new("disk", disk.len() as u64);
            below.ram = RamDevice::holding("disk", disk);
            let at = 400 * 512 + volume::MARK_POSITION;
            *below.bad.lock().unwrap() = vec![(Operation::Read, at..at + 1)];
            unwrap(Arc::new(below), Wanted::default(), Depth::Open(&|_| {}))
        };
        assert!(opened(&disk).is_err());
        mbr_entry(&mut disk, 1, 0x17, 200, sectors);
        let words = opened(&disk).unwrap().layers[0].to_string();
        assert_eq!(words, "partition 2 (MBR, at byte 102400)");
    }

    #[test]
    fn a_sector_of_a_table_that_cannot_be_read_costs_that_table() {
        let mut disk = disk();
        disk.resize(300 << 10, 0);
        let sectors = u32::try_from(volume().len() / 512).unwrap();
        let last = disk.len() as u64 - 1;
        let opened = |disk: &[u8], bad: u64| {
            let mut below = Faulty::new("disk", disk.len() as u64);
            below.ram = RamDevice::holding("disk", disk);
            *below.bad.lock().unwrap() = vec![(Operation::Read, bad..bad + 1)];
            unwrap(Arc::new(below), Wanted::default(), Depth::Open(&|_| {}))
        };
        assert!(opened(&disk, 512).is_err(), "there may be a table");
        mbr_entry(&mut disk, 1, 0x17, 200, sectors);
        // Where a GPT begins, and where an image of Nero ends.
        for bad in [512, 4096, last] {
            let words = opened(&disk, bad).unwrap().layers[0].to_string();
            assert_eq!(words, "partition 2 (MBR, at byte 102400)");
        }
    }

    #[test]
    fn a_volume_of_the_whole_disk_comes_first() {
        let mut disk = disk();
        let sectors = u32::try_from(volume().len() / 512).unwrap();
        mbr_entry(&mut disk, 0, 0x17, 200, sectors);
        disk[32768..32774].copy_from_slice(b"\x01CD001");
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding("disk", &disk));
        assert!(
            unwrap(device, Wanted::default(), Depth::Open(&|_| {}))
                .unwrap()
                .layers
                .is_empty()
        );
    }
}
