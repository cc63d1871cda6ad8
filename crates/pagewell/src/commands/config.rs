//! `pagewell config`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::configuration::SYSTEM_FILE;
use crate::configuration::arguments::ServeArguments;
use crate::configuration::file::ConfigurationFile;
use crate::configuration::mistakes::Mistakes;
use crate::configuration::mounts::Mounts;
use crate::configuration::settings::Settings;
use crate::configuration::shown;
use crate::failure::{Outcome, report};
use crate::output;

/// Check a configuration file, or show what a server would work by.
///
/// pagewell serve --config FILE works by such a file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell config check                            /etc/pagewell/pagewell.toml
  pagewell config show ./pagewell.toml             what is in force, and where it comes from")]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Check(CheckArguments),
    Show(Box<ShowArguments>),
}

/// Say what is wrong with a configuration file, each mistake as FILE:LINE with what is accepted.
///
/// Nothing is served or opened. Names of hosts that nobody knows are said, and are no mistake. Exit
/// status: 0 it can be served by, 1 it cannot.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell config check
  pagewell config check ./pagewell.toml && kill -HUP $(pidof pagewell)")]
struct CheckArguments {
    /// The file [default: /etc/pagewell/pagewell.toml]
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show what a server would work by, as a configuration file with a remark on each value: default,
/// FILE:LINE, or command line.
///
/// Takes the options of serve. Without --config, a first word that ends in .toml is the
/// configuration file, and with neither that nor a source /etc/pagewell/pagewell.toml is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell config show
  pagewell config show ./pagewell.toml --listen 127.0.0.1:0")]
struct ShowArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    serve: ServeArguments,
}

pub(crate) fn run(arguments: &ConfigArguments) -> anyhow::Result<Outcome> {
    match &arguments.command {
        ConfigCommand::Check(arguments) => check(arguments),
        ConfigCommand::Show(arguments) => show(arguments),
    }
}

fn check(arguments: &CheckArguments) -> anyhow::Result<Outcome> {
    let path = arguments.file.as_deref().unwrap_or(Path::new(SYSTEM_FILE));
    let (mounts, of_mounts) = Mounts::read(path)?;
    let file = match with(ConfigurationFile::read(path)?, of_mounts) {
        Ok(file) => file,
        Err(mistakes) if arguments.json => {
            let document = json!({ "schema": 1, "file": path, "mistakes": mistakes.lines() });
            output::document(&document)?;
            return Ok(Outcome::Incomplete);
        }
        Err(mistakes) => return Err(mistakes.report()),
    };
    let settings = Settings::resolve(&ServeArguments::of_file(path), Some(&file))?;
    let (_, mut warnings) = settings.look_up_hosts();
    warnings.extend(mounts.warnings());
    if arguments.json {
        let none: [&str; 0] = [];
        let document = json!({ "schema": 1, "file": path, "mistakes": none, "warnings": warnings });
        output::document(&document)?;
        return Ok(Outcome::Done);
    }
    for warning in &warnings {
        report(warning);
    }
    let exports = match settings.exports.len() {
        0 => "serves nothing yet: it has no [[export]]".to_owned(),
        1 => "serves 1 export".to_owned(),
        count => format!("serves {count} exports"),
    };
    let mounts = match mounts.tables.len() {
        0 => String::new(),
        1 => ", and has 1 mount".to_owned(),
        count => format!(", and has {count} mounts"),
    };
    output::print(format!("{}: no mistake; {exports}{mounts}\n", path.display()).as_bytes())?;
    Ok(Outcome::Done)
}

/// The file, unless it or its mounts have a mistake.
fn with(
    file: Result<ConfigurationFile, Mistakes>,
    of_mounts: Mistakes,
) -> Result<ConfigurationFile, Mistakes> {
    match file {
        Ok(file) => of_mounts.into_result(file),
        Err(mut mistakes) => {
            mistakes.extend(of_mounts);
            Err(mistakes)
        }
    }
}

fn show(arguments: &ShowArguments) -> anyhow::Result<Outcome> {
    let mut serve = arguments.serve.clone();
    let is_file = |word: &OsString| Path::new(word).extension().is_some_and(|end| end == "toml");
    if serve.config.is_none() {
        serve.config = match serve.exports.first() {
            Some(first) if is_file(first) => Some(PathBuf::from(serve.exports.remove(0))),
            Some(_) => None,
            None => Some(PathBuf::from(SYSTEM_FILE)),
        };
    }
    let mut entries = Settings::load(&serve)?.entries;
    if let Some(file) = &serve.config {
        let (mounts, mistakes) = Mounts::read(file)?;
        mistakes.lines().iter().for_each(|line| report(line));
        entries.extend(mounts.entries());
    }
    if arguments.json {
        output::document(&shown::document(&entries))?;
    } else {
        output::print(shown::text(&entries).as_bytes())?;
    }
    Ok(Outcome::Done)
}
