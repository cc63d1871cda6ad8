//! Blocks of LZ4.
//!
//! A block is a run of sequences: a token, of which the upper four bits are the length of literals
//! and the lower four that of a match less four, longer ones continued in bytes of 255; the
//! literals; and two bytes of the distance of the match (LZ4 block format, 2024). The last sequence
//! has no match.
//!
//! Images pad blocks, on which other decoders fail: this one ends when the target is full.

/// Fills the target; `None` when the block is damaged or does not fill it.
pub(crate) fn decompress(block: &[u8], target: &mut [u8]) -> Option<()> {
    const SHORTEST_MATCH: usize = 4;
    let mut rest = block;
    let mut filled = 0;
    while filled < target.len() {
        let token = take(&mut rest, 1)?.first().copied()?;
        let literals = take_length(&mut rest, token >> 4)?;
        let literals = literals.min(target.len() - filled);
        let end = filled + literals;
        target
            .get_mut(filled..end)?
            .copy_from_slice(take(&mut rest, literals)?);
        filled = end;
        if filled == target.len() {
            break;
        }
        let distance = take(&mut rest, 2)?.first_chunk::<2>()?;
        let distance = usize::from(u16::from_le_bytes(*distance));
        let length = take_length(&mut rest, token & 15)?.checked_add(SHORTEST_MATCH)?;
        let length = length.min(target.len() - filled);
        let start = filled.checked_sub(distance).filter(|_| distance > 0)?;
        copy_match(target, start, filled, length);
        filled += length;
    }
    Some(())
}

/// Copies `length` bytes from `start` to `to`, of which the first may be those of the copy.
fn copy_match(target: &mut [u8], start: usize, to: usize, length: usize) {
    let distance = to - start;
    let mut done = 0;
    while done < length {
        // What is before the copy, and what was copied.
        let count = (distance + done).min(length - done);
        target.copy_within(start..start + count, to + done);
        done += count;
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn take_length(rest: &mut &[u8], begin: u8) -> Option<usize> {
    let mut length = usize::from(begin);
    if begin < 15 {
        return Some(length);
    }
    loop {
        let more = take(rest, 1)?.first().copied()?;
        length += usize::from(more);
        if more < 255 {
            return Some(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_joined() {
        let mut target = [0; 20];
        // "ab", then 8 bytes from 2 back, then 10 literals; then padding.
        let block = [
            &[0x24][..],
            b"ab",
            &[2, 0],
            &[0xa0],
            b"0123456789",
            &[0, 0, 0],
        ]
        .concat();
        assert_eq!(decompress(&block, &mut target), Some(()));
        assert_eq!(&target, b"ababababab0123456789");
        let mut long = vec![0; 400];
        let block = [&[0x1f][..], b"x", &[1, 0], &[255, 125]].concat();
        assert_eq!(decompress(&block, &mut long), Some(()));
        assert!(long.iter().all(|byte| *byte == b'x'));
    }

    #[test]
    fn damage_is_an_error() {
        let mut target = [0; 20];
        for block in [
            &[][..],
            &[0x20, b'a'],
            &[0x20, b'a', b'b', 3, 0],
            &[0x20, b'a', b'b', 0, 0],
            &[0xf0, 255, 255],
            &[0x20, b'a', b'b', 2],
        ] {
            assert_eq!(decompress(block, &mut target), None, "{block:?}");
        }
    }

    #[test]
    fn any_bytes_are_no_panic() {
        bolero::check!()
            .with_iterations(2000)
            .for_each(|block: &[u8]| {
                let mut target = [0; 300];
                let _ = decompress(block, &mut target);
            });
    }
}
