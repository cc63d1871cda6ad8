//! `pagewell sum`: the output of sha256sum for files of any source.

use std::ffi::OsString;
use std::io::{BufWriter, StdoutLock, Write};

use anyhow::Context;
use clap::Args;
use pagewell_fs::{Entry, FileType};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{self, Outcome};
use crate::listing::TextOrHex;
use crate::location::{Follow, Location, Place};
use crate::progress::Progress;
use crate::tree::Tree;
use crate::walk::{Next, Step, walk};

/// Print SHA-256 checksums in the format of sha256sum.
///
/// What is summed is the content of files: with -r of all regular files below a directory, in
/// the order of their names; symbolic links and special files below it are passed over. The
/// lines of local files can be checked with `sha256sum -c`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell sum debian.iso::/boot/vmlinuz      one file in an image
  pagewell sum -r debian.iso                  every file in it
  pagewell sum image:debian.iso               the image file itself
  pagewell sum -r /srv/data > data.sha256     later: sha256sum -c data.sha256")]
pub(crate) struct SumArguments {
    /// Sum all files below directories
    #[arg(short, long)]
    recursive: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// What to sum: SOURCE, SOURCE::/PATH or a local file
    #[arg(value_name = "LOCATION", required = true)]
    locations: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Serialize)]
struct SumJson {
    location: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    location_hex: Option<String>,
    sha256: String,
    bytes: u64,
}

struct Summer {
    out: BufWriter<StdoutLock<'static>>,
    json: Option<Vec<SumJson>>,
    progress: Progress,
    buffer: Vec<u8>,
    failures: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &SumArguments) -> anyhow::Result<Outcome> {
    let locations = Location::parse_all(&arguments.locations)?;
    let engine = Engine::command(&arguments.engine)?;
    let mut summer = Summer {
        out: BufWriter::new(std::io::stdout().lock()),
        json: arguments.json.then(Vec::new),
        progress: Progress::new(true),
        buffer: Vec::new(),
        failures: 0,
    };
    for location in &locations {
        match location.open_existing(Follow::Always, &engine) {
            Ok((place, entry)) => summer.location(&place, &entry, arguments.recursive)?,
            Err(error) => summer.fail(&failure::one_line(&error)),
        }
    }
    if let Some(json) = &summer.json {
        serde_json::to_writer_pretty(&mut summer.out, json)?;
        summer.out.write_all(b"\n")?;
    }
    summer.out.flush()?;
    Ok(Outcome::from_failures(summer.failures))
}

impl Summer {
    fn fail(&mut self, text: &str) {
        self.failures += 1;
        self.progress.report(text);
    }

    fn location(&mut self, place: &Place, entry: &Entry, recursive: bool) -> anyhow::Result<()> {
        if !entry.attributes.file_type.is_directory() {
            self.progress.expect(Some(entry.attributes.size));
            return self.file(&place.tree, &place.label, entry);
        }
        if !recursive {
            self.fail(&format!("{}: {}", place.shown(), directory_hint(place)));
            return Ok(());
        }
        self.progress.expect(None);
        walk(&place.tree, entry, &mut |step| -> anyhow::Result<Next> {
            match step {
                Step::Object(path, entry) if entry.attributes.file_type == FileType::Regular => {
                    self.file(&place.tree, &place.label_of(path), entry)?;
                }
                Step::Failed(path, error) => {
                    let shown = escape::text(&place.label_of(path));
                    self.fail(&format!("{shown}: {error}"));
                }
                _ => {}
            }
            Ok(Next::Go)
        })
    }

    /// Sums one file. A file that cannot be read is reported; only output that cannot be written
    /// is an error.
    fn file(&mut self, tree: &Tree, label: &[u8], entry: &Entry) -> anyhow::Result<()> {
        if entry.attributes.file_type != FileType::Regular {
            self.fail(&format!("{}: not a regular file", escape::text(label)));
            return Ok(());
        }
        self.progress.begin(&escape::text(label));
        let mut hasher = Sha256::new();
        let progress = &mut self.progress;
        let read = tree.stream(&entry.id, &mut self.buffer, &mut |_, bytes| {
            hasher.update(bytes);
            progress.add(bytes.len() as u64);
            Ok(())
        });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                self.fail(&format!("{}: {error}", escape::text(label)));
                return Ok(());
            }
        };
        let sum = escape::hexadecimal(&hasher.finalize());
        match &mut self.json {
            Some(json) => {
                let location = TextOrHex::new(label);
                json.push(SumJson {
                    location: location.text,
                    location_hex: location.hex,
                    sha256: sum,
                    bytes,
                });
                Ok(())
            }
            None => {
                let written = self.out.write_all(&line(&sum, label));
                written.context("standard output")
            }
        }
    }
}

fn directory_hint(place: &Place) -> String {
    if place.is_local() {
        return "is a directory (-r sums all files below it)".to_owned();
    }
    "is a directory (-r sums all files below it; an image file itself is summed as image:PATH)"
        .to_owned()
}

/// One line of sha256sum: the sum, two spaces, the name. A name with a newline, a carriage
/// return or a backslash is escaped, and then the line begins with a backslash.
fn line(sum: &str, name: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(sum.len() + name.len() + 4);
    if name.iter().any(|byte| b"\n\r\\".contains(byte)) {
        line.push(b'\\');
    }
    line.extend_from_slice(sum.as_bytes());
    line.extend_from_slice(b"  ");
    for byte in name {
        match byte {
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\\' => line.extend_from_slice(b"\\\\"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
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
