//! `pagewell cat`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use pagewell_cache::CacheOptions;
use pagewell_fs::{Entry, FileType, OpenFile, PageSlice, Payload};
use pagewell_tree::{Piece, READ_BYTES, Reader, write_slices};
use rustix::io::Errno;

use super::below::each_file;
use crate::engine::{Engine, EngineArguments, Layer};
use crate::escape;
use crate::failure::{self, Outcome, OutputFailed};
use crate::identity::FileIdentity;
use crate::location::{Follow, Location, Place};
use crate::progress::Progress;
use crate::stream::{self, Stream};

/// Larger files are not read ahead: what waits to be written fits into few MiB outside the cache.
const SMALL_BYTES: u32 = 64 << 10;

/// Write files to standard output, one after the other.
///
/// With -r, all regular files below a directory, in the order of their names; symbolic links and
/// special files below it are passed over. A location that is `-` is standard input.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
#[command(after_help = "\
Examples:
  pagewell cat debian.iso::/README.txt
  pagewell cat debian.iso::/live/filesystem.squashfs > filesystem.squashfs
  pagewell cat -r debian.iso::/docs | grep -c serial
  pagewell cat image:debian.iso | wc -c       the image itself, through the page cache")]
pub(crate) struct CatArguments {
    /// Write all files below directories
    #[arg(short, long)]
    recursive: bool,
    /// What to write: SOURCE::/PATH or a local file
    #[arg(value_name = "LOCATION", required = true, value_hint = clap::ValueHint::AnyPath)]
    locations: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

struct Writer {
    /// Standard output without its buffer, which would look for newlines.
    out: File,
    /// The output, when it is a file.
    output: Option<FileIdentity>,
    /// Whether sendfile(2) works to the output.
    sends_files: bool,
    buffer: Vec<u8>,
    /// Pages not written yet, in order: many small files leave with one system call.
    gathered: Vec<PageSlice>,
    gathered_bytes: usize,
    progress: Progress,
}

pub(crate) fn run(arguments: &CatArguments) -> anyhow::Result<Outcome> {
    let locations = Location::parse_all(&arguments.locations)?;
    let engine = Engine::command(&arguments.engine, Location::are_remote(&locations))?;
    write_all(&locations, arguments.recursive, &engine)
}

/// [`run`] for measurements: with a cache of this size, settings that `change` changes, and a layer
/// over the device of each image.
pub fn read(
    locations: &[OsString],
    recursive: bool,
    cache_bytes: Option<u64>,
    change: &dyn Fn(&mut CacheOptions),
    layer: Layer,
) -> anyhow::Result<Outcome> {
    let engine = Engine::measured(cache_bytes, change, layer)?;
    write_all(&Location::parse_all(locations)?, recursive, &engine)
}

fn write_all(locations: &[Location], recursive: bool, engine: &Engine) -> anyhow::Result<Outcome> {
    let stdout = std::io::stdout();
    let out = stdout.as_fd().try_clone_to_owned().map_err(OutputFailed)?;
    let out = File::from(out);
    let is_file = out.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut writer = Writer {
        output: FileIdentity::of_open(&out).filter(|_| is_file),
        out,
        sends_files: true,
        buffer: Vec::new(),
        gathered: Vec::new(),
        gathered_bytes: 0,
        progress: Progress::new(!stdout.is_terminal()),
    };
    for location in locations {
        let written = match stream::of(location) {
            Ok(Some(stream)) => writer.stream(stream, &location.shown()),
            Ok(None) => location
                .open_existing(Follow::Always, engine)
                .and_then(|(place, entry)| writer.object(&place, &entry, recursive)),
            Err(error) => Err(error),
        };
        writer.settle(written)?;
        // The next place may be slow.
        writer.write_gathered()?;
    }
    Ok(writer.progress.outcome())
}

impl Writer {
    /// Reports and counts a failure. One of the output ends the work.
    fn settle(&mut self, written: anyhow::Result<()>) -> anyhow::Result<()> {
        match written {
            Err(error) if !error.is::<OutputFailed>() => {
                // What came before the failure is seen before it.
                self.write_gathered()?;
                self.progress.fail(&failure::one_line(&error));
                Ok(())
            }
            written => written,
        }
    }

    /// Refuses to read the output: its end would move away.
    fn refuse_output(
        &mut self,
        input: Option<FileIdentity>,
        shown: &dyn Fn() -> String,
    ) -> anyhow::Result<()> {
        if input.is_none() || input != self.output {
            return Ok(());
        }
        self.write_gathered()?;
        match self.out.metadata() {
            Ok(metadata) if metadata.len() > 0 => bail!("{}: is the output", shown()),
            _ => Ok(()),
        }
    }

    fn stream(&mut self, stream: Stream, shown: &str) -> anyhow::Result<()> {
        self.refuse_output(FileIdentity::of_open(&stream.file), &|| shown.to_owned())?;
        self.write_gathered()?;
        stream.read(&mut |bytes| Ok(self.out.write_all(bytes).map_err(OutputFailed)?))?;
        Ok(())
    }

    fn object(&mut self, place: &Place, entry: &Entry, recursive: bool) -> anyhow::Result<()> {
        match entry.attributes.file_type {
            FileType::Regular => {
                self.progress.begin(&place.shown());
                self.progress.expect(Some(entry.attributes.size));
                let label = || place.label.clone();
                self.refuse_output(place.local_identity(entry), &|| escape::text(&label()))?;
                return self.file(&label, &place.tree.reader(entry), None);
            }
            FileType::Directory if recursive => {}
            FileType::Directory => anyhow::bail!(
                "{}: is a directory (-r writes all files below it)",
                place.shown()
            ),
            _ => anyhow::bail!("{}: not a regular file", place.shown()),
        }
        self.progress.begin(&place.shown());
        self.progress.expect(None);
        self.below(place, entry)
    }

