//! `pagewell ls`.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal, Write};

use anyhow::Context;
use clap::{ArgAction, Args, ValueEnum};
use pagewell_base::size;
use pagewell_fs::{Attributes, Entry, FileType};
use serde::Serialize;

use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{Outcome, report};
use crate::listing::{AttributesJson, TextJson, is_device};
use crate::location::{Follow, Location, Place};
use crate::output;
use crate::time_text::seconds_text;
use pagewell_tree::walk::{Next, Preparation, Step, walk};
use pagewell_tree::{Listed, Tree};

/// List directories, one name a line, sorted by their bytes.
///
/// All names are shown, also those that begin with a dot, as with -A of ls(1). With -l owners are
/// numbers (the names of this machine mean nothing in an image) and times are UTC. On a terminal
/// control characters are escaped; into a pipe or file names go as they are.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    args_override_self = true,
    after_help = "\
Examples:
  pagewell ls debian.iso                      the root of an image
  pagewell ls -lR debian.iso::/boot           all of a directory in it, with attributes
  pagewell ls -lhS debian.iso::/live          the largest first, with sizes to read
  pagewell ls --json=lines nfs://server/data  an object a line, as they come
  pagewell ls --json /srv/data                for programs: names that are not UTF-8 come with
                                              their bytes in hexadecimal"
)]
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
    /// Show sizes with a unit: 640K, 1.2G
    #[arg(short, long)]
    human_readable: bool,
    /// Show file numbers (of inodes) first
    #[arg(short, long)]
    inode: bool,
    /// Show directories themselves, not what is in them
    #[arg(short, long)]
    directory: bool,
    /// Put a slash behind the names of directories
    #[arg(short = 'p')]
    slash: bool,
    /// Sort by time of modification, the newest first
    #[arg(short = 't', overrides_with = "by_size")]
    by_time: bool,
    /// Sort by size, the largest first
    #[arg(short = 'S', overrides_with = "by_time")]
    by_size: bool,
    /// Sort the other way round
    #[arg(short, long)]
    reverse: bool,
    /// One name a line, as always
    #[arg(short = '1')]
    one: bool,
    /// Print one JSON document, or an object for each name on a line of its own
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "document"
    )]
    json: Option<JsonForm>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// What to list: SOURCE, SOURCE::/PATH or a local file
    #[arg(value_name = "LOCATION", required = true, value_hint = clap::ValueHint::AnyPath)]
    locations: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum JsonForm {
    /// All of it in one list
    Document,
    /// An object on each line, with the directory that it is in
    Lines,
}

const LISTERS: usize = 3;

/// A directory, or a location that is not one, in the JSON document.
#[derive(Serialize)]
struct DirectoryJson {
    #[serde(flatten)]
    location: TextJson,
    entries: Vec<EntryJson>,
}

#[derive(Serialize)]
struct LineJson<'a> {
    #[serde(flatten)]
    location: &'a TextJson,
    #[serde(flatten)]
    entry: EntryJson,
}

#[derive(Serialize)]
struct EntryJson {
    #[serde(flatten)]
    name: TextJson,
    #[serde(flatten)]
    attributes: Option<AttributesJson>,
    #[serde(flatten)]
    target: Option<TextJson>,
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

pub(crate) fn run(arguments: &LsArguments) -> anyhow::Result<Outcome> {
    let locations = Location::parse_all(&arguments.locations)?;
    let engine = Engine::command(&arguments.engine, Location::are_remote(&locations))?;
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
        let follow = if arguments.directory {
            Follow::Never
        } else {
            Follow::ToDirectory
        };
        match location.open_existing(follow, &engine) {
            Ok((place, entry))
                if entry.attributes.file_type.is_directory() && !arguments.directory =>
            {
                directories.push((place, entry));
            }
            Ok((place, entry)) => others.push((place, entry)),
            Err(error) => lister.fail(&crate::failure::one_line(&error)),
        }
    }
    lister.list(&others, &directories).context(output::OUTPUT)?;
    Ok(Outcome::from_failures(lister.failures))
}

