//! File data that can be checked without keeping a copy.
//!
//! Each aligned word of eight bytes is a mix of its own position in the file (the finisher of
//! SplitMix64, a bijection): no two words of a file are equal, so a block that comes from the
//! wrong place, is shifted, or holds zeros is found at its first word. The data does not
//! compress. Weakness: two files, and two versions of one file, have the same bytes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use pagewell_base::mix::{STEP, mix};

const WORD_BYTES: usize = 8;
/// Bytes made at once to compare with: they stay in the first-level cache.
const SCRATCH_BYTES: usize = 4096;

/// The bytes of the word at `index`, counted in words from the start of the file.
fn word(index: u64) -> [u8; WORD_BYTES] {
    mix(index.wrapping_add(STEP)).to_le_bytes()
}

/// Fills `buffer` with what belongs at byte `offset` of the file.
pub fn fill_pattern(buffer: &mut [u8], offset: u64) {
    let mut index = offset / WORD_BYTES as u64;
    let inside = usize::try_from(offset % WORD_BYTES as u64).unwrap_or(0);
    let lead = (WORD_BYTES - inside) % WORD_BYTES;
    let (first, rest) = buffer.split_at_mut(lead.min(buffer.len()));
    if !first.is_empty() {
        let bytes = word(index);
        first.copy_from_slice(&bytes[inside..inside + first.len()]);
        index += 1;
    }
    let (words, last) = rest.as_chunks_mut::<WORD_BYTES>();
    for slot in words {
        *slot = word(index);
        index += 1;
    }
    last.copy_from_slice(&word(index)[..last.len()]);
}

/// Compares `data` with what belongs at byte `offset` of the file.
///
/// # Errors
///
/// The position in the file of the first byte that is wrong.
pub fn check_pattern(data: &[u8], offset: u64) -> Result<(), u64> {
    let mut scratch = [0; SCRATCH_BYTES];
    let mut position = offset;
    for piece in data.chunks(SCRATCH_BYTES) {
        let expected = &mut scratch[..piece.len()];
        fill_pattern(expected, position);
        if piece != expected {
            let same = piece
                .iter()
                .zip(&*expected)
                .take_while(|(is, must)| is == must);
            return Err(position + same.count() as u64);
        }
        position += piece.len() as u64;
    }
    Ok(())
}

/// Makes a file of `bytes` bytes with the pattern; it replaces what is there.
///
/// # Errors
///
/// Those of creating and writing the file.
pub fn write_pattern_file(path: &Path, bytes: u64) -> io::Result<()> {
    const PIECE_BYTES: u64 = 1 << 20;
    let mut file = File::create(path)?;
    let mut buffer = Vec::new();
    let mut position = 0;
    while position < bytes {
        let length = PIECE_BYTES.min(bytes - position);
        buffer.resize(usize::try_from(length).unwrap_or(0), 0);
        fill_pattern(&mut buffer, position);
        file.write_all(&buffer)?;
        position += length;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_a_part_of_the_whole() {
        let mut whole = vec![0; 300];
        fill_pattern(&mut whole, 0);
        for start in 0..40 {
            for length in 0..60 {
                let mut piece = vec![0; length];
                fill_pattern(&mut piece, start as u64);
                assert_eq!(piece, whole[start..start + length], "{start} {length}");
            }
        }
    }

    #[test]
    fn the_first_wrong_byte_is_found() {
        let mut data = vec![0; 10_000];
        fill_pattern(&mut data, 77);
        assert_eq!(check_pattern(&data, 77), Ok(()));
        for wrong in [0, 1, 4095, 4096, 9999] {
            data[wrong] ^= 1;
            assert_eq!(check_pattern(&data, 77), Err(77 + wrong as u64));
            data[wrong] ^= 1;
        }
        assert!(check_pattern(&data, 78).is_err());
        assert!(check_pattern(&[0; 8], 0).is_err());
    }

    #[test]
    fn a_file_has_the_pattern_to_its_last_byte() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        write_pattern_file(&path, (1 << 20) + 13).unwrap();
        let data = std::fs::read(&path).unwrap();
        assert_eq!(data.len(), (1 << 20) + 13);
        assert_eq!(check_pattern(&data, 0), Ok(()));
    }
}
