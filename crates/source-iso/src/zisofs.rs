//! zisofs 1 and 2: files compressed in blocks, so that any part can be read alone (libisofs
//! `doc/zisofs_format.txt`, `doc/zisofs2_format.txt`).
//!
//! ```text
//! data:  | header | pointers, one more than blocks | block | block | ...
//!          16 or 24   of 4 or 8 bytes each           zlib, or nothing: zeros
//! ```
//!
//! A system use entry (ZF or Z2) repeats the header, so that the length of a file is known without
//! its data. With an entry that contradicts itself, or whose pointers would not fit into the data,
//! the data is served as recorded. A header that contradicts its entry, a pointer that goes back or
//! leaves the data, and a block of another length are errors of the blocks concerned.
//!
//! Weakness: the header is compared only when data is read, not for a listing; a file without it
//! has the length of its entry and cannot be read.

use std::cell::RefCell;

use flate2::{Decompress, FlushDecompress, Status};
use pagewell_cache::LENGTH_BYTES_MAX;

const MAGIC_1: [u8; 8] = [0x37, 0xe4, 0x53, 0x96, 0xc9, 0xdb, 0xd6, 0x07];
const MAGIC_2: [u8; 8] = [0xef, 0x22, 0x55, 0xa1, 0xbc, 0x1b, 0x95, 0xa0];
/// Powers of two of block lengths. Version 2 was meant to end at 17; xorriso writes up to 20.
const SHIFT_MIN: u8 = 15;
const SHIFT_MAX_1: u8 = 17;
const SHIFT_MAX_2: u8 = 20;
/// Words of 4 bytes.
const HEADER_WORDS_1: u8 = 4;
const HEADER_WORDS_2: u8 = 6;
const ALGORITHM_ZLIB: u8 = 1;
/// More than zlib adds to data that cannot be compressed.
const EXPANSION_BYTES_MAX: u64 = 4096;

