//! CSO, ZSO and DAX: images whose blocks are compressed each by itself.
//!
//! ```text
//!  header 24 │ index: 4 bytes for each block, and one more │ block │ block │ ...
//!  "CISO" or "ZISO", 4 unused, 8 length, 4 block size, 1 version, 1 shift, 2 unused
//! ```
//!
//! An entry of the index is an offset, shifted, and a flag in bit 31. In versions 0 and 1 the flag
//! means a block that is stored as it is; others are deflate (`CISO`) or LZ4 (`ZISO`). In version 2
//! a block that takes all its bytes is stored, and the flag means LZ4.
//!
//! DAX has blocks of 8192 bytes, all of zlib but those in areas that it lists:
//!
//! ```text
//!  header 32 │ 4 bytes of offset for each block │ 2 of length │ areas: 4 first block, 4 blocks
//!  "DAX\0", 4 length, 4 version, 4 areas (in version 1), 16 unused
//! ```
//!
//! (The formats are those that maxcso, PPSSPP, Open PS2 Loader and DAX Creator write and read.)
//!
//! A piece takes one request for its part of the index, and one for its blocks. An entry that leads
//! backwards or out of the file costs its block. The size of the file bounds the index.

use std::sync::Arc;

use flate2::{Decompress, FlushDecompress};
use pagewell_base::pieces::Pieces;
use pagewell_device::{Device, Error as DeviceError, Issuer, Result as DeviceResult};
use rustix::io::Errno;

use crate::bytes::{self, u16_little, u32_little, u64_little};
use crate::pool::{Decode, Decoded, KEPT_BYTES_MAX};
use crate::{Error, Inside, Result, lz4};

const HEADER_BYTES: u64 = 24;
const ENTRY_BYTES: u64 = 4;
const FLAG: u32 = 1 << 31;
/// Writers use 2048 bytes, maxcso up to 128 KiB.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 20;
/// Blocks are padded to that power of two; images of DVDs need 2.
const SHIFT_MAX: u8 = 16;
/// What one thread works on at a time, unless a block is longer.
const PIECE_BYTES: u64 = 128 << 10;
const DAX_MAGIC: &[u8] = b"DAX\0";
const DAX_HEADER_BYTES: u64 = 32;
const DAX_BLOCK_BYTES: u64 = 8192;
/// DAX Creator writes at most 192.
const DAX_AREAS_MAX: u32 = 4096;
const DAX_AREA_BYTES: usize = 8;
/// Longer blocks are kept, as requests may be for parts of them.
const KEPT_FROM_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Deflate,
    Zlib,
    Lz4,
}

struct Blocks {
    below: Arc<dyn Device>,
    length_bytes: u64,
    block_bytes: u64,
    shift: u8,
    method: Method,
    /// The flag means LZ4, not stored bytes.
    is_version_2: bool,
    /// Of DAX: areas that are stored as they are, each from a block up to another.
    areas: Vec<(u64, u64)>,
    kept: Pieces<u64, Vec<u8>>,
}

struct Stored {
    start: u64,
    end: u64,
    flag: bool,
}

pub(crate) fn open(device: &Arc<dyn Device>) -> Result<Option<Inside>> {
    let header = bytes::read(&**device, 0, HEADER_BYTES as usize)?.unwrap_or_default();
    let (kind, method) = match header.get(..4) {
        Some(b"CISO") => ("CSO", Method::Deflate),
        Some(b"ZISO") => ("ZSO", Method::Lz4),
        Some(DAX_MAGIC) => return open_dax(device),
        _ => return Ok(None),
    };
    let damaged = |what: &str| Err(Error::damaged(&**device, format!("a {kind} image {what}")));
    let fields = (u64_little(&header, 8), u32_little(&header, 16));
    let rest = (header.get(20), header.get(21));
    let ((Some(length_bytes), Some(block_bytes)), (Some(version), Some(shift))) = (fields, rest)
    else {
        return damaged("that ends in its header");
    };
    if !BLOCK_BYTES.contains(&block_bytes) || !block_bytes.is_power_of_two() || *shift > SHIFT_MAX {
        return damaged("whose header is damaged");
    }
    if *version > 2 {
        return damaged("of a version that is not read");
    }
    let blocks = Blocks {
        below: device.clone(),
        length_bytes,
        block_bytes: u64::from(block_bytes),
        shift: *shift,
        method,
        is_version_2: *version == 2,
        areas: Vec::new(),
        kept: Pieces::new(KEPT_BYTES_MAX, 1),
    };
    let entries = length_bytes.div_ceil(blocks.block_bytes).checked_add(1);
    let index = entries.and_then(|entries| entries.checked_mul(ENTRY_BYTES));
    let index_end = index.and_then(|index| index.checked_add(HEADER_BYTES));
    if index_end.is_none_or(|end| end > device.length_bytes()) {
        return damaged("that ends in its index");
    }
    let words = format!("{kind}, blocks of {block_bytes} bytes");
    Ok(Some(Inside::new(Arc::new(Decoded::new(blocks)), words)))
}

