//! `pagewell counters`.

use std::io::Write;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use pagewell_base::duration;
use pagewell_monitor::metrics::{Snapshot, table};

use crate::failure::Outcome;
use crate::output;
use crate::target::TargetArguments;

const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(24);

/// Show the counters of a running server or mount.
///
/// Of the only one that runs on this machine, or of the one that is asked for. Shown are the
/// procedures that were called with their share of all calls, errors, bytes and latency (half and
/// 99 in 100 calls took at most so long), the same of the calls of its NFS clients, then every
/// other counter that is not 0; since the server's start, and with --interval since the last look.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell counters                           of the server or mount that runs here, once
  pagewell counters --connect 10.0.0.1        of a server that was started with --http
  pagewell counters --interval 5              and what happens every five seconds
  pagewell counters --json | jq .counters     for programs")]
pub(crate) struct CountersArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Go on, and show what was counted in each interval
    #[arg(
        long,
        value_name = "TIME",
        value_parser = |text: &str| duration::within(text, INTERVALS)
    )]
    interval: Option<Duration>,
    /// Show what is 0, too
    #[arg(short, long)]
    all: bool,
    /// Print one JSON document, on one line for each interval
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CountersArguments) -> anyhow::Result<Outcome> {
    let target = arguments.target.target()?;
    let mut next = Instant::now();
    let mut earlier: Option<Snapshot> = None;
    loop {
        let now = target.counters()?;
        let shown = match &earlier {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        };
        print(arguments, &shown).context(output::OUTPUT)?;
        let Some(interval) = arguments.interval else {
            return Ok(Outcome::Done);
        };
        earlier = Some(now);
        next += interval;
        // After a stop (SIGSTOP) one look shows what was missed.
        if next < Instant::now() {
            next = Instant::now() + interval;
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn print(arguments: &CountersArguments, snapshot: &Snapshot) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match (arguments.json, arguments.interval) {
        (false, None) => write!(out, "{}", table::render(snapshot, arguments.all))?,
        (false, Some(_)) => writeln!(out, "{}", table::render(snapshot, arguments.all))?,
        (true, None) => output::json(&mut out, snapshot)?,
        (true, Some(_)) => output::json_line(&mut out, snapshot)?,
    }
    out.flush()
}
