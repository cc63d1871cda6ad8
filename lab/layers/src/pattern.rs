//! A device of any length with computed bytes: a check of every byte needs no second copy.
//!
//! The bytes are 64-bit little-endian words. Word N, at byte 8 N, is a bijective mix of `N * odd +
//! mix(seed)`: all words of a device differ, so a check of one whole word finds bytes from the
//! wrong place.

use std::fs::File;
use std::io::{self, Write};

use pagewell_base::mix::{STEP, mix};

use pagewell_device::{Device, Error, Geometry, Operation, Request, check};
use rustix::io::Errno;

const PIECE_BYTES: usize = 1 << 20;

/// See the module's text. It completes requests at once and refuses writes with `EROFS`.
#[derive(Clone, Debug)]
pub struct Pattern {
    name: String,
    length_bytes: u64,
    seed: u64,
}

impl Pattern {
    /// A device of so many bytes, which depend on the seed.
    pub fn new(length_bytes: u64, seed: u64) -> Self {
        Self {
            name: format!("pattern:{length_bytes}:{seed}"),
            length_bytes,
            seed: mix(seed),
        }
    }

    /// Fills `target` with the bytes from `offset`, also past the device's end.
    pub fn fill(&self, offset: u64, target: &mut [u8]) {
        let (head, middle) = target.split_at_mut(head_length(offset, target.len()));
        self.copy_part(offset, head);
        let start = offset.wrapping_add(head.len() as u64);
        let mut words = middle.chunks_exact_mut(8);
        let mut index = start / 8;
        for word in &mut words {
            word.copy_from_slice(&self.word(index).to_le_bytes());
            index = index.wrapping_add(1);
        }
        self.copy_part(index.wrapping_mul(8), words.into_remainder());
    }

    /// Compares bytes read from `offset` with the computed ones.
    ///
    /// # Errors
    /// The offset of the first wrong byte.
    pub fn check(&self, offset: u64, bytes: &[u8]) -> Result<(), u64> {
        let mut expected = [0; 4096];
        let mut at = offset;
        for part in bytes.chunks(expected.len()) {
            let expected = &mut expected[..part.len()];
            self.fill(at, expected);
            if part != expected {
                let pairs = part.iter().zip(expected.iter());
                let right = pairs.take_while(|(is, must)| is == must).count();
                return Err(at.wrapping_add(right as u64));
            }
            at = at.wrapping_add(part.len() as u64);
        }
        Ok(())
    }

    /// Writes the first `bytes` to a file, and waits until they are on storage.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_to(&self, mut file: &File, bytes: u64) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < bytes {
            let rest = usize::try_from(bytes - at).unwrap_or(PIECE_BYTES);
            let piece = &mut piece[..rest.min(PIECE_BYTES)];
            self.fill(at, piece);
            file.write_all(piece)?;
            at += piece.len() as u64;
        }
        file.sync_all()
    }

    #[inline]
    fn word(&self, index: u64) -> u64 {
        mix(index.wrapping_mul(STEP).wrapping_add(self.seed))
    }

    fn copy_part(&self, offset: u64, target: &mut [u8]) {
        let first = (offset % 8) as usize;
        let word = self.word(offset / 8).to_le_bytes();
        let bytes = word.iter().skip(first);
        for (byte, value) in target.iter_mut().zip(bytes) {
            *byte = *value;
        }
    }
}

fn head_length(offset: u64, length: usize) -> usize {
    let head = ((8 - offset % 8) % 8) as usize;
    head.min(length)
}

impl Device for Pattern {
    fn name(&self) -> &str {
        &self.name
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }

    fn submit(&self, mut request: Request) {
        let mut offset = request.offset();
        let checked = match request.operation() {
            Operation::Read => check(self, &request),
            Operation::Write => Err(Error::failed(&self.name, offset, Errno::ROFS)),
            Operation::Flush => return request.succeed(),
        };
        if let Err(error) = checked {
            return request.fail(0, error);
        }
        for slice in request.slices_mut() {
            self.fill(offset, slice);
            offset += slice.len() as u64;
        }
        request.succeed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_device::read_exact;
    use pagewell_device::testing::{flush, write};

    #[test]
    fn every_piece_is_the_same_bytes() {
        let pattern = Pattern::new(u64::MAX, 7);
        let base = (5 << 40) - 3;
        let mut whole = vec![0; 300];
        pattern.fill(base, &mut whole);
        for first in 0..40 {
            for length in 0..40 {
                let mut piece = vec![0; length];
                let offset = base + first as u64;
                assert_eq!(read_exact(&pattern, offset, &mut piece), Ok(()));
                assert_eq!(piece, whole[first..first + length], "{first} {length}");
                assert_eq!(pattern.check(offset, &piece), Ok(()));
            }
        }
        let mut first = [0; 8];
        pattern.fill(0, &mut first);
        assert_eq!(first, pattern.word(0).to_le_bytes());
    }

    #[test]
    fn the_first_wrong_byte_is_found() {
        let pattern = Pattern::new(1 << 50, 7);
        let mut bytes = vec![0; 10_000];
        pattern.fill(12_345, &mut bytes);
        for wrong in [0, 1, 4095, 4096, 9999] {
            bytes[wrong] ^= 0x10;
            assert_eq!(pattern.check(12_345, &bytes), Err(12_345 + wrong as u64));
            bytes[wrong] ^= 0x10;
        }
        assert_eq!(pattern.check(12_345, &bytes), Ok(()));
        // Bytes of another place or of another device are wrong within the first word.
        assert!(pattern.check(12_346, &bytes).unwrap_err() < 12_354);
        assert!(Pattern::new(1 << 50, 8).check(12_345, &bytes).unwrap_err() < 12_353);
    }

    #[test]
    fn it_ends_where_it_says() {
        let pattern = Pattern::new(10, 1);
        let mut target = [0; 4];
        assert_eq!(read_exact(&pattern, 6, &mut target), Ok(()));
        for offset in [7, 10, u64::MAX] {
            let result = read_exact(&pattern, offset, &mut target);
            assert!(matches!(result, Err(Error::PastEnd { .. })));
            assert!(read_exact(&pattern, offset, &mut target).is_err());
        }
    }

    #[test]
    fn it_takes_no_writes_and_has_nothing_to_flush() {
        let pattern = Pattern::new(10, 1);
        let error = write(&pattern, 3, &[1; 4]).result.unwrap_err().to_string();
        assert!(error.contains("pattern:10:1: at byte 3"), "{error}");
        assert_eq!(flush(&pattern).result, Ok(()));
    }
}
