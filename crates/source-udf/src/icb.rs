//! From the place of an ICB to the entry that prevails in it (ECMA-167 4/8.10, 4/14.6).
//!
//! ```text
//! strategy 4      [entry]
//! strategy 4096   [entry, indirect] ──> [entry, indirect] ──> [entry, unrecorded]
//! ```
//!
//! With strategy 4 an object is rewritten in place. With strategy 4096, for write-once discs, a new
//! version comes at the end of a chain, and the last one prevails. Bound: [`ENTRIES_MAX`] versions,
//! as in Linux, which also ends circles.

use pagewell_fs::Result;
use pagewell_source_bytes::Window;

use super::entry::Entry;
use super::fields::{Fields, Place};
use super::space::Space;
use super::tag::{EXTENDED_FILE_ENTRY, FILE_ENTRY, INDIRECT_ENTRY, TERMINAL_ENTRY, TagFault};

const ENTRIES_MAX: usize = 1024;
const STRATEGY_CHAIN: u16 = 4096;
const CLAUSE: &str = "ECMA-167 4/14.6";

pub(crate) struct Icb {
    pub place: Place,
    pub position: u64,
    /// Without the rest of its block.
    bytes: Vec<u8>,
    kind: u16,
}

impl Icb {
    /// Reads the entry that prevails in the ICB at `place`; `None` when no entry is there.
    pub(crate) fn read(
        space: &Space,
        window: &mut Window<'_>,
        place: Place,
        may_block: bool,
    ) -> Result<Option<Self>> {
        let image = space.image();
        let mut found: Option<Self> = None;
        let mut place = place;
        let mut left: u16 = 0;
        for _ in 0..ENTRIES_MAX {
            let (bytes, position) = space.block(window, place, may_block)?;
            let kind = match image.descriptor(bytes, position, place.block) {
                Ok(tag) => tag.identifier,
                Err(TagFault::Crc) => return Err(image.fault(position, "damaged file entry")),
                // After an entry the chain ends where nothing more was recorded.
                Err(TagFault::Unrecorded | TagFault::Checksum) => return Ok(found),
            };
            match kind {
                FILE_ENTRY | EXTENDED_FILE_ENTRY => {
                    let Some(entry) = Entry::parse(bytes, kind) else {
                        let what = "the areas of a file entry reach past its block";
                        image.note(position, "ECMA-167 4/14.9", what);
                        return Err(image.fault(position, what));
                    };
                    let (strategy, room) = (entry.strategy, entry.entries_max);
                    left = if found.is_none() { room } else { left }.saturating_sub(1);
                    found = Some(Self {
                        place,
                        position,
                        bytes: bytes.get(..entry.length()).unwrap_or(bytes).to_vec(),
                        kind,
                    });
                    if strategy != STRATEGY_CHAIN || left == 0 {
                        return Ok(found);
                    }
                    match place.after(1) {
                        Some(next) => place = next,
                        None => return Ok(found),
                    }
                }
                INDIRECT_ENTRY if found.is_some() => {
                    let fields = Fields::new(bytes);
                    place = fields.long_ad(36).place;
                    // The next ICB's own is in its first entry.
                    left = fields.u16(24).max(2);
                }
                TERMINAL_ENTRY => return Ok(found),
                _ => return Ok(found),
            }
        }
        let what = "a chain of entries that does not end";
        let position = found.map_or(0, |icb| icb.position);
        image.note(position, CLAUSE, what);
        Err(image.fault(position, what))
    }

    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        Entry::parse(&self.bytes, self.kind)
    }
}
