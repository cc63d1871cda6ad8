//! Memory for the data of answers and writes, kept for the next call.
//!
//! Problem: one thread allocates up to 1 MiB, and another frees it. The C library keeps freed
//! memory for the thread that allocated it, in the end as much for each as all need at one time.
//!
//! Rule: freed memory goes to the next call, up to [`PIECES_MAX`] pieces.

use pagewell_base::sync::Mutex;

static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// Bounds of the memory that is kept.
const PIECES_MAX: usize = 16;
const PIECE_BYTES_MAX: usize = 1 << 20;

pub(crate) fn take() -> Vec<u8> {
    let mut piece = FREE.lock().pop().unwrap_or_default();
    piece.clear();
    piece
}

pub(crate) fn give_back(piece: Vec<u8>) {
    if (1..=PIECE_BYTES_MAX).contains(&piece.capacity()) {
        let mut free = FREE.lock();
        if free.len() < PIECES_MAX {
            free.push(piece);
        }
    }
}

/// A copy of data, in a piece that the caller gives back.
pub(crate) fn copy_of(data: &[u8]) -> Vec<u8> {
    let mut piece = take();
    // Exactly: a piece that grew by doubling would be too large to keep.
    piece.reserve_exact(data.len());
    piece.extend_from_slice(data);
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_small_pieces_are_kept_and_nothing_of_what_was_in_them() {
        for _ in 0..3 {
            let copies: Vec<Vec<u8>> = (0..2 * PIECES_MAX).map(|_| copy_of(&[7; 100])).collect();
            assert!(copies.iter().all(|copy| **copy == [7; 100]));
            copies.into_iter().for_each(give_back);
            assert!(FREE.lock().len() <= PIECES_MAX);
            assert!(take().is_empty());
        }
        give_back(vec![1; PIECE_BYTES_MAX + 1]);
        give_back(copy_of(&vec![1; PIECE_BYTES_MAX]));
        assert!(
            FREE.lock()
                .iter()
                .all(|piece| piece.capacity() <= PIECE_BYTES_MAX)
        );
    }
}
