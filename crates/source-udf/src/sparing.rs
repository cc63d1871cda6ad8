//! Sparing tables (UDF 2.2.12): damaged packets of a rewritable disc, and where their data was
//! moved. There are up to four copies; the one with the highest number counts.

use pagewell_fs::{Error, Result};

use super::fields::Fields;
use super::image::Image;

const HEADER_BYTES: usize = 56;
const ENTRY_BYTES: usize = 8;
/// Largest table: entries are counted in 16 bits.
const TABLE_BYTES_MAX: usize = HEADER_BYTES + ENTRY_BYTES * u16::MAX as usize;
/// From here on: spare packets that are free or damaged.
const UNUSED: u32 = 0xffff_fff0;
const CLAUSE: &str = "UDF 2.2.12";

/// First blocks of moved packets, in their partition, and where they are in the volume; sorted.
pub(crate) type Moved = Vec<(u32, u32)>;

/// The newest sound one of `tables`, first blocks of copies of `table_bytes`. Empty without a sound
/// copy: no packet is moved then.
pub(crate) fn read(
    image: &Image,
    block_bytes: u32,
    table_bytes: u32,
    tables: &[u32],
) -> Result<Moved> {
    let mut newest: Option<(u32, Moved)> = None;
    for block in tables.iter().filter(|block| **block != 0) {
        let position = u64::from(*block) * u64::from(block_bytes);
        let there = image.length_bytes().saturating_sub(position);
        let length = (table_bytes as usize)
            .clamp(HEADER_BYTES, TABLE_BYTES_MAX)
            .min(usize::try_from(there).unwrap_or(usize::MAX));
        let mut bytes = vec![0; length];
        match image.read(position, &mut bytes, true) {
            Ok(()) => {}
            Err(Error::WouldBlock) => return Err(Error::WouldBlock),
            Err(error) => {
                image.note(position, CLAUSE, &error);
                continue;
            }
        }
        let Some((number, moved)) = parse(image, &bytes, position, *block) else {
            image.note(position, CLAUSE, "no sparing table is there");
            continue;
        };
        if newest.as_ref().is_none_or(|(held, _)| *held < number) {
            newest = Some((number, moved));
        }
    }
    Ok(newest.map(|(_, moved)| moved).unwrap_or_default())
}

fn parse(image: &Image, bytes: &[u8], position: u64, block: u32) -> Option<(u32, Moved)> {
    let tag = image.descriptor(bytes, position, block).ok()?;
    let fields = Fields::new(bytes);
    if tag.identifier != 0 || !fields.is_entity(16, b"*UDF Sparing Table") {
        return None;
    }
    let count = usize::from(fields.u16(48));
    let entries = bytes.get(HEADER_BYTES..)?;
    let mut moved: Moved = entries
        .chunks_exact(ENTRY_BYTES)
        .take(count)
        .map(|entry| (Fields::new(entry).u32(0), Fields::new(entry).u32(4)))
        .filter(|(original, _)| *original < UNUSED)
        .collect();
    moved.sort_unstable();
    moved.dedup_by_key(|(original, _)| *original);
    Some((fields.u32(52), moved))
}
