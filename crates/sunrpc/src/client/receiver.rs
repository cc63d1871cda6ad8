//! Receiving: finds records in the stream and brings each to the call it answers.
//!
//! ```text
//!   stream:  [marker][xid ...head...][results, data length][data ............][0..3][marker][...
//!             \______ small read into the buffer ________/ \_ straight to the _/ \_ the same
//!                                                             caller's memory       read goes on
//! ```
//!
//! When many replies are expected and none with data, reads are as large as the buffer, so that
//! many replies come with one system call. Else reads are small: a read may begin before the call
//! is made whose reply it brings, and what of its data gets into the buffer must be copied. The
//! rest goes where it belongs with one vectored read, behind which the head of the next record may
//! follow into the buffer.
//!
//! Anything that makes no sense ends the connection, since nothing behind it can be trusted.

use super::outgoing::{Locate, Sink};
use super::reply::{Call, Entry, Finished, Origin};
use super::slot::Slot;
use super::table::Known;
use crate::client::CallError;
use crate::record::{Assembly, MARKER_BYTES, Marker, Progress};
use crate::rpc::{ReplyError, parse_reply};
use crate::xdr::{self, padded};
use pagewell_counters::names;
use std::io::{ErrorKind, IoSliceMut, Read};

/// The longest reply, its data included.
const REPLY_BYTES_MAX: usize = 2 << 20;
/// Bytes of the buffer.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of a small read: the replies of most calls, the head of a READ and little of its data.
const SMALL_READ_BYTES: usize = 512;
/// The most that may be before the data of a reply: the longest verifier, attributes, and some.
const HEAD_BYTES_MAX: usize = 4096;
/// The shortest record that says what it answers.
const RECORD_BYTES_MIN: usize = 8;
/// Slices of one vectored read.
const SLICES_MAX: usize = 256;
/// Replies to unknown calls that a connection may bring before it is given up.
const UNEXPECTED_MAX: u32 = 16;

