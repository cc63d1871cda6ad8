//! Record marking on a byte stream (RFC 5531 section 11).
//!
//! A record has any number of fragments, each behind a four-byte marker: its length in 31 bits, and
//! in the highest bit whether it is the last. Sum and number are bounded: the stream is not
//! trusted, and empty fragments cost a sender nothing. Of a longer record the beginning is kept,
//! for a reply.
//!
//! ```text
//!   stream:  [marker][fragment .........][marker|last][fragment ...][marker|last][...
//!   record:          \________________/              \____________/
//! ```
//!
//! [`whole`] finds a record in one fragment, the common case. An [`Assembly`] joins others.

/// Bytes of a marker.
pub const MARKER_BYTES: usize = 4;

/// The bit that marks the last fragment of a record.
pub const LAST_FRAGMENT: u32 = 0x8000_0000;

pub(crate) const FRAGMENTS_MAX: u32 = 4096;

/// Up to this length a record's memory grows step by step.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// Bytes kept of a skipped record ([`Assembly::skip`]): enough for the head of a call.
const KEPT_OF_SKIPPED: usize = 1024;

/// A parsed marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Bytes of the fragment that follows.
    pub length: usize,
    /// The last of its record.
    pub last: bool,
}

impl Marker {
    /// Parses a marker.
    #[must_use]
    pub fn parse(bytes: [u8; MARKER_BYTES]) -> Self {
        let value = u32::from_be_bytes(bytes);
        Self {
            length: (value & !LAST_FRAGMENT) as usize,
            last: value & LAST_FRAGMENT != 0,
        }
    }
}

/// The first record of `input`, if whole and in one fragment: its body, and its length with the
/// marker.
#[must_use]
pub fn whole(input: &[u8]) -> Option<(&[u8], usize)> {
    let (marker, rest) = input.split_first_chunk::<MARKER_BYTES>()?;
    let marker = Marker::parse(*marker);
    if !marker.last {
        return None;
    }
    let body = rest.get(..marker.length)?;
    Some((body, MARKER_BYTES + marker.length))
}

/// The state of an [`Assembly`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The input is used up, the record incomplete.
    Partial,
    /// The buffer is full; the record's whole length. A longer buffer must come before more input
    /// ([`Assembly::give_buffer`], [`Assembly::grow`]); it need not fit the whole record.
    NeedsBuffer(usize),
    /// Complete: [`Assembly::finish`].
    Whole,
    /// Too many fragments: nothing behind can be trusted.
    Broken,
}

/// A record in pieces. The caller owns the memory, to count and bound it.
#[derive(Debug)]
pub struct Assembly {
    record_bytes_max: usize,
    /// Later bytes are skipped.
    kept_bytes_max: usize,
    buffer: Vec<u8>,
    filled: usize,
    marker: [u8; MARKER_BYTES],
    marker_filled: usize,
    fragment_remaining: usize,
    last: bool,
    in_fragment: bool,
    fragments: u32,
    oversized: bool,
}

/// A complete record.
#[derive(Debug)]
pub struct Record {
    /// The caller's memory, with the record at its start.
    pub buffer: Vec<u8>,
    /// Length of the record.
    pub length: usize,
    /// Only the beginning of a record above the bound.
    pub oversized: bool,
}

impl Assembly {
    /// An empty assembly for records of at most `record_bytes_max`.
    #[must_use]
    pub fn new(record_bytes_max: usize) -> Self {
        Self {
            record_bytes_max,
            kept_bytes_max: record_bytes_max,
            buffer: Vec::new(),
            filled: 0,
            marker: [0; MARKER_BYTES],
            marker_filled: 0,
            fragment_remaining: 0,
            last: false,
            in_fragment: false,
            fragments: 0,
            oversized: false,
        }
    }

