//! Compressed streams, read at any place.
//!
//! **Problem.** A stream can only be decompressed forwards, from a block of xz, a frame of zstd, or
//! where a decoder of gzip was kept.
//!
//! **Rule.** These places cut the stream into *regions*. A piece is decompressed from the beginning
//! of its region, or from where an earlier reader of that region stands, whichever is nearer.
//! Readers stay where they are for the piece that follows:
//!
//! ```text
//!  regions   │ 0           │ 1                      │ 2       │
//!  piece                          ▓▓
//!            from here ─────> or ─> from a reader that stands here
//! ```
//!
//! At the end of its region a reader looks whether the stream ends there, too: checksums are there.
//! Requests are answered in chunks, the last of which are kept.
//!
//! **Known weakness.** In one long region a step backwards begins at its first byte again.
//! Checksums are seen with the last byte of a block or a frame.

mod gzip;
mod index;
pub(crate) mod source;
mod xz;
mod zstd;

use std::io::{self, Read};
use std::sync::Arc;

use pagewell_base::pieces::Pieces;
use pagewell_base::sync::Mutex;
use pagewell_device::{Device, Error, Issuer, Result};
use rustix::io::Errno;

use crate::bytes;
use crate::pool::{Decode, KEPT_BYTES_MAX};
pub(crate) use index::{open, prefix};
use source::Failure;

/// Twice the largest optical disc.
const LENGTH_BYTES_MAX: u64 = 256 << 30;
/// Blocks and frames of a stream; each takes 40 bytes.
const REGIONS_MAX: usize = 1 << 18;
/// What is decompressed at once, and kept.
const CHUNK_BYTES: u64 = 128 << 10;
/// Memory of the readers of a stream that stand by, and of those that work.
const READERS_BYTES: usize = 64 << 20;
/// Readers that stand by: one for each of some programs that read side by side.
const READERS_MAX: usize = 8;

trait Region: Send + Sync + 'static {
    /// A reader from its first byte on, which may go on into the next.
    fn reader(&self, below: &Arc<dyn Device>, issuer: Issuer) -> io::Result<Reader>;
}

struct Reader {
    bytes: Box<dyn Read + Send>,
    failure: Failure,
}

/// Drops so many bytes, or those up to the end; how many there were before an error.
fn pass_over(reader: &mut dyn Read, bytes: u64) -> (u64, io::Result<()>) {
    let mut dropped = vec![0; (bytes.min(CHUNK_BYTES)) as usize];
    let mut passed = 0;
    while passed < bytes {
        let wanted = (bytes - passed).min(CHUNK_BYTES) as usize;
        match reader.read(dropped.get_mut(..wanted).unwrap_or_default()) {
            Ok(0) => break,
            Ok(count) => passed += count as u64,
            Err(error) => return (passed, Err(error)),
        }
    }
    (passed, Ok(()))
}

struct Standing {
    region: usize,
    offset: u64,
    reader: Reader,
}

struct Stream<R> {
    below: Arc<dyn Device>,
    length_bytes: u64,
    /// Offset of the first byte of each, ascending from 0.
    regions: Vec<(u64, R)>,
    /// Whether a region ends where its reader does.
    ends_with_region: bool,
    readers_max: usize,
    standing: Mutex<Vec<Standing>>,
    /// Chunks, by offset in the stream.
    kept: Pieces<u64, Vec<u8>>,
}

impl<R: Region> Stream<R> {
    /// A stream of so many bytes; `reader_bytes` is the memory of a reader.
    fn new(
        below: Arc<dyn Device>,
        length_bytes: u64,
        regions: Vec<(u64, R)>,
        (ends_with_region, reader_bytes): (bool, usize),
    ) -> Self {
        let readers_max = READERS_BYTES / reader_bytes.max(1);
        Self {
            below,
            length_bytes,
            regions,
            ends_with_region,
            readers_max: readers_max.clamp(1, READERS_MAX),
            standing: Mutex::default(),
            kept: Pieces::new(KEPT_BYTES_MAX, 1),
        }
    }

    fn region_of(&self, offset: u64) -> usize {
        let behind = self.regions.partition_point(|(start, _)| *start <= offset);
        behind.saturating_sub(1)
    }

