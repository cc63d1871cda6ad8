//! Reading file data: the places of a range in the image.
//!
//! A range has several pieces when it spans sections, or in an interleaved file (units of data and
//! gaps).
//!
//! ```text
//! interleaved, unit 2, gap 1:   |0 1|.|2 3|.|4|     block k at (k / 2) * (2 + 1) + k % 2
//! ```
//!
//! Bytes past the end of a short image are an error; a read that begins before it returns the
//! existing ones.

use pagewell_cache::Bounds;
use pagewell_fs::{Error, Payload, Result};
use pagewell_source_bytes::Run;

use super::node::{Node, Section};
use super::volume::Volume;

/// Reads at most `count` bytes from `offset`: fewer at the end of the file, and before bytes that
/// the image lacks.
pub(super) fn read(
    volume: &Volume,
    node: &Node,
    offset: u64,
    count: u32,
    may_block: bool,
) -> Result<Payload> {
    let rest = node.attributes.size.saturating_sub(offset);
    let wanted = u32::try_from(rest).unwrap_or(u32::MAX).min(count);
    if wanted == 0 || node.sections.is_empty() {
        return Ok(Payload::Bytes(Vec::new()));
    }
    if let Some(defect) = node.defect {
        return Err(fault(volume, &node.sections, offset, defect));
    }
    let runs = runs(volume, &node.sections, offset, u64::from(wanted));
    if runs.is_empty() {
        return Err(fault(
            volume,
            &node.sections,
            offset,
            "past the end of the image",
        ));
    }
    volume.bytes.payload(&runs, may_block)
}

/// Fills `target` with recorded data from `offset`; an error when the image lacks any of it.
pub(super) fn fill(
    volume: &Volume,
    sections: &[Section],
    mut offset: u64,
    mut target: &mut [u8],
    may_block: bool,
) -> Result<()> {
    while !target.is_empty() {
        let runs = runs(volume, sections, offset, target.len() as u64);
        let found: usize = runs.iter().map(|run| run.length).sum();
        if found < target.len() {
            return Err(fault(volume, sections, offset, "past the end of the image"));
        }
        let payload = volume.bytes.payload(&runs, may_block)?;
        let copied = payload.copy_to(target, may_block)?;
        offset += copied as u64;
        target = target.get_mut(copied..).unwrap_or_default();
    }
    Ok(())
}

/// The error about recorded data at `offset`.
pub(super) fn fault(volume: &Volume, sections: &[Section], offset: u64, what: &str) -> Error {
    let position = from(sections, offset).first().map_or(0, |section| {
        let inside = offset.saturating_sub(section.file_offset);
        Piece::new(volume, section, inside).position
    });
    volume.fault(position, what)
}

/// The section with a byte of the file, and those behind it.
fn from(sections: &[Section], offset: u64) -> &[Section] {
    let after = sections.partition_point(|section| section.file_offset <= offset);
    sections.get(after.saturating_sub(1)..).unwrap_or(&[])
}

pub(super) fn length_bytes(sections: &[Section]) -> u64 {
    sections.last().map_or(0, |last| {
        last.file_offset.saturating_add(u64::from(last.length))
    })
}

struct Piece {
    position: u64,
    length: u64,
    start: u64,
}

impl Piece {
    fn new(volume: &Volume, section: &Section, offset: u64) -> Self {
        let rest = u64::from(section.length).saturating_sub(offset);
        let Some((unit, gap)) = section.interleave else {
            return Self {
                position: section.position + offset,
                length: rest,
                start: section.position,
            };
        };
        let unit_bytes = u64::from(unit) * u64::from(volume.block_bytes);
        let gap_bytes = u64::from(gap) * u64::from(volume.block_bytes);
        let (index, inside) = (offset / unit_bytes, offset % unit_bytes);
        let start = section.position + index * (unit_bytes + gap_bytes);
        Self {
            position: start + inside,
            length: rest.min(unit_bytes - inside),
            start,
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            start: self.start,
            end: self.position + self.length,
        }
    }
}

/// The places of `wanted` bytes of the recorded data from `offset`, as far as the image has them.
pub(super) fn runs(volume: &Volume, sections: &[Section], offset: u64, wanted: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut found = 0;
    for section in from(sections, offset) {
        while found < wanted {
            let piece = Piece::new(volume, section, offset + found - section.file_offset);
            if piece.length == 0 {
                break;
            }
            let needed = piece.length.min(wanted - found);
            let there = needed.min(volume.length_bytes.saturating_sub(piece.position));
            // At most `wanted`, which is to be in memory.
            let length = there as usize;
            match runs.last_mut() {
                Some(last) if last.position + last.length as u64 == piece.position => {
                    last.length += length;
                    let start = last.bounds.map_or(piece.start, |before| before.start);
                    let end = piece.bounds().end;
                    last.bounds = Some(Bounds { start, end });
                }
                _ if length > 0 => runs.push(Run {
                    position: piece.position,
                    length,
                    bounds: Some(piece.bounds()),
                }),
                _ => {}
            }
            found += there;
            if there < needed {
                return runs;
            }
        }
    }
    runs
}
