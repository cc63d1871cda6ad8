//! `pagewell mirror resync`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::bail;
use clap::Args;
use pagewell_device::{Condition, Resync, ResyncReport};

use super::Legs;
use crate::failure::{self, Outcome, usage};
use crate::mirror::advice;
use crate::progress::Progress;
use crate::storage::Storage;
use crate::{escape, state};
use pagewell_base::size;

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
pub(super) struct ResyncArguments {
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

/// Runs the command.
pub(super) fn run(arguments: &ResyncArguments) -> anyhow::Result<Outcome> {
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
    println!(
        "{}",
        line(&legs, resync.source(), &report, arguments.dry_run)
    );
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
