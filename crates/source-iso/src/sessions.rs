//! The sessions in a file.
//!
//! **Problem.** A disc has a table of its sessions; a file has not. A session has descriptors 16
//! sectors behind its start; its extents count from that of the disc.
//!
//! **Rule.** The next session begins at one of a few places behind the end of the last one:
//!
//! ```text
//! joined:  | 16: first    | second, at the end or behind a gap | ...
//! grown:   | 16: newest   | 32: first | second, at a multiple of 32 | ...
//! ```
//!
//! A grown file (xorriso) keeps a copy of the newest descriptors at sector 16, and its first
//! session begins at sector 32. A file made of a disc may keep the gaps. A file inside an image may
//! be an image, too: so each session's root directory must be behind its start and refer to itself.
//!
//! Weakness: sessions written over the first one's descriptors (growisofs on rewritable discs) are
//! not found; sector 16 has the newest.

use pagewell_source_bytes::Readable;

use super::descriptor::Descriptor;
use super::descriptor_set::DescriptorSet;
use super::record::{IDENTIFIER_SELF, Record};
use super::volume::SECTOR_BYTES;

const SECTOR: u64 = SECTOR_BYTES as u64;
/// Of a compact disc; other discs have few more, and no use for them.
const SESSIONS_MAX: usize = 99;
const GROWN_START: u64 = 32;
const ALIGNMENTS: [u64; 3] = [1, 16, 32];
/// Sectors between two sessions: none, the padding of writers, and on a compact disc lead-out and
/// lead-in (11400 behind the first session, 6900 behind others), after two sectors of run-out.
const GAPS: [u64; 8] = [0, 150, 6900, 6902, 7050, 11400, 11402, 11550];

pub(super) struct Found {
    pub start: u64,
    pub set: DescriptorSet,
}

/// All sessions of an image, oldest first; at least one when the first has descriptors.
pub(super) fn find<E>(image: &Readable<'_, E>) -> Result<Vec<Found>, E> {
    let mut found = Vec::new();
    let mut next = match at(image, GROWN_START).unwrap_or(None) {
        Some(first) => Some(first),
        None => at(image, 0)?,
    };
    while let Some(session) = next {
        let end = end_of(&session);
        found.push(session);
        next = None;
        if found.len() == SESSIONS_MAX {
            break;
        }
        for start in starts_behind(end) {
            next = at(image, start).unwrap_or(None);
            if next.is_some() {
                break;
            }
        }
    }
    Ok(found)
}

fn at<E>(image: &Readable<'_, E>, start: u64) -> Result<Option<Found>, E> {
    let set = DescriptorSet::read(image, start)?;
    let Some(main) = set.main() else {
        return Ok(None);
    };
    let is_session = start == 0 || root_is_inside(image, main, start)?;
    Ok(is_session.then_some(Found { start, set }))
}

fn root_is_inside<E>(image: &Readable<'_, E>, main: &Descriptor, start: u64) -> Result<bool, E> {
    let is_high_sierra = main.is_high_sierra;
    let Some(root) = main.root.as_ref().filter(|_| main.has_sound_blocks()) else {
        return Ok(false);
    };
    let place =
        |record: &Record| u64::from(record.extent_halves().little) * u64::from(main.block_bytes);
    let position = place(root);
    let mut sector = [0u8; SECTOR_BYTES];
    if position < start.saturating_mul(SECTOR) || !image.read_if_there(position, &mut sector)? {
        return Ok(false);
    }
    let own = Record::parse(&sector, is_high_sierra);
    Ok(own.is_some_and(|own| own.identifier() == IDENTIFIER_SELF && place(&own) == position))
}

fn end_of(session: &Found) -> u64 {
    let main = session.set.main();
    let end = main.map_or(0, |main| main.end_of_volume(session.start));
    end.div_ceil(SECTOR).max(session.start + 1)
}

fn starts_behind(end: u64) -> impl Iterator<Item = u64> {
    GAPS.into_iter().flat_map(move |gap| {
        ALIGNMENTS
            .into_iter()
            .filter_map(move |unit| end.saturating_add(gap).checked_next_multiple_of(unit))
    })
}