fn open_dax(device: &Arc<dyn Device>) -> Result<Option<Inside>> {
    let damaged = |what: &str| Err(Error::damaged(&**device, format!("a DAX image {what}")));
    let header = bytes::read(&**device, 0, DAX_HEADER_BYTES as usize)?.unwrap_or_default();
    let fields = [4, 8, 12].map(|at| u32_little(&header, at));
    let [Some(length), Some(version), Some(areas)] = fields else {
        return damaged("that ends in its header");
    };
    if version > 1 {
        return damaged("of a version that is not read");
    }
    let areas = if version == 0 { 0 } else { areas };
    if areas > DAX_AREAS_MAX {
        return damaged("whose header is damaged");
    }
    let blocks = u64::from(length).div_ceil(DAX_BLOCK_BYTES);
    let table = DAX_HEADER_BYTES + blocks * 6;
    let Some(areas) = bytes::read(&**device, table, areas as usize * DAX_AREA_BYTES)? else {
        return damaged("that ends in its index");
    };
    let area = |area: &[u8]| {
        let first = u64::from(u32_little(area, 0)?);
        Some((first, first + u64::from(u32_little(area, 4)?)))
    };
    let areas = areas.chunks_exact(DAX_AREA_BYTES).filter_map(area);
    let blocks = Blocks {
        below: device.clone(),
        length_bytes: u64::from(length),
        block_bytes: DAX_BLOCK_BYTES,
        shift: 0,
        method: Method::Zlib,
        is_version_2: false,
        areas: areas.collect(),
        kept: Pieces::new(KEPT_BYTES_MAX, 1),
    };
    let words = format!("DAX, blocks of {DAX_BLOCK_BYTES} bytes");
    Ok(Some(Inside::new(Arc::new(Decoded::new(blocks)), words)))
}

impl Blocks {
    fn stored(&self, first: u64, count: usize) -> Result<Vec<Stored>> {
        if self.method == Method::Zlib {
            return self.stored_of_dax(first, count);
        }
        let at = HEADER_BYTES + first * ENTRY_BYTES;
        let length = (count + 1) * ENTRY_BYTES as usize;
        let index = bytes::read(&*self.below, at, length)?.unwrap_or_default();
        let entries = (0..=count).filter_map(|number| u32_little(&index, number * 4));
        let entries: Vec<u32> = entries.collect();
        let offset = |entry: u32| u64::from(entry & !FLAG) << self.shift;
        let pairs = entries.windows(2).filter_map(|pair| match pair {
            [entry, next] => Some(Stored {
                start: offset(*entry),
                end: offset(*next),
                flag: entry & FLAG != 0,
            }),
            _ => None,
        });
        Ok(pairs.collect())
    }

    fn stored_of_dax(&self, first: u64, count: usize) -> Result<Vec<Stored>> {
        let blocks = self.length_bytes.div_ceil(DAX_BLOCK_BYTES);
        let table = |at: u64, each: u64| {
            let at = DAX_HEADER_BYTES + at + first * each;
            bytes::read(&*self.below, at, count * each as usize)
        };
        let offsets = table(0, 4)?.unwrap_or_default();
        let lengths = table(blocks * 4, 2)?.unwrap_or_default();
        let stored = |number: usize| {
            let block = first + number as u64;
            let start = u64::from(u32_little(&offsets, number * 4)?);
            let flag = self
                .areas
                .iter()
                .any(|(from, to)| (*from..*to).contains(&block));
            let length = match flag {
                true => self.bytes_of(block) as u64,
                false => u64::from(u16_little(&lengths, number * 2)?),
            };
            let end = start + length;
            Some(Stored { start, end, flag })
        };
        Ok((0..count).map_while(stored).collect())
    }

