//! SIGHUP with `--config`, and `pagewell reload`: reads the file again, and changes what can
//! change.
//!
//! Rule: all that can fail comes first, up to opening new sources; then all exports are replaced at
//! once. After a failure nothing has changed. A source that goes on to be served is not opened
//! again, whichever export has it. Others are closed when the calls that use them have ended, on
//! threads of their own.
//!
//! Known weaknesses: while a source is being closed, its image cannot be opened for writing. An
//! image that was served for reading, and is now to be written, is opened a second time, and its
//! pages are read again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anyhow::Context;
use pagewell_base::network::Network;
use pagewell_base::sync::Mutex;
use pagewell_logging::AuditPlace;
use pagewell_monitor::status::Status;
use pagewell_nfsd::{Exports, watch_calls};
use serde_json::Value;

use super::closing::Closing;
use super::opened::OpenExport;
use super::watch::Watch;
use crate::configuration::allow::Hosts;
use crate::configuration::arguments::ServeArguments;
use crate::configuration::limits;
use crate::configuration::log::LogSettings;
use crate::configuration::picker::{Entry, Section};
use crate::configuration::settings::{ExportSettings, Settings};
use crate::engine::Engine;
use crate::escape;
use crate::failure::{note, one_line, report};
use crate::sandbox;
use crate::service_manager::Notifier;

/// What the log contains when nothing is asked for.
const USUAL_LEVELS: &str = "info";

const FORMAT: &str = "format";

/// What is served, and what a reload needs to change it.
pub(super) struct Reloader {
    pub(super) arguments: ServeArguments,
    pub(super) engine: Engine,
    pub(super) exports: Exports,
    pub(super) address: SocketAddr,
    pub(super) served: Vec<OpenExport>,
    pub(super) hosts: Hosts,
    /// As at the start; of exports, limits and what a reload changes of the log, as now.
    pub(super) entries: Vec<Entry>,
    pub(super) log: LogSettings,
    pub(super) closing: Closing,
    pub(super) notifier: Notifier,
    pub(super) shown: Arc<Status>,
    pub(super) watch: Watch,
}

/// Reloads, one at a time, as long as the server runs.
#[derive(Clone)]
pub(super) struct Reloading(Arc<Mutex<Option<Reloader>>>);

impl Reloading {
    pub(super) fn new(reloader: Reloader) -> Self {
        Self(Arc::new(Mutex::new(Some(reloader))))
    }

    /// Starts the thread that reloads when a signal asks for it.
    pub(super) fn start(&self, asked: Receiver<()>) -> anyhow::Result<()> {
        let thread = std::thread::Builder::new().name("reload".to_owned());
        let reloading = self.clone();
        let run = move || {
            while asked.recv().is_ok() {
                // It has reported its error.
                let _ = reloading.reload();
            }
        };
        thread.spawn(run).context("cannot start a thread")?;
        Ok(())
    }

    /// Reloads; logs and returns what came of it.
    pub(super) fn reload(&self) -> Result<String, String> {
        match &mut *self.0.lock() {
            Some(reloader) => reloader.reload_and_say(),
            None => Err("the server is stopping".to_owned()),
        }
    }

    /// Lets go of what is served. Does not wait for a reload at work, whose source may be silent:
    /// it changes nothing once the server stops.
    pub(super) fn stop(&self) {
        if let Some(mut reloader) = self.0.try_lock() {
            *reloader = None;
        }
    }
}

impl Reloader {
    fn reload_and_say(&mut self) -> Result<String, String> {
        if self.arguments.config.is_none() {
            return Err("there is no file to read again: it serves without --config".to_owned());
        }
        self.notifier.reloading();
        let outcome = self.reload().map_err(|error| {
            // They are of sources that were opened in vain.
            self.engine.take_new_notes();
            let error = one_line(&error);
            format!("not reloaded, nothing has changed: {error}")
        });
        match &outcome {
            Ok(line) => note(line),
            Err(line) => report(line),
        }
        self.notifier.ready(&self.status());
        outcome
    }

