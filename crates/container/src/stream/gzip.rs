//! gzip (RFC 1952): members that follow each other, each a stream of deflate (RFC 1951).
//!
//! Nothing in the format says where a decoder could begin, so one pass over all of it keeps a copy
//! of the decoder for each [`SPACING_BYTES`]: its tables, the last 32 KiB, the place in the
//! compressed bytes. Of [`COPIES_MAX`] every second goes and the spacing doubles:
//!
//! ```text
//!  │·│·│·│·│·│·│·│·         8 MiB, each 1 MiB
//!  │   │   │   │   │   ...  16 MiB, each 2 MiB
//! ```
//!
//! The pass finds the length, too (the format has it modulo 4 GiB), and compares checksums.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use flate2::Crc;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use pagewell_device::{Device, Issuer};

use super::source::Source;
use super::{LENGTH_BYTES_MAX, Reader, Region, pass_over};
use crate::bytes;

/// Between copies at first. Decompressing that takes about 3 ms.
const SPACING_BYTES: u64 = 1 << 20;
/// A copy takes 43 KiB.
const COPIES_MAX: usize = 512;
/// Deflate refers back at most so much (RFC 1951, 2).
const WINDOW_BYTES: usize = 32 << 10;

/// Memory of a reader: the decoder, the window, a step of input.
pub(super) const READER_BYTES: usize = 320 << 10;

pub(super) const MAGIC: &[u8] = b"\x1f\x8b\x08";
/// A header without its variable parts, and a trailer.
const HEADER_BYTES: usize = 10;
const TRAILER_BYTES: usize = 8;
/// Names and remarks in a header are text of people.
const HEADER_TEXT_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Header,
    Body,
    Trailer,
    /// Behind the last member.
    End,
}

/// A decoder between two bytes of its output.
#[derive(Clone)]
struct State {
    inflate: DecompressorOxide,
    /// The last bytes, in a circle; the next goes to `next`.
    window: Vec<u8>,
    next: usize,
    /// Bytes before `next` that were not taken.
    ready: usize,
    phase: Phase,
    is_first: bool,
}

/// Reads the decompressed bytes; compares checksums when it begins at the first byte.
pub(super) struct Gzip {
    source: Source,
    state: Box<State>,
    check: Option<Crc>,
}