impl Lister<'_> {
    fn fail(&mut self, text: &str) {
        // On a terminal the message is to follow what was listed before it.
        let _ = self.out.flush();
        self.failures += 1;
        report(text);
    }

    /// Lists all. Errors of the output are returned, others reported.
    fn list(
        &mut self,
        others: &[(Place, Entry)],
        directories: &[(Place, Entry)],
    ) -> anyhow::Result<()> {
        self.others(others)?;
        for (place, entry) in directories {
            self.directory(place, entry)?;
        }
        if self.arguments.json == Some(JsonForm::Document) {
            output::json(&mut self.out, &self.json)?;
        }
        Ok(self.out.flush()?)
    }

    /// In the order given.
    fn others(&mut self, others: &[(Place, Entry)]) -> anyhow::Result<()> {
        let columns = Columns::of(self.arguments, others.iter().map(|(_, entry)| entry));
        for (place, entry) in others {
            let listed = Listed {
                name: place.label.clone(),
                entry: Ok(*entry),
            };
            let listed = [&listed];
            if self.arguments.json.is_some() {
                self.add_json(&place.tree, &place.label, &listed)?;
            } else {
                self.lines(&place.tree, &listed, columns)?;
            }
            self.printed_any = true;
        }
        Ok(())
    }

    fn directory(&mut self, place: &Place, start: &Entry) -> anyhow::Result<()> {
        let recursive = self.arguments.recursive;
        let preparation = Preparation {
            listers: if recursive { LISTERS } else { 0 },
            reads_files: false,
        };
        let visit = &mut |step: Step<'_>| -> anyhow::Result<Next> {
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
        };
        walk(&place.tree, preparation, start, visit)
    }

    fn fail_at(&mut self, label: &[u8], error: &pagewell_fs::Error) {
        self.fail(&format!("{}: {error}", escape::text(label)));
    }

    /// One directory: a header when there are several, then its names.
    fn listing(&mut self, tree: &Tree, label: &[u8], names: &[Listed]) -> anyhow::Result<()> {
        let mut names: Vec<&Listed> = names.iter().collect();
        self.sort(&mut names);
        if self.arguments.json.is_some() {
            return self.add_json(tree, label, &names);
        }
        if self.headers {
            if self.printed_any {
                self.out.write_all(b"\n")?;
            }
            self.name(label)?;
            self.out.write_all(b":\n")?;
        }
        self.printed_any = true;
        let entries = names.iter().filter_map(|listed| listed.entry.as_ref().ok());
        self.lines(tree, &names, Columns::of(self.arguments, entries))
    }

    /// Sorts names that are in the order of their bytes; the sort is stable.
    fn sort(&self, names: &mut [&Listed]) {
        let attributes = |listed: &Listed| listed.entry.as_ref().ok().map(|entry| entry.attributes);
        if self.arguments.by_time {
            names.sort_by_key(|listed| Reverse(attributes(listed).map(|found| found.modified)));
        } else if self.arguments.by_size {
            names.sort_by_key(|listed| Reverse(attributes(listed).map(|found| found.size)));
        }
        if self.arguments.reverse {
            names.reverse();
        }
    }

    fn lines(&mut self, tree: &Tree, names: &[&Listed], columns: Columns) -> anyhow::Result<()> {
        for listed in names {
            let needed = columns.are_any() || self.arguments.slash;
            if let (Err(error), true) = (&listed.entry, needed) {
                self.fail_at(&listed.name, error);
                continue;
            }
            let entry = listed.entry.as_ref().ok();
            if let Some(entry) = entry.filter(|_| columns.are_any()) {
                write!(self.out, "{}", columns.text(&entry.attributes))?;
            }
            self.name(&listed.name)?;
            let is_directory = entry.is_some_and(|entry| entry.attributes.file_type.is_directory());
            if is_directory && self.arguments.slash && !listed.name.ends_with(b"/") {
                self.out.write_all(b"/")?;
            }
            if self.arguments.long && is_link(listed) {
                self.out.write_all(b" -> ")?;
                if let Some(target) = self.target(tree, listed) {
                    self.name(&target)?;
                }
            }
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// The target of a symbolic link. A failure is reported.
    fn target(&mut self, tree: &Tree, listed: &Listed) -> Option<Vec<u8>> {
        let link = listed.entry.as_ref().ok().filter(|_| is_link(listed))?;
        let target = tree.link_target(&link.id);
        target
            .inspect_err(|error| self.fail_at(&listed.name, error))
            .ok()
    }

    fn name(&mut self, name: &[u8]) -> std::io::Result<()> {
        if self.escape {
            self.out.write_all(escape::text(name).as_bytes())
        } else {
            self.out.write_all(name)
        }
    }

    fn add_json(&mut self, tree: &Tree, label: &[u8], names: &[&Listed]) -> anyhow::Result<()> {
        let location = TextJson::new("location", label);
        let mut entries = Vec::with_capacity(names.len());
        for listed in names {
            if let Err(error) = &listed.entry {
                self.fail_at(&listed.name, error);
            }
            let target = self.target(tree, listed);
            entries.push(EntryJson {
                name: TextJson::new("name", &listed.name),
                attributes: listed.entry.as_ref().ok().map(|e| (&e.attributes).into()),
                target: target.map(|target| TextJson::new("target", &target)),
            });
        }
        if self.arguments.json == Some(JsonForm::Lines) {
            for entry in entries {
                let line = LineJson {
                    location: &location,
                    entry,
                };
                output::json_line(&mut self.out, &line)?;
            }
            return Ok(());
        }
        self.json.push(DirectoryJson { location, entries });
        Ok(())
    }
}

fn is_link(listed: &Listed) -> bool {
    let entry = listed.entry.as_ref();
    entry.is_ok_and(|entry| entry.attributes.file_type == FileType::Symlink)
}

fn label(place: &Place, path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        place.label.clone()
    } else {
        place.label_of(path)
    }
}

