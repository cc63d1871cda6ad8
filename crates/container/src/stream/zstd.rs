//! zstd (RFC 8878): frames that follow each other.
//!
//! A frame has a header, which may say how long its contents are, and blocks, each with its length:
//! frames are found from block to block, without decompressing them. The seekable format has a
//! table of its frames in a last, skippable frame:
//!
//! ```text
//!  frame │ frame │ ... │ 5E 2A 4D 18, length, (compressed, decompressed) ..., count, flags,
//!                      │ B1 EA 92 8F
//! ```
//!
//! A frame whose contents have no length, or that is cut off, is decompressed once to count them.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use pagewell_device::{Device, Issuer};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::source::Source;
use super::{LENGTH_BYTES_MAX, REGIONS_MAX, Reader, Region, pass_over};
use crate::Result;
use crate::bytes::{self, array, u32_little};

pub(super) const MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";
/// Of a frame that decoders skip, without its lower four bits.
const MAGIC_SKIPPED: u32 = 0x184d_2a50;
const SEEK_TABLE_MAGIC: &[u8] = b"\xb1\xea\x92\x8f";
const SEEK_FOOTER_BYTES: u64 = 9;
/// What a decoder may take: `zstd --long` and `--ultra -22` make windows of 128 MiB.
const WINDOW_BYTES_MAX: u64 = 128 << 20;
/// Contents of a block, at most.
const BLOCK_BYTES: u64 = 128 << 10;
/// A decoder without its window.
const DECODER_BYTES: usize = 512 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    at: u64,
    end: u64,
    /// It ends behind one of its blocks that is not the last.
    is_cut: bool,
}

/// What the header of a frame says (RFC 8878, 3.1.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    length: u64,
    window: u64,
    contents: Option<u64>,
    has_checksum: bool,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let descriptor = *bytes.strip_prefix(MAGIC)?.first()?;
        let is_single = descriptor & 0x20 != 0;
        let window_bytes = usize::from(!is_single);
        let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let contents_bytes = match (descriptor >> 6, is_single) {
            (0, false) => 0,
            (flag, _) => 1usize << flag,
        };
        let contents_at = 5 + window_bytes + dictionary_bytes;
        let field = bytes.get(contents_at..contents_at + contents_bytes)?;
        let mut number = [0; 8];
        number.get_mut(..contents_bytes)?.copy_from_slice(field);
        let more = if contents_bytes == 2 { 256 } else { 0 };
        let number = u64::from_le_bytes(number).checked_add(more)?;
        let window = match is_single {
            true => number,
            false => {
                let byte = *bytes.get(5)?;
                let base = 1u64 << (10 + (byte >> 3));
                base + base / 8 * u64::from(byte & 7)
            }
        };
        Some(Self {
            length: (contents_at + contents_bytes) as u64,
            window,
            contents: (contents_bytes > 0).then_some(number),
            has_checksum: descriptor & 4 != 0,
        })
    }
}

/// The contents of a frame, whose end compares checksums.
struct Contents<R: Read> {
    decoder: StreamingDecoder<R, FrameDecoder>,
    is_cut: bool,
}

impl<R: Read> Contents<R> {
    fn new(source: R, is_cut: bool) -> io::Result<Self> {
        let decoder = StreamingDecoder::new_with_max_window_size(source, WINDOW_BYTES_MAX);
        Ok(Self {
            decoder: decoder.map_err(io::Error::other)?,
            is_cut,
        })
    }
}

impl<R: Read> Read for Contents<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(target)?;
        let decoder = &self.decoder.decoder;
        if count == 0 && !target.is_empty() && !self.is_cut {
            let recorded = decoder.get_checksum_from_data();
            if recorded.is_some() && recorded != decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "checksum"));
            }
        }
        Ok(count)
    }
}

impl Region for Frame {
    fn reader(&self, below: &Arc<dyn Device>, issuer: Issuer) -> io::Result<Reader> {
        // The decoder gives its last window only at the end of a frame: an empty last block and an
        // unchecked checksum end one that is cut.
        const END: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];
        let source = Source::new(below, self.at, self.end, issuer);
        let failure = source.failure();
        let bytes: Box<dyn Read + Send> = match self.is_cut {
            true => Box::new(Contents::new(source.chain(&END[..]), true)?),
            false => Box::new(Contents::new(source, false)?),
        };
        Ok(Reader { bytes, failure })
    }
}