/// Why a connection is over.
pub(super) enum End {
    /// The other side closed it, or it broke.
    Lost,
    /// It makes no sense.
    Garbage {
        reason: String,
        /// The call whose reply makes none, if that is known.
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

/// Receives from one connection.
pub(super) struct Receiver<'a> {
    slot: &'a Slot,
    origin: &'a Origin,
    /// What has been received and not looked at is `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    unexpected: u32,
    good_replies: bool,
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

    /// Whether the connection has been of use.
    pub(super) const fn has_good_replies(&self) -> bool {
        self.good_replies
    }

    /// Receives until the connection is over.
    pub(super) fn run(&mut self) -> End {
        loop {
            match self.receive_record() {
                Ok(is_reply) => self.good_replies |= is_reply,
                Err(end) => return end,
            }
        }
    }

    /// True when the record was the reply to a call, and made sense.
    fn receive_record(&mut self) -> Result<bool, End> {
        self.fill_to(MARKER_BYTES)?;
        let marker = Marker::parse(self.peek());
        if marker.length > REPLY_BYTES_MAX {
            return Err(End::garbage(format!("a record of {} bytes", marker.length)));
        }
        if !marker.last {
            return self.receive_fragments();
        }
        self.start += MARKER_BYTES;
        if marker.length < RECORD_BYTES_MIN {
            return Err(End::garbage("a record too short for a reply"));
        }
        self.fill_to(RECORD_BYTES_MIN)?;
        let xid = u32::from_be_bytes(self.peek());
        let Some(call) = self.begin_reply(xid)? else {
            self.skip(marker.length)?;
            return Ok(false);
        };
        if let Some(sink) = call.outgoing.sink() {
            self.receive_to_sink(&call, sink, marker.length)?;
        } else if marker.length <= BUFFER_BYTES {
            self.fill_to(marker.length)?;
            let record = self.start..self.start + marker.length;
            self.start = record.end;
            self.end_reply(&call, &self.buffer[record])?;
        } else {
            let record = self.receive_long(marker.length)?;
            self.end_reply(&call, &record)?;
        }
        Ok(true)
    }

    /// Finds the call of a reply. `None`: the reply is of no interest.
    fn begin_reply(&mut self, xid: u32) -> Result<Option<std::sync::Arc<Call>>, End> {
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

    /// Ends the call that `record` answers, which has no data for a sink.
    fn end_reply(&self, call: &Call, record: &[u8]) -> Result<(), End> {
        match parse_reply(record) {
            Ok((_, decoder)) => {
                self.complete(call, decoder.rest(), 0);
                Ok(())
            }
            Err(ReplyError::Refused { refusal, .. }) => {
                let failed = || Finished::Failed(CallError::Refused(refusal));
                if let Some(entry) = self.take(call, failed) {
                    entry.fail(&self.origin.shared, CallError::Refused(refusal));
                }
                Ok(())
            }
            Err(error) => Err(End::garbage_for(call.xid, error.to_string())),
        }
    }

    fn complete(&self, call: &Call, results: &[u8], data_bytes: usize) {
        let finished = || Finished::Reply {
            results: results.to_vec(),
            data_bytes,
        };
        if let Some(entry) = self.take(call, finished) {
            entry.reply(self.origin, results, data_bytes);
        }
    }

    /// Takes the call out of the table, unless it is still being sent; and lets others have its
    /// turn on the way to the server.
    fn take(&self, call: &Call, finished: impl FnOnce() -> Finished) -> Option<Entry> {
        let shared = &self.origin.shared;
        shared.heard();
        let mut state = self.slot.state.lock();
        let entry = state.table.end_reply(call.xid, finished);
        self.slot.note_load(&state);
        self.slot.send(shared, state);
        entry
    }

    /// Lets the data of a reply go where it belongs.
    fn receive_to_sink(&mut self, call: &Call, sink: &Sink, length: usize) -> Result<(), End> {
        let mut seen = length.min(self.end - self.start).min(HEAD_BYTES_MAX);
        let (head, data_start, data_length) = loop {
            let record = &self.buffer[self.start..self.start + seen];
            let (results, located) = locate(sink, record);
            match located {
                Locate::More if seen == length || seen == HEAD_BYTES_MAX => {
                    return Err(End::garbage_for(call.xid, "a reply that ends early"));
                }
                Locate::More => {}
                Locate::Absent => {
                    let record = self.receive_long(length)?;
                    return self.end_reply(call, &record);
                }
                Locate::Data { start, length } => {
                    break (record[results..start].to_vec(), start, length);
                }
                Locate::Malformed(reason) => return Err(End::garbage_for(call.xid, reason)),
            }
            self.fill_to((seen + 1).min(length))?;
            seen = length.min(self.end - self.start).min(HEAD_BYTES_MAX);
        };
        if data_length > sink.len() {
            let reason = format!("{data_length} bytes where {} fit", sink.len());
            return Err(End::garbage_for(call.xid, reason));
        }
        if data_start + padded(data_length) > length {
            return Err(End::garbage_for(call.xid, "data longer than its record"));
        }
        self.start += data_start;
        self.receive_data(sink, data_length)?;
        self.skip(length - data_start - data_length)?;
        self.complete(call, &head, data_length);
        Ok(())
    }

    fn receive_data(&mut self, sink: &Sink, length: usize) -> Result<(), End> {
        let buffered = length.min(self.end - self.start);
        // SAFETY: we are on the receiving thread of the connection, and the call is receiving.
        unsafe { sink.put(0, &self.buffer[self.start..self.start + buffered]) };
        names::COPIED_BYTES.add(buffered as u64);
        self.start += buffered;
        let mut filled = buffered;
        while filled < length {
            // The buffer is empty: the beginning of the next record may go there.
            let mut slices = Vec::with_capacity(16);
            // SAFETY: as above.
            unsafe { sink.scatter(filled, length - filled, &mut slices, SLICES_MAX) };
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

    /// A record that may not fit the buffer. Its memory grows with what has come of it.
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

    /// A record in more than one fragment, which is rare: it is put together first. True as for
    /// [`Receiver::receive_record`].
    fn receive_fragments(&mut self) -> Result<bool, End> {
        let mut assembly = Assembly::new(REPLY_BYTES_MAX);
        let record = loop {
            self.received()?;
            let (taken, progress) = assembly.take(&self.buffer[self.start..self.end]);
            self.start += taken;
            if assembly.is_oversized() {
                return Err(End::garbage("a record that is too long"));
            }
            match progress {
                Progress::Partial => {}
                Progress::NeedsBuffer(bytes) => drop(assembly.give_buffer(vec![0; bytes])),
                Progress::Whole => break assembly.finish(),
                Progress::Broken => return Err(End::garbage("thousands of fragments")),
            }
        };
        let record = &record.buffer[..record.length];
        let Some(xid) = record.first_chunk().copied().map(u32::from_be_bytes) else {
            return Err(End::garbage("a record too short for a reply"));
        };
        let Some(call) = self.begin_reply(xid)? else {
            return Ok(false);
        };
        let Some(sink) = call.outgoing.sink() else {
            return self.end_reply(&call, record).map(|()| true);
        };
        let (results, located) = locate(sink, record);
        match located {
            Locate::Absent => self.end_reply(&call, record).map(|()| true),
            Locate::Data { start, length } if length <= sink.len() => {
                let Some(bytes) = record.get(start..start + length) else {
                    return Err(End::garbage_for(xid, "data longer than its record"));
                };
                // SAFETY: we are on the receiving thread, and the call is receiving.
                unsafe { sink.put(0, bytes) };
                names::COPIED_BYTES.add(bytes.len() as u64);
                self.complete(&call, &record[results..start], length);
                Ok(true)
            }
            Locate::Data { .. } => Err(End::garbage_for(xid, "more data than was asked for")),
            Locate::More => Err(End::garbage_for(xid, "a reply that ends early")),
            Locate::Malformed(reason) => Err(End::garbage_for(xid, reason)),
        }
    }

    fn peek(&self) -> [u8; 4] {
        let bytes = &self.buffer[self.start..];
        bytes.first_chunk().copied().unwrap_or_default()
    }

    /// How many bytes are in the buffer: one at least, or it is received.
    fn received(&mut self) -> Result<usize, End> {
        self.fill_to(1)?;
        Ok(self.end - self.start)
    }

    /// Receives until there are `wanted` bytes in the buffer.
    fn fill_to(&mut self, wanted: usize) -> Result<(), End> {
        debug_assert!(wanted <= self.buffer.len());
        if self.end - self.start >= wanted {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
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

/// Finds the data in the beginning of a record, which comes back with where the results begin.
/// Positions count from the start of the record.
fn locate(sink: &Sink, record: &[u8]) -> (usize, Locate) {
    let results = match parse_reply(record) {
        Ok((_, decoder)) => decoder.rest(),
        Err(ReplyError::Refused { .. }) => return (0, Locate::Absent),
        Err(ReplyError::Malformed {
            error: xdr::Error::Truncated,
            ..
        }) => return (0, Locate::More),
        Err(error) => return (0, Locate::Malformed(error.to_string())),
    };
    let before = record.len() - results.len();
    let located = match sink.locate(results) {
        Locate::Data { start, .. } if start > results.len() => Locate::More,
        Locate::Data { start, length } => Locate::Data {
            start: before + start,
            length,
        },
        other => other,
    };
    (before, located)
}

fn receive(
    slot: &Slot,
    origin: &Origin,
    mut read: impl FnMut(&std::net::TcpStream) -> std::io::Result<usize>,
) -> Result<usize, End> {
    loop {
        names::CLIENT_RECEIVE_CALLS.add(1);
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
