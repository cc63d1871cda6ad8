//! `pagewell stat`.

use std::ffi::OsString;

use anyhow::Context;
use clap::Args;
use pagewell_base::size;
use pagewell_fs::{Attributes, FileType};
use pagewell_object_client::{Class, Location as RemoteLocation, Options};
use pagewell_source_object::KeptProbe;
use pagewell_tree::{mode_text, type_text};
use serde::Serialize;

use crate::disc_facts::DiscFacts;
use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{self, Outcome};
use crate::listing::{self, AttributesJson, TextJson};
use crate::location::{Follow, Location};
use crate::output;
use crate::state;
use crate::time_text::nanoseconds;
use crate::writing_arguments::kept_probes;

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
    /// Absent for a bucket whose store was not asked.
    read_only: Option<bool>,
    bytes_total: u64,
    bytes_available: u64,
    files_total: u64,
    files_available: u64,
    #[serde(flatten)]
    bucket: Option<BucketJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disc: Option<DiscFacts>,
}

#[derive(Serialize)]
struct BucketJson {
    /// What fsync waits for.
    ack: &'static str,
    /// The store's class; absent where it was not asked.
    class: Option<&'static str>,
    #[serde(skip)]
    read_only: Option<bool>,
}

pub(crate) fn run(arguments: &StatArguments) -> anyhow::Result<Outcome> {
    let locations = Location::parse_all(&arguments.locations)?;
    let engine = Engine::command(&arguments.engine, Location::are_remote(&locations))?;
    let mut failures = 0;
    let mut json = Vec::new();
    for location in &locations {
        match examine(location, &engine) {
            Ok((found, _)) if arguments.json => json.push(found),
            Ok((found, attributes)) => output::print(found.text(&attributes).as_bytes())?,
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

fn examine(location: &Location, engine: &Engine) -> anyhow::Result<(StatJson, Attributes)> {
    let (place, entry) = location.open_existing(Follow::Never, engine)?;
    let shown = || place.shown();
    let target = if entry.attributes.file_type == FileType::Symlink {
        let target = place.tree.link_target(&entry.id).with_context(shown)?;
        Some(TextJson::new("target", &target))
    } else {
        None
    };
    let filesystem = &place.tree.filesystem;
    let statistics = filesystem.statistics(&place.tree.call());
    let statistics = statistics.with_context(shown)?;
    let bucket = location.bucket_url().filter(|_| !place.is_image);
    let bucket = bucket.and_then(BucketJson::of);
    // This command opens a bucket to read; whether others may write depends on the class.
    let read_only = match &bucket {
        Some(bucket) => bucket.read_only,
        None => Some(filesystem.limits().read_only),
    };
    let found = StatJson {
        location: TextJson::new("location", &place.label),
        attributes: (&entry.attributes).into(),
        target,
        source: SourceJson {
            description: filesystem.describe(),
            read_only,
            bytes_total: statistics.bytes_total,
            bytes_available: statistics.bytes_available,
            files_total: statistics.files_total,
            files_available: statistics.files_available,
            bucket,
            disc: place.disc.clone(),
        },
    };
    Ok((found, entry.attributes))
}

impl BucketJson {
    fn of(url: &str) -> Option<Self> {
        let mut options = Options::default();
        RemoteLocation::parse(url, &mut options).ok()?;
        let folder = state::base_directory().as_deref().map(kept_probes);
        let kept = folder.and_then(|folder| KeptProbe::of_url(url, &folder));
        let class = kept.map(|kept| kept.class());
        Some(Self::new(options.handling.acknowledge.name(), class))
    }

    fn new(ack: &'static str, class: Option<Class>) -> Self {
        let is_guarded = |class| matches!(class, Class::Guarded | Class::GuardedButDeletes);
        Self {
            ack,
            class: class.map(Class::name),
            read_only: class.map(|class| !is_guarded(class)),
        }
    }

    fn text(&self) -> String {
        let class = self.class.unwrap_or("not asked (pagewell probe asks)");
        let read_only = match self.read_only {
            Some(true) => ": read-only without --object-writes unguarded",
            Some(false) | None => "",
        };
        format!("ack={}, class: {class}{read_only}", self.ack)
    }
}

impl StatJson {
    fn text(&self, attributes: &Attributes) -> String {
        let mut rows = vec![
            ("location", self.location.shown()),
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
            rows.push(("target", target.shown()));
        }
        rows.extend(self.source.rows());
        let line = |(name, value): (&str, String)| format!("{name:>9}: {value}\n");
        rows.into_iter().map(line).collect()
    }
}

impl SourceJson {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let description = escape::text(self.description.as_bytes());
        if let Some(bucket) = &self.bucket {
            // It has no size.
            return vec![("source", description), ("writing", bucket.text())];
        }
        let access = match self.read_only {
            Some(true) => "read-only",
            Some(false) | None => "writable",
        };
        let (total, available) = (self.bytes_total, self.bytes_available);
        let [total, available] = [total, available].map(size::display);
        let text = format!("{description}, {access}, {total} with {available} available");
        let disc = self.disc.as_ref().map(|disc| ("disc", disc.line()));
        std::iter::once(("source", text)).chain(disc).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(bucket: Option<BucketJson>, read_only: Option<bool>) -> SourceJson {
        SourceJson {
            description: "it".to_owned(),
            read_only,
            bytes_total: 1024,
            bytes_available: 0,
            files_total: 0,
            files_available: 0,
            bucket,
            disc: None,
        }
    }

    #[test]
    fn a_bucket_is_said_to_be_what_its_class_lets_others_do() {
        for (class, read_only, text) in [
            (None, None, "class: not asked (pagewell probe asks)"),
            (Some(Class::Guarded), Some(false), "class: guarded"),
            (
                Some(Class::Unguarded),
                Some(true),
                "class: unguarded: read-only without --object-writes unguarded",
            ),
        ] {
            let bucket = BucketJson::new("store", class);
            assert_eq!(bucket.read_only, read_only);
            let rows = source(Some(bucket), read_only).rows();
            let writing = ("writing", format!("ack=store, {text}"));
            assert_eq!(rows, [("source", "it".to_owned()), writing]);
        }
        let rows = source(None, Some(true)).rows();
        let text = "it, read-only, 1.0 KiB with 0 B available";
        assert_eq!(rows, [("source", text.to_owned())]);
    }
}