/// At least so many of the first decompressed bytes of a file, up to damage.
pub(super) fn prefix(device: &Arc<dyn Device>, bytes: u64) -> Vec<u8> {
    let blocks = bytes.div_ceil(BLOCK_BYTES) + 1;
    let mut source = Source::new(device, 0, u64::MAX, Issuer::Metadata);
    let mut prefix = Vec::new();
    while (prefix.len() as u64) < bytes {
        let Ok(Some(header)) = next_frame(&mut source) else {
            break;
        };
        let (frame, result) = pass_blocks(&mut source, header, blocks);
        if let Ok(reader) = frame.reader(device, Issuer::Metadata) {
            // What comes before an error is there.
            let _ = reader.bytes.take(bytes).read_to_end(&mut prefix);
        }
        if frame.is_cut || result.is_err() {
            break;
        }
    }
    prefix
}

pub(super) struct Frames {
    pub frames: Vec<(u64, Frame)>,
    pub length_bytes: u64,
    /// Of the decoder of each.
    pub decoder_bytes: usize,
    /// Why they end before the file does.
    pub error: Option<io::Error>,
}

/// All frames of a file. `progress` gets the bytes of the file that are done.
pub(super) fn frames(device: &Arc<dyn Device>, progress: &dyn Fn(u64)) -> Result<Frames> {
    if let Some(frames) = seek_table(&**device)? {
        return Ok(frames);
    }
    let mut source = Source::new(device, 0, u64::MAX, Issuer::Metadata);
    let mut found = Frames {
        frames: Vec::new(),
        length_bytes: 0,
        decoder_bytes: DECODER_BYTES,
        error: None,
    };
    while found.error.is_none() && found.frames.len() < REGIONS_MAX {
        progress(source.position());
        match next_frame(&mut source) {
            Ok(Some(header)) => found.take(device, &mut source, header),
            Ok(None) => return Ok(found),
            Err(error) => found.error = Some(error),
        }
        if found.length_bytes > LENGTH_BYTES_MAX {
            return Ok(found);
        }
    }
    let too_many = || io::Error::other("it has too many frames");
    found.error = found.error.or_else(|| Some(too_many()));
    Ok(found)
}

impl Frames {
    /// Takes the frame at which the source stands, and goes behind it.
    fn take(&mut self, device: &Arc<dyn Device>, source: &mut Source, header: Header) {
        let window = header.window.min(WINDOW_BYTES_MAX) as usize;
        self.decoder_bytes = self.decoder_bytes.max(window + DECODER_BYTES);
        let (frame, passed) = pass_blocks(source, header, u64::MAX);
        let (contents, error) = match header.contents {
            Some(contents) if !frame.is_cut => (contents, None),
            _ => count(device, frame),
        };
        if contents > 0 {
            self.frames.push((self.length_bytes, frame));
        }
        self.length_bytes = self.length_bytes.saturating_add(contents);
        // Blocks that cannot be passed are the end of what can be read.
        self.error = error.or(passed.err());
    }
}

fn count(device: &Arc<dyn Device>, frame: Frame) -> (u64, Option<io::Error>) {
    match frame.reader(device, Issuer::Metadata) {
        Ok(mut reader) => {
            let (count, result) = pass_over(&mut reader.bytes, LENGTH_BYTES_MAX);
            (count, result.err())
        }
        Err(error) => (0, Some(error)),
    }
}

