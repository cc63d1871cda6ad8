//! `pagewell ls`.

use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal, Write};

use clap::Args;
use pagewell_fs::{Attributes, Entry, FileType};
use serde::Serialize;

use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{Outcome, report};
use crate::listing::{self, AttributesJson, TextOrHex};
use crate::location::{Follow, Location, Place};
use crate::time_text;
use crate::tree::{self, Listed, Tree};
use crate::walk::{Next, Step, walk};

/// List directories, one name a line, sorted by their bytes.
///
/// All names are shown, also those that begin with a dot. With -l owners are numbers (the names
/// of this machine mean nothing in an image) and times are UTC. On a terminal control characters
/// are escaped; into a pipe or file names go as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell ls debian.iso                      the root of an image
  pagewell ls -lR debian.iso::/boot           all of a directory in it, with attributes
  pagewell ls --json /srv/data                for programs: names that are not UTF-8 come with
                                              their bytes in hexadecimal")]
pub(crate) struct LsArguments {
    /// Show type, permissions, links, owner, group, size, time
    #[arg(short, long)]
    long: bool,
    /// List directories below as well
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Show the directory itself and its parent, . and .., too
    #[arg(short, long)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// What to list: SOURCE, SOURCE::/PATH or a local file
    #[arg(value_name = "LOCATION", required = true)]
    locations: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

/// A directory, or a location that is not one, in the JSON document.
#[derive(Serialize)]
struct DirectoryJson {
    location: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    location_hex: Option<String>,
    entries: Vec<EntryJson>,
}

#[derive(Serialize)]
struct EntryJson {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    #[serde(flatten)]
    attributes: Option<AttributesJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hex: Option<String>,
}

struct Lister<'a> {
    arguments: &'a LsArguments,
    out: BufWriter<std::io::StdoutLock<'static>>,
    escape: bool,
    headers: bool,
    printed_any: bool,
    failures: u64,
    json: Vec<DirectoryJson>,
}

/// Runs the command.
pub(crate) fn run(arguments: &LsArguments) -> anyhow::Result<Outcome> {
    let locations = Location::parse_all(&arguments.locations)?;
    let engine = Engine::command(&arguments.engine)?;
    let stdout = std::io::stdout();
    let mut lister = Lister {
        arguments,
        escape: stdout.is_terminal(),
        out: BufWriter::new(stdout.lock()),
        headers: locations.len() > 1 || arguments.recursive,
        printed_any: false,
        failures: 0,
        json: Vec::new(),
    };
    let mut directories = Vec::new();
    let mut others = Vec::new();
    for location in &locations {
        match location.open_existing(Follow::ToDirectory, &engine) {
            Ok((place, entry)) if entry.attributes.file_type.is_directory() => {
                directories.push((place, entry));
            }
            Ok((place, entry)) => others.push((place, entry)),
            Err(error) => lister.fail(&crate::failure::one_line(&error)),
        }
    }
    lister.others(&others)?;
    for (place, entry) in &directories {
        lister.directory(place, entry)?;
    }
    if arguments.json {
        serde_json::to_writer_pretty(&mut lister.out, &lister.json)?;
        lister.out.write_all(b"\n")?;
    }
    lister.out.flush()?;
    Ok(Outcome::from_failures(lister.failures))
}

