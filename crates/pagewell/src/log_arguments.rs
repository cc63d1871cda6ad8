//! Options of `serve` and `mount` for their log.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pagewell_base::duration;
use pagewell_logging::{Audit, Filter, Format, Options};

use crate::failure::usage;
use crate::values;

/// The variable for the levels, without `--log`.
const VARIABLE: &str = "PAGEWELL_LOG";

/// Options of what runs for long.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for the log")]
pub(crate) struct LogArguments {
    /// What the log contains: off, error, warn, info, debug or trace, and for single crates as in
    /// warn,nfsd=debug. Each line has its time, level and crate then [default: $PAGEWELL_LOG, or
    /// info]
    #[arg(long = "log", value_name = "LEVEL|CRATE=LEVEL,...", value_parser = parse_levels)]
    pub(crate) levels: Option<String>,
    /// How the log is written [default: text]
    #[arg(long = "log-format", value_name = "FORMAT", value_parser = values::choice(&FORMATS))]
    pub(crate) format: Option<Format>,
}

/// Options of a server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for the log")]
pub(crate) struct CallLogArguments {
    /// Write calls that take as long as this, such as 100ms, to the log at level warn
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) slow: Option<Duration>,
    /// Record what changes something: for whom, where, and what came of it, in the log or in a file
    #[arg(long, value_name = "FILE|log", value_parser = parse_audit)]
    pub(crate) audit: Option<Audit>,
}

/// Parses the place of the audit log.
pub(crate) fn parse_audit(text: &str) -> Result<Audit, String> {
    match text {
        "" => Err("the name of a file, or log, is wanted".to_owned()),
        "log" => Ok(Audit::Log),
        path => Ok(Audit::File(path.into())),
    }
}

fn parse_levels(text: &str) -> Result<String, String> {
    Filter::parse(text).map(|_| text.to_owned())
}

pub(crate) const FORMATS: [(&str, Format, &str); 3] = [
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
    pub(crate) fn begin(&self) -> anyhow::Result<()> {
        let levels = match &self.levels {
            Some(levels) => Some(levels.clone()),
            None => from_variable()?,
        };
        begin(levels.as_deref(), self.format.unwrap_or(Format::Text), None)
    }
}

/// Starts the log as wanted. `levels` as for [`Filter::parse`].
pub(crate) fn begin(
    levels: Option<&str>,
    format: Format,
    audit: Option<Audit>,
) -> anyhow::Result<()> {
    let filter = levels.map(Filter::parse).transpose().map_err(usage)?;
    let format = match (format, &filter) {
        // Without options the log has the lines of a command.
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

/// The levels of the variable, if it is set. An error if it is wrong.
pub(crate) fn from_variable() -> anyhow::Result<Option<String>> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let levels = parse_levels(&text);
    levels
        .map(Some)
        .map_err(|error| usage(format!("{VARIABLE}: {error}")))
}