/// Goes to the next frame that is not skipped, if there is one.
fn next_frame(source: &mut Source) -> io::Result<Option<Header>> {
    const HEADER_BYTES_MAX: usize = 18;
    loop {
        let at = source.position();
        let mut bytes = Vec::new();
        source
            .by_ref()
            .take(HEADER_BYTES_MAX as u64)
            .read_to_end(&mut bytes)?;
        source.go_to(at);
        let Some(magic) = u32_little(&bytes, 0) else {
            return match bytes.is_empty() {
                true => Ok(None),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        };
        if magic & !0xf == MAGIC_SKIPPED {
            let length = u32_little(&bytes, 4).ok_or(io::ErrorKind::UnexpectedEof)?;
            source.go_to(at + 8 + u64::from(length));
            continue;
        }
        let header = Header::parse(&bytes);
        return header
            .map(Some)
            .ok_or_else(|| io::ErrorKind::InvalidData.into());
    }
}

/// Goes behind the blocks of a frame (RFC 8878, 3.1.1.2), or behind so many; the frame up to there,
/// and an error that ends it.
fn pass_blocks(source: &mut Source, header: Header, blocks_max: u64) -> (Frame, io::Result<()>) {
    let at = source.position();
    let mut frame = Frame {
        at,
        end: at + header.length,
        is_cut: true,
    };
    for _ in 0..blocks_max {
        match next_block(source, frame.end, header.has_checksum) {
            Ok((end, is_last)) => {
                frame.end = end;
                frame.is_cut = !is_last;
                if is_last {
                    source.go_to(end);
                    break;
                }
            }
            Err(error) => return (frame, Err(error)),
        }
    }
    (frame, Ok(()))
}

/// The end of a block, and whether the block is the last, whose end is that of the frame.
fn next_block(source: &mut Source, at: u64, has_checksum: bool) -> io::Result<(u64, bool)> {
    source.go_to(at);
    let mut block = [0; 3];
    source.read_exact(&mut block)?;
    let [low, middle, high] = block;
    let block = u32::from_le_bytes([low, middle, high, 0]);
    let is_last = block & 1 != 0;
    let stored = match block >> 1 & 3 {
        0 | 2 => u64::from(block >> 3),
        1 => 1,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    let checksum = if is_last && has_checksum { 4 } else { 0 };
    let end = at + 3 + stored + checksum;
    // Its last byte must be there.
    source.go_to(end - 1);
    match source.fill_buf()?.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok((end, is_last)),
    }
}

/// The frames of the seekable format; `None` when the file has no such table.
fn seek_table(device: &dyn Device) -> Result<Option<Frames>> {
    let Some(footer_at) = device.length_bytes().checked_sub(SEEK_FOOTER_BYTES) else {
        return Ok(None);
    };
    let footer = bytes::read(device, footer_at, SEEK_FOOTER_BYTES as usize)?.unwrap_or_default();
    let (Some(count), Some(flags)) = (u32_little(&footer, 0), footer.get(4)) else {
        return Ok(None);
    };
    let count = count as usize;
    if !footer.ends_with(SEEK_TABLE_MAGIC) || count > REGIONS_MAX {
        return Ok(None);
    }
    let each = if flags & 0x80 != 0 { 12 } else { 8 };
    let length = count * each;
    let Some(table_at) = footer_at.checked_sub(length as u64) else {
        return Ok(None);
    };
    let table = bytes::read(device, table_at, length)?.unwrap_or_default();
    let head = bytes::read(device, 0, 18.min(device.length_bytes() as usize))?;
    let window = head
        .as_deref()
        .and_then(Header::parse)
        .map(|header| header.window);
    let mut found = Frames {
        frames: Vec::with_capacity(count),
        length_bytes: 0,
        decoder_bytes: DECODER_BYTES + window.unwrap_or(0).min(WINDOW_BYTES_MAX) as usize,
        error: None,
    };
    let mut at = 0;
    for entry in table.chunks_exact(each) {
        let lengths = (array(entry, 0), array(entry, 4));
        let (Some(compressed), Some(contents)) = lengths else {
            return Ok(None);
        };
        let end = at + u64::from(u32::from_le_bytes(compressed));
        let contents = u64::from(u32::from_le_bytes(contents));
        if contents > 0 {
            let frame = Frame {
                at,
                end,
                is_cut: false,
            };
            found.frames.push((found.length_bytes, frame));
        }
        found.length_bytes += contents;
        at = end;
    }
    let is_right = at <= table_at && found.length_bytes <= LENGTH_BYTES_MAX;
    Ok(is_right.then_some(found))
}
