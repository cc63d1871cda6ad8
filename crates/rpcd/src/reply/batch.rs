//! Replies being built: a block of bytes for small ones, pieces for file data sent in place.

use pagewell_fs::PageSlice;
use pagewell_sunrpc::record::{LAST_FRAGMENT, MARKER_BYTES};
use pagewell_sunrpc::xdr::{padded, padding};

use crate::reply::file_range::FileRange;
use crate::usage::Tally;

/// The head of a READ reply, and most whole replies.
const REPLY_BYTES: usize = 256;

/// Consecutive bytes of the stream.
pub enum Piece {
    /// Own memory.
    Bytes(Vec<u8>),
    /// Pages shared with other readers.
    Page(PageSlice),
    /// A file's range, sent from the kernel's cache.
    File(FileRange),
}

impl Piece {
    /// Bytes of the stream.
    pub fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Page(page) => page.len(),
            Self::File(range) => range.length,
        }
    }

    /// Memory of this reply alone; pages have their own bounds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.capacity(),
            Self::Page(_) | Self::File(_) => 0,
        }
    }
}

/// Replies that leave together.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Before `bytes`.
    pieces: Vec<Piece>,
    pieces_bytes: usize,
    pieces_memory_bytes: usize,
    /// Counts the replies for their connection.
    pub tally: Tally,
}

/// The start of a reply, to roll back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Batch {
    /// The start of the next reply.
    pub fn mark(&self) -> Mark {
        Mark(self.bytes.len())
    }

    /// Begins a reply with space for the record marker. Write it to [`Batch::bytes`], then call
    /// [`Batch::end`] or [`Batch::end_with`].
    pub fn begin(&mut self) -> Mark {
        let mark = self.mark();
        // Behind a payload the block is new and must not grow word by word.
        self.bytes.reserve(REPLY_BYTES);
        self.bytes.extend_from_slice(&[0; MARKER_BYTES]);
        mark
    }

    /// The block, to append to.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Drops everything since `mark`.
    pub fn roll_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.0);
    }

    /// Ends a reply that is all in the block; returns its length with marker.
    pub fn end(&mut self, mark: Mark) -> usize {
        let length = self.bytes.len() - mark.0;
        self.set_marker(mark, length - MARKER_BYTES);
        length
    }

    /// Ends a reply with `payload_bytes` in `payload`, padded to a multiple of four; returns its
    /// length with marker.
    pub fn end_with(
        &mut self,
        mark: Mark,
        payload: impl IntoIterator<Item = Piece>,
        payload_bytes: usize,
    ) -> usize {
        let length = self.bytes.len() - mark.0 + padded(payload_bytes);
        self.set_marker(mark, length - MARKER_BYTES);
        self.pieces_bytes += self.bytes.len() + payload_bytes;
        let head = Piece::Bytes(std::mem::take(&mut self.bytes));
        for piece in std::iter::once(head).chain(payload) {
            self.pieces_memory_bytes += piece.memory_bytes();
            self.pieces.push(piece);
        }
        self.bytes.extend_from_slice(padding(payload_bytes));
        length
    }

    /// A reply ended by [`Batch::end`], without marker.
    pub fn body(&self, mark: Mark) -> &[u8] {
        self.bytes.get(mark.0 + MARKER_BYTES..).unwrap_or_default()
    }

    /// Appends a complete reply without marker.
    pub fn push(&mut self, body: &[u8]) {
        let mark = self.begin();
        self.bytes.extend_from_slice(body);
        self.end(mark);
    }

    /// Bytes of all replies.
    pub fn length(&self) -> usize {
        self.bytes.len() + self.pieces_bytes
    }

    /// Own memory, without pages and files.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.pieces_memory_bytes
    }

    /// Whether it has no reply.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.pieces.is_empty()
    }

    /// The block, if there are no pieces.
    pub fn block(&mut self) -> Option<&mut Vec<u8>> {
        self.pieces.is_empty().then_some(&mut self.bytes)
    }

    /// Removes all pieces, in order.
    pub fn take(&mut self) -> impl Iterator<Item = Piece> {
        self.pieces_bytes = 0;
        self.pieces_memory_bytes = 0;
        let rest = std::mem::take(&mut self.bytes);
        let last = (!rest.is_empty()).then_some(Piece::Bytes(rest));
        self.pieces.drain(..).chain(last)
    }

    fn set_marker(&mut self, mark: Mark, length: usize) {
        assert!(
            length < LAST_FRAGMENT as usize,
            "a reply of {length} bytes: the largest READ is far below 2^31"
        );
        #[allow(clippy::cast_possible_truncation)] // just checked
        let marker = (length as u32 | LAST_FRAGMENT).to_be_bytes();
        self.bytes[mark.0..mark.0 + MARKER_BYTES].copy_from_slice(&marker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_count_payload_and_padding() {
        let mut batch = Batch::default();
        batch.push(b"abcd");
        let mark = batch.begin();
        batch.bytes().extend_from_slice(b"head");
        let length = batch.end_with(mark, [Piece::Bytes(vec![1, 2, 3])], 3);
        assert_eq!(length, 12);
        batch.push(b"tail");
        assert_eq!(batch.length(), 8 + 8 + 3 + 1 + 8);
        let memory_bytes: usize = batch.pieces.iter().map(Piece::memory_bytes).sum();
        assert_eq!(batch.memory_bytes(), memory_bytes + 1 + 8);
        let Piece::Bytes(first) = &batch.pieces[0] else {
            panic!()
        };
        assert_eq!(
            &first[8..12],
            [0x80, 0, 0, 8],
            "head, three bytes and one of padding"
        );
        assert_eq!(&batch.bytes[..], b"\0\x80\0\0\x04tail");
    }
}