    /// Whether no record has begun.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.in_fragment && self.marker_filled == 0 && self.fragments == 0
    }

    /// The record so far.
    #[must_use]
    pub fn beginning(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// The length of the record when its buffer is full; else `None`.
    #[must_use]
    pub fn wanted(&self) -> Option<usize> {
        self.in_fragment.then(|| self.buffer_wanted()).flatten()
    }

    /// Makes the buffer `length` bytes long.
    pub fn grow(&mut self, length: usize) {
        self.buffer.resize(length.max(self.filled), 0);
    }

    /// Skips the rest of the record, as if it were too long. Returns its memory.
    pub fn skip(&mut self) -> Vec<u8> {
        self.oversized = true;
        self.kept_bytes_max = self.record_bytes_max.min(KEPT_OF_SKIPPED);
        self.filled = self.filled.min(self.kept_bytes_max);
        let mut kept = self.buffer[..self.filled].to_vec();
        kept.resize(self.kept_bytes_max, 0);
        std::mem::replace(&mut self.buffer, kept)
    }

    /// Replaces the buffer by a longer one; copies the record so far.
    pub fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        debug_assert!(buffer.len() >= self.filled);
        buffer[..self.filled].copy_from_slice(&self.buffer[..self.filled]);
        self.buffer = buffer;
    }

    /// Consumes `input` as far as possible; returns how many bytes, and the state.
    pub fn take(&mut self, input: &[u8]) -> (usize, Progress) {
        let mut rest = input;
        let progress = loop {
            if self.in_fragment {
                if let Some(wanted) = self.buffer_wanted() {
                    break Progress::NeedsBuffer(wanted);
                }
                let taken = rest
                    .len()
                    .min(self.fragment_remaining)
                    .min(self.buffer_left());
                self.keep(&rest[..taken]);
                rest = &rest[taken..];
                if self.advance(taken) {
                    break Progress::Whole;
                }
                if self.in_fragment {
                    if rest.is_empty() {
                        break Progress::Partial;
                    }
                    continue;
                }
            }
            let taken = rest.len().min(MARKER_BYTES - self.marker_filled);
            self.marker[self.marker_filled..self.marker_filled + taken]
                .copy_from_slice(&rest[..taken]);
            self.marker_filled += taken;
            rest = &rest[taken..];
            if self.marker_filled < MARKER_BYTES {
                break Progress::Partial;
            }
            if !self.begin_fragment() {
                break Progress::Broken;
            }
        };
        (input.len() - rest.len(), progress)
    }

    /// Memory for the next bytes of the fragment. Empty before a marker, without room, or while
    /// skipping. [`Assembly::received`] must follow.
    pub fn target(&mut self) -> &mut [u8] {
        if !self.in_fragment || self.skips() || self.buffer_wanted().is_some() {
            return &mut [];
        }
        let count = self.fragment_remaining.min(self.buffer_left());
        &mut self.buffer[self.filled..self.filled + count]
    }

    /// Notes `count` bytes in [`Assembly::target`]. True at the end of the record.
    pub fn received(&mut self, count: usize) -> bool {
        let count = count.min(self.fragment_remaining).min(self.buffer_left());
        self.filled += count;
        self.advance(count)
    }

    /// Takes out the complete record.
    pub fn finish(&mut self) -> Record {
        let record = Record {
            buffer: std::mem::take(&mut self.buffer),
            length: self.filled,
            oversized: self.oversized,
        };
        *self = Self::new(self.record_bytes_max);
        record
    }

    fn begin_fragment(&mut self) -> bool {
        let marker = Marker::parse(self.marker);
        self.marker_filled = 0;
        self.in_fragment = true;
        self.fragment_remaining = marker.length;
        self.last = marker.last;
        self.fragments += 1;
        if self.filled.saturating_add(marker.length) > self.record_bytes_max {
            self.oversized = true;
        }
        self.fragments <= FRAGMENTS_MAX
    }

    /// Notes `count` bytes of the fragment. True at the end of the record.
    fn advance(&mut self, count: usize) -> bool {
        self.fragment_remaining -= count;
        self.in_fragment = self.fragment_remaining > 0;
        self.last && !self.in_fragment
    }

    fn skips(&self) -> bool {
        self.filled >= self.kept_bytes_max
    }

    fn buffer_left(&self) -> usize {
        if self.skips() {
            return usize::MAX;
        }
        self.buffer.len().min(self.kept_bytes_max) - self.filled
    }

    /// A longer record of unknown length asks for its bound at once. With less, records must not
    /// wait for each other.
    fn buffer_wanted(&self) -> Option<usize> {
        let known = self.filled.saturating_add(self.fragment_remaining);
        let wanted = if self.last || known <= SMALL_BYTES_MAX {
            known.min(self.kept_bytes_max)
        } else {
            self.kept_bytes_max
        };
        let is_full = self.buffer.len() < wanted && self.buffer_left() == 0;
        is_full.then_some(wanted)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if !self.skips() {
            self.buffer[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
            self.filled += bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(length: usize, last: bool) -> [u8; 4] {
        (length as u32 | if last { LAST_FRAGMENT } else { 0 }).to_be_bytes()
    }

    fn feed(assembly: &mut Assembly, mut input: &[u8], piece: usize) -> Vec<Record> {
        let mut records = Vec::new();
        while !input.is_empty() {
            let now = &input[..piece.min(input.len())];
            let (taken, progress) = assembly.take(now);
            input = &input[taken..];
            match progress {
                Progress::Partial => assert_eq!(taken, now.len()),
                Progress::NeedsBuffer(bytes) => {
                    assembly.give_buffer(vec![0; bytes]);
                }
                Progress::Whole => records.push(assembly.finish()),
                Progress::Broken => panic!("broken"),
            }
        }
        records
    }

    #[test]
    fn a_whole_record_is_found_in_place() {
        let stream = [&marker(5, true)[..], b"hello", &marker(3, true), b"ab"].concat();
        assert_eq!(whole(&stream), Some((&b"hello"[..], 9)));
        assert_eq!(whole(&stream[9..]), None);
        assert_eq!(whole(&[&marker(1, false)[..], b"x"].concat()), None);
        assert_eq!(whole(&marker(0, true)), Some((&b""[..], 4)));
    }

    #[test]
    fn fragments_are_joined_however_the_stream_is_cut() {
        let stream = [
            &marker(3, false)[..],
            b"abc",
            &marker(0, false),
            &marker(4, true),
            b"defg",
            &marker(2, true),
            b"hi",
        ]
        .concat();
        for piece in 1..=stream.len() {
            let mut assembly = Assembly::new(100);
            let records = feed(&mut assembly, &stream, piece);
            let bodies: Vec<_> = records
                .iter()
                .map(|record| &record.buffer[..record.length])
                .collect();
            assert_eq!(bodies, [&b"abcdefg"[..], b"hi"], "pieces of {piece}");
            assert!(assembly.is_empty());
        }
    }

    #[test]
    fn of_an_oversized_record_as_much_is_kept_as_may_be() {
        let body: Vec<u8> = (0..5000u32).map(|index| (index % 251) as u8).collect();
        let stream = [
            &marker(body.len(), true)[..],
            &body,
            &marker(2, true),
            b"ok",
        ]
        .concat();
        for piece in [1, 100, 10_000] {
            let mut assembly = Assembly::new(4096);
            let records = feed(&mut assembly, &stream, piece);
            assert!(records[0].oversized && records[0].length == 4096);
            assert!(records[0].buffer[..4096] == body[..4096]);
            assert_eq!(&records[1].buffer[..2], b"ok");
            assert!(!records[1].oversized);
        }
    }

    #[test]
    fn an_oversized_record_may_come_in_fragments_and_get_more_memory_than_is_kept() {
        let body: Vec<u8> = (0..50_000u32).map(|index| (index % 251) as u8).collect();
        let pieces = body.chunks(7_000).map(|piece| {
            let is_last = piece.len() < 7_000;
            [&marker(piece.len(), is_last)[..], piece].concat()
        });
        let stream: Vec<u8> = pieces.flatten().collect();
        for piece in [999, 5_000, usize::MAX] {
            let mut assembly = Assembly::new(20_000);
            let mut is_whole = false;
            for mut input in stream.chunks(piece.min(stream.len())) {
                while !input.is_empty() {
                    let (taken, progress) = assembly.take(input);
                    input = &input[taken..];
                    match progress {
                        Progress::NeedsBuffer(bytes) => {
                            assert!(bytes <= 20_000, "{bytes}");
                            assembly.grow(bytes.next_multiple_of(16_384));
                        }
                        progress => is_whole = progress == Progress::Whole,
                    }
                }
            }
            assert!(is_whole, "pieces of {piece}");
            let record = assembly.finish();
            assert!(record.oversized && record.length == 20_000);
            assert!(record.buffer[..20_000] == body[..20_000]);
        }
    }

    #[test]
    fn a_claim_of_two_gib_asks_for_no_more_than_the_cap() {
        let mut assembly = Assembly::new(1 << 20);
        let claim = marker(0x7fff_ffff, true);
        assert_eq!(assembly.take(&claim), (4, Progress::NeedsBuffer(1 << 20)));
        assert!(assembly.target().is_empty());
    }

    #[test]
    fn a_large_record_in_fragments_asks_for_memory_once() {
        let mut assembly = Assembly::new(1 << 20);
        let (_, progress) = assembly.take(&marker(100_000, false));
        assert_eq!(progress, Progress::NeedsBuffer(1 << 20));
        assembly.give_buffer(vec![0; 1 << 20]);
        let (_, progress) = assembly.take(&vec![1; 100_000]);
        assert_eq!(progress, Progress::Partial);
        let (_, progress) = assembly.take(&marker(900_000, false));
        assert_eq!(progress, Progress::Partial, "it has all it needs");
    }

    #[test]
    fn memory_may_be_given_step_by_step() {
        let body: Vec<u8> = (0..100_000u32).map(|index| (index % 251) as u8).collect();
        let (first, second) = body.split_at(70_000);
        let one = [&marker(body.len(), true)[..], &body].concat();
        let two = [
            &marker(first.len(), false)[..],
            first,
            &marker(second.len(), true),
            second,
        ]
        .concat();
        for stream in [one, two] {
            for piece in [1000, 33_333, usize::MAX] {
                let mut assembly = Assembly::new(1 << 20);
                for mut input in stream.chunks(piece.min(stream.len())) {
                    while !input.is_empty() {
                        let (taken, progress) = assembly.take(input);
                        input = &input[taken..];
                        if let Progress::NeedsBuffer(_) = progress {
                            assert!(assembly.wanted().is_some());
                            let there = assembly.beginning().len();
                            assert!(body.starts_with(assembly.beginning()));
                            assembly.grow(there + 4096);
                            assert!(assembly.wanted().is_none());
                            assert!(assembly.target().len() <= 4096);
                        }
                    }
                }
                let record = assembly.finish();
                assert!(
                    record.buffer[..record.length] == body[..],
                    "pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn a_record_can_be_given_up_in_the_middle() {
        let body = vec![7u8; 50_000];
        let stream = [
            &marker(body.len(), true)[..],
            &body,
            &marker(2, true),
            b"ok",
        ]
        .concat();
        let mut assembly = Assembly::new(1 << 20);
        assembly.take(&stream[..4]);
        assembly.give_buffer(vec![0; 60_000]);
        assembly.take(&stream[4..20_000]);
        assert_eq!(assembly.skip().len(), 60_000);
        let records = feed(&mut assembly, &stream[20_000..], 3000);
        assert!(records[0].oversized && records[0].length == KEPT_OF_SKIPPED);
        assert!(records[0].buffer.iter().all(|byte| *byte == 7));
        assert_eq!(&records[1].buffer[..2], b"ok");
    }

    #[test]
    fn thousands_of_empty_fragments_break_the_stream() {
        let stream = marker(0, false).repeat(5000);
        let (_, progress) = Assembly::new(100).take(&stream);
        assert_eq!(progress, Progress::Broken);
    }

    #[test]
    fn the_rest_of_a_fragment_can_be_received_in_place() {
        let mut assembly = Assembly::new(100);
        let stream = [&marker(6, true)[..], b"ab"].concat();
        assert_eq!(assembly.take(&stream), (4, Progress::NeedsBuffer(6)));
        assembly.give_buffer(vec![0; 8]);
        assert_eq!(assembly.take(&stream[4..]), (2, Progress::Partial));
        assembly.target().copy_from_slice(b"cdef");
        assert!(assembly.received(4));
        let record = assembly.finish();
        assert_eq!(&record.buffer[..record.length], b"abcdef");
    }
}
