//! `pagewell check`.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use pagewell_base::size;
use pagewell_device::Device;
use pagewell_disc::{Depth, Disc, TreeChecked, Troubles};
use pagewell_source_bytes::{VIOLATIONS_MAX, Violation, Violations};
use serde::Serialize;

use crate::disc_facts::DiscFacts;
use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{self, Outcome};
use crate::open;
use crate::output;
use crate::progress::Progress;
use crate::recognise::meant_inside;
use crate::source::Source;

/// Look at all of a disc image, and say what is wrong with it.
///
/// All objects of all trees of the image are looked at: what cannot be read, what one tree has and
/// the one that is served lacks, and each place where the image departs from its format, with the
/// clause. Of files the last byte is read, with --data all of them. The exit code is 1 when
/// something is missing or departs from the format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell check debian.iso                     structure, and whether all files are there
  pagewell check --data iso:/dev/sr0            every byte of every file, too
  pagewell check --json iso:https://host/a.iso  for programs")]
pub(crate) struct CheckArguments {
    /// Read all data of files
    #[arg(long)]
    data: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Disc images
    #[arg(value_name = "SOURCE", required = true, value_hint = clap::ValueHint::AnyPath)]
    sources: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Serialize)]
struct CheckJson {
    source: String,
    #[serde(flatten)]
    facts: DiscFacts,
    /// What a reader must know.
    notes: Vec<String>,
    /// Of the disk that the image is, too.
    partitions: Vec<PartitionJson>,
    trees: Vec<TreeJson>,
    /// By offset in the image.
    violations: Vec<ViolationJson>,
    /// Those which are only counted.
    violations_more: u64,
    /// Whether all that the image should hold can be read.
    is_readable: bool,
    /// Whether nothing departs from its format, either.
    is_sound: bool,
}

#[derive(Serialize)]
struct TreeJson {
    tree: &'static str,
    is_served: bool,
    directories: u64,
    files: u64,
    links: u64,
    others: u64,
    bytes: u64,
    /// Names of objects with named streams, and with extended attributes, which are not shown.
    with_streams: u64,
    with_attributes: u64,
    unreadable: TroublesJson,
    /// What the served tree lacks.
    only_there: TroublesJson,
}

#[derive(Serialize)]
struct TroublesJson {
    count: u64,
    first: Vec<String>,
}

#[derive(Serialize)]
struct PartitionJson {
    table: &'static str,
    number: usize,
    start: u64,
    length_bytes: u64,
}

#[derive(Serialize)]
struct ViolationJson {
    offset: u64,
    clause: &'static str,
    text: String,
}

pub(crate) fn run(arguments: &CheckArguments) -> anyhow::Result<Outcome> {
    let is_remote = |text: &OsString| Source::parse(text).is_ok_and(|source| source.is_remote());
    let is_remote = arguments.sources.iter().any(is_remote);
    let engine = Engine::command(&arguments.engine, is_remote)?;
    let mut failures = 0;
    let mut json = Vec::new();
    for source in &arguments.sources {
        match check(source, arguments.data, &engine) {
            Ok(found) => {
                failures += u64::from(!found.is_sound);
                if arguments.json {
                    json.push(found);
                } else {
                    output::print(found.text().as_bytes())?;
                }
            }
            Err(error) => {
                failures += 1;
                failure::report(&failure::one_line(&error));
            }
        }
    }
    if arguments.json {
        output::document(&json)?;
    }
    Ok(Outcome::from_failures(failures))
}

fn check(text: &OsStr, data: bool, engine: &Engine) -> anyhow::Result<CheckJson> {
    let source = Source::parse(text)?;
    let shown = escape::text(text.as_encoded_bytes());
    let inside = source.storage.path().ok().and_then(meant_inside);
    if let Some((image, _)) = inside.filter(|(whole, _)| !whole.is_dir()) {
        let image = escape::text(image.as_os_str().as_encoded_bytes());
        bail!("{shown}: only a whole disc image can be checked, here {image}");
    }
    source.check_presence()?;
    if !source.may_be_disc() {
        bail!("{shown}: only disc images can be checked");
    }
    if source.storage.path().is_ok_and(Path::is_dir) {
        bail!("{shown}: is a directory, and only disc images can be checked");
    }
    let violations = Arc::new(Violations::default());
    let image = open::disc_bytes(&source.storage, &source.disc_options, engine)?;
    let place = (&image.bytes, engine.cache()?);
    let disc = Disc::noting(place, &source.disc_options, Some(violations.clone()));
    let disc = disc.map_err(|error| open::no_disc(error, &image.bytes))?;
    let mut progress = Progress::new(true);
    progress.begin(&shown);
    let depth = if data { Depth::Data } else { Depth::Ends };
    let checked = disc.check(depth, &mut |bytes| progress.add(bytes));
    drop(progress);
    let facts = DiscFacts::of(&disc, image.layers);
    let (kept, more) = violations.list();
    let can_be_read = |tree: &TreeChecked| tree.walked.unreadable.count == 0;
    let is_readable =
        disc.is_whole() && facts.missing_bytes() == 0 && checked.iter().all(can_be_read);
    let mut trees: Vec<TreeJson> = checked
        .iter()
        .map(|tree| TreeJson::of(tree, &disc))
        .collect();
    trees.sort_by_key(|tree| !tree.is_served);
    Ok(CheckJson {
        is_readable,
        is_sound: is_readable && kept.is_empty(),
        facts,
        notes: disc.notes(&open::with_options(&shown)),
        partitions: PartitionJson::all(&*image.device)?,
        source: shown,
        trees,
        violations: kept.into_iter().map(ViolationJson::from).collect(),
        violations_more: more,
    })
}

