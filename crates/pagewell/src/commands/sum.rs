//! `pagewell sum`: sha256sum for files of any source.

mod check;

use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

use anyhow::{Context, bail};
use clap::Args;
use pagewell_fs::{Entry, FileType};
use pagewell_tree::Tree;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::below::each_file;
use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{self, Outcome};
use crate::listing::TextJson;
use crate::location::{Follow, Location, Place};
use crate::output::{self, OUTPUT};
use crate::progress::Progress;
use crate::stream::{self, Stream};

/// The thread of the walk sums larger files, and shows its progress.
const SMALL_BYTES: u64 = 16 << 20;

/// Print SHA-256 checksums in the format of sha256sum, or check them.
///
/// What is summed is the content of files: with -r of all regular files below a directory, in
/// the order of their names; symbolic links and special files below it are passed over. A location
/// that is `-` is standard input. With -r names are relative to the LOCATION, so that
/// `sha256sum -c` checks a copy of it from inside the copy; of several LOCATIONs they begin with
/// the names that `cp -r` would give them.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
#[command(after_help = "\
Examples:
  pagewell sum debian.iso::/boot/vmlinuz      one file in an image
  pagewell sum -r debian.iso                  every file in it
  pagewell sum image:debian.iso               the image file itself
  pagewell sum -r debian.iso > sums           and in a copy of it: sha256sum -c sums
  pagewell sum -c sums nfs://server/copy      the same, in a copy that is anywhere
  pagewell sum -c SHA256SUMS                  files of this machine")]
pub(crate) struct SumArguments {
    /// Sum all files below directories
    #[arg(short, long)]
    recursive: bool,
    /// Check the files that LIST names, in LOCATION if one is given; - is standard input
    #[arg(
        short,
        long,
        value_name = "LIST",
        conflicts_with_all = ["recursive", "json"],
        value_hint = clap::ValueHint::FilePath
    )]
    check: Option<OsString>,
    /// When checking, name only the files that fail
    #[arg(long, requires = "check")]
    quiet: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// What to sum: SOURCE, SOURCE::/PATH or a local file
    #[arg(
        value_name = "LOCATION",
        required_unless_present = "check",
        value_hint = clap::ValueHint::AnyPath
    )]
    locations: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Serialize)]
struct SumJson {
    #[serde(flatten)]
    location: TextJson,
    sha256: String,
    bytes: u64,
}

struct Summer {
    out: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    several: bool,
    json: Option<Vec<SumJson>>,
    progress: Progress,
    buffer: Vec<u8>,
}

pub(crate) fn run(arguments: &SumArguments) -> anyhow::Result<Outcome> {
    let locations = Location::parse_all(&arguments.locations)?;
    let engine = Engine::command(&arguments.engine, Location::are_remote(&locations))?;
    let stdout = std::io::stdout();
    let mut summer = Summer {
        is_terminal: stdout.is_terminal(),
        out: BufWriter::new(stdout.lock()),
        several: locations.len() > 1,
        json: arguments.json.then(Vec::new),
        progress: Progress::new(true),
        buffer: Vec::new(),
    };
    if let Some(list) = &arguments.check {
        summer.check(list, &locations, arguments.quiet, &engine)?;
        summer.out.flush().context(OUTPUT)?;
        return Ok(summer.progress.outcome());
    }
    for location in &locations {
        let opened = match stream::of(location) {
            Ok(Some(stream)) => {
                let name = location.as_given();
                summer.settle((name, name), sum_of(stream))?;
                continue;
            }
            Ok(None) => location.open_existing(Follow::Always, &engine),
            Err(error) => Err(error),
        };
        match opened {
            Ok((place, entry)) => summer.location(&place, &entry, arguments.recursive)?,
            Err(error) => summer.progress.fail(&failure::one_line(&error)),
        }
    }
    if let Some(json) = &summer.json {
        output::json(&mut summer.out, json).context(OUTPUT)?;
    }
    summer.out.flush().context(OUTPUT)?;
    Ok(summer.progress.outcome())
}

impl Summer {
    fn location(&mut self, place: &Place, entry: &Entry, recursive: bool) -> anyhow::Result<()> {
        if !entry.attributes.file_type.is_directory() {
            self.progress.expect(Some(entry.attributes.size));
            let sum = self.digest(&place.tree, &place.label, entry);
            return self.settle((&place.label, &place.label), sum);
        }
        if !recursive {
            self.progress
                .fail(&format!("{}: {}", place.shown(), directory_hint(place)));
            return Ok(());
        }
        self.progress.expect(None);
        self.below(place, entry)
    }

