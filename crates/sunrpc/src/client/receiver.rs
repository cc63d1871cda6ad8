//! Receiving: brings each record of the stream to the call it answers.
//!
//! ```text
//!   stream:  [marker][xid ...head...][results, data length][data ............][0..3][marker][...
//!             \______ small read into the buffer ________/ \_ straight to the _/ \_ the same
//!                                                             caller's memory       read goes on
//! ```
//!
//! When many replies are expected and none with data, one read fills the buffer. Otherwise reads
//! are small, as data in the buffer must be copied. The rest of the data goes to its memory with
//! one vectored read, which may also bring the head of the next record.
//!
//! A malformed record ends the connection: nothing behind can be trusted.

use super::call::{CallError, Finished, Origin, Outgoing, Sink};
use super::slot::{Known, Slot};
use crate::record::{FRAGMENTS_MAX, MARKER_BYTES, Marker};
use crate::rpc::{ReplyError, parse_reply};
use crate::xdr::{self, padded};
use pagewell_counters::names;
use std::io::{ErrorKind, IoSliceMut, Read};
use std::ops::Range;
use std::sync::Arc;

/// With its data.
const REPLY_BYTES_MAX: usize = 2 << 20;
const BUFFER_BYTES: usize = 64 << 10;
/// Most replies, and the head of a READ with little data.
const SMALL_READ_BYTES: usize = 512;
/// The longest verifier, attributes, and some.
const HEAD_BYTES_MAX: usize = 4096;
/// Xid and message type.
const RECORD_BYTES_MIN: usize = 8;
/// Of one vectored read.
const SLICES_MAX: usize = 256;
/// Replies to unknown calls that end a connection.
const UNEXPECTED_MAX: u32 = 16;

pub(super) enum End {
    /// It was closed, or broke.
    Lost,
    /// A malformed record.
    Garbage {
        reason: String,
        /// Of the answered call, if known.
        xid: Option<u32>,
    },
}

impl End {
    fn garbage(reason: impl Into<String>) -> Self {
        Self::Garbage {
            reason: reason.into(),
            xid: None,
        }
    }

    fn garbage_for(xid: u32, reason: impl Into<String>) -> Self {
        Self::Garbage {
            reason: reason.into(),
            xid: Some(xid),
        }
    }
}

