//! How a stream is recognised and opened: its format, its regions, its length.

use std::io::{self, Read};
use std::sync::Arc;

use pagewell_device::{Device, Issuer};

use super::source::Source;
use super::{LENGTH_BYTES_MAX, Reader, Region, Stream, gzip, pass_over, xz, zstd};
use crate::pool::Decoded;
use crate::{Error, Inside, Result, bytes};

/// What tells whether there is a volume: its first descriptors, and the anchor of UDF in sector
/// 256, behind a pregap of 150 sectors of 2448 bytes, or in a partition that begins at 1 MiB.
const PREFIX_BYTES: u64 = (3 << 19) + (64 << 10);

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
}

/// Streams of xz without a usable index, from their first byte on.
struct WholeXz;

impl Region for WholeXz {
    fn reader(&self, below: &Arc<dyn Device>, issuer: Issuer) -> io::Result<Reader> {
        let source = Source::new(below, 0, u64::MAX, issuer);
        let failure = source.failure();
        Ok(Reader {
            bytes: Box::new(xz::decoder(source)),
            failure,
        })
    }
}

/// The first decompressed bytes, up to an error; `None` when the device is not compressed.
pub(crate) fn prefix(device: &Arc<dyn Device>) -> Result<Option<Vec<u8>>> {
    let Some(format) = Format::of(&**device)? else {
        return Ok(None);
    };
    let source = Source::new(device, 0, u64::MAX, Issuer::Metadata);
    let mut prefix = Vec::new();
    // What comes before an error is there.
    let _ = match format {
        Format::Gzip => gzip::Gzip::new(source)
            .take(PREFIX_BYTES)
            .read_to_end(&mut prefix),
        Format::Xz => xz::decoder(source)
            .take(PREFIX_BYTES)
            .read_to_end(&mut prefix),
        Format::Zstd => return Ok(Some(zstd::prefix(device, PREFIX_BYTES))),
    };
    Ok(Some(prefix))
}

/// Opens a compressed device. `progress` gets the bytes that are done of one to be read as a whole.
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
        return open_whole_xz(device, progress);
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

/// Reads streams of xz without a usable index once, to know their length.
fn open_whole_xz(device: &Arc<dyn Device>, progress: &dyn Fn(u64)) -> Result<Inside> {
    let damaged = |_| Error::damaged(&**device, "xz data that is damaged");
    let reader = WholeXz.reader(device, Issuer::Metadata);
    let mut reader = reader.map_err(damaged)?;
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
    let words = "xz without an index".to_owned();
    let terms = (error.is_none(), 16 << 20);
    let stream = Stream::new(device.clone(), length, vec![(0, WholeXz)], terms);
    Ok(found(stream, words, error))
}

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
        troubles: trouble.into_iter().collect(),
    }
}