    /// Whether a block may take these bytes: incompressible ones grow, and are padded.
    fn is_sound(&self, stored: &Stored) -> bool {
        let length = stored.end.checked_sub(stored.start);
        length
            .is_some_and(|length| length > 0 && length <= 2 * self.block_bytes + (1 << self.shift))
            && stored.end <= self.below.length_bytes().saturating_add(1 << self.shift)
    }

    /// The bytes of these blocks, up to the first that is damaged.
    fn decode(&self, first: u64, count: usize) -> (Vec<u8>, DeviceResult<()>) {
        let mut made = Vec::with_capacity(count * self.block_bytes as usize);
        let stored = match self.stored(first, count) {
            Ok(stored) => stored,
            Err(error) => return (made, Err(self.device_error(error, first))),
        };
        let sound = stored.iter().take_while(|it| self.is_sound(it)).count();
        let sound = stored.get(..sound).unwrap_or_default();
        let damaged = |number: usize| {
            let at = (first + number as u64) * self.block_bytes;
            Err(DeviceError::failed(self.below.name(), at, Errno::IO))
        };
        let (Some(begin), Some(last)) = (sound.first(), sound.last()) else {
            return (made, damaged(0));
        };
        if !sound.is_sorted_by(|block, next| block.end == next.start) {
            return self.decode_each(first, count);
        }
        let start = begin.start;
        let end = last.end.min(self.below.length_bytes());
        let length = end.saturating_sub(start) as usize;
        let bytes = match bytes::read(&*self.below, start, length) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) if count == 1 => return (made, Err(self.device_error(error, first))),
            Err(_) => return self.decode_each(first, count),
        };
        for (number, stored) in sound.iter().enumerate() {
            let from = (stored.start - start) as usize;
            let to = (stored.end.min(end).saturating_sub(start)) as usize;
            let wanted = self.bytes_of(first + number as u64);
            let block = bytes.get(from..to).unwrap_or_default();
            if !self.decode_block(block, stored.flag, wanted, &mut made) {
                return (made, damaged(number));
            }
        }
        match sound.len() == count {
            true => (made, Ok(())),
            false => (made, damaged(sound.len())),
        }
    }

    fn decode_each(&self, first: u64, count: usize) -> (Vec<u8>, DeviceResult<()>) {
        let mut made = Vec::new();
        for number in 0..count as u64 {
            let (block, result) = self.decode(first + number, 1);
            made.extend(block);
            if result.is_err() {
                return (made, result);
            }
        }
        (made, Ok(()))
    }

    fn bytes_of(&self, block: u64) -> usize {
        let start = block * self.block_bytes;
        self.block_bytes.min(self.length_bytes - start) as usize
    }

    /// Appends `wanted` bytes of a block; whether it could.
    fn decode_block(&self, block: &[u8], flag: bool, wanted: usize, made: &mut Vec<u8>) -> bool {
        let is_stored = match self.is_version_2 {
            true => block.len() as u64 >= self.block_bytes,
            false => flag,
        };
        if is_stored {
            let bytes = block.get(..wanted).unwrap_or_default();
            made.extend(bytes);
            return bytes.len() == wanted;
        }
        let method = match self.is_version_2 && flag {
            true => Method::Lz4,
            false => self.method,
        };
        let before = made.len();
        made.resize(before + wanted, 0);
        let target = made.get_mut(before..).unwrap_or_default();
        let is_made = match method {
            Method::Deflate => inflate(block, target, false),
            Method::Zlib => inflate(block, target, true),
            Method::Lz4 => lz4::decompress(block, target).is_some(),
        };
        if !is_made {
            made.truncate(before);
        }
        is_made
    }

    fn device_error(&self, error: Error, block: u64) -> DeviceError {
        match error {
            Error::Device(error) => error,
            Error::Damaged { .. } | Error::Unopened(_) => {
                let at = block * self.block_bytes;
                DeviceError::failed(self.below.name(), at, Errno::IO)
            }
        }
    }
}

fn inflate(block: &[u8], target: &mut [u8], is_zlib: bool) -> bool {
    let mut decoder = Decompress::new(is_zlib);
    // Behind the stream is padding; an error before its end leaves the target short.
    let _ = decoder.decompress(block, target, FlushDecompress::Finish);
    decoder.total_out() == target.len() as u64
}