    /// Writes all regular files below a directory.
    ///
    /// Threads read the next files ahead, except in an image, where the page cache does.
    fn below(&mut self, place: &Place, start: &Entry) -> anyhow::Result<()> {
        let tree = &place.tree;
        let width = (!place.is_alone()).then(|| place.width());
        let ahead = |entry: &Entry, _: &mut Vec<u8>| {
            (entry.attributes.size <= SMALL_BYTES.into()).then(|| {
                let reader = tree.reader(entry);
                let first = read_small(&reader);
                (reader, Some(first))
            })
        };
        each_file((place, start), width, &ahead, |path, found| {
            let label = || place.label_of(path);
            let written = match found {
                Ok((entry, ahead)) => {
                    let shown = || escape::text(&label());
                    let (reader, first) = ahead.unwrap_or_else(|| (tree.reader(&entry), None));
                    self.refuse_output(place.local_identity(&entry), &shown)
                        .and_then(|()| self.file(&label, &reader, first))
                }
                Err(error) => Err(anyhow!("{}: {error}", escape::text(&label()))),
            };
            self.settle(written)
        })
    }

    /// Writes a file; `first` is its first read, if one was made.
    fn file(
        &mut self,
        label: &dyn Fn() -> Vec<u8>,
        reader: &Reader<'_>,
        mut first: Option<pagewell_fs::Result<Piece>>,
    ) -> anyhow::Result<()> {
        let shown = || escape::text(&label());
        let mut offset = 0;
        loop {
            let read = || reader.read(offset, READ_BYTES);
            let piece = first.take().unwrap_or_else(read).with_context(shown)?;
            let sent = self.payload(&piece.payload, &shown)?;
            offset += sent;
            self.progress.add(sent);
            if piece.is_last(sent) {
                return Ok(());
            }
        }
    }

    /// Writes a payload, or keeps it for later. Returns its bytes, fewer than promised when the
    /// file was cut meanwhile. `shown` is the name of its file.
    fn payload(&mut self, payload: &Payload, shown: &dyn Fn() -> String) -> anyhow::Result<u64> {
        if let Payload::Pages(pages) = payload {
            let bytes: usize = pages.iter().map(|page| page.len()).sum();
            self.gathered.extend(pages.iter().cloned());
            self.gathered_bytes += bytes;
            if self.gathered.len() >= GATHERED_MAX || self.gathered_bytes >= GATHERED_BYTES_MAX {
                self.write_gathered()?;
            }
            return Ok(bytes as u64);
        }
        self.write_gathered()?;
        if let Payload::Bytes(bytes) = payload {
            self.out.write_all(bytes).map_err(OutputFailed)?;
            return Ok(bytes.len() as u64);
        }
        if let Payload::File {
            file,
            offset,
            length,
        } = payload
        {
            let sent = match self.send(file, *offset, *length) {
                Ok(sent) => return Ok(sent.into()),
                Err(sent) => sent,
            };
            let rest = Payload::File {
                file: file.clone(),
                offset: *offset + u64::from(sent),
                length: *length - sent,
            };
            return Ok(u64::from(sent) + self.copied(&rest, shown)?);
        }
        self.copied(payload, shown)
    }

    /// Moves bytes by sendfile(2), and returns how many. The error is how many were moved before it
    /// failed: reading and writing the rest tells which side is at fault.
    fn send(&mut self, file: &OpenFile, offset: u64, length: u32) -> Result<u32, u32> {
        let mut sent = 0;
        while self.sends_files && sent < length {
            let (mut at, left) = (offset + u64::from(sent), (length - sent) as usize);
            match rustix::fs::sendfile(&self.out, file, Some(&mut at), left) {
                Ok(0) => return Ok(sent),
                // A pipe takes less than there is.
                Ok(count) => sent += u32::try_from(count).unwrap_or(length),
                Err(Errno::INTR) => {}
                // For a terminal or a file opened for appending.
                Err(Errno::INVAL | Errno::NOSYS) => self.sends_files = false,
                Err(_) => break,
            }
        }
        if sent == length { Ok(sent) } else { Err(sent) }
    }

    /// Writes a payload through the buffer; its bytes.
    fn copied(&mut self, payload: &Payload, shown: &dyn Fn() -> String) -> anyhow::Result<u64> {
        self.buffer.resize(READ_BYTES as usize, 0);
        let got = payload.copy_to(&mut self.buffer, true);
        let got = got.with_context(shown)?;
        let written = self.out.write_all(&self.buffer[..got]);
        written.map_err(OutputFailed)?;
        Ok(got as u64)
    }

    /// Writes the gathered pages, and returns them to the cache.
    fn write_gathered(&mut self) -> Result<(), OutputFailed> {
        let pages = self.gathered.iter().map(|page| &**page);
        let written = write_slices(pages, |_, slices| rustix::io::writev(&self.out, slices));
        self.gathered.clear();
        self.gathered_bytes = 0;
        written.map_err(|errno| OutputFailed(errno.into()))
    }
}

/// Reads a small file; bytes in pages of the cache are copied.
fn read_small(reader: &Reader<'_>) -> pagewell_fs::Result<Piece> {
    let mut piece = reader.read(0, SMALL_BYTES)?;
    if let Payload::Pages(_) = piece.payload {
        let mut bytes = vec![0; piece.payload.len()];
        let got = piece.payload.copy_to(&mut bytes, true)?;
        bytes.truncate(got);
        piece.payload = Payload::Bytes(bytes);
    }
    Ok(piece)
}

/// What waits at most: enough for a cheap system call, little to wait for.
const GATHERED_MAX: usize = 64;
const GATHERED_BYTES_MAX: usize = 256 << 10;