pub(super) struct Receiver<'a> {
    slot: &'a Slot,
    origin: &'a Origin,
    /// Unread bytes are at `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    unexpected: u32,
    /// The connection was useful.
    pub(super) good_replies: bool,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(slot: &'a Slot, origin: &'a Origin) -> Self {
        Self {
            slot,
            origin,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            unexpected: 0,
            good_replies: false,
        }
    }

    pub(super) fn run(&mut self) -> End {
        loop {
            match self.receive_record() {
                Ok(is_reply) => self.good_replies |= is_reply,
                Err(end) => return end,
            }
        }
    }

    /// True after a good reply.
    fn receive_record(&mut self) -> Result<bool, End> {
        let length = self.begin_record()?;
        if length < RECORD_BYTES_MIN {
            return Err(End::garbage("a record too short for a reply"));
        }
        self.fill_to(RECORD_BYTES_MIN)?;
        let xid = u32::from_be_bytes(self.peek());
        let Some(call) = self.begin_reply(xid)? else {
            self.skip(length)?;
            return Ok(false);
        };
        if let Some(sink) = call.sink() {
            self.receive_to_sink(xid, sink, length)?;
        } else if length <= BUFFER_BYTES {
            self.fill_to(length)?;
            let record = self.start..self.start + length;
            self.start = record.end;
            self.end_reply(xid, &self.buffer[record])?;
        } else {
            let record = self.receive_long(length)?;
            self.end_reply(xid, &record)?;
        }
        Ok(true)
    }

    /// Reads the marker of a record; returns the length. Joins fragments, which are rare, in the
    /// buffer as if they were one.
    fn begin_record(&mut self) -> Result<usize, End> {
        let mut record = Vec::new();
        for _ in 0..FRAGMENTS_MAX {
            self.fill_to(MARKER_BYTES)?;
            let marker = Marker::parse(self.peek());
            self.start += MARKER_BYTES;
            let length = record.len() + marker.length;
            if length > REPLY_BYTES_MAX {
                return Err(End::garbage(format!("a record of {length} bytes")));
            }
            if marker.last && record.is_empty() {
                return Ok(length);
            }
            record.append(&mut self.receive_long(marker.length)?);
            if marker.last {
                drop(self.buffer.splice(..self.start, record));
                self.buffer.resize(self.buffer.len().max(BUFFER_BYTES), 0);
                self.end = self.end - self.start + length;
                self.start = 0;
                return Ok(length);
            }
        }
        Err(End::garbage("thousands of fragments"))
    }

    /// `None`: no call waits.
    fn begin_reply(&mut self, xid: u32) -> Result<Option<Arc<Outgoing>>, End> {
        let counted = &self.origin.shared.counted;
        match self.slot.state.lock().table.begin_reply(xid) {
            Known::Waiting(call) => return Ok(Some(call)),
            Known::Late => counted.late_replies.add(1),
            Known::Unexpected => {
                counted.unexpected_replies.add(1);
                self.unexpected += 1;
                if self.unexpected > UNEXPECTED_MAX {
                    return Err(End::garbage("replies to calls that were never made"));
                }
            }
        }
        Ok(None)
    }

    fn end_reply(&self, xid: u32, record: &[u8]) -> Result<(), End> {
        let finished = match parse_reply(record) {
            Ok((_, decoder)) => Ok((decoder.rest(), 0)),
            Err(ReplyError::Refused { refusal, .. }) => Err(CallError::Refused(refusal)),
            Err(error) => return Err(End::garbage_for(xid, error.to_string())),
        };
        self.finish(xid, finished);
        Ok(())
    }

    /// Ends the call, unless it is still being sent, and sends the next calls.
    fn finish(&self, xid: u32, finished: Finished<&[u8]>) {
        let shared = &self.origin.shared;
        shared.heard();
        let mut state = self.slot.state.lock();
        let entry = state.table.end_reply(xid, &finished);
        self.slot.note_load(&state);
        self.slot.send(state);
        if let Some(entry) = entry {
            entry.finish(self.origin, finished);
        }
    }

    fn receive_to_sink(&mut self, xid: u32, sink: &Sink, length: usize) -> Result<(), End> {
        let mut seen = length.min(self.end - self.start).min(HEAD_BYTES_MAX);
        let (head, data_start, data_length) = loop {
            let record = &self.buffer[self.start..self.start + seen];
            match locate(sink, record) {
                Located::More if seen == length || seen == HEAD_BYTES_MAX => {
                    return Err(End::garbage_for(xid, "a reply that ends early"));
                }
                Located::More => {}
                Located::Absent => {
                    let record = self.receive_long(length)?;
                    return self.end_reply(xid, &record);
                }
                Located::Data { head, length } => {
                    break (record[head.clone()].to_vec(), head.end, length);
                }
                Located::Malformed(reason) => return Err(End::garbage_for(xid, reason)),
            }
            self.fill_to((seen + 1).min(length))?;
            seen = length.min(self.end - self.start).min(HEAD_BYTES_MAX);
        };
        if data_length > sink.len() {
            let reason = format!("{data_length} bytes where {} fit", sink.len());
            return Err(End::garbage_for(xid, reason));
        }
        if data_start + padded(data_length) > length {
            return Err(End::garbage_for(xid, "data longer than its record"));
        }
        self.start += data_start;
        self.receive_data(sink, data_length)?;
        self.skip(length - data_start - data_length)?;
        self.finish(xid, Ok((&head, data_length)));
        Ok(())
    }

    fn receive_data(&mut self, sink: &Sink, length: usize) -> Result<(), End> {
        let buffered = length.min(self.end - self.start);
        // SAFETY: on the receiving thread of the connection, while the call is receiving.
        unsafe { sink.put(0, &self.buffer[self.start..self.start + buffered]) };
        names::COPIED_BYTES.add(buffered as u64);
        self.start += buffered;
        let mut filled = buffered;
        while filled < length {
            // The buffer is empty: it may take the beginning of the next record.
            let mut slices = Vec::with_capacity(16);
            // SAFETY: as above.
            slices.extend(unsafe { sink.slices_mut(filled, length - filled) }.take(SLICES_MAX));
            let expected: usize = slices.iter().map(|slice| slice.len()).sum();
            if expected == length - filled {
                slices.push(IoSliceMut::new(&mut self.buffer[..SMALL_READ_BYTES]));
            }
            let count = receive(self.slot, self.origin, |mut stream| {
                stream.read_vectored(&mut slices)
            })?;
            filled += count.min(expected);
            self.start = 0;
            self.end = count.saturating_sub(expected);
        }
        Ok(())
    }

    /// A record that may exceed the buffer. Its memory grows as bytes arrive.
    fn receive_long(&mut self, length: usize) -> Result<Vec<u8>, End> {
        let mut record = Vec::new();
        while record.len() < length {
            let now = self.received()?.min(length - record.len());
            record.extend_from_slice(&self.buffer[self.start..self.start + now]);
            self.start += now;
        }
        Ok(record)
    }

    fn skip(&mut self, mut length: usize) -> Result<(), End> {
        while length > 0 {
            let now = self.received()?.min(length);
            self.start += now;
            length -= now;
        }
        Ok(())
    }

    fn peek(&self) -> [u8; 4] {
        let bytes = &self.buffer[self.start..];
        bytes.first_chunk().copied().unwrap_or_default()
    }

    /// At least one.
    fn received(&mut self) -> Result<usize, End> {
        self.fill_to(1)?;
        Ok(self.end - self.start)
    }

    fn fill_to(&mut self, wanted: usize) -> Result<(), End> {
        debug_assert!(wanted <= self.buffer.len());
        if self.end - self.start >= wanted {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        // Joined fragments may have lengthened it.
        self.buffer.truncate(BUFFER_BYTES);
        self.buffer.shrink_to(BUFFER_BYTES);
        while self.end < wanted {
            let many = self.slot.state.lock().table.awaits_many_without_data();
            let limit = if many {
                BUFFER_BYTES
            } else {
                wanted.max(SMALL_READ_BYTES)
            };
            let target = &mut self.buffer[self.end..limit];
            self.end += receive(self.slot, self.origin, |mut stream| stream.read(target))?;
        }
        Ok(())
    }
}