/// The columns before the names, and their widths.
#[derive(Clone, Copy, Default)]
struct Columns {
    long: bool,
    inode: bool,
    human: bool,
    file_id: usize,
    links: usize,
    uid: usize,
    gid: usize,
    size: usize,
}

impl Columns {
    /// The columns that are asked for, wide enough for `all`.
    fn of<'a>(arguments: &LsArguments, all: impl Iterator<Item = &'a Entry>) -> Self {
        let mut widths = Self {
            long: arguments.long,
            inode: arguments.inode,
            human: arguments.human_readable,
            ..Self::default()
        };
        for Entry { attributes, .. } in all {
            widths.file_id = widths.file_id.max(digits(attributes.file_id));
            widths.links = widths.links.max(digits(attributes.link_count.into()));
            widths.uid = widths.uid.max(digits(attributes.uid.into()));
            widths.gid = widths.gid.max(digits(attributes.gid.into()));
            widths.size = widths.size.max(widths.size_text(attributes).len());
        }
        widths
    }

    fn are_any(self) -> bool {
        self.long || self.inode
    }

    /// All of them, with the space behind.
    fn text(self, attributes: &Attributes) -> String {
        let Self {
            file_id,
            links,
            uid,
            gid,
            size,
            ..
        } = self;
        let mut text = String::new();
        if self.inode {
            text += &format!("{:>file_id$} ", attributes.file_id);
        }
        if self.long {
            text += &format!(
                "{} {:>links$} {:>uid$} {:>gid$} {:>size$} {} ",
                pagewell_tree::mode_text(attributes),
                attributes.link_count,
                attributes.uid,
                attributes.gid,
                self.size_text(attributes),
                seconds_text(attributes.modified.seconds),
            );
        }
        text
    }

    fn size_text(self, attributes: &Attributes) -> String {
        if is_device(attributes) {
            format!("{}, {}", attributes.device.0, attributes.device.1)
        } else if self.human {
            size::brief(attributes.size)
        } else {
            attributes.size.to_string()
        }
    }
}

fn digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}