impl Lister<'_> {
    fn fail(&mut self, text: &str) {
        // What was listed so far comes before the message when both go to one terminal.
        let _ = self.out.flush();
        self.failures += 1;
        report(text);
    }

    /// Locations that are not directories, in the order given.
    fn others(&mut self, others: &[(Place, Entry)]) -> anyhow::Result<()> {
        for (place, entry) in others {
            let listed = [Listed {
                name: place.label.clone(),
                entry: Ok(*entry),
            }];
            if self.arguments.json {
                self.add_json(&place.tree, &place.label, &listed);
            } else {
                self.lines(&place.tree, &listed)?;
            }
            self.printed_any = true;
        }
        Ok(())
    }

    fn directory(&mut self, place: &Place, start: &Entry) -> anyhow::Result<()> {
        let recursive = self.arguments.recursive;
        walk(&place.tree, start, &mut |step| -> anyhow::Result<Next> {
            match step {
                Step::Listing(path, directory, names) => {
                    let label = label(place, path);
                    if self.arguments.all {
                        match place.tree.list(&directory.id, true) {
                            Ok(names) => self.listing(&place.tree, &label, &names.listed)?,
                            Err(error) => self.fail_at(&label, &error),
                        }
                    } else {
                        self.listing(&place.tree, &label, names)?;
                    }
                }
                Step::Enter(..) if !recursive => return Ok(Next::Skip),
                Step::Failed(path, error) => {
                    self.fail_at(&label(place, path), &error);
                }
                Step::Enter(..) | Step::Leave(..) | Step::Object(..) => {}
            }
            Ok(Next::Go)
        })
    }

    fn fail_at(&mut self, label: &[u8], error: &pagewell_fs::Error) {
        self.fail(&format!("{}: {error}", escape::text(label)));
    }

    /// One directory: a header when there are several, then its names.
    fn listing(&mut self, tree: &Tree, label: &[u8], names: &[Listed]) -> anyhow::Result<()> {
        if self.arguments.json {
            self.add_json(tree, label, names);
            return Ok(());
        }
        if self.headers {
            if self.printed_any {
                self.out.write_all(b"\n")?;
            }
            self.name(label)?;
            self.out.write_all(b":\n")?;
        }
        self.printed_any = true;
        self.lines(tree, names)
    }

    fn lines(&mut self, tree: &Tree, names: &[Listed]) -> anyhow::Result<()> {
        let attributes = names.iter().filter_map(|listed| listed.entry.as_ref().ok());
        let widths = Widths::of(attributes.map(|entry| &entry.attributes));
        for listed in names {
            if let (Err(error), true) = (&listed.entry, self.arguments.long) {
                self.fail_at(&listed.name, error);
                continue;
            }
            let entry = listed.entry.as_ref().ok().filter(|_| self.arguments.long);
            if let Some(entry) = entry {
                let columns = widths.columns(&entry.attributes);
                write!(self.out, "{columns} ")?;
            }
            self.name(&listed.name)?;
            if let Some(entry) = entry
                && entry.attributes.file_type == FileType::Symlink
            {
                self.out.write_all(b" -> ")?;
                match tree.link_target(&entry.id) {
                    Ok(target) => self.name(&target)?,
                    Err(error) => self.fail_at(&listed.name, &error),
                }
            }
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// A name as it is, or escaped on a terminal.
    fn name(&mut self, name: &[u8]) -> std::io::Result<()> {
        if self.escape {
            self.out.write_all(escape::text(name).as_bytes())
        } else {
            self.out.write_all(name)
        }
    }

    fn add_json(&mut self, tree: &Tree, label: &[u8], names: &[Listed]) {
        let mut entries = Vec::with_capacity(names.len());
        for listed in names {
            let name = TextOrHex::new(&listed.name);
            let mut target = None;
            match &listed.entry {
                Ok(entry) if entry.attributes.file_type == FileType::Symlink => {
                    match tree.link_target(&entry.id) {
                        Ok(bytes) => target = Some(TextOrHex::new(&bytes)),
                        Err(error) => self.fail_at(&listed.name, &error),
                    }
                }
                Ok(_) => {}
                Err(error) => self.fail_at(&listed.name, error),
            }
            let (target, target_hex) = target.map_or((None, None), |t| (Some(t.text), t.hex));
            entries.push(EntryJson {
                name: name.text,
                name_hex: name.hex,
                attributes: listed.entry.as_ref().ok().map(|e| (&e.attributes).into()),
                target,
                target_hex,
            });
        }
        let location = TextOrHex::new(label);
        self.json.push(DirectoryJson {
            location: location.text,
            location_hex: location.hex,
            entries,
        });
    }
}

/// Widths of the columns that are aligned to the right.
#[derive(Clone, Copy, Default)]
struct Widths {
    links: usize,
    uid: usize,
    gid: usize,
    size: usize,
}

impl Widths {
    fn of<'a>(all: impl Iterator<Item = &'a Attributes>) -> Self {
        let mut widths = Self::default();
        for attributes in all {
            widths.links = widths.links.max(digits(attributes.link_count.into()));
            widths.uid = widths.uid.max(digits(attributes.uid.into()));
            widths.gid = widths.gid.max(digits(attributes.gid.into()));
            widths.size = widths.size.max(size_text(attributes).len());
        }
        widths
    }

    fn columns(self, attributes: &Attributes) -> String {
        let Self {
            links,
            uid,
            gid,
            size,
        } = self;
        format!(
            "{} {:>links$} {:>uid$} {:>gid$} {:>size$} {}",
            tree::mode_text(attributes),
            attributes.link_count,
            attributes.uid,
            attributes.gid,
            size_text(attributes),
            time_text::seconds(attributes.modified),
        )
    }
}

fn digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// The size, or the numbers of a device.
fn size_text(attributes: &Attributes) -> String {
    if listing::is_device(attributes) {
        format!("{}, {}", attributes.device.0, attributes.device.1)
    } else {
        attributes.size.to_string()
    }
}

fn label(place: &Place, path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        place.label.clone()
    } else {
        place.label_of(path)
    }
}
