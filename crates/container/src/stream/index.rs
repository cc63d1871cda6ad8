//! How a stream is recognised and opened: its format, its regions, its length.

use std::io::{self, Read};
use std::sync::Arc;

use pagewell_device::{Device, Issuer};

use super::source::Source;
use super::{LENGTH_BYTES_MAX, Reader, Region, Stream, gzip, pass_over, xz, zstd};
use crate::pool::Decoded;
use crate::{Error, Inside, Result, bytes};

/// As much as a reader needs to tell whether there is a volume: its first descriptors, and the
/// anchor of UDF in sector 256, behind a pregap of 150 sectors of 2448 bytes.
const PREFIX_BYTES: u64 = 1 << 20;

/// A format of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Gzip,
    Xz,
    Zstd,
}

const FORMATS: [(&[u8], Format); 3] = [
    (gzip::MAGIC, Format::Gzip),
    (xz::MAGIC, Format::Xz),
    (zstd::MAGIC, Format::Zstd),
];

impl Format {
    fn of(device: &dyn Device) -> Result<Option<Self>> {
        let head = bytes::read(device, 0, 6)?.unwrap_or_default();
        let mut formats = FORMATS.into_iter();
        let found = formats.find(|(magic, _)| head.starts_with(magic));
        Ok(found.map(|(_, format)| format))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }
}

/// A stream from its first byte on.
struct Whole(Format);

impl Region for Whole {
    fn reader(&self, below: &Arc<dyn Device>, issuer: Issuer) -> io::Result<Reader> {
        let source = Source::new(below, 0, u64::MAX, issuer);
        let failure = source.failure();
        let bytes: Box<dyn Read + Send> = match self.0 {
            Format::Gzip => Box::new(gzip::Gzip::new(source)),
            Format::Xz => Box::new(xz::decoder(source)),
            Format::Zstd => Box::new(zstd::Joined::new(source)),
        };
        Ok(Reader { bytes, failure })
    }
}

/// The first decompressed bytes of a compressed device, up to an error; `None` when it is none.
pub(crate) fn prefix(device: &Arc<dyn Device>) -> Result<Option<Vec<u8>>> {
    let Some(format) = Format::of(&**device)? else {
        return Ok(None);
    };
    let mut prefix = Vec::new();
    if let Ok(reader) = Whole(format).reader(device, Issuer::Metadata) {
        // What comes before an error is there.
        let _ = reader.bytes.take(PREFIX_BYTES).read_to_end(&mut prefix);
    }
    Ok(Some(prefix))
}

/// Opens a compressed device. `progress` gets the bytes of it that are done, where it has to be
/// read as a whole.
pub(crate) fn open(device: &Arc<dyn Device>, progress: &dyn Fn(u64)) -> Result<Inside> {
    let Some(format) = Format::of(&**device)? else {
        return Err(Error::damaged(&**device, "no compressed image"));
    };
    match format {
        Format::Gzip => open_gzip(device, progress),
        Format::Xz => open_xz(device, progress),
        Format::Zstd => open_zstd(device, progress),
    }
}

fn open_gzip(device: &Arc<dyn Device>, progress: &dyn Fn(u64)) -> Result<Inside> {
    let source = Source::new(device, 0, u64::MAX, Issuer::Metadata);
    let failure = source.failure();
    let pass = gzip::pass(source, progress);
    if let Some(error) = failure.lock().take() {
        return Err(error.into());
    }
    check_length(&**device, pass.length_bytes)?;
    let words = "gzip".to_owned();
    let terms = (false, gzip::READER_BYTES);
    let stream = Stream::new(device.clone(), pass.length_bytes, pass.copies, terms);
    Ok(found(stream, words, pass.error))
}

fn open_xz(device: &Arc<dyn Device>, progress: &dyn Fn(u64)) -> Result<Inside> {
    let Some((blocks, length)) = xz::blocks(&**device)? else {
        return open_whole(device, Format::Xz, progress);
    };
    let words = match blocks.len() {
        1 => "xz, one block".to_owned(),
        count => format!("xz, {count} blocks"),
    };
    let memory = match blocks.first() {
        Some((_, block)) => xz::decoder_bytes(&**device, block)?,
        None => 1,
    };
    let stream = Stream::new(device.clone(), length, blocks, (true, memory));
    Ok(found(stream, words, None))
}

fn open_zstd(device: &Arc<dyn Device>, progress: &dyn Fn(u64)) -> Result<Inside> {
    let frames = zstd::frames(device, progress)?;
    check_length(&**device, frames.length_bytes)?;
    let words = match frames.frames.len() {
        1 => "zstd, one frame".to_owned(),
        count => format!("zstd, {count} frames"),
    };
    let terms = (frames.error.is_none(), frames.decoder_bytes);
    let stream = Stream::new(device.clone(), frames.length_bytes, frames.frames, terms);
    Ok(found(stream, words, frames.error))
}

/// Reads a stream without a usable index once, to know its length.
fn open_whole(device: &Arc<dyn Device>, format: Format, progress: &dyn Fn(u64)) -> Result<Inside> {
    let whole = Whole(format);
    let failed = |_| Error::damaged(&**device, format!("{} data that is damaged", format.name()));
    let mut reader = whole.reader(device, Issuer::Metadata).map_err(failed)?;
    let mut length = 0;
    let error = loop {
        progress(0);
        let (count, result) = pass_over(&mut reader.bytes, PREFIX_BYTES);
        length += count;
        match result {
            Err(error) => break Some(error),
            Ok(()) if count < PREFIX_BYTES => break None,
            Ok(()) => check_length(&**device, length)?,
        }
    };
    if let Some(error) = reader.failure.lock().take() {
        return Err(error.into());
    }
    let words = format!("{} without an index", format.name());
    let terms = (error.is_none(), 16 << 20);
    let stream = Stream::new(device.clone(), length, vec![(0, whole)], terms);
    Ok(found(stream, words, error))
}

/// Refuses a bomb.
fn check_length(device: &dyn Device, length: u64) -> Result<()> {
    match length > LENGTH_BYTES_MAX {
        true => Err(Error::damaged(
            device,
            "compressed data that is longer than any disc",
        )),
        false => Ok(()),
    }
}

fn found<R: Region>(stream: Stream<R>, words: String, error: Option<io::Error>) -> Inside {
    let length = stream.length_bytes;
    let trouble = error.map(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            format!("ends in the middle of its compressed data: {length} bytes of it can be read")
        }
        _ => format!("has damaged compressed data: {length} bytes of it can be read"),
    });
    Inside {
        device: Arc::new(Decoded::new(stream)),
        words,
        trouble,
    }
}
