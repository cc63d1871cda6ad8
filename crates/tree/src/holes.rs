//! Holes of sparse files: blocks of zeros that a copy need not write.

/// The page of all file systems with holes.
const HOLE_BYTES: usize = 4096;

/// What of a piece is not blocks of zeros, each part with its start.
pub fn data_of(bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut parts: Vec<(u64, &[u8])> = Vec::new();
    let mut run_start = None;
    let mut at = 0;
    for block in bytes.chunks(HOLE_BYTES) {
        let is_zero = block.iter().all(|byte| *byte == 0);
        match (is_zero, run_start) {
            (true, Some(start)) => {
                parts.push((start as u64, &bytes[start..at]));
                run_start = None;
            }
            (false, None) => run_start = Some(at),
            _ => {}
        }
        at += block.len();
    }
    if let Some(start) = run_start {
        parts.push((start as u64, &bytes[start..]));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut bytes = vec![0; 5 * HOLE_BYTES + 10];
        assert_eq!(data_of(&bytes), []);
        bytes[HOLE_BYTES] = 1;
        bytes[3 * HOLE_BYTES - 1] = 1;
        bytes[5 * HOLE_BYTES] = 1;
        let block = HOLE_BYTES as u64;
        assert_eq!(
            data_of(&bytes),
            [
                (block, &bytes[HOLE_BYTES..3 * HOLE_BYTES]),
                (5 * block, &bytes[5 * HOLE_BYTES..]),
            ]
        );
    }
}