impl PartitionJson {
    fn all(device: &dyn Device) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for (table, partitions) in pagewell_container::partitions(device)? {
            all.extend(partitions.into_iter().map(|partition| Self {
                table,
                number: partition.number,
                start: partition.start,
                length_bytes: partition.length_bytes,
            }));
        }
        Ok(all)
    }

    fn text(&self, out: &mut String) {
        let (table, number, start) = (self.table, self.number, self.start);
        let length = size::display(self.length_bytes);
        let _ = writeln!(
            out,
            "  partition {number} ({table}): {length} at byte {start}"
        );
    }
}

impl TreeJson {
    fn of(tree: &TreeChecked, disc: &Disc) -> Self {
        let counts = &tree.walked.counts;
        Self {
            tree: tree.name.title(),
            is_served: tree.name == disc.chosen(),
            directories: counts.directories,
            files: counts.files,
            links: counts.links,
            others: counts.others,
            bytes: counts.bytes,
            with_streams: tree.walked.unshown.with_streams,
            with_attributes: tree.walked.unshown.with_attributes,
            unreadable: (&tree.walked.unreadable).into(),
            only_there: (&tree.lacking).into(),
        }
    }

    fn text(&self, out: &mut String) {
        let served = if self.is_served { " (served)" } else { "" };
        let size = size::display(self.bytes);
        let (directories, files, links) = (self.directories, self.files, self.links);
        let others = match self.others {
            0 => String::new(),
            count => format!(", devices and pipes {count}"),
        };
        let _ = writeln!(
            out,
            "  {}{served}: directories {directories}, files {files} ({size}), \
             links {links}{others}",
            self.tree
        );
        for (count, what) in [
            (self.with_streams, "named streams"),
            (self.with_attributes, "extended attributes"),
        ] {
            if count > 0 {
                let _ = writeln!(
                    out,
                    "    names of objects with {what}, which are not shown: {count}"
                );
            }
        }
        for (troubles, title) in [
            (&self.unreadable, "cannot be read"),
            (&self.only_there, "only in this tree"),
        ] {
            troubles.text(title, out);
        }
    }
}

impl TroublesJson {
    fn text(&self, title: &str, out: &mut String) {
        if self.count == 0 {
            return;
        }
        let _ = writeln!(out, "    {title}: {}", self.count);
        for line in &self.first {
            let _ = writeln!(out, "      {line}");
        }
    }
}

impl From<&Troubles> for TroublesJson {
    fn from(troubles: &Troubles) -> Self {
        Self {
            count: troubles.count,
            first: troubles.lines.clone(),
        }
    }
}

impl From<Violation> for ViolationJson {
    fn from(violation: Violation) -> Self {
        Self {
            offset: violation.offset,
            clause: violation.clause,
            text: violation.text,
        }
    }
}

impl CheckJson {
    fn text(&self) -> String {
        let mut out = format!("{}: {}\n", self.source, self.facts.line());
        for line in self.notes.iter().chain(&self.facts.lines()) {
            let _ = writeln!(out, "  {line}");
        }
        for partition in &self.partitions {
            partition.text(&mut out);
        }
        for tree in &self.trees {
            tree.text(&mut out);
        }
        for violation in &self.violations {
            let (offset, clause, text) = (violation.offset, violation.clause, &violation.text);
            let _ = writeln!(out, "  at byte {offset}: {clause}: {text}");
        }
        if self.violations_more > 0 {
            let more = self.violations_more;
            let _ = writeln!(out, "  and {more} more than these {VIOLATIONS_MAX}");
        }
        let _ = writeln!(out, "  {}", self.verdict());
        out
    }

    fn verdict(&self) -> &'static str {
        match (self.is_readable, self.is_sound) {
            (_, true) => "sound",
            (true, false) => "everything can be read, but it departs from its format",
            (false, false) => "not everything can be read",
        }
    }
}
