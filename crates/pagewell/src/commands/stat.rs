//! `pagewell stat`.

use std::ffi::OsString;
use std::io::Write;

use anyhow::Context;
use clap::Args;
use pagewell_fs::{Entry, FileType, Statistics};
use pagewell_tree::{mode_text, type_text};
use serde::Serialize;

use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{self, Outcome};
use crate::listing::{self, AttributesJson, TextJson};
use crate::location::{Follow, Location, Place};
use crate::output;
use crate::time_text::nanoseconds;
use pagewell_base::size;

/// Show all attributes of files, and the sizes of the source they are in.
///
/// A symbolic link is shown itself; `LINK/` is what it leads to. Times are UTC.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell stat debian.iso                    the root of an image, and its size
  pagewell stat --json /srv/data/file         for programs")]
pub(crate) struct StatArguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// What to show: SOURCE, SOURCE::/PATH or a local file
    #[arg(value_name = "LOCATION", required = true, value_hint = clap::ValueHint::AnyPath)]
    locations: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Serialize)]
struct StatJson {
    #[serde(flatten)]
    location: TextJson,
    #[serde(flatten)]
    attributes: AttributesJson,
    #[serde(flatten)]
    target: Option<TextJson>,
    source: SourceJson,
}

#[derive(Serialize)]
struct SourceJson {
    description: String,
    read_only: bool,
    bytes_total: u64,
    bytes_available: u64,
    files_total: u64,
    files_available: u64,
}

struct Found {
    place: Place,
    entry: Entry,
    target: Option<Vec<u8>>,
    statistics: Statistics,
}

/// Runs the command.
pub(crate) fn run(arguments: &StatArguments) -> anyhow::Result<Outcome> {
    let locations = Location::parse_all(&arguments.locations)?;
    let engine = Engine::command(&arguments.engine)?;
    let mut out = std::io::stdout().lock();
    let mut failures = 0;
    let mut json = Vec::new();
    for location in &locations {
        match examine(location, &engine) {
            Ok(found) if arguments.json => json.push(found.json()),
            Ok(found) => out.write_all(found.text().as_bytes())?,
            Err(error) => {
                failures += 1;
                failure::report(&failure::one_line(&error));
            }
        }
    }
    if arguments.json {
        output::json(&mut out, &json)?;
    }
    out.flush()?;
    Ok(Outcome::from_failures(failures))
}

fn examine(location: &Location, engine: &Engine) -> anyhow::Result<Found> {
    let (place, entry) = location.open_existing(Follow::Never, engine)?;
    let target = if entry.attributes.file_type == FileType::Symlink {
        let target = place.tree.link_target(&entry.id);
        Some(target.with_context(|| place.shown())?)
    } else {
        None
    };
    let statistics = place.tree.filesystem.statistics(&place.tree.call());
    Ok(Found {
        statistics: statistics.with_context(|| place.shown())?,
        place,
        entry,
        target,
    })
}

impl Found {
    fn json(&self) -> StatJson {
        let target = self.target.as_deref();
        let filesystem = &self.place.tree.filesystem;
        StatJson {
            location: TextJson::new("location", &self.place.label),
            attributes: (&self.entry.attributes).into(),
            target: target.map(|target| TextJson::new("target", target)),
            source: SourceJson {
                description: filesystem.describe(),
                read_only: filesystem.limits().read_only,
                bytes_total: self.statistics.bytes_total,
                bytes_available: self.statistics.bytes_available,
                files_total: self.statistics.files_total,
                files_available: self.statistics.files_available,
            },
        }
    }

    fn text(&self) -> String {
        let attributes = &self.entry.attributes;
        let filesystem = &self.place.tree.filesystem;
        let mut rows = vec![
            ("location", self.place.shown()),
            ("type", type_text(attributes.file_type).to_owned()),
            (
                "size",
                format!("{} bytes, {} used", attributes.size, attributes.used),
            ),
            (
                "mode",
                format!("{:04o} {}", attributes.mode, mode_text(attributes)),
            ),
            ("links", attributes.link_count.to_string()),
            ("owner", format!("{}:{}", attributes.uid, attributes.gid)),
            (
                "file id",
                format!(
                    "{} in {:016x}",
                    attributes.file_id, attributes.filesystem_id
                ),
            ),
            ("accessed", nanoseconds(attributes.accessed)),
            ("modified", nanoseconds(attributes.modified)),
            ("changed", nanoseconds(attributes.changed)),
        ];
        if listing::is_device(attributes) {
            let (major, minor) = attributes.device;
            rows.push(("device", format!("{major}, {minor}")));
        }
        if let Some(target) = &self.target {
            rows.push(("target", escape::text(target)));
        }
        let access = if filesystem.limits().read_only {
            "read-only"
        } else {
            "writable"
        };
        rows.push((
            "source",
            format!(
                "{}, {access}, {} with {} available",
                escape::text(filesystem.describe().as_bytes()),
                size::display(self.statistics.bytes_total),
                size::display(self.statistics.bytes_available),
            ),
        ));
        let line = |(name, value): (&str, String)| format!("{name:>9}: {value}\n");
        rows.into_iter().map(line).collect()
    }
}
