//! `pagewell mirror status`.

use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use pagewell_device::{Assessment, Device, MirrorError};
use serde::Serialize;

use super::Legs;
use crate::escape;
use crate::failure::Outcome;
use crate::mirror::advice;
use crate::output;

/// Show how the legs of a mirror stand.
///
/// Each leg is current, doubtful (the mirror is in use or was not closed; only the first leg
/// is read), stale (it missed writes), unfinished (it was being resynchronised), missing, replaced
/// (it is not the file or disk that was a leg), split (it and another were each written to while
/// the other was missing) or unknown (the mirror was never written to). Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell mirror status mirror:a.img,b.img
  pagewell mirror status mirror:/dev/sdb,/dev/sdc --json

Exit codes: 0 all legs are current or unknown, 1 a leg is not, 2 wrong usage.")]
pub(super) struct StatusArguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// The mirror, such as mirror:a.img,b.img
    #[arg(value_name = "SOURCE")]
    source: OsString,
}

#[derive(Serialize)]
struct StatusJson {
    source: String,
    /// Why the mirror cannot be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    in_use: bool,
    #[serde(rename = "halves")]
    legs: Vec<LegJson>,
}

#[derive(Serialize)]
struct LegJson {
    #[serde(rename = "half")]
    leg: String,
    condition: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
}

/// Runs the command.
pub(super) fn run(arguments: &StatusArguments) -> anyhow::Result<Outcome> {
    let storage = Legs::parse(&arguments.source)?;
    let legs = Legs::open(&arguments.source, &storage, false)?;
    let assessment = Assessment::of(&*legs.records.record, &legs.devices);
    let status = status(&legs, assessment);
    let mut out = std::io::stdout().lock();
    let written = if arguments.json {
        output::json(&mut out, &status)
    } else {
        out.write_all(text(&status).as_bytes())
    };
    written.context("standard output")?;
    let bad = |leg: &&LegJson| leg.condition != "current" && leg.condition != "unknown";
    let is_bad = status.problem.is_some() || status.legs.iter().find(bad).is_some();
    Ok(Outcome::from_failures(u64::from(is_bad)))
}

fn status(legs: &Legs, assessment: Result<Assessment, MirrorError>) -> StatusJson {
    let advise = |error| format!("{:#}", advice(&legs.name, error));
    let certain = match &assessment {
        Ok(assessment) => assessment.certain(&legs.devices).map_err(MirrorError::from),
        Err(error) => Err(error.clone()),
    };
    let missing = legs.missing.first();
    let assessment = assessment.ok();
    let leg = |(index, device): (usize, &Arc<dyn Device>)| {
        let found = assessment.as_ref();
        let condition = found.and_then(|found| found.conditions.get(index));
        let standing = match found {
            Some(found) => found.standings.get(index).copied().flatten(),
            None => legs.records.record.load(index).ok().flatten(),
        };
        let file = legs.records.file(index);
        LegJson {
            leg: device.name().to_owned(),
            condition: condition.map_or("not known", |one| one.name()),
            generation: standing.map(|one| one.generation),
            state: standing.map(|one| one.state.name()),
            record: file.map(|file| file.display().to_string()),
        }
    };
    StatusJson {
        source: legs.name.clone(),
        problem: match certain {
            Err(error) => Some(advise(error)),
            Ok(()) => missing.map(|one| format!("{}: {one}", legs.name)),
        },
        in_use: assessment.as_ref().is_some_and(Assessment::is_in_use),
        legs: legs.devices.iter().enumerate().map(leg).collect(),
    }
}

fn text(status: &StatusJson) -> String {
    let mut text = String::new();
    let width = status.legs.iter().map(|leg| leg.leg.chars().count());
    let width = width.max().unwrap_or(0);
    for leg in &status.legs {
        let name = escape::text(leg.leg.as_bytes());
        let known = match (leg.generation, leg.state) {
            (Some(generation), Some(state)) => format!("generation {generation}, {state}"),
            _ => "no record".to_owned(),
        };
        text.push_str(&format!("{name:width$}  {:<10}  {known}\n", leg.condition));
    }
    if let Some(problem) = &status.problem {
        text.push_str(&escape::text(problem.as_bytes()));
        text.push('\n');
    }
    text
}
