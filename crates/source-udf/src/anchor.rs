//! Recognition of a UDF file system: the volume recognition sequence (ECMA-167 2/8.3) and the
//! anchor (3/10.2).
//!
//! ```text
//! byte 32768   BEA01 NSR02|NSR03 TEA01       2048 bytes each, one per block if blocks are larger
//! block 256 | last | last - 256 | 512        anchors: where the descriptors of the volume are
//! ```
//!
//! Nothing says how large blocks are. An anchor has the number of its own block, so each size is
//! tried, the usual one first, until an anchor agrees; one is enough. Block 512 is for discs that
//! are not closed (UDF 6.10.2.3).

use std::fmt;

use pagewell_source_bytes::Readable;

use super::fields::{Fields, VolumeExtent};
use super::tag::{self, ANCHOR};

/// First byte of the recognition sequence (ECMA-167 2/8.3 and UDF 2.1).
const RECOGNITION_START: u64 = 32_768;
/// Read at once: 32 descriptors of 2048 bytes, or 2 in the largest blocks.
const RECOGNITION_BYTES: usize = 64 << 10;
const RECOGNITION_STEP: usize = 2048;
/// Sizes of blocks, the most frequent first: discs, disks of both kinds, then mkudffs's.
const BLOCK_BYTES: [u32; 7] = [2048, 512, 4096, 1024, 8192, 16_384, 32_768];
const ANCHOR_BYTES: usize = 512;

/// Why a device holds no UDF file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotUdf {
    /// No volume recognition sequence names ECMA-167 (NSR02, NSR03).
    NotNamed,
    /// An anchor is missing: most often the image is cut.
    NoAnchor,
}

impl fmt::Display for NotUdf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotNamed => "no volume recognition sequence names UDF",
            Self::NoAnchor => "none of its anchors is readable",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchors {
    pub block_bytes: u32,
    pub sequences: Vec<[VolumeExtent; 2]>,
    /// Bytes where anchors should be and none is.
    pub missing: Vec<u64>,
}

/// Whether the image names UDF and has an anchor; errors are those of reading it.
pub(crate) fn recognise<E>(image: &Readable<'_, E>) -> Result<Result<(), NotUdf>, E> {
    if !is_named(image)? {
        return Ok(Err(NotUdf::NotNamed));
    }
    Ok(match find(image, false)? {
        Some(_) => Ok(()),
        None => Err(NotUdf::NoAnchor),
    })
}

pub(crate) fn is_named<E>(image: &Readable<'_, E>) -> Result<bool, E> {
    let there = image.length_bytes.saturating_sub(RECOGNITION_START);
    let length = there.min(RECOGNITION_BYTES as u64) as usize;
    let mut area = vec![0; length];
    if let Err(error) = image.read_if_there(RECOGNITION_START, &mut area) {
        // What lies behind the sequence may be unreadable, as it is in a later session of a disc.
        area.fill(0);
        let places = (RECOGNITION_START..).step_by(RECOGNITION_STEP);
        let mut pieces = area.chunks_mut(RECOGNITION_STEP).zip(places);
        let is_read = |(piece, at): (&mut [u8], u64)| image.read_if_there(at, piece).is_ok();
        if !pieces.next().is_some_and(is_read) {
            return Err(error);
        }
        while pieces.next().is_some_and(is_read) {}
    }
    let mut descriptors = area.chunks_exact(RECOGNITION_STEP);
    Ok(descriptors.any(|descriptor| matches!(&descriptor[..6], b"\0NSR02" | b"\0NSR03")))
}

/// The anchors of the first size of blocks that has any: the first one, or `all`.
pub(crate) fn find<E>(image: &Readable<'_, E>, all: bool) -> Result<Option<Anchors>, E> {
    for block_bytes in BLOCK_BYTES {
        let found = anchors(image, block_bytes, all)?;
        if !found.sequences.is_empty() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn anchors<E>(image: &Readable<'_, E>, block_bytes: u32, all: bool) -> Result<Anchors, E> {
    let size = u64::from(block_bytes);
    let blocks = image.length_bytes / size;
    let mut found = Anchors {
        block_bytes,
        sequences: Vec::new(),
        missing: Vec::new(),
    };
    let last = blocks.saturating_sub(1);
    // The standard wants two of the first three.
    for (block, is_wanted) in [
        (256, true),
        (last, true),
        (last.saturating_sub(256), true),
        (512, false),
    ] {
        let mut bytes = [0; ANCHOR_BYTES];
        let there = image.read_if_there(block * size, &mut bytes)?;
        let is_anchor = there
            && tag::whole(&bytes)
                .is_ok_and(|tag| tag.identifier == ANCHOR && u64::from(tag.location) == block);
        if !is_anchor {
            found.missing.extend(is_wanted.then_some(block * size));
            continue;
        }
        let fields = Fields::new(&bytes);
        let pair = [fields.volume_extent(16), fields.volume_extent(24)];
        if !found.sequences.contains(&pair) {
            found.sequences.push(pair);
        }
        if !all {
            break;
        }
    }
    Ok(found)
}
