//! Calls on their way into a socket.
//!
//! All due calls leave in as few system calls as the socket takes. All WRITE calls share one block
//! of data; the kernel gathers it, and nothing copies it here.
//!
//! ```text
//!   heads:  [call][call head][padding, call head][call]
//!                            ^                  ^
//!   block:               [data]             [data]        sent between the heads
//! ```

use std::io::{self, IoSlice};
use std::net::TcpStream;

use pagewell_sunrpc::record::{LAST_FRAGMENT, MARKER_BYTES};
use pagewell_sunrpc::xdr::Encoder;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Pieces of one system call; Linux takes up to 1024.
const PIECES_MAX: usize = 128;

/// Calls that were encoded and not wholly sent.
#[derive(Default)]
pub(super) struct Outgoing {
    heads: Vec<u8>,
    /// Where data goes between `heads`, and how many bytes of the block.
    inserts: Vec<(usize, usize)>,
    /// Bytes sent, of heads and data.
    sent: usize,
    /// Bytes to send, of heads and data.
    total: usize,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.total == self.sent
    }

    /// Appends a record: what `encode` writes, then the first `data_bytes` of the block and their
    /// padding.
    pub(super) fn push(&mut self, data_bytes: usize, encode: impl FnOnce(&mut Encoder<'_>)) {
        let start = self.heads.len();
        let mut encoder = Encoder::new(&mut self.heads);
        encoder.u32(0);
        encode(&mut encoder);
        let data_position = encoder.position();
        if data_bytes > 0 {
            encoder.raw(&[0; 3][..data_bytes.wrapping_neg() & 3]);
        }
        let bytes = encoder.position() - start + data_bytes;
        // Blocks are at most a few MiB.
        encoder.patch_u32(start, (bytes - MARKER_BYTES) as u32 | LAST_FRAGMENT);
        if data_bytes > 0 {
            self.inserts.push((data_position, data_bytes));
        }
        self.total += bytes;
    }

    /// Sends what the socket takes without waiting. True when nothing is left.
    pub(super) fn send(&mut self, socket: &TcpStream, block: &[u8]) -> io::Result<bool> {
        while !self.is_empty() {
            let pieces = self.pieces(block);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(socket, &pieces, &mut SendAncillaryBuffer::default(), flags) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.heads.clear();
        self.inserts.clear();
        (self.sent, self.total) = (0, 0);
        Ok(true)
    }

    /// What is left, as far as one system call takes it.
    fn pieces<'a>(&'a self, block: &'a [u8]) -> Vec<IoSlice<'a>> {
        let mut pieces = Vec::new();
        let mut skip = self.sent;
        let mut add = |piece: &'a [u8]| {
            let (skipped, rest) = piece.split_at(skip.min(piece.len()));
            skip -= skipped.len();
            if !rest.is_empty() {
                pieces.push(IoSlice::new(rest));
            }
            pieces.len() < PIECES_MAX
        };
        let mut position = 0;
        for (insert, data_bytes) in &self.inserts {
            let head = self.heads.get(position..*insert).unwrap_or_default();
            let data = block.get(..*data_bytes).unwrap_or_default();
            position = *insert;
            if !(add(head) && add(data)) {
                return pieces;
            }
        }
        add(self.heads.get(position..).unwrap_or_default());
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that would be sent, when each system call takes `step` bytes.
    fn stream(outgoing: &mut Outgoing, block: &[u8], step: usize) -> Vec<u8> {
        let mut stream = Vec::new();
        while !outgoing.is_empty() {
            let pieces = outgoing.pieces(block);
            let next: Vec<u8> = pieces
                .iter()
                .flat_map(|piece| piece.to_vec())
                .take(step)
                .collect();
            outgoing.sent += next.len();
            stream.extend(next);
        }
        stream
    }

    #[test]
    fn records_are_whole_however_the_socket_takes_them() {
        let block: Vec<u8> = (0..10).collect();
        #[rustfmt::skip]
        let expected = [
            0x80, 0, 0, 4, 0, 0, 0, 1, // no data
            0x80, 0, 0, 12, 0, 0, 0, 2, 0, 1, 2, 3, 4, 0, 0, 0, // five bytes, padding
            0x80, 0, 0, 8, 0, 0, 0, 3, 0, 1, 2, 3, // four bytes
            0x80, 0, 0, 4, 0, 0, 0, 4,
        ];
        for step in 1..expected.len() + 1 {
            let mut outgoing = Outgoing::default();
            outgoing.push(0, |encoder| encoder.u32(1));
            outgoing.push(5, |encoder| encoder.u32(2));
            outgoing.push(4, |encoder| encoder.u32(3));
            outgoing.push(0, |encoder| encoder.u32(4));
            assert_eq!(
                stream(&mut outgoing, &block, step),
                expected,
                "steps of {step}"
            );
        }
    }

    #[test]
    fn more_pieces_than_one_system_call_takes_go_in_several() {
        let mut outgoing = Outgoing::default();
        for number in 0..300 {
            outgoing.push(4, |encoder| encoder.u32(number));
        }
        assert_eq!(outgoing.pieces(&[9; 4]).len(), PIECES_MAX);
        let sent = stream(&mut outgoing, &[9; 4], usize::MAX);
        for (number, record) in (0u32..).zip(sent.chunks(12)) {
            let expected = [&[0x80, 0, 0, 8], &number.to_be_bytes()[..], &[9; 4]].concat();
            assert_eq!(record, expected);
        }
        assert_eq!(sent.len(), 3600);
    }
}
