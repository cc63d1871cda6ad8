//! A later session of a disc, alone: data behind music (CD-Extra), or written later.
//!
//! Its bytes are shown where the disc has them ([`Joined`]), from whose beginning extents count.
//!
//! Nothing that is stored says where that is. But the primary descriptor has the sector of the root
//! directory, S + r, as has that directory's first record. A root that is found before its place
//! tells S.
//!
//! ```text
//!  as it is stored   | 0 .. 15 | 16 descriptors | ...      | r root directory: "I am at S + r"
//! ```
//!
//! Writers count the sectors of its volume from its own beginning, readers from the disc's; so
//! [`shortfall`] says when the session is cut off.
//!
//! Weakness: a root directory behind [`SEARCHED_SECTORS`] is not found.

use std::sync::Arc;

use pagewell_device::Device;

use crate::joined::Joined;
use crate::volume::{self, FIRST_SECTOR, SECTOR_BYTES};
use crate::{Result, bytes};

/// Writers put path tables before the root directory, and little else.
const SEARCHED_SECTORS: u64 = 1024;
const PIECE_SECTORS: u64 = 32;

/// Where the extents of a volume count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// From its own first sector.
    Here,
    /// Its own first sector is this one of its disc.
    At(u64),
    /// That cannot be seen.
    Unknown,
}

/// The device with its sectors where its disc had them, and the first of them; `None` where they
/// are in place, or that cannot be seen.
pub(crate) fn open(inner: &Arc<dyn Device>) -> Option<(Joined, u64)> {
    match place(&**inner) {
        Place::At(first) => Some((Joined::new(inner, first, &[]), first)),
        Place::Here | Place::Unknown => None,
    }
}

/// What a session from sector `first` on lacks that has `there` bytes, in words that can follow
/// "it".
pub(crate) fn shortfall(inner: &dyn Device, first: u64, there: u64) -> Option<String> {
    let at = FIRST_SECTOR * SECTOR_BYTES;
    let descriptor = bytes::read(inner, at, SECTOR_BYTES as usize).ok()??;
    let sectors = volume::sectors(&descriptor)?;
    let whole = sectors * SECTOR_BYTES;
    // Readers see the end of a volume that counts from the disc's beginning. Some writers do not
    // pad the last sector.
    let is_cut = sectors <= first && there + SECTOR_BYTES <= whole;
    let tail = "bytes of its volume, as after an interrupted download";
    is_cut.then(|| format!("has {there} of the {whole} {tail}"))
}

/// Where the extents of a device's volume count from. Errors are left to readers.
pub(crate) fn place(device: &dyn Device) -> Place {
    match root(device) {
        Some(root) if is_root_at(device, root) => Place::Here,
        Some(root) => search(device, root)
            .unwrap_or(None)
            .map_or(Place::Unknown, Place::At),
        None => Place::Unknown,
    }
}

/// Whether the root directory is where it says.
pub(crate) fn is_in_place(device: &dyn Device) -> bool {
    root(device).is_some_and(|root| is_root_at(device, root))
}

/// The sector of the root directory.
fn root(device: &dyn Device) -> Option<u64> {
    let at = FIRST_SECTOR * SECTOR_BYTES;
    let descriptor = bytes::read(device, at, SECTOR_BYTES as usize).ok()??;
    volume::root_sector(&descriptor)
}

fn is_root_at(device: &dyn Device, root: u64) -> bool {
    let record = bytes::read(device, root * SECTOR_BYTES, volume::ROOT_BYTES);
    record.is_ok_and(|record| record.is_some_and(|record| volume::is_root(&record, root)))
}

