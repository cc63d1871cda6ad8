//! The virtual allocation table (UDF 2.2.11, and 1.50 2.2.10): where blocks of a write-once disc
//! are.
//!
//! Each session ends with a new table, whose file entry is the last block that was written. An
//! image may have blocks behind it: run-out of the drive, padding, an anchor. So the last
//! [`SEARCH_BLOCKS_MAX`] are searched, from the end.
//!
//! ```text
//! 1.50   entries of 4 bytes | identifier and last ICB, 36 bytes       file type 0
//! 2.x    header | entries of 4 bytes                                  file type 248
//! ```
//!
//! Weakness: in a cut image the table, and so the files, of an earlier session are found, as in a
//! drive.

use pagewell_fs::{Error, Result};
use pagewell_source_bytes::Window;

use super::allocation;
use super::entry::{FILE_TYPE, TYPE_UNSPECIFIED, TYPE_VIRTUAL_TABLE};
use super::extent::Data;
use super::fields::{Fields, Place};
use super::icb::Icb;
use super::space::{Partition, Space};
use super::tag::{self, EXTENDED_FILE_ENTRY, FILE_ENTRY, Tag};

const SEARCH_BLOCKS_MAX: u64 = 512;
/// Entries among them that are read: an image may have nothing else, each a long chain.
const ENTRIES_MAX: usize = 32;
/// The trailer of a table of UDF 1.50.
const TRAILER_BYTES: u64 = 36;
/// The fixed part of the header of later ones.
const HEADER_BYTES_MIN: u64 = 152;

/// The virtual partition over `base`, whose first block in the image is `start`; `None` when no
/// table is found.
pub(crate) fn find(space: &Space, base: u16, start: u32) -> Result<Option<Partition>> {
    let blocks = space.image().length_bytes() / space.block_bytes();
    let last = blocks.saturating_sub(1);
    let first = last.saturating_sub(SEARCH_BLOCKS_MAX).max(start.into());
    // One block per read: what comes before it is not needed.
    let mut window = Window::new(space.image().bytes(), true, 0);
    let mut left = ENTRIES_MAX;
    for block in (first..=last).rev() {
        // Most blocks are data, and no fault.
        if !is_candidate(space, &mut window, block) {
            continue;
        }
        left = match left.checked_sub(1) {
            Some(left) => left,
            None => break,
        };
        let Ok(block) = u32::try_from(block - u64::from(start)) else {
            continue;
        };
        let place = Place {
            partition: base,
            block,
        };
        match table(space, &mut window, place) {
            Ok(Some(partition)) => return Ok(Some(partition)),
            Ok(None) | Err(Error::Io(_)) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

fn is_candidate(space: &Space, window: &mut Window<'_>, block: u64) -> bool {
    let length = space.block_bytes();
    let Ok(bytes) = window.get(block * length, length as usize) else {
        return false;
    };
    let is_entry = |tag: Tag| matches!(tag.identifier, FILE_ENTRY | EXTENDED_FILE_ENTRY);
    let file_type = Fields::new(bytes).u8(FILE_TYPE);
    tag::whole(bytes).is_ok_and(is_entry)
        && matches!(file_type, TYPE_UNSPECIFIED | TYPE_VIRTUAL_TABLE)
}

fn table(space: &Space, window: &mut Window<'_>, place: Place) -> Result<Option<Partition>> {
    let Some(icb) = Icb::read(space, window, place, true)? else {
        return Ok(None);
    };
    let Some(entry) = icb.entry() else {
        return Ok(None);
    };
    let file = allocation::data(space, &icb, &entry, true)?.data;
    if !file.is_in(|partition| partition == place.partition) {
        return Ok(None);
    }
    let bounds = if entry.file_type == TYPE_VIRTUAL_TABLE {
        later_bounds(space, &file)?
    } else {
        early_bounds(space, &file)?
    };
    Ok(bounds.map(|(table_start, table_end)| Partition::Virtual {
        base: place.partition,
        entries: (table_end - table_start) / 4,
        file,
        table_start,
    }))
}

fn later_bounds(space: &Space, file: &Data) -> Result<Option<(u64, u64)>> {
    let mut header = [0; 2];
    if file.size < HEADER_BYTES_MIN {
        return Ok(None);
    }
    space.read(file, 0, &mut header, true)?;
    let start = u64::from(u16::from_le_bytes(header));
    Ok((start >= HEADER_BYTES_MIN && start <= file.size).then_some((start, file.size)))
}

/// For UDF 1.50; `None` without its trailer.
fn early_bounds(space: &Space, file: &Data) -> Result<Option<(u64, u64)>> {
    let Some(end) = file.size.checked_sub(TRAILER_BYTES) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_BYTES as usize];
    space.read(file, end, &mut trailer, true)?;
    let is_table = Fields::new(&trailer).is_entity(0, b"*UDF Virtual Alloc Tbl");
    Ok(is_table.then_some((0, end)))
}