/// The data in the beginning of a reply.
enum Located {
    /// More bytes are needed.
    More,
    /// No data; an error, say.
    Absent,
    /// `length` bytes follow the results at `head`.
    Data { head: Range<usize>, length: usize },
    /// The reply is malformed.
    Malformed(String),
}

fn locate(sink: &Sink, record: &[u8]) -> Located {
    let mut results = match parse_reply(record) {
        Ok((_, results)) => results,
        Err(ReplyError::Refused { .. }) => return Located::Absent,
        Err(ReplyError::Malformed {
            error: xdr::Error::Truncated,
            ..
        }) => return Located::More,
        Err(error) => return Located::Malformed(error.to_string()),
    };
    let start = record.len() - results.remaining();
    match sink.locate(&mut results) {
        Ok(Some(length)) => Located::Data {
            head: start..record.len() - results.remaining(),
            length,
        },
        Ok(None) => Located::Absent,
        Err(xdr::Error::Truncated) => Located::More,
        Err(error) => Located::Malformed(error.to_string()),
    }
}

fn receive(
    slot: &Slot,
    origin: &Origin,
    mut read: impl FnMut(&std::net::TcpStream) -> std::io::Result<usize>,
) -> Result<usize, End> {
    loop {
        match read(&origin.stream) {
            Ok(0) => return Err(End::Lost),
            Ok(count) => {
                origin.shared.counted.received_bytes.add(count as u64);
                slot.hear(&origin.shared);
                return Ok(count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(End::Lost),
        }
    }
}

#[cfg(test)]
mod tests;
