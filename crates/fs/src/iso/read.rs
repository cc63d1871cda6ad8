//! Reading file data: where the bytes of a range are in the image.
//!
//! A range inside one section that lies in one piece is a range of the image file, and nothing is
//! copied. A range over several sections, or of an interleaved file (units of data with gaps
//! between them), is gathered into memory.
//!
//! ```text
//! interleaved, unit 2, gap 1:   |0 1|.|2 3|.|4|     block k at (k / 2) * (2 + 1) + k % 2
//! ```
//!
//! An image may be shorter than its directories say. Bytes past its end are an error and never
//! zeros, but only they: a read that begins before the end gives what is there.

use pagewell_counters::names::{
    COPIED_BYTES, ISO_READS_GATHERED, ISO_READS_IN_PLACE, ISO_READS_PAST_END,
};

use super::node::{Node, Section};
use super::volume::Volume;
use crate::{OpenFile, Payload, Result};

/// First bytes of a file compressed by zisofs, version 1 and 2.
const COMPRESSED_MAGICS: [[u8; 8]; 2] = [
    [0x37, 0xe4, 0x53, 0x96, 0xc9, 0xdb, 0xd6, 0x07],
    [0xef, 0x22, 0x55, 0xa1, 0xbc, 0x1b, 0x95, 0xa0],
];
const GATHERED_BYTES_RESERVED_MAX: usize = 1 << 20;

/// Where at most `count` bytes from `offset` are: fewer at the end of the file, and before bytes
/// that the image does not have.
pub(super) fn read(
    volume: &Volume,
    node: &Node,
    offset: u64,
    count: u32,
    may_block: bool,
) -> Result<Payload> {
    let rest = node.attributes.size.saturating_sub(offset);
    let wanted = u32::try_from(rest).unwrap_or(u32::MAX).min(count);
    let after = node
        .sections
        .partition_point(|section| section.file_offset <= offset);
    let sections = node.sections.get(after.saturating_sub(1)..).unwrap_or(&[]);
    let Some(first) = sections.first().filter(|_| wanted > 0) else {
        return Ok(Payload::Bytes(Vec::new()));
    };
    if let Some(defect) = node.defect {
        return Err(volume.fault(first.position, defect));
    }
    if node.compressed {
        refuse_compressed(volume, node, may_block)?;
    }
    let run = Run::new(volume, first, offset - first.file_offset);
    if run.length >= u64::from(wanted) {
        return in_place(volume, run.position, wanted, may_block);
    }
    gather(volume, sections, (offset, wanted), may_block).map(Payload::Bytes)
}

/// Bytes of a file that lie in one piece.
struct Run {
    position: u64,
    length: u64,
}

impl Run {
    /// The run at `offset` of a section.
    fn new(volume: &Volume, section: &Section, offset: u64) -> Self {
        let rest = u64::from(section.length).saturating_sub(offset);
        let Some((unit, gap)) = section.interleave else {
            return Self {
                position: section.position + offset,
                length: rest,
            };
        };
        let unit_bytes = u64::from(unit) * u64::from(volume.block_bytes);
        let gap_bytes = u64::from(gap) * u64::from(volume.block_bytes);
        let (index, inside) = (offset / unit_bytes, offset % unit_bytes);
        Self {
            position: section.position + index * (unit_bytes + gap_bytes) + inside,
            length: rest.min(unit_bytes - inside),
        }
    }
}

fn in_place(volume: &Volume, position: u64, wanted: u32, may_block: bool) -> Result<Payload> {
    let there = volume.length_bytes.saturating_sub(position);
    let length = u32::try_from(there).unwrap_or(u32::MAX).min(wanted);
    if length < wanted {
        ISO_READS_PAST_END.add(1);
    }
    if length == 0 {
        return Err(volume.fault(position, "past the end of the image"));
    }
    ISO_READS_IN_PLACE.add(1);
    if let Some(file) = volume.device.file() {
        return Ok(Payload::File {
            file: OpenFile::from(file.clone()),
            offset: position,
            length,
        });
    }
    let mut bytes = vec![0; length as usize];
    volume.read(position, &mut bytes, may_block)?;
    COPIED_BYTES.add(u64::from(length));
    Ok(Payload::Bytes(bytes))
}

fn gather(
    volume: &Volume,
    sections: &[Section],
    (offset, wanted): (u64, u32),
    may_block: bool,
) -> Result<Vec<u8>> {
    ISO_READS_GATHERED.add(1);
    let wanted = wanted as usize;
    let mut bytes = Vec::with_capacity(wanted.min(GATHERED_BYTES_RESERVED_MAX));
    for section in sections {
        while bytes.len() < wanted {
            let inside = offset + bytes.len() as u64 - section.file_offset;
            let run = Run::new(volume, section, inside);
            if run.length == 0 {
                break;
            }
            let needed = run.length.min((wanted - bytes.len()) as u64);
            let there = needed.min(volume.length_bytes.saturating_sub(run.position));
            let start = bytes.len();
            #[allow(clippy::cast_possible_truncation)] // at most `wanted`
            bytes.resize(start + there as usize, 0);
            if there > 0 {
                volume.read(run.position, &mut bytes[start..], may_block)?;
            }
            if there < needed {
                ISO_READS_PAST_END.add(1);
                if bytes.is_empty() {
                    return Err(volume.fault(run.position, "past the end of the image"));
                }
                COPIED_BYTES.add(bytes.len() as u64);
                return Ok(bytes);
            }
        }
    }
    COPIED_BYTES.add(bytes.len() as u64);
    Ok(bytes)
}

/// A mark of compression alone means nothing: readers agree that the data decides.
fn refuse_compressed(volume: &Volume, node: &Node, may_block: bool) -> Result<()> {
    let mut magic = [0u8; 8];
    let Some(first) = node.sections.first() else {
        return Ok(());
    };
    if first.length < 16 || !volume.contains(first.position, 8) {
        return Ok(());
    }
    volume.read(first.position, &mut magic, may_block)?;
    if COMPRESSED_MAGICS.contains(&magic) {
        return Err(volume.fault(first.position, "zisofs compression is not supported"));
    }
    Ok(())
}