pub(super) const BLOCK_BYTES_MAX: usize = 1 << SHIFT_MAX_2;
/// The shortest block, a divisor of all others.
pub(super) const BLOCK_BYTES_MIN: usize = 1 << SHIFT_MIN;
pub(super) const HEADER_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    /// With the two letters of its algorithm.
    Two([u8; 2]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compression {
    version: Version,
    header_words: u8,
    shift: u8,
    size: u64,
}

impl Compression {
    /// Reads a whole ZF or Z2 entry; `None` when it contradicts itself.
    pub(super) fn parse(entry: &[u8]) -> Option<Self> {
        let algorithm = *entry.get(4..)?.first_chunk::<2>()?;
        let [header_words, shift] = *entry.get(6..)?.first_chunk::<2>()?;
        let size = *entry.get(8..)?.first_chunk::<8>()?;
        let (version, shift_max, words_min, size) = if algorithm == *b"pz" {
            let [a, b, c, d, ..] = size;
            let size = u64::from(u32::from_le_bytes([a, b, c, d]));
            (Version::One, SHIFT_MAX_1, HEADER_WORDS_1, size)
        } else {
            let size = u64::from_le_bytes(size);
            let version = Version::Two(algorithm);
            (version, SHIFT_MAX_2, HEADER_WORDS_2, size)
        };
        let sound = (SHIFT_MIN..=shift_max).contains(&shift)
            && header_words >= words_min
            && size <= LENGTH_BYTES_MAX;
        sound.then_some(Self {
            version,
            header_words,
            shift,
            size,
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether blocks can be read: of version 2 only those of zlib.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.version, Version::One | Version::Two([b'P', b'Z']))
    }

    /// Whether data of this length has space for the header and the pointers.
    pub(super) fn fits(&self, data_bytes: u64) -> bool {
        self.table_end() <= data_bytes
    }

    fn block_bytes(&self) -> u64 {
        1 << self.shift
    }

    fn blocks(&self) -> u64 {
        self.size.div_ceil(self.block_bytes())
    }

    pub(super) fn pointer_bytes(&self) -> usize {
        match self.version {
            Version::One => 4,
            Version::Two(_) => 8,
        }
    }

    fn header_bytes(&self) -> u64 {
        u64::from(self.header_words) * 4
    }

    fn table_end(&self) -> u64 {
        self.header_bytes() + (self.blocks() + 1) * self.pointer_bytes() as u64
    }

    /// The block with a byte of the file, where it begins in the file and its length there.
    pub(super) fn block_of(&self, offset: u64) -> (u64, u64, usize) {
        let block = offset >> self.shift;
        let start = block << self.shift;
        let length = self.size.saturating_sub(start).min(self.block_bytes());
        (block, start, length as usize)
    }

    pub(super) fn pointers_of(&self, block: u64) -> u64 {
        self.header_bytes() + block * self.pointer_bytes() as u64
    }

    pub(super) fn agrees(&self, header: &[u8; HEADER_BYTES]) -> bool {
        let own_size = self.size.to_le_bytes();
        match self.version {
            Version::One => {
                header[..8] == MAGIC_1
                    && header[8..12] == own_size[..4]
                    && header[12..14] == [self.header_words, self.shift]
            }
            Version::Two(_) => {
                header[..8] == MAGIC_2
                    && header[8..12] == [0, self.header_words, ALGORITHM_ZLIB, self.shift]
                    && header[12..20] == own_size
            }
        }
    }

    /// First byte and length of a block in data of `data_bytes`, by its two pointers; zeros have
    /// length 0. `None` when they lead nowhere.
    pub(super) fn place(&self, pointers: &[u8], data_bytes: u64) -> Option<(u64, usize)> {
        let pointer = |bytes: &[u8]| {
            let mut number = [0; 8];
            number.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(u64::from_le_bytes(number))
        };
        let (first, second) = pointers.split_at_checked(self.pointer_bytes())?;
        let (start, end) = (pointer(first)?, pointer(second)?);
        let length = end.checked_sub(start)?;
        let is_inside = start >= self.table_end() && end <= data_bytes;
        let is_possible = length <= self.block_bytes() + EXPANSION_BYTES_MAX;
        (is_inside && is_possible).then_some((start, length as usize))
    }
}

thread_local! {
    /// To prepare its tables of some 40 KiB for each block costs time.
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(true));
}

/// Fills `target` with the bytes of a block; false when these are fewer, or more.
pub(super) fn inflate(block: &[u8], target: &mut [u8]) -> bool {
    if block.is_empty() {
        target.fill(0);
        return true;
    }
    INFLATE.with_borrow_mut(|inflate| {
        inflate.reset(true);
        let status = inflate.decompress(block, target, FlushDecompress::Finish);
        let is_whole = inflate.total_out() == target.len() as u64;
        is_whole && matches!(status, Ok(Status::StreamEnd))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compress, FlushCompress};

    fn entry(algorithm: &[u8; 2], words: u8, shift: u8, size: u64) -> Vec<u8> {
        let head = [b'Z', b'F', 16, 1, algorithm[0], algorithm[1], words, shift];
        [&head[..], &size.to_le_bytes()].concat()
    }

    #[test]
    fn entries_that_contradict_themselves_mark_nothing() {
        let parse = |algorithm, words, shift, size| {
            Compression::parse(&entry(algorithm, words, shift, size))
        };
        for shift in 15..=17 {
            assert_eq!(parse(b"pz", 4, shift, 7).unwrap().size(), 7);
        }
        for shift in 15..=20 {
            let found = parse(b"PZ", 6, shift, 1 << 40).unwrap();
            assert!(found.size() == 1 << 40 && found.is_known());
        }
        assert!(!parse(b"XZ", 6, 15, 7).unwrap().is_known());
        for (algorithm, words, shift) in [
            (b"pz", 3, 15),
            (b"pz", 4, 14),
            (b"pz", 4, 18),
            (b"pz", 4, 255),
            (b"PZ", 5, 15),
            (b"PZ", 6, 2),
            (b"PZ", 6, 21),
        ] {
            assert_eq!(parse(algorithm, words, shift, 7), None);
        }
        assert_eq!(parse(b"PZ", 6, 15, u64::MAX), None);
        assert_eq!(Compression::parse(&entry(b"pz", 4, 15, 7)[..15]), None);
        assert_eq!(Compression::parse(b""), None);
    }

    #[test]
    fn pointers_stay_inside_the_data_and_go_on() {
        let found = Compression::parse(&entry(b"pz", 4, 15, 100_000)).unwrap();
        // Four blocks and five pointers.
        assert!(found.fits(36) && !found.fits(35));
        assert_eq!(found.block_of(99_999), (3, 98304, 1696));
        assert_eq!(found.block_of(32767), (0, 0, 32768));
        assert_eq!(found.pointers_of(2), 24);
        let place = |start: u32, end: u32| {
            let pointers = [start.to_le_bytes(), end.to_le_bytes()].concat();
            found.place(&pointers, 5000)
        };
        assert_eq!(place(36, 5000), Some((36, 4964)));
        assert_eq!(place(36, 36), Some((36, 0)));
        for (start, end) in [(35, 40), (40, 39), (36, 5001), (0, u32::MAX)] {
            assert_eq!(place(start, end), None);
        }
        let pointers = [36u32.to_le_bytes(), 36_901u32.to_le_bytes()].concat();
        assert_eq!(found.place(&pointers, 1 << 20), None, "longer than a block");
    }

    #[test]
    fn a_header_must_say_the_same() {
        let one = Compression::parse(&entry(b"pz", 4, 15, 7)).unwrap();
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC_1);
        header[8..14].copy_from_slice(&[7, 0, 0, 0, 4, 15]);
        assert!(one.agrees(&header));
        for at in [0, 8, 12, 13] {
            let mut other = header;
            other[at] ^= 1;
            assert!(!one.agrees(&other));
        }
        let two = Compression::parse(&entry(b"PZ", 6, 16, 7)).unwrap();
        header[..8].copy_from_slice(&MAGIC_2);
        header[8..13].copy_from_slice(&[0, 6, 1, 16, 7]);
        header[13..].fill(0);
        assert!(two.agrees(&header));
        for at in [0, 8, 9, 10, 11, 19] {
            let mut other = header;
            other[at] ^= 1;
            assert!(!two.agrees(&other));
        }
    }

    #[test]
    fn a_block_gives_its_length_or_nothing() {
        let data: Vec<u8> = (0..32768u32).map(|number| (number / 7) as u8).collect();
        let mut block = Vec::with_capacity(40_000);
        Compress::new(flate2::Compression::default(), true)
            .compress_vec(&data, &mut block, FlushCompress::Finish)
            .unwrap();
        let mut target = vec![1; data.len()];
        assert!(inflate(&block, &mut target) && target == data);
        assert!(!inflate(&block, &mut vec![0; data.len() - 1]), "more");
        assert!(!inflate(&block, &mut vec![0; data.len() + 1]), "less");
        assert!(!inflate(&block[..block.len() - 1], &mut target), "cut off");
        block[20] ^= 0xff;
        assert!(!inflate(&block, &mut target), "damaged");
        assert!(inflate(&[], &mut target) && target.iter().all(|byte| *byte == 0));
    }
}
