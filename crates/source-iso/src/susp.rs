//! The System Use Sharing Protocol (SUSP 1.12, IEEE P1281): entries behind the name of a directory
//! record, which may continue anywhere in the image.
//!
//! An entry is two letters, a length, a version and its data. A CE entry refers to one more area of
//! entries: block, offset in it, length.
//!
//! Rules: an entry shorter than 4 bytes or past its area ends the area; earlier ones count. ST ends
//! an area. CE is followed at the end of its area, across blocks (as a common writer needs), within
//! the image; a repeated place, one area or byte too many ends the chain.
//!
//! Bounds: 256 areas and 1 MiB per record exceed what any writer makes. As many records may share
//! one long chain, [`Continuation`] has a budget for all records until it is refilled.

use pagewell_fs::{Error, Result};
use pagewell_source_bytes::Window;

use super::volume::{BothEndian, Volume};

const AREAS_MAX: usize = 256;
const RECORD_BYTES_MAX: u64 = 1 << 20;
const ENTRY_BYTES_MIN: usize = 4;

pub(super) struct Continuation<'a> {
    volume: &'a Volume,
    window: Window<'a>,
    budget_bytes: u64,
    /// Place of the record whose entries are read, for notes.
    record: u64,
}

impl<'a> Continuation<'a> {
    pub(super) fn new(
        volume: &'a Volume,
        may_block: bool,
        (step_bytes, budget_bytes): (usize, u64),
    ) -> Self {
        Self {
            volume,
            window: Window::new(&volume.bytes, may_block, step_bytes),
            budget_bytes,
            record: 0,
        }
    }

    pub(super) fn begin(&mut self, record: u64) {
        self.record = record;
    }

    pub(super) fn refill(&mut self, budget_bytes: u64) {
        self.budget_bytes = budget_bytes;
    }

    /// Calls `visit` with signature and whole entry for each entry of `area` and its continuations,
    /// in order, except CE, PD and ST.
    pub(super) fn walk(
        &mut self,
        area: &[u8],
        visit: &mut dyn FnMut([u8; 2], &[u8]),
    ) -> Result<()> {
        let note = |position, clause, text: &str| self.volume.note(position, clause, text);
        let damaged = |position| note(position, "SUSP 4.1", "an entry that ends outside its area");
        let mut next = walk_area(area, visit, &mut || damaged(self.record));
        let mut visited: Vec<(u32, u32)> = Vec::new();
        let mut taken = 0;
        while let Some(place) = next {
            let length = u64::from(place.length);
            taken += length;
            let position = self
                .volume
                .block_position(place.block)
                .saturating_add(u64::from(place.offset));
            let acceptable = visited.len() < AREAS_MAX
                && taken <= RECORD_BYTES_MAX
                && length <= self.budget_bytes
                && self.window.contains(position, length)
                && !visited.contains(&(place.block, place.offset));
            if !acceptable {
                let text = "a continuation area that repeats, has no end or is outside the image";
                note(self.record, "SUSP 5.1", text);
                return Ok(());
            }
            visited.push((place.block, place.offset));
            self.budget_bytes -= length;
            next = match self.window.get(position, place.length as usize) {
                Ok(bytes) => walk_area(bytes, visit, &mut || damaged(position)),
                Err(error @ (Error::WouldBlock | Error::Io(_))) => return Err(error),
                Err(_) => None,
            };
        }
        Ok(())
    }
}

struct ContinuationArea {
    block: u32,
    offset: u32,
    length: u32,
}

/// Calls `damaged` when the area ends with something else than padding.
fn walk_area(
    area: &[u8],
    visit: &mut dyn FnMut([u8; 2], &[u8]),
    damaged: &mut dyn FnMut(),
) -> Option<ContinuationArea> {
    let mut rest = area;
    let mut next = None;
    while rest.len() >= ENTRY_BYTES_MIN {
        let length = usize::from(rest[2]);
        if length < ENTRY_BYTES_MIN || length > rest.len() {
            if rest.iter().any(|byte| *byte != 0) {
                damaged();
            }
            break;
        }
        let (entry, later) = rest.split_at(length);
        rest = later;
        match &entry[..2] {
            b"ST" => break,
            b"PD" => {}
            b"CE" => next = next.or_else(|| place(entry)),
            signature => visit([signature[0], signature[1]], entry),
        }
    }
    next
}

fn place(entry: &[u8]) -> Option<ContinuationArea> {
    let field = |offset| BothEndian::little(entry, offset);
    let place = ContinuationArea {
        block: field(4)?,
        offset: field(12)?,
        length: field(20)?,
    };
    (place.length > 0).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(signature: &[u8; 2], data: &[u8]) -> Vec<u8> {
        let length = u8::try_from(data.len() + 4).unwrap();
        [&signature[..], &[length, 1], data].concat()
    }

    fn both(value: u32) -> Vec<u8> {
        [value.to_le_bytes(), value.to_be_bytes()].concat()
    }

    fn continues(block: u32, offset: u32, length: u32) -> Vec<u8> {
        entry(b"CE", &[both(block), both(offset), both(length)].concat())
    }

    fn seen(image: Vec<u8>, area: &[u8]) -> Vec<Vec<u8>> {
        let volume = Volume::of_memory(image);
        let mut continuation = Continuation::new(&volume, true, (512, 1 << 30));
        let mut seen = Vec::new();
        continuation
            .walk(area, &mut |_, entry| seen.push(entry[4..].to_vec()))
            .unwrap();
        seen
    }

    #[test]
    fn areas_end_at_damage_and_keep_what_came_before() {
        let good = entry(b"AB", b"1");
        for bad in [&b"CD\0\x01"[..], b"CD\x03\x01", b"CD\x20\x01", b"CD"] {
            let area = [&good[..], bad].concat();
            assert_eq!(seen(Vec::new(), &area), [b"1".to_vec()]);
        }
        let stopped = [good.clone(), entry(b"ST", b""), good].concat();
        assert_eq!(seen(Vec::new(), &stopped).len(), 1);
    }

    #[test]
    fn continuation_follows_after_the_area_and_across_blocks() {
        let mut image = vec![0u8; 8192];
        let second = entry(b"AB", b"second");
        image[2046..2046 + second.len()].copy_from_slice(&second);
        let area = [
            continues(0, 2046, u32::try_from(second.len()).unwrap()),
            entry(b"AB", b"first"),
        ]
        .concat();
        assert_eq!(seen(image, &area), [b"first".to_vec(), b"second".to_vec()]);
    }

    #[test]
    fn loops_and_places_outside_the_image_end_the_chain() {
        let mut image = vec![0u8; 4096];
        let area = [entry(b"AB", b"x"), continues(1, 0, 33)].concat();
        image[2048..2048 + area.len()].copy_from_slice(&area);
        assert_eq!(seen(image.clone(), &area).len(), 2, "own place only once");
        for place in [
            continues(2, 0, 1),
            continues(1, 2047, 2),
            continues(u32::MAX, u32::MAX, u32::MAX),
            continues(1, 0, 0),
        ] {
            assert_eq!(seen(image.clone(), &place).len(), 0);
        }
    }

    #[test]
    fn the_number_of_areas_is_bounded() {
        let count = 400u32;
        let mut image = Vec::new();
        for index in 0..count {
            image.extend(entry(b"AB", b"x"));
            image.extend(continues(0, (index + 1) * 33, 33));
        }
        assert_eq!(seen(image, &continues(0, 0, 33)).len(), AREAS_MAX);
    }
}
