//! What `serve` and `mount` take about their log.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pagewell_base::duration;
use pagewell_logging::{Audit, Filter, Format, Options};
use pagewell_nfsd::service::observed::watch_calls;

use crate::failure::usage;
use crate::values;

/// The variable that says what `--log` does not.
const VARIABLE: &str = "PAGEWELL_LOG";

/// Options of what runs for long.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for the log")]
pub(crate) struct LogArguments {
    /// What the log contains: off, error, warn, info, debug or trace, and for single crates as in
    /// warn,nfsd=debug. Each line has its time, level and crate then [default: $PAGEWELL_LOG, or
    /// info]
    #[arg(long, value_name = "LEVEL|CRATE=LEVEL,...", value_parser = Filter::parse)]
    log: Option<Filter>,
    /// How the log is written
    #[arg(long, value_name = "FORMAT", default_value = "text",
        value_parser = values::choice(&FORMATS))]
    log_format: Format,
}

/// Options of a server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for the log")]
pub(crate) struct CallLogArguments {
    /// Write calls that take as long as this, such as 100ms, to the log at level warn
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    slow: Option<Duration>,
    /// Record what changes something: for whom, where, and what came of it, in the log or in a file
    #[arg(long, value_name = "FILE|log", value_parser = parse_audit)]
    audit: Option<Audit>,
}

fn parse_audit(text: &str) -> Result<Audit, String> {
    match text {
        "" => Err("the name of a file, or log, is wanted".to_owned()),
        "log" => Ok(Audit::Log),
        path => Ok(Audit::File(path.into())),
    }
}

impl CallLogArguments {
    /// The file in which changes are recorded, if they are.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.audit {
            Some(Audit::File(path)) => Some(path),
            Some(Audit::Log) | None => None,
        }
    }

    /// Whether changes are recorded.
    pub(crate) fn audits(&self) -> bool {
        self.audit.is_some()
    }
}

const FORMATS: [(&str, Format, &str); 3] = [
    ("text", Format::Text, "Lines for people, on standard error"),
    (
        "json",
        Format::Json,
        "A JSON object on each line, on standard error",
    ),
    (
        "journald",
        Format::Journald,
        "To the journal, with its fields",
    ),
];

impl LogArguments {
    /// The log is as wanted from here on.
    pub(crate) fn begin(&self) -> anyhow::Result<()> {
        self.configure(None)
    }

    /// The same, of a server.
    pub(crate) fn begin_with(&self, calls: &CallLogArguments) -> anyhow::Result<()> {
        self.configure(calls.audit.clone())?;
        watch_calls(calls.slow, calls.audits());
        Ok(())
    }

    fn configure(&self, audit: Option<Audit>) -> anyhow::Result<()> {
        let filter = match &self.log {
            Some(filter) => Some(filter.clone()),
            None => from_variable()?,
        };
        let format = match (self.log_format, &filter) {
            // Whoever asks for nothing gets the lines that a command writes.
            (Format::Text, None) => Format::Plain,
            (format, _) => format,
        };
        let options = Options {
            filter: filter.unwrap_or_default(),
            format,
            audit,
        };
        pagewell_logging::configure(&options).context("the log")
    }
}

fn from_variable() -> anyhow::Result<Option<Filter>> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let filter = Filter::parse(&text);
    filter
        .map(Some)
        .map_err(|error| usage(format!("{VARIABLE}: {error}")))
}
