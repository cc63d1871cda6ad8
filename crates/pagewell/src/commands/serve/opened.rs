//! An export with its open source.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use pagewell_base::size;
use pagewell_cache::DirtyLimit;
use pagewell_fs::FileSystem;
use pagewell_monitor::status::{ExportStatus, Warnings};
use pagewell_nfsd::{Export, Squash};

use super::watch::ExportWatch;
use crate::configuration::allow::Hosts;
use crate::configuration::limits;
use crate::configuration::settings::ExportSettings;
use crate::engine::Engine;
use crate::escape;
use crate::open::{self, Purpose, Writes};
use crate::sandbox;

pub(super) struct OpenExport {
    pub(super) settings: ExportSettings,
    pub(super) filesystem: Arc<dyn FileSystem>,
    /// What is known of the export while it is served.
    pub(super) watch: Arc<ExportWatch>,
    /// Limits dirty memory, if the export is written through the page cache.
    dirty_limit: Option<DirtyLimit>,
    writes: Writes,
    /// Whether the source is the same whatever it is opened for.
    serves_all: bool,
    pub(super) is_local: bool,
}

fn writes_of(settings: &ExportSettings) -> Writes {
    Writes::of(settings.read_only, settings.writable)
}

/// Refuses a limit of dirty memory where there is none.
fn check_dirty(settings: &ExportSettings, dirty_limit: Option<&DirtyLimit>) -> anyhow::Result<()> {
    if settings.dirty_bytes_max.is_some() && dirty_limit.is_none() {
        let name = &settings.argument.name;
        bail!(
            "export {name}: dirty is for images and exports of other servers, which are written \
             through the page cache; leave it out"
        );
    }
    Ok(())
}

/// Opens the source, with a page cache of its own if the settings say so.
fn open_source(settings: &ExportSettings, engine: &Engine) -> anyhow::Result<open::Opened> {
    let argument = &settings.argument;
    let shown = argument.text.to_string_lossy();
    let purpose = Purpose::Serve(writes_of(settings));
    let Some(cache_bytes) = settings.cache_bytes else {
        return argument.source.open(&shown, purpose, engine);
    };
    let name = &argument.name;
    let own = engine
        .of_export(cache_bytes)
        .with_context(|| format!("export {name}"))?;
    let opened = argument.source.open(&shown, purpose, &own)?;
    if !own.has_cache() {
        bail!(
            "export {name}: cache is for images and exports of other servers, which are read \
             through the page cache; leave it out"
        );
    }
    for line in own.notes() {
        engine.note(format!("{name}: {line}"));
    }
    Ok(opened)
}

/// A note on a bucket that few clients can change, since it belongs to the server's user; none
/// where the settings ask for that.
fn shuts_out(settings: &ExportSettings, owner: u32, mode: u32) -> Option<String> {
    const OTHERS_WRITE: u32 = 0o002;
    let source = settings.argument.text.to_string_lossy();
    let is_chosen = ["uid=", "dmode="]
        .iter()
        .any(|option| source.contains(option));
    if settings.read_only || is_chosen || mode & OTHERS_WRITE != 0 {
        return None;
    }
    let (anonymous, _) = settings.anonymous;
    let user = match settings.squash {
        Squash::None => return None,
        Squash::All if anonymous == owner => return None,
        Squash::Root if owner != 0 => format!("only user {owner} of clients can change it"),
        Squash::Root => "no client can change it, as it belongs to root".to_owned(),
        Squash::All => format!("no client can change it, as it belongs to user {owner}"),
    };
    Some(format!(
        "{user}: --squash all --anon-uid {owner} lets all, ?uid=N&gid=N behind its source one user"
    ))
}

/// Whether an image that is named to be written can only be read.
fn refuses_writing(settings: &ExportSettings, cannot_be_written: bool) -> bool {
    let kind = settings.argument.source.kind;
    let least = kind.written_for.filter(|_| kind.cache.is_some());
    least.is_some_and(|least| writes_of(settings) >= least) && cannot_be_written
}

impl OpenExport {
    pub(super) fn open(settings: &ExportSettings, engine: &Engine) -> anyhow::Result<Self> {
        let argument = &settings.argument;
        let writes = writes_of(settings);
        sandbox::admit(&argument.source, writes)?;
        let opened = open_source(settings, engine)?;
        let is_local = opened.tree.is_local();
        check_dirty(settings, opened.dirty_limit.as_ref())?;
        if argument.source.is_object() && !opened.tree.filesystem.limits().read_only {
            let root = opened.tree.filesystem.root();
            let root = opened
                .tree
                .filesystem
                .attributes(&opened.tree.call(), &root);
            let line = root.ok();
            let line = line.and_then(|root| shuts_out(settings, root.uid, root.mode));
            let name = &argument.name;
            line.into_iter()
                .for_each(|line| engine.note(format!("{name}: {line}")));
        }
        Ok(Self {
            settings: settings.clone(),
            writes,
            serves_all: is_local || !opened.tree.filesystem.limits().read_only,
            is_local,
            watch: Arc::new(ExportWatch::of(&argument.source)),
            filesystem: opened.tree.filesystem,
            dirty_limit: opened.dirty_limit,
        })
    }

