//! What `serve` and `mount` take about their log.

use anyhow::Context;
use clap::Args;
use pagewell_logging::{Filter, Format, Options};

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
            audit: None,
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