/// The sector of its disc with which a device begins whose root directory is at `root`.
fn search(device: &dyn Device, root: u64) -> Result<Option<u64>> {
    let sectors = device.length_bytes() / SECTOR_BYTES;
    let mut from = FIRST_SECTOR + 1;
    while from < sectors.min(SEARCHED_SECTORS) {
        let count = PIECE_SECTORS.min(sectors - from);
        let length = (count * SECTOR_BYTES) as usize;
        let piece = bytes::read(device, from * SECTOR_BYTES, length)?.unwrap_or_default();
        let mut all = piece.chunks(SECTOR_BYTES as usize).zip(from..);
        if let Some((_, found)) = all.find(|(sector, _)| volume::is_root(sector, root)) {
            return Ok(root.checked_sub(found).filter(|first| *first > 0));
        }
        from += count;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Depth, Wanted, unwrap};
    use pagewell_device::RamDevice;
    use pagewell_device::testing::{pattern, read, write};

    const SECTORS: usize = 120;
    const ROOT: usize = 20;

    /// A volume whose root is at sector 20, and says that it is at `root`.
    fn volume(root: u32) -> Vec<u8> {
        let mut data = pattern(SECTORS * 2048);
        data[32768..32774].copy_from_slice(b"\x01CD001");
        data[32768 + 128..][..2].copy_from_slice(&2048u16.to_le_bytes());
        for record in [32768 + 156, ROOT * 2048] {
            let record = &mut data[record..][..34];
            record.fill(0);
            record[0] = 34;
            record[2..6].copy_from_slice(&root.to_le_bytes());
            record[25] = 2;
            record[32] = 1;
        }
        data
    }

    fn opened(data: &[u8]) -> (Arc<dyn Device>, Vec<String>) {
        let device = Arc::new(RamDevice::holding("x", data));
        let found = unwrap(device, Wanted::default(), Depth::Open(&|_| {})).unwrap();
        let layers = found.layers.iter().map(ToString::to_string).collect();
        (found.device, layers)
    }

    #[test]
    fn sectors_are_where_the_disc_had_them() {
        // Of its first sectors those up to the one behind its descriptors are shown once more.
        let again = 18 * 2048;
        for first in [45_150u32, 100, 90, 30] {
            let data = volume(first + ROOT as u32);
            let (session, layers) = opened(&data);
            let words = format!("a session from sector {first} of its disc on");
            assert_eq!(layers, [words]);
            let start = first as usize * 2048;
            assert_eq!(session.length_bytes(), (start + data.len()) as u64);
            let whole = read(&*session, start as u64, data.len());
            assert!(whole.0.result.is_ok() && whole.1[..] == data);
            let (outcome, bytes) = read(&*session, 100, start);
            assert!(outcome.result.is_err());
            assert_eq!(outcome.transferred_bytes, again - 100);
            assert!(bytes[..again - 100] == data[100..again]);
            let (outcome, _) = read(&*session, start as u64 - 1, 2);
            assert_eq!(outcome.transferred_bytes, 0);
            assert!(outcome.result.is_err());
            assert!(write(&*session, 0, b"x").result.is_err());
        }
        let data = volume(1 + ROOT as u32);
        let (session, _) = opened(&data);
        let (outcome, bytes) = read(&*session, 17 * 2048, data.len() - 16 * 2048);
        assert!(outcome.result.is_ok() && bytes[..] == data[16 * 2048..]);
    }

    #[test]
    fn a_session_that_is_cut_off_says_so() {
        let mut data = volume(5000);
        data[32768 + 80..][..4].copy_from_slice(&(SECTORS as u32).to_le_bytes());
        let troubles = |length: usize| {
            let device = Arc::new(RamDevice::holding("x", &data[..length]));
            unwrap(device, Wanted::default(), Depth::Open(&|_| {}))
                .unwrap()
                .troubles
        };
        let whole = SECTORS * 2048;
        assert_eq!(troubles(whole), [""; 0]);
        assert_eq!(troubles(whole - 2047), [""; 0]);
        let said = "has 204800 of the 245760 bytes of its volume, as after an interrupted download";
        assert_eq!(troubles(100 * 2048), [said]);
        // A volume that counts from the beginning of the disc.
        data[32768 + 80..][..4].copy_from_slice(&6000u32.to_le_bytes());
        let device = Arc::new(RamDevice::holding("x", &data));
        let found = unwrap(device, Wanted::default(), Depth::Open(&|_| {})).unwrap();
        assert!(found.troubles.is_empty() && found.layers.len() == 1);
    }

    #[test]
    fn what_is_in_place_or_cannot_be_found_is_left_alone() {
        let nowhere = {
            let mut data = volume(5000);
            data[ROOT * 2048 + 2] ^= 1;
            data
        };
        let other_blocks = {
            let mut data = volume(5000);
            data[32768 + 129] = 2;
            data
        };
        for data in [
            volume(ROOT as u32),
            volume(10),
            volume(0),
            nowhere,
            other_blocks,
        ] {
            let (device, layers) = opened(&data);
            assert!(layers.is_empty(), "{layers:?}");
            assert_eq!(device.length_bytes(), data.len() as u64);
        }
        for length in (0..SECTORS * 2048).step_by(1000) {
            let _ = opened(&volume(5000)[..length]);
        }
    }
}
