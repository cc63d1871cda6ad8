//! What several tests make.

use pagewell_device::testing::pattern;

pub(crate) const SECTOR: usize = 2048;
/// The sector of the root of a volume, counted from its own first.
pub(crate) const ROOT: usize = 20;

/// A volume of this many sectors that says that its root is at sector `root` of the disc.
pub(crate) fn volume(root: u32, sectors: usize) -> Vec<u8> {
    let mut data = pattern(sectors * SECTOR);
    for (sector, kind) in [(16, 1), (17, 255)] {
        let descriptor = &mut data[sector * SECTOR..][..SECTOR];
        descriptor.fill(0);
        descriptor[0] = kind;
        descriptor[1..7].copy_from_slice(b"CD001\x01");
    }
    data[32768 + 128..][..2].copy_from_slice(&2048u16.to_le_bytes());
    for record in [32768 + 156, ROOT * SECTOR] {
        let record = &mut data[record..][..34];
        record.fill(0);
        record[0] = 34;
        record[2..6].copy_from_slice(&root.to_le_bytes());
        record[25] = 2;
        record[32] = 1;
    }
    data
}
