//! Replies from a socket.
//!
//! They are received in large pieces into one buffer, again and again. Of a reply with file data
//! only the head is kept: as in a real client the data is received, and it is dropped unread. A
//! record counts as received with its last byte. When every byte is wanted the buffer is as large
//! as the longest record, which lies in it whole.

use std::io;
use std::net::TcpStream;
use std::ops::Range;

use pagewell_sunrpc::record::{Assembly, MARKER_BYTES, Marker, Progress};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::LoadError;

/// Enough for every field before file data: an RPC head with the longest verifier (424), the
/// status, attributes and the counts of READ (4 + 88 + 12).
const HEAD_BYTES: usize = 640;
/// Bytes of the buffer for heads: a larger one saves system calls, a much larger one leaves the
/// second-level cache.
const BUFFER_BYTES: usize = 512 << 10;

/// How much of a record is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The head only.
    Head,
    /// Every byte.
    Whole,
}

/// A record, or its head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The record as far as it is kept.
    pub(super) bytes: &'a [u8],
    /// Bytes of the whole record.
    pub(super) length: usize,
}

/// The receiving side of a connection.
pub(super) struct Incoming {
    buffer: Vec<u8>,
    /// Received and not yet looked at.
    filled: Range<usize>,
    /// The head and the length of an incomplete record.
    begun: Option<(Vec<u8>, usize)>,
    /// Its further bytes, to be dropped.
    unwanted: usize,
    /// The memory of the head returned last.
    head: Vec<u8>,
    kept: Kept,
    record_bytes_max: usize,
    /// For a record in several fragments.
    assembly: Assembly,
    assembled: Vec<u8>,
}

impl Incoming {
    /// For records of at most `record_bytes_max` bytes.
    pub(super) fn new(kept: Kept, record_bytes_max: usize) -> Self {
        let buffer_bytes = match kept {
            Kept::Head => BUFFER_BYTES,
            Kept::Whole => BUFFER_BYTES.max(record_bytes_max + MARKER_BYTES),
        };
        Self {
            buffer: vec![0; buffer_bytes],
            filled: 0..0,
            begun: None,
            unwanted: 0,
            head: Vec::new(),
            kept,
            record_bytes_max,
            assembly: Assembly::new(record_bytes_max),
            assembled: Vec::new(),
        }
    }