    /// The name of an object in a list: its path in a copy of the place.
    fn name_of(&self, place: &Place, path: &[u8]) -> Vec<u8> {
        if self.several && !place.copy_name.is_empty() {
            [place.copy_name.as_slice(), b"/", path].concat()
        } else {
            path.to_vec()
        }
    }

    fn below(&mut self, place: &Place, start: &Entry) -> anyhow::Result<()> {
        let tree = &place.tree;
        let ahead = |entry: &Entry, buffer: &mut Vec<u8>| {
            let is_small = entry.attributes.size <= SMALL_BYTES;
            is_small.then(|| digest(tree, entry, buffer, &mut |_| {}))
        };
        each_file(
            (place, start),
            Some(place.width()),
            &ahead,
            |path, found| {
                let (name, label) = (self.name_of(place, path), place.label_of(path));
                let sum = match found {
                    Ok((entry, None)) => self.digest(tree, &label, &entry),
                    Ok((_, Some(sum))) => sum.with_context(|| escape::text(&label)),
                    Err(error) => Err(error).with_context(|| escape::text(&label)),
                };
                if let Ok((_, bytes @ ..=SMALL_BYTES)) = sum {
                    self.progress.add_of(bytes, &label);
                }
                self.settle((&name, &label), sum)
            },
        )
    }

    /// Prints the sum of a file, `name` in lists, `label` in messages, or reports why it cannot be
    /// read; the error is one of the output.
    fn settle(
        &mut self,
        (name, label): (&[u8], &[u8]),
        sum: anyhow::Result<(String, u64)>,
    ) -> anyhow::Result<()> {
        let (sha256, bytes) = match sum {
            Ok(sum) => sum,
            Err(error) => {
                self.progress.fail(&failure::one_line(&error));
                return Ok(());
            }
        };
        let Some(json) = &mut self.json else {
            return self.print(&line(&sha256, name));
        };
        json.push(SumJson {
            location: TextJson::new("location", label),
            sha256,
            bytes,
        });
        Ok(())
    }

    fn digest(
        &mut self,
        tree: &Tree,
        label: &[u8],
        entry: &Entry,
    ) -> anyhow::Result<(String, u64)> {
        let shown = escape::text(label);
        if entry.attributes.file_type != FileType::Regular {
            bail!("{shown}: not a regular file");
        }
        self.progress.begin(&shown);
        let progress = &mut self.progress;
        let count = &mut |bytes| progress.add(bytes);
        digest(tree, entry, &mut self.buffer, count).context(shown)
    }

    /// Prints a line; on a terminal control characters are escaped.
    fn print(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let written = if self.is_terminal {
            let text = escape::text(line.strip_suffix(b"\n").unwrap_or(line));
            writeln!(self.out, "{text}")
        } else {
            self.out.write_all(line)
        };
        written.context(OUTPUT)
    }
}

/// A file's sum and length; `count` gets bytes as they are read.
fn digest(
    tree: &Tree,
    entry: &Entry,
    buffer: &mut Vec<u8>,
    count: &mut dyn FnMut(u64),
) -> pagewell_fs::Result<(String, u64)> {
    let mut hasher = Sha256::new();
    let bytes = tree.reader(entry).stream(buffer, &mut |bytes| {
        hasher.update(bytes);
        count(bytes.len() as u64);
        Ok(())
    })?;
    Ok((escape::hexadecimal(&hasher.finalize()), bytes))
}

fn sum_of(stream: Stream) -> anyhow::Result<(String, u64)> {
    let mut hasher = Sha256::new();
    let bytes = stream.read(&mut |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    Ok((escape::hexadecimal(&hasher.finalize()), bytes))
}

fn directory_hint(place: &Place) -> String {
    let image = match place.is_local() {
        true => "",
        false => "; an image file itself is summed as image:PATH",
    };
    format!("is a directory (-r sums all files below it{image})")
}

fn line(sum: &str, name: &[u8]) -> Vec<u8> {
    let (mark, name) = escaped(name);
    [mark, sum.as_bytes(), b"  ", &name, b"\n"].concat()
}

/// A name as sha256sum writes it: newlines, carriage returns and backslashes are escaped, and then
/// the line begins with a backslash.
fn escaped(name: &[u8]) -> (&'static [u8], Vec<u8>) {
    if !name.iter().any(|byte| b"\n\r\\".contains(byte)) {
        return (b"", name.to_vec());
    }
    let mut text = Vec::with_capacity(name.len() + 4);
    for byte in name {
        match byte {
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\\' => text.extend_from_slice(b"\\\\"),
            byte => text.push(*byte),
        }
    }
    (b"\\", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_sha256sum_does() {
        assert_eq!(line("00", b"a b\xff"), b"00  a b\xff\n");
        assert_eq!(line("00", b"a\\b\nc\rd"), b"\\00  a\\\\b\\nc\\rd\n");
    }
}
