//! xz (The .xz File Format 1.2): streams of blocks, each stream with an index behind its blocks.
//!
//! ```text
//!  header 12 │ block │ block │ ... │ index │ footer 12 │ header 12 │ block │ ...
//!                                     <── footer says how long the index is
//! ```
//!
//! From the last footer on, all indices are found backwards. `xz -T0` makes blocks of 24 MiB, one
//! thread a single block. A block is decompressed as a stream of its own, with a made index and
//! footer, so that the decoder compares the block's checksum.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use flate2::Crc;
use lzma_rust2::XzReader;
use pagewell_device::{Device, Issuer};

use super::source::Source;
use super::{LENGTH_BYTES_MAX, REGIONS_MAX, Reader, Region};
use crate::Result;
use crate::bytes::{self, array, u32_little};

pub(super) const MAGIC: &[u8] = b"\xfd7zXZ\0";
const HEADER_BYTES: u64 = 12;
const FOOTER_BYTES: u64 = 12;
/// A longer index is refused: a record takes at least two bytes.
const INDEX_BYTES_MAX: u64 = 16 << 20;
/// Files with more streams are read from their first byte on.
const STREAMS_MAX: usize = 1 << 16;
/// What a decoder may take: `xz -9` makes dictionaries of 64 MiB.
const DECODER_BYTES_MAX: u64 = 80 << 20;
/// A decoder without its dictionary.
const DECODER_BYTES: usize = 256 << 10;
const FILTER_LZMA2: u64 = 0x21;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    at: u64,
    unpadded: u64,
    uncompressed: u64,
    /// Of its stream: which checksum it has.
    flags: [u8; 2],
}

/// Blocks with the offsets of their decompressed bytes, and the whole length.
type Blocks = (Vec<(u64, Block)>, u64);

pub(super) fn decoder<R: Read>(source: R) -> XzReader<R> {
    XzReader::new_mem_limit(source, true, (DECODER_BYTES_MAX >> 10) as u32)
}

impl Region for Block {
    fn reader(&self, below: &Arc<dyn Device>, issuer: Issuer) -> io::Result<Reader> {
        let end = self.at + self.unpadded.next_multiple_of(4);
        let source = Source::new(below, self.at, end, issuer);
        let failure = source.failure();
        let header = [MAGIC, &self.flags, &crc(&self.flags)].concat();
        let stream = Cursor::new(header)
            .chain(source)
            .chain(Cursor::new(self.index()));
        Ok(Reader {
            bytes: Box::new(decoder(stream)),
            failure,
        })
    }
}

