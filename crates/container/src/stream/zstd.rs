//! zstd (RFC 8878): frames that follow each other.
//!
//! A frame begins with a header, which may say how long its contents are, and has blocks, each with
//! its length. So frames are found without decompressing them, from the header of one block to the
//! next. The seekable format has a table of its frames in a last, skippable frame:
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
/// Of a frame that decoders skip, but for its lower four bits.
const MAGIC_SKIPPED: u32 = 0x184d_2a50;
const SEEK_TABLE_MAGIC: &[u8] = b"\xb1\xea\x92\x8f";
const SEEK_FOOTER_BYTES: u64 = 9;
/// What a decoder may take: `zstd --long` and `--ultra -22` make windows of 128 MiB.
const WINDOW_BYTES_MAX: u64 = 128 << 20;
/// A decoder without its window.
const DECODER_BYTES: usize = 512 << 10;

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    at: u64,
    end: u64,
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

type Decoder = StreamingDecoder<Source, FrameDecoder>;

fn decoder(source: Source) -> io::Result<Decoder> {
    StreamingDecoder::new_with_max_window_size(source, WINDOW_BYTES_MAX).map_err(io::Error::other)
}

/// The contents of a frame; at their end checksums are compared.
struct Contents(Decoder);

impl Read for Contents {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(target)?;
        let decoder = &self.0.decoder;
        if count == 0 && !target.is_empty() {
            let recorded = decoder.get_checksum_from_data();
            if recorded.is_some() && recorded != decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "checksum"));
            }
        }
        Ok(count)
    }
}

/// The contents of all frames, one behind the other.
pub(super) struct Joined {
    /// Between frames.
    source: Option<Source>,
    /// Within one.
    frame: Option<Contents>,
}

impl Joined {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source: Some(source),
            frame: None,
        }
    }
}

impl Read for Joined {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut frame) = self.frame.take() {
                let count = frame.read(target)?;
                if count > 0 || target.is_empty() {
                    self.frame = Some(frame);
                    return Ok(count);
                }
                self.source = Some(frame.0.into_inner());
            }
            let Some(mut source) = self.source.take() else {
                return Ok(0);
            };
            if next_frame(&mut source)?.is_none() {
                return Ok(0);
            }
            self.frame = Some(Contents(decoder(source)?));
        }
    }
}

impl Region for Frame {
    fn reader(&self, below: &Arc<dyn Device>, issuer: Issuer) -> io::Result<Reader> {
        let source = Source::new(below, self.at, self.end, issuer);
        let failure = source.failure();
        Ok(Reader {
            bytes: Box::new(Contents(decoder(source)?)),
            failure,
        })
    }
}

/// What was found of the frames of a file.
pub(super) struct Frames {
    pub frames: Vec<(u64, Frame)>,
    pub length_bytes: u64,
    /// Of the decoder of each.
    pub decoder_bytes: usize,
    /// Why they end before the file does.
    pub error: Option<io::Error>,
}

/// Finds all frames of a file. `progress` gets the bytes of the file that are done.
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
    /// Takes the frame at which the source stands, which goes behind it.
    fn take(&mut self, device: &Arc<dyn Device>, source: &mut Source, header: Header) {
        let at = source.position();
        let window = header.window.min(WINDOW_BYTES_MAX) as usize;
        self.decoder_bytes = self.decoder_bytes.max(window + DECODER_BYTES);
        let end = pass_blocks(source, at, header);
        let (contents, error) = match (header.contents, &end) {
            (Some(contents), Ok(())) => (contents, None),
            _ => count(device, Frame { at, end: u64::MAX }),
        };
        let end = match end {
            Ok(()) => source.position(),
            Err(_) => u64::MAX,
        };
        if contents > 0 {
            self.frames.push((self.length_bytes, Frame { at, end }));
        }
        self.length_bytes = self.length_bytes.saturating_add(contents);
        // Blocks that cannot be passed are the end of what can be read.
        let cut = (end == u64::MAX).then(|| io::ErrorKind::UnexpectedEof.into());
        self.error = error.or(cut);
    }
}

/// Decompressed bytes of a frame, up to an error.
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

/// Goes behind the blocks of a frame (RFC 8878, 3.1.1.2).
fn pass_blocks(source: &mut Source, at: u64, header: Header) -> io::Result<()> {
    let mut position = at + header.length;
    loop {
        source.go_to(position);
        let mut block = [0; 3];
        source.read_exact(&mut block)?;
        let [low, middle, high] = block;
        let block = u32::from_le_bytes([low, middle, high, 0]);
        let stored = match block >> 1 & 3 {
            0 | 2 => u64::from(block >> 3),
            1 => 1,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        position += 3 + stored;
        if block & 1 != 0 {
            break;
        }
    }
    let end = position + if header.has_checksum { 4 } else { 0 };
    // Its last byte must be there.
    source.go_to(end - 1);
    match source.fill_buf()?.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => {
            source.consume(1);
            Ok(())
        }
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
            found.frames.push((found.length_bytes, Frame { at, end }));
        }
        found.length_bytes += contents;
        at = end;
    }
    let is_right = at <= table_at && found.length_bytes <= LENGTH_BYTES_MAX;
    Ok(is_right.then_some(found))
}
