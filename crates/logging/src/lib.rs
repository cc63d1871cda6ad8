//! Where the lines of the log go, and in which form.
//!
//! Every crate says what it has to say with the macros of `tracing`, and knows nothing of this one.
//! The program calls [`start`] first, which writes `pagewell: MESSAGE` to standard error; what
//! serves for long calls [`configure`] then. `docs/LOGGING.md` has what people need to know of it.
//!
//! An event has a message, which says all to people, and fields for programs. The texts show the
//! message alone; JSON and the journal have the fields too, with those of the spans around it.
//! Events that clients can cause have a field `limit`: who or what they are about. See [`limiter`].
//!
//! Known weakness: an event is formatted and written by the thread that causes it. A reader of the
//! log that takes nothing costs that thread [`output::WAIT`], once; then lines are lost, and
//! counted.

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

/// The target of the events of the audit log.
pub const AUDIT: &str = "audit";

/// Where the audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audit {
    /// Into the log, at level info.
    Log,
    /// Into a file, a JSON object on each line.
    File(PathBuf),
}

/// What is wanted of the log.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is written.
    pub filter: Filter,
    /// How.
    pub format: Format,
    /// Where the audit log goes, if there is one.
    pub audit: Option<Audit>,
}

static LOG: OnceLock<Arc<Log>> = OnceLock::new();

/// Writes what is said to standard error, as `pagewell: MESSAGE`. Later calls change nothing.
pub fn start() {
    let log = LOG.get_or_init(|| Arc::new(Log::new(Output::StandardError)));
    let subscriber = tracing_subscriber::registry().with(LogLayer(log.clone()));
    // Set before: by an earlier call, or by the program that this is a part of.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Has the log be as wanted, from here on.
///
/// # Errors
///
/// There is no journal, or the file of the audit log cannot be opened. Nothing has changed then.
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

/// Has the log contain what `text` says ([`Filter::parse`]), from here on.
///
/// # Errors
///
/// What is wrong with `text`. Nothing has changed then.
pub fn set_filter(text: &str) -> Result<(), String> {
    let filter = Filter::parse(text)?;
    if let Some(log) = LOG.get() {
        log.set_filter(filter);
    }
    Ok(())
}

/// Where an audit log goes, open.
#[derive(Debug)]
pub struct AuditPlace(Option<AuditFile>);

impl AuditPlace {
    /// Opens the file of the audit log, if it goes into one.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or there is no thread for it.
    pub fn open(audit: Option<&Audit>) -> std::io::Result<Self> {
        match audit {
            Some(Audit::File(path)) => AuditFile::start(path).map(Some).map(Self),
            Some(Audit::Log) | None => Ok(Self(None)),
        }
    }
}

/// Has the audit log go there from here on. What was said before is where it went before.
pub fn set_audit(place: AuditPlace) {
    if let Some(log) = LOG.get() {
        log.set_audit_file(place.0);
    }
}

/// Whether lines go to people: a text on standard error.
#[must_use]
pub fn is_text() -> bool {
    let format = LOG.get().map(|log| log.format());
    matches!(format, None | Some(Format::Plain | Format::Text))
}

/// Brings to the file of the audit log what is on its way there, as far as it can be.
pub fn finish() {
    if let Some(log) = LOG.get() {
        log.finish();
    }
}