impl Gzip {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            state: Box::new(State {
                inflate: DecompressorOxide::new(),
                window: vec![0; WINDOW_BYTES],
                next: 0,
                ready: 0,
                phase: Phase::Header,
                is_first: true,
            }),
            check: Some(Crc::new()),
        }
    }

    fn give(&mut self, target: &mut [u8]) -> usize {
        let state = &mut *self.state;
        let start = (state.next + WINDOW_BYTES - state.ready) % WINDOW_BYTES;
        let ready = state.window.get(start..).unwrap_or_default();
        let ready = ready.get(..state.ready).unwrap_or(ready);
        let count = bytes::copy(ready, target);
        if let Some(check) = &mut self.check {
            check.update(ready.get(..count).unwrap_or_default());
        }
        state.ready -= count;
        count
    }

    fn header(&mut self) -> io::Result<bool> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let mut header = [0; HEADER_BYTES];
        let is_whole = self.source.read_exact(&mut header).is_ok();
        let is_member = is_whole && header.starts_with(MAGIC);
        if !is_member && !self.state.is_first {
            // Padding of a tape or a disk; gzip(1) ignores it.
            return Ok(false);
        }
        let flags = header.get(3).copied().unwrap_or(0);
        if !is_member || flags & 0xe0 != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if flags & 4 != 0 {
            let mut length = [0; 2];
            self.source.read_exact(&mut length)?;
            let length = u64::from(u16::from_le_bytes(length));
            let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
            if skipped < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        for flag in [8, 16] {
            if flags & flag != 0 {
                self.skip_text()?;
            }
        }
        if flags & 2 != 0 {
            self.source.read_exact(&mut [0; 2])?;
        }
        Ok(true)
    }

    fn skip_text(&mut self) -> io::Result<()> {
        for _ in 0..HEADER_TEXT_MAX {
            let mut byte = [0];
            self.source.read_exact(&mut byte)?;
            if byte == [0] {
                return Ok(());
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    fn trailer(&mut self) -> io::Result<()> {
        let mut trailer = [0; TRAILER_BYTES];
        self.source.read_exact(&mut trailer)?;
        let Some(check) = self.check.take() else {
            return Ok(());
        };
        self.check = Some(Crc::new());
        let [a, b, c, d, e, f, g, h] = trailer;
        let is_right = u32::from_le_bytes([a, b, c, d]) == check.sum()
            && u32::from_le_bytes([e, f, g, h]) == check.amount();
        match is_right {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "checksum")),
        }
    }

    /// Decompresses what fits into the window behind what was given.
    fn body(&mut self) -> io::Result<()> {
        let state = &mut *self.state;
        let input = self.source.fill_buf()?;
        let flags = match input.is_empty() {
            true => 0,
            false => TINFL_FLAG_HAS_MORE_INPUT,
        };
        let (status, taken, made) = decompress(
            &mut state.inflate,
            input,
            &mut state.window,
            state.next,
            flags,
        );
        let was_empty = input.is_empty();
        self.source.consume(taken);
        state.next = (state.next + made) % WINDOW_BYTES;
        state.ready = made;
        match status {
            TINFLStatus::Done => state.phase = Phase::Trailer,
            TINFLStatus::HasMoreOutput => {}
            TINFLStatus::NeedsMoreInput if !was_empty => {}
            TINFLStatus::NeedsMoreInput | TINFLStatus::FailedCannotMakeProgress => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }
}

impl Read for Gzip {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if target.is_empty() {
            return Ok(0);
        }
        loop {
            if self.state.ready > 0 {
                return Ok(self.give(target));
            }
            match self.state.phase {
                Phase::Header => {
                    let is_member = self.header()?;
                    self.state.inflate.init();
                    self.state.is_first = false;
                    self.state.phase = match is_member {
                        true => Phase::Body,
                        false => Phase::End,
                    };
                }
                Phase::Body => self.body()?,
                Phase::Trailer => {
                    self.trailer()?;
                    self.state.phase = Phase::Header;
                }
                Phase::End => return Ok(0),
            }
        }
    }
}

/// A decoder that was kept, and where its input goes on.
pub(super) struct Copy {
    state: Box<State>,
    input: u64,
}

impl Region for Copy {
    fn reader(&self, below: &Arc<dyn Device>, issuer: Issuer) -> io::Result<Reader> {
        let source = Source::new(below, self.input, u64::MAX, issuer);
        let failure = source.failure();
        let gzip = Gzip {
            source,
            state: self.state.clone(),
            check: None,
        };
        Ok(Reader {
            bytes: Box::new(gzip),
            failure,
        })
    }
}

pub(super) struct Pass {
    pub copies: Vec<(u64, Copy)>,
    pub length_bytes: u64,
    /// Why it ended before the stream did.
    pub error: Option<io::Error>,
}

/// Decompresses all of a stream. `progress` gets the compressed bytes that are done.
pub(super) fn pass(source: Source, progress: &dyn Fn(u64)) -> Pass {
    let mut gzip = Gzip::new(source);
    let mut copies: Vec<(u64, Copy)> = Vec::new();
    let mut spacing = SPACING_BYTES;
    let mut length_bytes = 0;
    let error = loop {
        if length_bytes % spacing == 0 {
            if copies.len() >= COPIES_MAX {
                spacing *= 2;
                copies.retain(|(start, _)| start % spacing == 0);
            }
            if length_bytes % spacing == 0 {
                let state = gzip.state.clone();
                let input = gzip.source.position();
                copies.push((length_bytes, Copy { state, input }));
            }
            progress(gzip.source.position());
        }
        let wanted = SPACING_BYTES - length_bytes % SPACING_BYTES;
        let (count, result) = pass_over(&mut gzip, wanted);
        length_bytes += count;
        match result {
            Ok(()) if count < wanted => break None,
            Ok(()) => {}
            Err(error) => break Some(error),
        }
        if length_bytes > LENGTH_BYTES_MAX {
            break None;
        }
    };
    copies.retain(|(start, _)| *start < length_bytes);
    Pass {
        copies,
        length_bytes,
        error,
    }
}