    /// Whether the source can be served on with the settings `wanted`.
    pub(super) fn can_serve(&self, wanted: &ExportSettings) -> bool {
        let is_same = self.settings.argument.source == wanted.argument.source;
        is_same && (self.serves_all || self.writes >= writes_of(wanted))
    }

    pub(super) fn with(&self, settings: &ExportSettings) -> anyhow::Result<Self> {
        check_dirty(settings, self.dirty_limit.as_ref())?;
        Ok(Self {
            settings: settings.clone(),
            filesystem: self.filesystem.clone(),
            watch: self.watch.clone(),
            dirty_limit: self.dirty_limit.clone(),
            ..*self
        })
    }

    pub(super) fn limit_dirty(&self) {
        if let Some(limit) = &self.dirty_limit {
            limit.set(self.settings.dirty_bytes_max);
        }
    }

    fn limits(&self) -> String {
        let dirty = self.settings.dirty_bytes_max;
        let dirty = dirty.map(|bytes| format!("{} dirty", size::display(bytes)));
        let rates = Some(limits::shown(self.settings.limits));
        let rates = rates.filter(|text| !text.is_empty());
        let parts: Vec<String> = rates.into_iter().chain(dirty).collect();
        parts.join(", ")
    }

    pub(super) fn describe(&self) -> (String, String) {
        let description = self.filesystem.describe();
        let description = match &self.settings.label {
            Some(label) => format!("{label}, {description}"),
            None => description,
        };
        let name = self.settings.argument.name.clone();
        (name, escape::text(description.as_bytes()))
    }

    /// What the page shows of it, and what finds its warnings.
    pub(super) fn status(&self) -> (ExportStatus, Warnings) {
        let (name, source) = self.describe();
        let cannot_be_written = self.filesystem.limits().read_only;
        let read_only = self.settings.read_only || cannot_be_written;
        let is_refused = refuses_writing(&self.settings, cannot_be_written);
        let refusal = "it cannot be written: what it lies on, or its permissions, refuse that";
        let status = ExportStatus {
            name,
            source,
            read_only,
            limits: self.limits(),
            warnings: is_refused.then(|| refusal.to_owned()).into_iter().collect(),
        };
        let watch = self.watch.clone();
        (
            status,
            Box::new(move || watch.warnings(!read_only, Instant::now())),
        )
    }

    pub(super) fn export(&self, hosts: &Hosts) -> Export {
        let settings = &self.settings;
        Export {
            read_only: settings.read_only,
            squash: settings.squash,
            anonymous: settings.anonymous,
            allow: settings.networks(hosts),
            secure: settings.secure,
            cookies_32bit: settings.cookies_32bit,
            audit: settings.audit,
            limits: settings.limits,
            faults: self.watch.faults.clone(),
            ..Export::new(&settings.argument.name, self.filesystem.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::settings::Settings;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: crate::configuration::arguments::ServeArguments,
    }

    fn said(words: &[&str], owner: u32, mode: u32) -> Option<String> {
        let words = ["pagewell"].iter().chain(words);
        let line = Line::try_parse_from(words).unwrap();
        let settings = Settings::resolve(&line.serve, None).unwrap();
        shuts_out(&settings.exports[0], owner, mode)
    }

    #[test]
    fn a_bucket_that_clients_cannot_change_is_named_with_a_way() {
        for (words, owner, mode, part) in [
            (&["s3://b"][..], 0, 0o755, Some("no client can change it")),
            (&["s3://b"], 999, 0o755, Some("only user 999 of clients")),
            (&["s3://b"], 0, 0o777, None),
            (&["s3://b?uid=7"], 7, 0o755, None),
            (&["--read-only", "s3://b"], 0, 0o755, None),
            (&["--squash", "none", "s3://b"], 0, 0o755, None),
            (&["--squash", "all", "s3://b"], 65534, 0o755, None),
            (&["--squash", "all", "s3://b"], 0, 0o755, Some("no client")),
        ] {
            let said = said(words, owner, mode);
            match (&said, part) {
                (Some(line), Some(part)) => {
                    assert!(line.contains(part) && line.contains("?uid=N"), "{line}");
                }
                (said, part) => assert_eq!(said.as_deref(), part, "{words:?} {owner}"),
            }
        }
    }
}