impl Block {
    /// The index and the footer of a stream with this block alone.
    fn index(&self) -> Vec<u8> {
        let mut index = vec![0, 1];
        for number in [self.unpadded, self.uncompressed] {
            let mut rest = number;
            while rest >= 0x80 {
                index.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            index.push(rest as u8);
        }
        index.resize(index.len().next_multiple_of(4), 0);
        let check = crc(&index);
        index.extend(check);
        let backward = (index.len() / 4 - 1) as u32;
        let footer = [&backward.to_le_bytes()[..], &self.flags].concat();
        [&index[..], &crc(&footer), &footer, b"YZ"].concat()
    }
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

pub(super) fn blocks(device: &dyn Device) -> Result<Option<Blocks>> {
    let mut end = device.length_bytes() & !3;
    // Of the streams, the last first.
    let mut streams = Vec::new();
    let mut count = 0;
    while end > 0 {
        let Some((start, blocks)) = stream_before(device, end)? else {
            return Ok(None);
        };
        count += blocks.len();
        if count > REGIONS_MAX || streams.len() >= STREAMS_MAX {
            return Ok(None);
        }
        streams.push(blocks);
        end = start;
    }
    let mut regions = Vec::with_capacity(count);
    let mut length: u64 = 0;
    for block in streams.into_iter().rev().flatten() {
        if block.uncompressed > 0 {
            regions.push((length, block));
        }
        length = length.saturating_add(block.uncompressed);
    }
    Ok((length <= LENGTH_BYTES_MAX).then_some((regions, length)))
}

/// The start and the blocks of the stream that ends there, or a word of padding without blocks.
fn stream_before(device: &dyn Device, end: u64) -> Result<Option<(u64, Vec<Block>)>> {
    let Some(footer_at) = end.checked_sub(FOOTER_BYTES) else {
        return Ok(None);
    };
    let footer = bytes::read(device, footer_at, FOOTER_BYTES as usize)?.unwrap_or_default();
    let Some((check, rest)) = footer.split_at_checked(4) else {
        return Ok(None);
    };
    if footer.ends_with(&[0; 4]) {
        return Ok(Some((end - 4, Vec::new())));
    }
    let backward = u32_little(&footer, 4).map(|words| (u64::from(words) + 1) * 4);
    let flags = array::<2>(&footer, 8);
    let (Some(length), Some(flags)) = (backward, flags) else {
        return Ok(None);
    };
    let is_footer = footer.ends_with(b"YZ") && rest.get(..6).is_some_and(|it| crc(it) == check);
    let index_at = footer_at.checked_sub(length);
    let (true, true, Some(index_at)) = (is_footer, length <= INDEX_BYTES_MAX, index_at) else {
        return Ok(None);
    };
    let index = bytes::read(device, index_at, length as usize)?.unwrap_or_default();
    let blocks = records(&index).and_then(|records| place(&records, index_at, flags));
    Ok(blocks)
}

/// The blocks of these records, before their index, and the start of their stream.
fn place(records: &[(u64, u64)], index_at: u64, flags: [u8; 2]) -> Option<(u64, Vec<Block>)> {
    let mut sum: u64 = 0;
    for (unpadded, _) in records {
        sum = sum.checked_add(unpadded.checked_next_multiple_of(4)?)?;
    }
    let first = index_at.checked_sub(sum)?;
    let mut at = first;
    let blocks = records.iter().map(|(unpadded, uncompressed)| {
        let block = Block {
            at,
            unpadded: *unpadded,
            uncompressed: *uncompressed,
            flags,
        };
        at += unpadded.next_multiple_of(4);
        block
    });
    Some((first.checked_sub(HEADER_BYTES)?, blocks.collect()))
}

/// The records of an index: unpadded and uncompressed bytes of each block.
fn records(index: &[u8]) -> Option<Vec<(u64, u64)>> {
    let (fields, check) = index.split_at_checked(index.len().checked_sub(4)?)?;
    let mut rest = fields.strip_prefix(&[0])?;
    if crc(fields) != check {
        return None;
    }
    let count = usize::try_from(number(&mut rest)?).ok()?;
    if count > REGIONS_MAX || count > rest.len() / 2 {
        return None;
    }
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        records.push((number(&mut rest)?, number(&mut rest)?));
    }
    Some(records)
}

/// A number in groups of seven bits, the lowest first (1.2).
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The memory of a decoder by the header of a block (3.1): the dictionary of its last filter.
pub(super) fn decoder_bytes(device: &dyn Device, block: &Block) -> Result<usize> {
    const HEADER_BYTES_MAX: usize = 1024;
    let there = device.length_bytes().saturating_sub(block.at);
    let length = usize::try_from(there)
        .unwrap_or(usize::MAX)
        .min(HEADER_BYTES_MAX);
    let header = bytes::read(device, block.at, length)?.unwrap_or_default();
    Ok(dictionary_bytes(&header).unwrap_or(DECODER_BYTES_MAX as usize) + DECODER_BYTES)
}

fn dictionary_bytes(header: &[u8]) -> Option<usize> {
    let flags = *header.get(1)?;
    let mut rest = header.get(2..)?;
    for flag in [0x40, 0x80] {
        if flags & flag != 0 {
            number(&mut rest)?;
        }
    }
    for _ in 0..=flags & 3 {
        let filter = number(&mut rest)?;
        let length = usize::try_from(number(&mut rest)?).ok()?;
        let (properties, left) = rest.split_at_checked(length)?;
        rest = left;
        if filter == FILTER_LZMA2 {
            let bits = u32::from(*properties.first()?);
            return (bits < 40).then(|| (2 | (bits as usize & 1)) << (bits / 2 + 11));
        }
    }
    None
}
