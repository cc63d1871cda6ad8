//! `pagewell mirror status`.

use std::ffi::OsString;
use std::io::Write;

use anyhow::Context;
use clap::Args;
use pagewell_device::{Assessment, Condition, MirrorError, RecordError, Standing};
use serde::Serialize;

use super::Halves;
use crate::escape;
use crate::failure::Outcome;
use crate::mirror::advice;

/// Show how the halves of a mirror stand.
///
/// Each half is current, doubtful (the mirror is in use or was not closed; only the first half
/// is read), stale (it missed writes), unfinished (it was being resynchronised), missing, replaced
/// (it is not the file or disk that was a half), split (it and another were each written to while
/// the other was missing) or unknown (the mirror was never written to). Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell mirror status mirror:a.img,b.img
  pagewell mirror status mirror:/dev/sdb,/dev/sdc --json

Exit codes: 0 all halves are current or unknown, 1 a half is not, 2 wrong usage.")]
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
    halves: Vec<HalfJson>,
}

#[derive(Serialize)]
struct HalfJson {
    half: String,
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
    let storage = Halves::parse(&arguments.source)?;
    let halves = Halves::open(&arguments.source, &storage, false)?;
    let assessment = Assessment::of(&**halves.records.record(), &halves.devices);
    let status = status(&halves, assessment);
    let mut out = std::io::stdout().lock();
    let written = if arguments.json {
        serde_json::to_writer_pretty(&mut out, &status)?;
        out.write_all(b"\n")
    } else {
        out.write_all(text(&status).as_bytes())
    };
    written.context("standard output")?;
    let bad = |half: &&HalfJson| half.condition != "current" && half.condition != "unknown";
    let is_bad = status.problem.is_some() || status.halves.iter().find(bad).is_some();
    Ok(Outcome::from_failures(u64::from(is_bad)))
}

fn status(halves: &Halves, assessment: Result<Assessment, MirrorError>) -> StatusJson {
    let half = |index: usize, condition: Option<Condition>, standing: Option<Standing>| HalfJson {
        half: halves.devices[index].name().to_owned(),
        condition: condition.map_or("not known", Condition::name),
        generation: standing.map(|one| one.generation),
        state: standing.map(|one| one.state.name()),
        record: halves
            .records
            .file(index)
            .map(|file| file.display().to_string()),
    };
    let count = halves.devices.len();
    let mut status = StatusJson {
        source: halves.name.clone(),
        problem: None,
        in_use: false,
        halves: Vec::with_capacity(count),
    };
    match assessment {
        Ok(assessment) => {
            status.in_use = assessment.is_in_use();
            let pairs = assessment.conditions.iter().zip(&assessment.standings);
            let pairs = pairs.enumerate();
            let all = pairs.map(|(index, (one, standing))| half(index, Some(*one), *standing));
            status.halves.extend(all);
            let missing = halves
                .missing
                .first()
                .map(|one| format!("{}: {one}", halves.name));
            status.problem = match assessment.certain(&halves.devices) {
                Err(refusal) => Some(format!("{:#}", advice(&halves.name, refusal.into()))),
                Ok(()) => missing,
            };
        }
        Err(error) => {
            status.problem = Some(format!("{:#}", advice(&halves.name, error)));
            let record = halves.records.record();
            let load = |index| -> Result<Option<Standing>, RecordError> { record.load(index) };
            let all = (0..count).map(|index| half(index, None, load(index).ok().flatten()));
            status.halves.extend(all);
        }
    }
    status
}

fn text(status: &StatusJson) -> String {
    let mut text = String::new();
    let width = status.halves.iter().map(|half| half.half.chars().count());
    let width = width.max().unwrap_or(0);
    for half in &status.halves {
        let name = escape::text(half.half.as_bytes());
        let known = match (half.generation, half.state) {
            (Some(generation), Some(state)) => format!("generation {generation}, {state}"),
            _ => "no record".to_owned(),
        };
        text.push_str(&format!("{name:width$}  {:<10}  {known}\n", half.condition));
    }
    if let Some(problem) = &status.problem {
        text.push_str(&escape::text(problem.as_bytes()));
        text.push('\n');
    }
    text
}