    pub(super) fn status(&self) -> String {
        let (count, address) = (self.served.len(), self.address);
        let plural = if count == 1 { "" } else { "s" };
        format!("serving {count} export{plural} at {address}")
    }

    /// Reads the configuration again and serves by it. Returns a line on what has changed.
    ///
    /// # Errors
    ///
    /// What is wrong: nothing has changed.
    fn reload(&mut self) -> anyhow::Result<String> {
        let settings = Settings::load(&self.arguments)?;
        let (hosts, warnings) = settings.look_up_hosts();
        let audit = self.next_audit(&settings.log)?;
        let next = self.next(&settings.exports)?;
        let retired = self
            .exports
            .replace(next.iter().map(|export| export.export(&hosts)).collect())?;
        for line in warnings.into_iter().chain(self.engine.take_new_notes()) {
            report(&line);
        }
        self.exports.limit_clients(settings.limits);
        self.shown.set_client_limits(limits::shown(settings.limits));
        self.set_log(&settings, audit)?;
        let before = std::mem::replace(&mut self.served, next);
        self.served.iter().for_each(OpenExport::limit_dirty);
        self.watch.show(&self.served);
        let said = self.said(&before, &settings, &hosts);
        self.hosts = hosts;
        drop(before);
        for retired in retired {
            self.closing.begin(retired);
        }
        Ok(said)
    }

    /// The new place of the audit log, open, if it has changed.
    fn next_audit(&self, log: &LogSettings) -> anyhow::Result<Option<AuditPlace>> {
        if log.audit == self.log.audit {
            return Ok(None);
        }
        if let Some(file) = log.audit_file() {
            sandbox::admit_file(file).context("audit log")?;
        }
        let place = AuditPlace::open(log.audit.as_ref())?;
        Ok(Some(place))
    }

    /// Sets the log as wanted, but for its form.
    fn set_log(&mut self, settings: &Settings, audit: Option<AuditPlace>) -> anyhow::Result<()> {
        let log = &settings.log;
        if log.levels != self.log.levels {
            let levels = log.levels.as_deref().unwrap_or(USUAL_LEVELS);
            pagewell_logging::set_filter(levels).map_err(anyhow::Error::msg)?;
        }
        if let Some(place) = audit {
            pagewell_logging::set_audit(place);
        }
        watch_calls(log.slow, settings.audits());
        self.log = log.clone();
        Ok(())
    }

    /// What is to be served, with open sources where they can serve it.
    fn next(&self, wanted: &[ExportSettings]) -> anyhow::Result<Vec<OpenExport>> {
        let mut wanted = wanted.to_vec();
        let mut free: Vec<&OpenExport> = self.served.iter().collect();
        let mut kept = Vec::new();
        for settings in &mut wanted {
            let name = &settings.argument.name;
            let before = self
                .served
                .iter()
                .find(|export| export.settings.argument.name == *name);
            if let Some(before) = before {
                // Clients know positions in directories by these numbers.
                settings.cookies_32bit = before.settings.cookies_32bit;
            }
            let same = before.filter(|export| export.can_serve(settings));
            if let Some(same) = same {
                // A new cache would lose what is in it, also what waits to be written.
                settings.cache_bytes = same.settings.cache_bytes;
                free.retain(|export| !std::ptr::eq(*export, same));
            }
            kept.push(same);
        }
        let mut renamed = |settings: &ExportSettings| {
            let at = free.iter().position(|export| {
                export.settings.cache_bytes == settings.cache_bytes && export.can_serve(settings)
            });
            at.map(|at| free.remove(at))
        };
        let mut next = Vec::new();
        for (settings, same) in wanted.iter().zip(kept) {
            next.push(match same.or_else(|| renamed(settings)) {
                Some(open) => open.with(settings)?,
                None => OpenExport::open(settings, &self.engine)?,
            });
        }
        Ok(next)
    }