impl Decode for Blocks {
    fn below(&self) -> &Arc<dyn Device> {
        &self.below
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn piece_end(&self, offset: u64) -> u64 {
        (offset + 1).next_multiple_of(PIECE_BYTES.max(self.block_bytes))
    }

    fn turn(&self, _: u64) -> Option<usize> {
        None
    }

    fn width(&self) -> usize {
        usize::MAX
    }

    fn read(&self, offset: u64, target: &mut [u8], _: Issuer) -> (usize, DeviceResult<()>) {
        let first = offset / self.block_bytes;
        let last = (offset + target.len() as u64 - 1) / self.block_bytes;
        let inside = (offset % self.block_bytes) as usize;
        let is_kept = self.block_bytes > KEPT_FROM_BYTES && first == last;
        let mut give = |made: &[u8]| bytes::copy(made.get(inside..).unwrap_or_default(), target);
        if let Some(block) = is_kept.then(|| self.kept.get(first)).flatten() {
            return (give(&block), Ok(()));
        }
        let (made, result) = self.decode(first, (last - first + 1) as usize);
        let count = give(&made);
        if is_kept && result.is_ok() {
            let made_bytes = made.len();
            self.kept.insert(first, made, made_bytes);
        }
        (count, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Depth, Wanted, unwrap};
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};
    use pagewell_device::testing::{Faulty, pattern, read};
    use pagewell_device::{Operation, RamDevice};

    /// A volume of which two sectors of three can be compressed.
    fn volume(length: usize) -> Vec<u8> {
        let mut data = pattern(length);
        for (number, sector) in data.chunks_mut(2048).enumerate() {
            if number % 3 < 2 {
                sector.fill(sector[0]);
            }
        }
        data[32768..32774].copy_from_slice(b"\x01CD001");
        data
    }

    /// Literals alone.
    fn lz4(block: &[u8]) -> Vec<u8> {
        let mut made = vec![0xf0];
        let mut rest = block.len() - 15;
        while rest >= 255 {
            made.push(255);
            rest -= 255;
        }
        made.push(rest as u8);
        [&made, block].concat()
    }

    fn image(data: &[u8], magic: &[u8], block: usize, (version, shift): (u8, u8)) -> Vec<u8> {
        let mut header = vec![0; 24];
        header[..4].copy_from_slice(magic);
        header[8..16].copy_from_slice(&(data.len() as u64).to_le_bytes());
        header[16..20].copy_from_slice(&(block as u32).to_le_bytes());
        header[20..22].copy_from_slice(&[version, shift]);
        let count = data.len().div_ceil(block);
        let mut body = Vec::new();
        let start = (24 + 4 * (count + 1)).next_multiple_of(1 << shift);
        for (number, chunk) in data.chunks(block).enumerate() {
            let offset = ((start + body.len()) >> shift) as u32;
            let mut whole = chunk.to_vec();
            whole.resize(block, 0);
            let (stored, flag) = match (version, magic, number % 3) {
                (2, _, 0) => (compress_to_vec(chunk, 6), 0),
                // Bytes that are all the same, as the first and a match.
                (2, _, 1) if chunk.iter().all(|byte| *byte == chunk[0]) => (repeated(chunk), FLAG),
                (2, ..) => (whole, 0),
                (_, b"ZISO", 0 | 1) => (lz4(chunk), 0),
                (_, b"CISO", 0) => (compress_to_vec(chunk, 6), 0),
                _ => (whole, FLAG),
            };
            header.extend((offset | flag).to_le_bytes());
            body.extend(stored);
            body.resize(body.len().next_multiple_of(1 << shift), 0);
        }
        header.extend((((start + body.len()) >> shift) as u32).to_le_bytes());
        header.resize(start, 0);
        [header, body].concat()
    }

    /// A literal, and a match with it.
    fn repeated(block: &[u8]) -> Vec<u8> {
        let mut made = vec![0x1f, block[0], 1, 0];
        let mut rest = block.len() - 1 - 4 - 15;
        while rest >= 255 {
            made.push(255);
            rest -= 255;
        }
        made.push(rest as u8);
        made
    }

    fn opened(image: &[u8]) -> crate::Unwrapped {
        let device = Arc::new(RamDevice::holding("x.cso", image));
        unwrap(device, Wanted::default(), Depth::Open(&|_| {})).unwrap()
    }

    #[test]
    fn blocks_of_each_kind_are_read_at_any_place() {
        let data = volume(700_000 / 2048 * 2048);
        for (magic, block, terms, words) in [
            (b"CISO", 2048, (1, 0), "CSO, blocks of 2048 bytes"),
            (b"CISO", 2048, (0, 2), "CSO, blocks of 2048 bytes"),
            (b"CISO", 16384, (1, 0), "CSO, blocks of 16384 bytes"),
            (b"ZISO", 2048, (1, 0), "ZSO, blocks of 2048 bytes"),
            (b"ZISO", 2048, (1, 3), "ZSO, blocks of 2048 bytes"),
            (b"CISO", 2048, (2, 0), "CSO, blocks of 2048 bytes"),
        ] {
            let found = opened(&image(&data, magic, block, terms));
            assert_eq!(found.layers[0].to_string(), words);
            assert_eq!(found.device.length_bytes(), data.len() as u64);
            assert!(read(&*found.device, 0, data.len()).1[..] == data, "{words}");
            for (offset, length) in [(5, 3), (2047, 2), (16_000, 1000), (131_000, 5000)] {
                let (outcome, buffer) = read(&*found.device, offset, length);
                assert_eq!(outcome.result, Ok(()));
                let start = usize::try_from(offset).unwrap();
                assert!(
                    buffer[..] == data[start..start + length],
                    "{words} {offset}"
                );
            }
        }
    }

    /// Every third block is in an area that is stored, unless it is of version 0.
    fn dax(data: &[u8], version: u32) -> Vec<u8> {
        let (mut offsets, mut lengths, mut areas) = (Vec::new(), Vec::new(), Vec::new());
        let mut body = Vec::new();
        let blocks = data.len().div_ceil(8192) as u32;
        let area_count = if version == 0 { 0 } else { blocks / 3 };
        let start = 32 + blocks * 6 + area_count * 8;
        for (number, block) in (0u32..).zip(data.chunks(8192)) {
            offsets.extend((start + body.len() as u32).to_le_bytes());
            let is_area = number % 3 == 2 && version > 0;
            if is_area {
                areas.extend([number, 1].map(u32::to_le_bytes).concat());
            }
            let stored = match is_area {
                true => block.to_vec(),
                false => compress_to_vec_zlib(block, 6),
            };
            lengths.extend((stored.len() as u16).to_le_bytes());
            body.extend(stored);
        }
        let numbers = [data.len() as u32, version, area_count, 0, 0, 0, 0];
        let header = [b"DAX\0", &numbers.map(u32::to_le_bytes).concat()[..]].concat();
        [header, offsets, lengths, areas, body].concat()
    }

    #[test]
    fn dax_is_read_in_both_versions() {
        let data = volume(100 * 2048 + 2000);
        for version in [0, 1] {
            let good = dax(&data, version);
            let found = opened(&good);
            assert_eq!(found.layers[0].to_string(), "DAX, blocks of 8192 bytes");
            assert_eq!(found.device.length_bytes(), data.len() as u64);
            for (offset, length) in [(0, data.len()), (8191, 2), (40_000, 50_000)] {
                let (outcome, bytes) = read(&*found.device, offset as u64, length);
                assert_eq!(outcome.result, Ok(()));
                assert!(bytes[..] == data[offset..][..length]);
            }
            // Blocks that lie in another order, and one that is nowhere.
            let mut other = good.clone();
            for byte in 0..4 {
                other.swap(32 + 4 * 5 + byte, 32 + 4 * 6 + byte);
            }
            other[32 + 4 * 9 + 3] = 0xff;
            let found = opened(&other);
            let (outcome, bytes) = read(&*found.device, 0, 5 * 8192);
            assert!(outcome.result.is_ok() && bytes[..] == data[..5 * 8192]);
            assert!(read(&*found.device, 9 * 8192, 1).0.result.is_err());
            assert_eq!(read(&*found.device, 10 * 8192, 8192).0.result, Ok(()));
            for length in (0..good.len()).step_by(1000) {
                let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x", &good[..length]));
                let Ok(Some(found)) = open(&device) else {
                    continue;
                };
                let (outcome, buffer) = read(&*found.device, 0, data.len());
                let count = outcome.transferred_bytes;
                assert!(outcome.result.is_err() && buffer[..count] == data[..count]);
            }
            for at in 4..200 {
                let mut damaged = good.clone();
                damaged[at] ^= 0xff;
                let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x", &damaged));
                if let Ok(Some(found)) = open(&device) {
                    let length = found.device.length_bytes().min(data.len() as u64) as usize;
                    let _ = read(&*found.device, 0, length);
                }
            }
        }
    }

    #[test]
    fn a_small_read_touches_its_block_alone() {
        let data = volume(300 * 2048);
        let image = image(&data, b"CISO", 2048, (1, 0));
        let mut below = Faulty::new("x.cso", image.len() as u64);
        below.ram = RamDevice::holding("x.cso", &image);
        let below = Arc::new(below);
        let found = unwrap(below.clone(), Wanted::default(), Depth::Open(&|_| {})).unwrap();
        below.seen.lock().unwrap().clear();
        assert_eq!(read(&*found.device, 100 * 2048, 2048).0.result, Ok(()));
        let seen = below.seen.lock().unwrap();
        let bytes: usize = seen.iter().map(|(_, _, bytes, _)| bytes).sum();
        assert!(seen.len() == 2 && bytes <= 2048 + 8, "{seen:?}");
    }

    #[test]
    fn damage_costs_a_block() {
        let data = volume(200 * 2048);
        let good = image(&data, b"CISO", 2048, (1, 0));
        for entry in [0, 0x7fff_ffff_u32, u32::MAX, 30] {
            let mut bad = good.clone();
            let at = 24 + 4 * 100;
            bad[at..at + 4].copy_from_slice(&entry.to_le_bytes());
            let found = opened(&bad);
            let (outcome, _) = read(&*found.device, 90 * 2048, 30 * 2048);
            assert!(outcome.result.is_err());
            assert!(outcome.transferred_bytes >= 9 * 2048, "{entry}");
            assert_eq!(read(&*found.device, 102 * 2048, 90 * 2048).0.result, Ok(()));
        }
        let mut below = Faulty::new("x.cso", good.len() as u64);
        below.ram = RamDevice::holding("x.cso", &good);
        let offset = u32_little(&good, 24 + 4 * 50).unwrap() & !FLAG;
        let bad = u64::from(offset)..u64::from(offset) + 1;
        *below.bad.lock().unwrap() = vec![(Operation::Read, bad)];
        let found = unwrap(Arc::new(below), Wanted::default(), Depth::Open(&|_| {})).unwrap();
        let (outcome, buffer) = read(&*found.device, 0, 60 * 2048);
        assert_eq!(outcome.transferred_bytes, 50 * 2048);
        assert!(buffer[..50 * 2048] == data[..50 * 2048]);
        assert_eq!(read(&*found.device, 51 * 2048, 2048).0.result, Ok(()));
    }

    #[test]
    fn what_is_cut_off_or_claims_too_much_is_refused_or_partly_read() {
        let data = volume(100 * 2048);
        let good = image(&data, b"CISO", 2048, (1, 0));
        for length in (0..good.len()).step_by(1000) {
            let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x", &good[..length]));
            let Ok(Some(found)) = open(&device) else {
                assert!(length < 24 + 4 * 101);
                continue;
            };
            let (outcome, buffer) = read(&*found.device, 0, data.len());
            let count = outcome.transferred_bytes;
            assert!(outcome.result.is_err() && buffer[..count] == data[..count]);
        }
        let mut bomb = good;
        bomb[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x", &bomb));
        let error = open(&device).err().unwrap().to_string();
        assert_eq!(error, "x: a CSO image that ends in its index");
    }

    #[test]
    fn any_bytes_are_no_panic() {
        let good = image(&volume(40 * 2048), b"CISO", 2048, (1, 0));
        bolero::check!()
            .with_iterations(300)
            .with_type::<Vec<(u16, u8)>>()
            .for_each(|changes: &Vec<(u16, u8)>| {
                let mut image = good.clone();
                for (at, value) in changes {
                    let at = usize::from(*at) % image.len().min(1000);
                    image[at] = *value;
                }
                let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x", &image));
                if let Ok(Some(found)) = open(&device) {
                    let length = found.device.length_bytes().min(300_000) as usize;
                    let _ = read(&*found.device, 0, length);
                }
            });
    }
}
