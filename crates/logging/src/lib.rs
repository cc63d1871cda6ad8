//! Where the log goes, and in which form.
//!
//! Crates log with the macros of `tracing`. A program first calls [`start`]: `pagewell: MESSAGE` to
//! standard error; long-running commands then call [`configure`]. For users: `docs/LOGGING.md`.
//!
//! An event has a complete message for people, and fields, with those of its spans, for programs
//! (JSON and the journal). Events that clients can cause have a field `limit`, their subject; see
//! [`limiter`].
//!
//! Weakness: the causing thread formats and writes. A stalled reader of the log costs it
//! [`output::WAIT`] once; then lines are lost and counted.

pub mod audit;
pub mod filter;
pub mod format;
mod layer;
pub mod limiter;
pub mod output;
mod record;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tracing_subscriber::layer::SubscriberExt;

pub use filter::Filter;
pub use format::Format;

use crate::audit::AuditFile;
use crate::layer::{Log, LogLayer};
use crate::output::Output;

/// The target of audit events.
pub const AUDIT: &str = "audit";

/// Where the audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audit {
    /// To the log, at level info.
    Log,
    /// To a file, a JSON object for each line.
    File(PathBuf),
}

/// The settings of the log.
#[derive(Clone, Debug)]
pub struct Options {
    /// The levels.
    pub filter: Filter,
    /// The form.
    pub format: Format,
    /// The audit log, if any.
    pub audit: Option<Audit>,
}

static LOG: OnceLock<Arc<Log>> = OnceLock::new();

/// Logs `pagewell: MESSAGE` to standard error. Later calls change nothing.
pub fn start() {
    let log = LOG.get_or_init(|| Arc::new(Log::new(Output::StandardError)));
    let subscriber = tracing_subscriber::registry().with(LogLayer(log.clone()));
    // An earlier call, or an embedding program, may have set one.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Applies the options.
///
/// # Errors
///
/// No journal, or the audit file cannot be opened; nothing changes.
pub fn configure(options: &Options) -> std::io::Result<()> {
    start();
    let Some(log) = LOG.get() else {
        return Ok(());
    };
    let output = match options.format {
        Format::Journald => Output::journal()?,
        Format::Plain | Format::Text | Format::Json => Output::StandardError,
    };
    let audit = AuditPlace::open(options.audit.as_ref())?;
    log.set_output(output, options.format, audit.0);
    log.set_filter(options.filter.clone());
    Ok(())
}

/// Replaces the levels ([`Filter::parse`]).
///
/// # Errors
///
/// What is wrong with `text`; nothing changes.
pub fn set_filter(text: &str) -> Result<(), String> {
    let filter = Filter::parse(text)?;
    if let Some(log) = LOG.get() {
        log.set_filter(filter);
    }
    Ok(())
}

/// An open destination of the audit log.
#[derive(Debug)]
pub struct AuditPlace(Option<AuditFile>);

impl AuditPlace {
    /// Opens the audit file, if there is one.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or its thread cannot start.
    pub fn open(audit: Option<&Audit>) -> std::io::Result<Self> {
        match audit {
            Some(Audit::File(path)) => AuditFile::start(path).map(Some).map(Self),
            Some(Audit::Log) | None => Ok(Self(None)),
        }
    }
}

/// Replaces the destination of the audit log; earlier lines stay in the old one.
pub fn set_audit(place: AuditPlace) {
    if let Some(log) = LOG.get() {
        log.set_audit_file(place.0);
    }
}

/// Whether lines are text for people on standard error.
#[must_use]
pub fn is_text() -> bool {
    let format = LOG.get().map(|log| log.format());
    matches!(format, None | Some(Format::Plain | Format::Text))
}

/// Writes out the audit log's queue, within a bounded time.
pub fn finish() {
    if let Some(log) = LOG.get() {
        log.finish();
    }
}
