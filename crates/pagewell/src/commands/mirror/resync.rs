//! `pagewell mirror resync`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::bail;
use clap::Args;
use pagewell_device::{Condition, Resync, ResyncReport};

use super::Halves;
use crate::failure::{self, Outcome, usage};
use crate::mirror::advice;
use crate::progress::Progress;
use crate::storage::Storage;
use crate::{escape, state};
use pagewell_base::size;

/// Make the halves of a mirror equal.
///
/// The newest half is compared with the others, and what differs is copied to them. Meanwhile
/// the mirror must not be written to by anybody. When it is cut short, halves that are not
/// finished are not read; run it again. Halves that were never a mirror are only compared: when
/// they differ, --from says which is right. It has to, too, when a file or disk is not the one that
/// was a half, or when two halves were written to apart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell mirror resync mirror:a.img,b.img                   after a half was left behind
  pagewell mirror resync mirror:a.img,b.img --dry-run         only compare
  pagewell mirror resync mirror:a.img,new.img --from a.img    replace a half

Exit codes: 0 equal, 1 failed or (with --dry-run) not equal, 2 wrong usage.")]
pub(super) struct ResyncArguments {
    /// The half that is right, written as in SOURCE; the bytes of the others are lost
    #[arg(long, value_name = "HALF")]
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
    let storage = Halves::parse(&arguments.source)?;
    let from = match &arguments.from {
        Some(text) => Some(chosen(&storage, text)?),
        None => None,
    };
    let halves = Halves::open(&arguments.source, &storage, !arguments.dry_run)?;
    if let Some(missing) = halves.missing.first() {
        bail!("{}: {missing}", halves.name);
    }
    halves.records.check_lasting(&halves.name)?;
    let record = &**halves.records.record();
    let failed = |error| advice(&halves.name, error);
    let identity = state::random()?;
    let resync = Resync::plan(&halves.name, &halves.devices, record, from, identity);
    let resync = resync.map_err(failed)?;
    if let Some(text) = loss(&halves, resync.source(), resync.source_condition()) {
        failure::report(&text);
    }
    let mut progress = Progress::new(true);
    progress.expect(Some(resync.bytes()));
    progress.begin(&escape::text(halves.name.as_bytes()));
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
        line(&halves, resync.source(), &report, arguments.dry_run)
    );
    let differs = arguments.dry_run && report.differing_bytes > 0;
    Ok(Outcome::from_failures(u64::from(differs)))
}

/// The half that was named.
fn chosen(halves: &[Storage], text: &OsStr) -> anyhow::Result<usize> {
    let wanted = Storage::parse(text.as_bytes())?;
    let mut found = halves
        .iter()
        .enumerate()
        .filter(|(_, half)| **half == wanted);
    match (found.next(), found.next()) {
        (Some((half, _)), None) => Ok(half),
        _ => Err(usage(format!(
            "--from {}: is not one of the halves, as they are written in SOURCE",
            text.display()
        ))),
    }
}

/// What is lost with a half that is preferred to a better one.
fn loss(halves: &Halves, source: usize, condition: Condition) -> Option<String> {
    let reason = match condition {
        Condition::Stale => "missed writes: what only the others have is lost",
        Condition::Replaced => {
            "is not what was a half of the mirror: what only the others have is lost"
        }
        Condition::Split => "and another were written to apart: what only the others have is lost",
        _ => return None,
    };
    let half = halves.devices.get(source).map_or("", |half| half.name());
    Some(format!("warning: {}: {half} {reason}", halves.name))
}

/// What was done, for people.
fn line(halves: &Halves, source: usize, report: &ResyncReport, dry_run: bool) -> String {
    let name = |half: usize| {
        let name = halves.devices.get(half).map_or("", |half| half.name());
        escape::text(name.as_bytes())
    };
    let shown = escape::text(halves.name.as_bytes());
    let compared = size::display(report.compared_bytes);
    let Some((half, offset)) = report.first else {
        return format!("{shown}: equal: {compared} compared");
    };
    let verb = if dry_run { "differ" } else { "copied" };
    let bytes = size::display(report.differing_bytes);
    format!(
        "{shown}: {compared} compared with {}, {bytes} {verb}, first in {} near byte {offset}",
        name(source),
        name(half)
    )
}