    /// What has changed, and what has not although the file says so.
    fn said(&mut self, before: &[OpenExport], settings: &Settings, hosts: &Hosts) -> String {
        let names = |exports: &[OpenExport]| -> BTreeSet<String> {
            exports
                .iter()
                .map(|one| one.settings.argument.name.clone())
                .collect()
        };
        let (old, new) = (names(before), names(&self.served));
        let mut parts = Vec::new();
        let added: Vec<&str> = new.difference(&old).map(|name| &**name).collect();
        if !added.is_empty() {
            parts.push(format!("added {}", added.join(", ")));
        }
        let keys = |section: &Section| changed_keys(&self.entries, &settings.entries, section);
        let mut late = keys(&Section::Server);
        let mut log = keys(&Section::Log);
        late.extend(log.take(FORMAT));
        let mut changed = Vec::new();
        if !log.is_empty() {
            changed.push(format!("log ({})", joined(&log)));
        }
        let limits = keys(&Section::Limits);
        if !limits.is_empty() {
            changed.push(format!("limits ({})", joined(&limits)));
        }
        for name in new.intersection(&old) {
            let mut keys = keys(&Section::Export(name.clone()));
            if log.contains("audit") {
                // Reported of the log; of an export only what is its own.
                keys.remove("audit");
            }
            for key in ["cookies_32bit", "cache"] {
                if keys.remove(key) {
                    late.insert(key);
                }
            }
            let of = |all: &[OpenExport], hosts: &Hosts| -> Vec<Network> {
                let found = all.iter().find(|one| one.settings.argument.name == *name);
                found
                    .map(|one| one.settings.networks(hosts))
                    .unwrap_or_default()
            };
            if of(before, &self.hosts) != of(&self.served, hosts) {
                keys.insert("allow");
            }
            if !keys.is_empty() {
                changed.push(format!("{name} ({})", joined(&keys)));
            }
        }
        if !changed.is_empty() {
            parts.push(format!("changed {}", changed.join(", ")));
        }
        let removed: Vec<&str> = old.difference(&new).map(|name| &**name).collect();
        if !removed.is_empty() {
            parts.push(format!("removed {}", removed.join(", ")));
        }
        if parts.is_empty() {
            parts.push("no export has changed".to_owned());
        }
        if !late.is_empty() {
            parts.push(format!("needs a restart: {}", joined(&late)));
        }
        // What needs a restart is compared with the start of the server.
        self.entries.retain(|entry| !changes_at_once(entry));
        let now = settings.entries.iter().filter(|one| changes_at_once(one));
        self.entries.extend(now.cloned());
        format!("reloaded: {}", escape::text(parts.join("; ").as_bytes()))
    }
}

fn joined(keys: &BTreeSet<&'static str>) -> String {
    keys.iter().copied().collect::<Vec<_>>().join(", ")
}

fn changes_at_once(entry: &Entry) -> bool {
    match entry.section {
        Section::Server | Section::Mount(_) => false,
        Section::Log => entry.key != FORMAT,
        Section::Limits | Section::Export(_) => true,
    }
}

/// The keys of a table whose values differ.
fn changed_keys(before: &[Entry], after: &[Entry], section: &Section) -> BTreeSet<&'static str> {
    let of = |entries: &[Entry], key: &str| -> Option<Value> {
        let is_it = |entry: &&Entry| entry.section == *section && entry.key == key;
        entries.iter().find(is_it).map(|entry| entry.value.clone())
    };
    let all = before.iter().chain(after);
    let keys = all.filter(|entry| entry.section == *section);
    let keys: BTreeSet<&'static str> = keys.map(|entry| entry.key).collect();
    // A label that is missing and one that is not set are the same.
    let value = |entries: &[Entry], key| of(entries, key).unwrap_or(Value::Null);
    let differs = |key: &&'static str| value(before, key) != value(after, key);
    keys.into_iter().filter(differs).collect()
}
