//! `pagewell bench`: experiments, and two results compared.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use pagewell_bench::experiment::{
    Experiment, Options, Session, compare_documents, document, page, text,
};
use pagewell_bench::measure::Environment;

use crate::failure::Outcome;
use crate::values::parse_count;

/// Measure: repeat well-known reports of slow storage, baseline against enhanced.
///
/// Every row says what the device was asked for and what it cost; what must hold is printed as
/// PASS or FAIL, and a FAIL makes the exit code 1.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  pagewell bench hsfs --quick                       a DVD, modelled, in about a minute
  pagewell bench all --repeat 5 --json now.json     everything, for programs
  pagewell bench compare before.json now.json       what has changed?"
)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// The experiment, or `all`
    #[arg(value_name = "EXPERIMENT", required = true, value_parser = parse_experiments)]
    experiments: Option<Experiments>,
    /// Smaller cases: all experiments in three minutes
    #[arg(long)]
    quick: bool,
    /// How often each case runs
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_repeat)]
    repeat: u32,
    /// Begin nothing new after so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "7200", value_parser = parse_seconds)]
    time_max: u32,
    /// Write the result as JSON to a file; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compare two results; proven to be worse gives exit code 1
    Compare {
        /// The result from before
        #[arg(value_name = "A.json")]
        before: PathBuf,
        /// The result in question
        #[arg(value_name = "B.json")]
        after: PathBuf,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Experiments(Vec<Experiment>);

fn parse_experiments(text: &str) -> Result<Experiments, String> {
    if text == "all" {
        return Ok(Experiments(Experiment::ALL.to_vec()));
    }
    let found = Experiment::named(text).map(|one| Experiments(vec![one]));
    found.ok_or_else(|| {
        let names: Vec<_> = Experiment::ALL.iter().map(|one| one.name()).collect();
        format!("there are {} and all", names.join(", "))
    })
}

fn parse_repeat(text: &str) -> Result<u32, String> {
    parse_count(text, 1000)
}

fn parse_seconds(text: &str) -> Result<u32, String> {
    parse_count(text, 1_000_000)
}

/// Runs the command.
pub(crate) fn run(arguments: &BenchArguments) -> anyhow::Result<Outcome> {
    if let Some(BenchCommand::Compare { before, after }) = &arguments.command {
        return compare(before, after);
    }
    let environment = Environment::here();
    let mut session = Session::new(Options {
        quick: arguments.quick,
        repeat: arguments.repeat as usize,
        time_max: Duration::from_secs(arguments.time_max.into()),
        progress: true,
    });
    for experiment in arguments.experiments.iter().flat_map(|list| &list.0) {
        experiment.run(&mut session);
    }
    session.finish();
    let to_output = arguments.json.as_deref() == Some(Path::new("-"));
    let mut out = std::io::stdout().lock();
    if let Some(path) = &arguments.json {
        let value = format!("{:#}\n", document(&environment, &session));
        if to_output {
            out.write_all(value.as_bytes())?;
        } else {
            write(path, &value)?;
        }
    }
    if let Some(path) = &arguments.html {
        write(path, &page(&environment, &session))?;
    }
    if !to_output {
        out.write_all(text(&session).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::from_failures(u64::from(!session.is_good())))
}

fn compare(before: &Path, after: &Path) -> anyhow::Result<Outcome> {
    let found = compare_documents(&read(before)?, &read(after)?).map_err(anyhow::Error::msg)?;
    std::io::stdout().lock().write_all(found.text.as_bytes())?;
    Ok(Outcome::from_failures(found.worse as u64))
}

fn read(path: &Path) -> anyhow::Result<serde_json::Value> {
    let text = fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&text).with_context(|| path.display().to_string())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_names() {
        let all = parse_experiments("all").unwrap();
        assert_eq!(all.0, Experiment::ALL);
        assert_eq!(parse_experiments("hsfs").unwrap().0, [Experiment::Hsfs]);
        let error = parse_experiments("hfs").unwrap_err();
        assert!(error.contains("hsfs") && error.contains("all"), "{error}");
    }
}
