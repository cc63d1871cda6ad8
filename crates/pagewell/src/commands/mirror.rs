//! `pagewell mirror`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use anyhow::bail;
use clap::{Args, Subcommand};
use pagewell_base::size;
use pagewell_device::{Assessment, Condition, Device, MirrorError, Resync, ResyncReport};
use serde::Serialize;

use crate::failure::{self, Outcome, usage};
use crate::mirror::{Records, advice};
use crate::progress::Progress;
use crate::source::Source;
use crate::storage::{Storage, Want, open_legs};
use crate::{escape, output, state};

/// Look after mirrors: see how their legs stand, and make them equal.
///
/// A mirror that is written to keeps a record of each leg, beside a file as
/// PATH.pagewell-mirror, for a block device in the state directory. A leg that missed a write
/// is not read again before it has been made equal. A record is about one file or disk: another
/// in its place is not used, and never copied from unless --from says so.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell mirror status mirror:a.img,b.img             how the legs stand
  pagewell mirror resync mirror:a.img,b.img             make them equal
  pagewell mirror resync mirror:a.img,new.img --from a.img    replace a leg")]
pub(crate) struct MirrorArguments {
    /// What to do.
    #[command(subcommand)]
    command: MirrorCommand,
}

#[derive(Debug, Subcommand)]
enum MirrorCommand {
    Resync(ResyncArguments),
    Status(StatusArguments),
}

/// Runs the command.
pub(crate) fn run(arguments: &MirrorArguments) -> anyhow::Result<Outcome> {
    match &arguments.command {
        MirrorCommand::Resync(arguments) => resync(arguments),
        MirrorCommand::Status(arguments) => show_status(arguments),
    }
}

/// The legs of a mirror, open.
struct Legs {
    /// The mirror, as messages call it.
    name: String,
    devices: Vec<Arc<dyn Device>>,
    /// Why legs could not be opened that are missing.
    missing: Vec<String>,
    records: Records,
}

impl Legs {
    /// Parses a source that has to be a mirror.
    fn parse(text: &OsStr) -> anyhow::Result<Vec<Storage>> {
        match Source::parse(text)? {
            Source::Storage(Storage::Mirror(legs))
            | Source::Image(Storage::Mirror(legs))
            | Source::Iso(Storage::Mirror(legs)) => Ok(legs),
            _ => Err(usage(format!(
                "{}: is no mirror: write it as mirror:SOURCE,SOURCE...",
                text.display()
            ))),
        }
    }

    /// Opens each leg by itself. For writing each is kept from other programs.
    fn open(text: &OsStr, storage: &[Storage], writable: bool) -> anyhow::Result<Self> {
        let name = text.to_string_lossy().into_owned();
        let want = if writable { Want::Write } else { Want::Read };
        let parts = open_legs(storage, want)?;
        if let Some(reason) = parts.read_only.filter(|_| writable) {
            bail!("{name}: cannot be written: {reason}");
        }
        let records = Records::of(storage, &parts.devices)?;
        Ok(Self {
            name,
            devices: parts.devices,
            missing: parts.missing,
            records,
        })
    }
}

/// Make the legs of a mirror equal.
///
/// The newest leg is compared with the others, and what differs is copied to them. Meanwhile
/// the mirror must not be written to by anybody. When it is cut short, legs that are not
/// finished are not read; run it again. Legs that were never a mirror are only compared: when
/// they differ, --from says which is right. It has to, too, when a file or disk is not the one that
/// was a leg, or when two legs were written to apart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell mirror resync mirror:a.img,b.img                   after a leg was left behind
  pagewell mirror resync mirror:a.img,b.img --dry-run         only compare
  pagewell mirror resync mirror:a.img,new.img --from a.img    replace a leg

Exit codes: 0 equal, 1 failed or (with --dry-run) not equal, 2 wrong usage.")]
struct ResyncArguments {
    /// The leg that is right, written as in SOURCE; the bytes of the others are lost
    #[arg(long, value_name = "LEG")]
    from: Option<OsString>,
    /// Compare, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The mirror, such as mirror:a.img,b.img
    #[arg(value_name = "SOURCE")]
    source: OsString,
}

