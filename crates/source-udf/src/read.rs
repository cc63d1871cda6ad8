//! Reading file data: pinned pages of the image, and zeros for holes.
//!
//! Bytes past the end of a short image, or behind damaged descriptors, are an error, never zeros; a
//! read that begins before returns the existing ones.

use std::sync::{Arc, LazyLock};

use pagewell_fs::{Error, PageSlice, Payload, Result, Seek};
use pagewell_source_bytes::Run;

use super::extent::Body;
use super::node::Node;
use super::space::{Piece, Space};

const ZEROS_BYTES: usize = 64 << 10;
static ZEROS: LazyLock<Arc<Vec<u8>>> = LazyLock::new(|| Arc::new(vec![0; ZEROS_BYTES]));

/// Reads at most `count` bytes from `offset`: fewer at the end of the file, and before absent
/// bytes.
pub(crate) fn read(
    space: &Space,
    node: &Node,
    offset: u64,
    count: u32,
    may_block: bool,
) -> Result<Payload> {
    let rest = node.attributes.size.saturating_sub(offset);
    let wanted = rest.min(u64::from(count));
    if wanted == 0 {
        return Ok(Payload::Bytes(Vec::new()));
    }
    if offset >= node.data.size {
        let what = node.defect.unwrap_or("its data ends before it does");
        let name = space.image().bytes().name();
        return Err(Error::Io(format!("{name}: {what}")));
    }
    let pieces = space.pieces(&node.data, offset, wanted, may_block)?;
    if !pieces.iter().any(|piece| matches!(piece, Piece::Zeros(_))) {
        return space.image().bytes().payload(&runs(&pieces), may_block);
    }
    let mut payload = Vec::new();
    // Neighbouring runs together, so that small ones are copied together.
    for group in pieces.chunk_by(|left, right| is_hole(*left) == is_hole(*right)) {
        let length: u64 = group.iter().map(|piece| piece.length()).sum();
        if group.first().is_some_and(|piece| is_hole(*piece)) {
            push_zeros(&mut payload, length);
            continue;
        }
        let part = match space.image().bytes().payload(&runs(group), may_block) {
            Ok(part) => part,
            Err(Error::Io(_)) if !payload.is_empty() => break,
            Err(error) => return Err(error),
        };
        let is_short = (part.len() as u64) < length;
        match part {
            Payload::Pages(pages) => payload.extend(pages),
            Payload::Bytes(bytes) => {
                let length = bytes.len();
                payload.push(PageSlice::new(Arc::new(bytes), 0, length));
            }
            Payload::File { .. } => break,
        }
        if is_short {
            break;
        }
    }
    Ok(Payload::Pages(payload))
}

/// The first data, or hole, of a file from `offset` on; the end of the file counts as a hole. Bytes
/// without a descriptor count as data, which cannot be read.
pub(crate) fn seek(node: &Node, offset: u64, wanted: Seek) -> Result<u64> {
    let size = node.attributes.size;
    Error::NoDevice.when(offset >= size)?;
    let is_wanted = |is_data: bool| is_data == (wanted == Seek::Data);
    let known = node.data.size;
    let mut parts = match &node.data.body {
        Body::Embedded(_) => vec![(0, true)],
        Body::Extents(_) => {
            let extents = node.data.extents_from(offset).iter();
            extents
                .map(|extent| (extent.file_offset, extent.start.is_some()))
                .collect()
        }
    };
    parts.retain(|(start, _)| *start < known);
    if known < size {
        parts.push((known, true));
    }
    let mut ends = parts.iter().skip(1).map(|(start, _)| *start);
    let found = parts.iter().find_map(|(start, is_data)| {
        let end = ends.next().unwrap_or(size);
        (is_wanted(*is_data) && end > offset).then_some((*start).max(offset))
    });
    match found {
        Some(found) => Ok(found),
        None if wanted == Seek::Hole => Ok(size),
        None => Err(Error::NoDevice),
    }
}

fn is_hole(piece: Piece) -> bool {
    matches!(piece, Piece::Zeros(_))
}

fn push_zeros(payload: &mut Vec<PageSlice>, mut length: u64) {
    while length > 0 {
        let now = length.min(ZEROS_BYTES as u64);
        payload.push(PageSlice::new(ZEROS.clone(), 0, now as usize));
        length -= now;
    }
}

fn runs(pieces: &[Piece]) -> Vec<Run> {
    let run = |piece: &Piece| match *piece {
        Piece::Bytes {
            position,
            length,
            bounds,
        } => Some(Run {
            position,
            length: length as usize,
            bounds: Some(bounds),
        }),
        Piece::Zeros(_) => None,
    };
    pieces.iter().filter_map(run).collect()
}