    /// Receives once. Without `wait` there may be no bytes.
    pub(super) fn receive(&mut self, socket: &TcpStream, wait: bool) -> Result<(), LoadError> {
        let flags = if wait {
            RecvFlags::empty()
        } else {
            RecvFlags::DONTWAIT
        };
        let space = self.space();
        loop {
            match recv(socket, &mut *space, flags) {
                Ok((0, _)) => return Err(LoadError::Closed),
                Ok((count, _)) => {
                    self.filled.end += count;
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if wait => return Err(super::client::silent()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    /// Where the next bytes go. Never empty: a wanted record fits into the buffer.
    fn space(&mut self) -> &mut [u8] {
        if self.filled.is_empty() {
            self.filled = 0..0;
        } else if self.filled.start > 0 {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        self.buffer.get_mut(self.filled.end..).unwrap_or_default()
    }

    /// The next received record; `None` until more is received.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, LoadError> {
        let dropped = self.unwanted.min(self.filled.len());
        self.filled.start += dropped;
        self.unwanted -= dropped;
        if self.unwanted > 0 {
            return Ok(None);
        }
        if let Some((head, length)) = self.begun.take() {
            self.head = head;
            return Ok(Some(Record {
                bytes: &self.head,
                length,
            }));
        }
        if !self.assembly.is_empty() {
            return self.assemble();
        }
        let received = self.buffer.get(self.filled.clone()).unwrap_or_default();
        let Some(marker) = received.first_chunk::<MARKER_BYTES>() else {
            return Ok(None);
        };
        let Marker { length, last } = Marker::parse(*marker);
        if length > self.record_bytes_max {
            return Err(LoadError::RecordTooLong { bytes: length });
        }
        if !last {
            return self.assemble();
        }
        let wanted = match self.kept {
            Kept::Head => length.min(HEAD_BYTES),
            Kept::Whole => length,
        };
        let start = self.filled.start + MARKER_BYTES;
        if start + wanted > self.filled.end {
            return Ok(None);
        }
        let bytes = self.buffer.get(start..start + wanted).unwrap_or_default();
        if start + length > self.filled.end {
            let mut head = std::mem::take(&mut self.head);
            head.clear();
            head.extend_from_slice(bytes);
            self.begun = Some((head, length));
            self.unwanted = start + length - self.filled.end;
            self.filled = 0..0;
            return Ok(None);
        }
        self.filled.start = start + length;
        Ok(Some(Record { bytes, length }))
    }

    /// The rare case: a record in several fragments, copied together.
    fn assemble(&mut self) -> Result<Option<Record<'_>>, LoadError> {
        loop {
            let received = self.buffer.get(self.filled.clone()).unwrap_or_default();
            let (taken, progress) = self.assembly.take(received);
            self.filled.start += taken;
            match progress {
                Progress::Partial => return Ok(None),
                Progress::NeedsBuffer(bytes) => {
                    self.assembly.give_buffer(vec![0; bytes]);
                }
                Progress::Broken => return Err(LoadError::RecordTooLong { bytes: 0 }),
                Progress::Whole => break,
            }
        }
        let record = self.assembly.finish();
        if record.oversized {
            return Err(LoadError::RecordTooLong {
                bytes: record.length,
            });
        }
        self.assembled = record.buffer;
        let bytes = self.assembled.get(..record.length).unwrap_or_default();
        Ok(Some(Record {
            bytes,
            length: record.length,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: usize, last: bool) -> Vec<u8> {
        let mark = length as u32 | if last { 0x8000_0000 } else { 0 };
        let body = (0..length).map(|index| index as u8);
        mark.to_be_bytes().into_iter().chain(body).collect()
    }

    /// Heads and lengths of the records of a stream that comes in pieces.
    fn records(incoming: &mut Incoming, stream: &[u8], piece: usize) -> Vec<(Vec<u8>, usize)> {
        let mut found = Vec::new();
        let mut rest = stream;
        while !rest.is_empty() {
            let space = incoming.space();
            let count = piece.min(space.len()).min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            incoming.filled.end += count;
            rest = &rest[count..];
            while let Some(record) = incoming.next().unwrap() {
                found.push((record.bytes.to_vec(), record.length));
            }
        }
        found
    }

    #[test]
    fn heads_are_found_and_data_is_dropped() {
        let lengths = [5000, 8, 0, 700, 640, 641, 100_000, 4, 3, 2000];
        let stream: Vec<u8> = lengths
            .iter()
            .flat_map(|length| record(*length, true))
            .collect();
        for piece in [1, 3, 640, 1000, 99_999] {
            let mut incoming = Incoming::new(Kept::Head, 1 << 20);
            let found = records(&mut incoming, &stream, piece);
            assert_eq!(found.len(), lengths.len(), "pieces of {piece}");
            for ((head, length), expected) in found.iter().zip(lengths) {
                assert_eq!(*length, expected);
                assert_eq!(*head, record(expected.min(HEAD_BYTES), true)[4..]);
            }
        }
    }

    #[test]
    fn a_record_counts_when_its_last_byte_is_there() {
        let stream = [record(2000, true), record(900_000, true)].concat();
        for (bytes, expected) in [(1999, 0), (2003, 0), (2004, 1), (stream.len() - 1, 1)] {
            let mut incoming = Incoming::new(Kept::Head, 1 << 20);
            let found = records(&mut incoming, &stream[..bytes], 1000);
            assert_eq!(found.len(), expected, "after {bytes} bytes");
        }
    }

    #[test]
    fn whole_records_are_as_long_as_the_longest() {
        let stream = [
            record(300_000, true),
            record(9, true),
            record(299_999, true),
        ]
        .concat();
        for piece in [1000, 262_144, 300_004] {
            let mut incoming = Incoming::new(Kept::Whole, 300_000);
            let found = records(&mut incoming, &stream, piece);
            let lengths: Vec<usize> = found.iter().map(|(bytes, _)| bytes.len()).collect();
            assert_eq!(lengths, [300_000, 9, 299_999]);
        }
    }

    #[test]
    fn fragments_are_put_together() {
        let stream = [
            record(3, false),
            record(0, false),
            record(2, true),
            record(7, true),
        ]
        .concat();
        for piece in 1..stream.len() {
            let mut incoming = Incoming::new(Kept::Head, 100);
            let found = records(&mut incoming, &stream, piece);
            let expected = [(vec![0, 1, 2, 0, 1], 5), ((0..7).collect(), 7)];
            assert_eq!(found, expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_record_longer_than_any_answer_is_an_error() {
        for stream in [
            record(101, true),
            [record(60, false), record(60, true)].concat(),
        ] {
            let mut incoming = Incoming::new(Kept::Head, 100);
            incoming.space()[..stream.len()].copy_from_slice(&stream);
            incoming.filled.end += stream.len();
            let result = incoming.next();
            assert!(
                matches!(result, Err(LoadError::RecordTooLong { .. })),
                "{result:?}"
            );
        }
    }
}