/// Runs `resync`.
fn resync(arguments: &ResyncArguments) -> anyhow::Result<Outcome> {
    let storage = Legs::parse(&arguments.source)?;
    let from = match &arguments.from {
        Some(text) => Some(chosen(&storage, text)?),
        None => None,
    };
    let legs = Legs::open(&arguments.source, &storage, !arguments.dry_run)?;
    if let Some(missing) = legs.missing.first() {
        bail!("{}: {missing}", legs.name);
    }
    legs.records.check_lasting(&legs.name)?;
    let record = &*legs.records.record;
    let failed = |error| advice(&legs.name, error);
    let identity = state::random()?;
    let resync = Resync::plan(&legs.name, &legs.devices, record, from, identity);
    let resync = resync.map_err(failed)?;
    if let Some(text) = loss(&legs, resync.source(), resync.source_condition()) {
        failure::report(&text);
    }
    let mut progress = Progress::new(true);
    progress.expect(Some(resync.bytes()));
    progress.begin(&escape::text(legs.name.as_bytes()));
    let mut done = |bytes| progress.add(bytes);
    let report = if arguments.dry_run {
        resync.compare(&mut done)
    } else {
        resync.run(&mut done)
    };
    drop(progress);
    let report = report.map_err(failed)?;
    let line = line(&legs, resync.source(), &report, arguments.dry_run) + "\n";
    output::print(line.as_bytes())?;
    let differs = arguments.dry_run && report.differing_bytes > 0;
    Ok(Outcome::from_failures(u64::from(differs)))
}

/// The leg that was named.
fn chosen(legs: &[Storage], text: &OsStr) -> anyhow::Result<usize> {
    let wanted = Storage::parse(text.as_bytes())?;
    let mut found = legs.iter().enumerate().filter(|(_, leg)| **leg == wanted);
    match (found.next(), found.next()) {
        (Some((leg, _)), None) => Ok(leg),
        _ => Err(usage(format!(
            "--from {}: is not one of the legs, as they are written in SOURCE",
            text.display()
        ))),
    }
}

/// What is lost with a leg that is preferred to a better one.
fn loss(legs: &Legs, source: usize, condition: Condition) -> Option<String> {
    let reason = match condition {
        Condition::Stale => "missed writes: what only the others have is lost",
        Condition::Replaced => {
            "is not what was a leg of the mirror: what only the others have is lost"
        }
        Condition::Split => "and another were written to apart: what only the others have is lost",
        _ => return None,
    };
    let leg = legs.devices.get(source).map_or("", |leg| leg.name());
    Some(format!("warning: {}: {leg} {reason}", legs.name))
}

/// What was done, for people.
fn line(legs: &Legs, source: usize, report: &ResyncReport, dry_run: bool) -> String {
    let name = |leg: usize| {
        let name = legs.devices.get(leg).map_or("", |leg| leg.name());
        escape::text(name.as_bytes())
    };
    let shown = escape::text(legs.name.as_bytes());
    let compared = size::display(report.compared_bytes);
    let Some((leg, offset)) = report.first else {
        return format!("{shown}: equal: {compared} compared");
    };
    let verb = if dry_run { "differ" } else { "copied" };
    let bytes = size::display(report.differing_bytes);
    format!(
        "{shown}: {compared} compared with {}, {bytes} {verb}, first in {} near byte {offset}",
        name(source),
        name(leg)
    )
}

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
struct StatusArguments {
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

/// Runs `status`.
fn show_status(arguments: &StatusArguments) -> anyhow::Result<Outcome> {
    let storage = Legs::parse(&arguments.source)?;
    let legs = Legs::open(&arguments.source, &storage, false)?;
    let assessment = Assessment::of(&*legs.records.record, &legs.devices);
    let status = status(&legs, assessment);
    if arguments.json {
        output::document(&status)?;
    } else {
        output::print(text(&status).as_bytes())?;
    }
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