    fn bounds(&self, region: usize) -> (u64, u64) {
        let start = self.regions.get(region).map_or(0, |(start, _)| *start);
        let next = self.regions.get(region + 1).map(|(start, _)| *start);
        (start, next.unwrap_or(self.length_bytes))
    }

    /// The chunk of a region with this offset: first byte and bytes.
    fn chunk(&self, region: usize, offset: u64) -> io::Result<(u64, Arc<Vec<u8>>)> {
        let (region_start, region_end) = self.bounds(region);
        let start = offset - (offset - region_start) % CHUNK_BYTES;
        if let Some(bytes) = self.kept.get(start) {
            return Ok((start, bytes));
        }
        let end = region_end.min(start + CHUNK_BYTES);
        let mut standing = self.reader_before(region, start)?;
        let result = standing.chunk(start, end, region_end);
        let bytes = result.map_err(|error| standing.reader.explain(error))?;
        if end < region_end {
            self.stand_by(standing);
        } else if self.ends_with_region {
            standing.expect_end()?;
        }
        let bytes_count = bytes.len();
        Ok((start, self.kept.insert(start, bytes, bytes_count)))
    }

    fn reader_before(&self, region: usize, offset: u64) -> io::Result<Standing> {
        let mut standing = self.standing.lock();
        let fits = |it: &&Standing| it.region == region && it.offset <= offset;
        let nearest = standing.iter().filter(fits).map(|it| it.offset).max();
        let index = standing
            .iter()
            .position(|it| it.region == region && Some(it.offset) == nearest);
        if let Some(index) = index {
            return Ok(standing.remove(index));
        }
        drop(standing);
        let Some((start, place)) = self.regions.get(region) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        Ok(Standing {
            region,
            offset: *start,
            reader: place.reader(&self.below, Issuer::Reader)?,
        })
    }

    fn stand_by(&self, reader: Standing) {
        let mut standing = self.standing.lock();
        while standing.len() >= self.readers_max {
            standing.remove(0);
        }
        standing.push(reader);
    }
}

impl Standing {
    /// Goes to `start` and reads up to `end`; an earlier end is an error.
    fn chunk(&mut self, start: u64, end: u64, region_end: u64) -> io::Result<Vec<u8>> {
        debug_assert!(self.offset <= start && start < end && end <= region_end);
        let skipped = start - self.offset;
        let (passed, result) = pass_over(&mut self.reader.bytes, skipped);
        result?;
        let mut bytes = vec![0; (end - start) as usize];
        if passed < skipped {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.reader.bytes.read_exact(&mut bytes)?;
        self.offset = end;
        Ok(bytes)
    }

    /// Reads behind the last byte of a region, where a decoder compares checksums.
    fn expect_end(&mut self) -> io::Result<()> {
        match self.reader.bytes.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(error) => Err(self.reader.explain(error)),
        }
    }
}

impl Reader {
    /// The error of the device, if that is why a decoder failed.
    fn explain(&self, error: io::Error) -> io::Error {
        match self.failure.lock().clone() {
            Some(cause) => io::Error::other(cause),
            None => error,
        }
    }
}

impl<R: Region> Decode for Stream<R> {
    fn below(&self) -> &Arc<dyn Device> {
        &self.below
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn piece_end(&self, offset: u64) -> u64 {
        let (start, end) = self.bounds(self.region_of(offset));
        let chunk = (offset - start) / CHUNK_BYTES;
        end.min(start + (chunk + 1) * CHUNK_BYTES)
    }

    fn turn(&self, offset: u64) -> Option<usize> {
        Some(self.region_of(offset))
    }

    fn width(&self) -> usize {
        self.readers_max
    }

    fn read(&self, offset: u64, target: &mut [u8], _: Issuer) -> (usize, Result<()>) {
        let region = self.region_of(offset);
        match self.chunk(region, offset) {
            Ok((start, bytes)) => {
                let inside = (offset - start) as usize;
                let bytes = bytes.get(inside..).unwrap_or_default();
                (bytes::copy(bytes, target), Ok(()))
            }
            Err(error) => {
                let cause = error.downcast::<Error>();
                let name = self.below.name();
                (
                    0,
                    Err(cause.unwrap_or_else(|_| Error::failed(name, offset, Errno::IO))),
                )
            }
        }
    }
}
