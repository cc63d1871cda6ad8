//! The boot catalogue of El Torito 1.0: which images a machine can boot from the disc.
//!
//! ```text
//! catalogue: | validation | initial entry | header | entry | extension | header ...
//! ```
//!
//! All are of 32 bytes. A header announces entries for one platform; extensions are skipped. Some
//! announce thousands: the first sector and 32 entries are read.

use super::volume::SECTOR_BYTES;
use pagewell_source_bytes::Readable;

const ENTRY_BYTES: usize = 32;
const ENTRIES_MAX: usize = 32;
/// The unit of load counts.
const LOAD_BYTES: u64 = 512;

/// How the firmware shows an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootMedium {
    /// As memory that it jumps to.
    None,
    /// As a floppy disk of this many KiB.
    Floppy(u16),
    /// As a hard disk.
    HardDisk,
    /// An unknown number.
    Unknown(u8),
}

/// An image to boot from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootEntry {
    /// 0 x86, 1 PowerPC, 2 Mac, 0xef EFI.
    pub platform: u8,
    /// Whether firmware may boot it.
    pub bootable: bool,
    /// How firmware shows it.
    pub medium: BootMedium,
    /// First byte in the image; entries count in sectors of 2048 bytes.
    pub position: u64,
    /// Bytes that firmware loads; of a floppy disk, all.
    pub length_bytes: u64,
}

pub(super) fn entries<E>(image: &Readable<'_, E>, sector: u32) -> Result<Vec<BootEntry>, E> {
    let mut bytes = [0u8; SECTOR_BYTES];
    let there = image.read_if_there(position(sector), &mut bytes)?;
    Ok(if there { parse(&bytes) } else { Vec::new() })
}

fn position(sector: u32) -> u64 {
    u64::from(sector) * SECTOR_BYTES as u64
}

fn parse(sector: &[u8]) -> Vec<BootEntry> {
    const VALIDATION: u8 = 1;
    const BOOTABLE: u8 = 0x88;
    const NOT_BOOTABLE: u8 = 0;
    const EXTENSION: u8 = 0x44;
    const HEADER: u8 = 0x90;
    const LAST_HEADER: u8 = 0x91;
    let mut records = sector.chunks_exact(ENTRY_BYTES);
    let Some([VALIDATION, platform, ..]) = records.next() else {
        return Vec::new();
    };
    let mut platform = *platform;
    // The initial entry has no header.
    let mut announced = 1;
    let mut is_last = false;
    let mut found = Vec::new();
    for record in records {
        match (record[0], announced) {
            (EXTENSION, _) => {}
            (BOOTABLE | NOT_BOOTABLE, 1..) if found.len() < ENTRIES_MAX => {
                announced -= 1;
                found.push(entry(record, platform));
            }
            (HEADER | LAST_HEADER, 0) if !is_last => {
                platform = record[1];
                announced = u16::from_le_bytes([record[2], record[3]]);
                is_last = record[0] == LAST_HEADER;
            }
            _ => break,
        }
    }
    found
}

fn entry(record: &[u8], platform: u8) -> BootEntry {
    let medium = match record[1] & 0x0f {
        0 => BootMedium::None,
        1 => BootMedium::Floppy(1200),
        2 => BootMedium::Floppy(1440),
        3 => BootMedium::Floppy(2880),
        4 => BootMedium::HardDisk,
        other => BootMedium::Unknown(other),
    };
    let loads = u64::from(u16::from_le_bytes([record[6], record[7]]));
    let sector = u32::from_le_bytes([record[8], record[9], record[10], record[11]]);
    BootEntry {
        platform,
        bootable: record[0] != 0,
        medium,
        position: position(sector),
        length_bytes: match medium {
            BootMedium::Floppy(kibibytes) => u64::from(kibibytes) << 10,
            _ => loads * LOAD_BYTES,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(head: &[u8], loads: u16, block: u32) -> Vec<u8> {
        let mut record = head.to_vec();
        record.resize(6, 0);
        record.extend(loads.to_le_bytes());
        record.extend(block.to_le_bytes());
        record.resize(ENTRY_BYTES, 0);
        record
    }

    #[test]
    fn entries_of_all_platforms_are_found() {
        let catalogue = [
            record(&[1, 0], 0, 0),
            record(&[0x88, 0], 4, 30),
            record(&[0x90, 0xef, 2, 0], 0, 0),
            record(&[0x88, 0x20], 65535, 40),
            record(&[0x44, 0], 0, 0),
            record(&[0, 2], 1, 50),
            record(&[0x91, 1, 1, 0], 0, 0),
            record(&[0x88, 4], 1, 60),
            record(&[0x90, 1, 1, 0], 0, 0),
            record(&[0x88, 4], 1, 70),
        ];
        let found = parse(&catalogue.concat());
        let shown: Vec<_> = found
            .iter()
            .map(|entry| (entry.platform, entry.medium, entry.position / 2048))
            .collect();
        let expected = [
            (0, BootMedium::None, 30),
            (0xef, BootMedium::None, 40),
            (0xef, BootMedium::Floppy(1440), 50),
            (1, BootMedium::HardDisk, 60),
        ];
        assert_eq!(shown, expected);
        let lengths: Vec<_> = found.iter().map(|entry| entry.length_bytes).collect();
        assert_eq!(lengths, [2048, 65535 * 512, 1_474_560, 512]);
        assert!(found[0].bootable && !found[2].bootable);
    }

    #[test]
    fn a_catalogue_without_end_is_read_to_a_bound() {
        let mut catalogue = [record(&[1, 0], 0, 0), record(&[0x88], 4, 30)].concat();
        catalogue.extend(record(&[0x90, 0, 255, 255], 0, 0));
        while catalogue.len() < SECTOR_BYTES {
            catalogue.extend(record(&[0x88], 4, 30));
        }
        assert_eq!(parse(&catalogue).len(), ENTRIES_MAX);
        assert!(parse(&[0; SECTOR_BYTES]).is_empty());
        assert!(parse(&[]).is_empty());
    }
}
