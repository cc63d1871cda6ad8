//! `pagewell counters`.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use crate::failure::Outcome;
use crate::http;
use crate::metrics::{Snapshot, table};
use crate::values;

/// The longest interval: a day.
const SECONDS_MAX: u32 = 86_400;

/// Show the counters of a running server or mount, in the manner of nfsstat and netstat -m.
///
/// The process must have been started with --http. Shown are the procedures that were called
/// with their share of all calls, errors, bytes and latency (half and 99 in 100 calls took at
/// most so long), what its NFS clients have done in the layout of nfsstat -c, its buffers, then
/// every other counter that is not 0; since the server's start, and with
/// --interval since the last look.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell counters                           of the server at 127.0.0.1:20491, once
  pagewell counters --interval 5              and what happens every five seconds
  pagewell counters --json | jq .counters     for programs")]
pub(crate) struct CountersArguments {
    /// Where the server's --http listens
    #[arg(
        long,
        value_name = "ADDR[:PORT]",
        default_value = "127.0.0.1:20491",
        value_parser = values::parse_address
    )]
    connect: SocketAddr,
    /// Go on, and show what was counted in each interval of this many seconds
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = |text: &str| values::parse_count(text, SECONDS_MAX)
    )]
    interval: Option<u32>,
    /// Show what is 0, too
    #[arg(short, long)]
    all: bool,
    /// Print one JSON document, on one line for each interval
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &CountersArguments) -> anyhow::Result<Outcome> {
    let mut next = Instant::now();
    let mut earlier: Option<Snapshot> = None;
    loop {
        let now = get(arguments.connect)?;
        let shown = match &earlier {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        };
        print(arguments, &shown).context("standard output")?;
        let Some(seconds) = arguments.interval else {
            return Ok(Outcome::Done);
        };
        earlier = Some(now);
        next += Duration::from_secs(seconds.into());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// The counters of the process there.
pub(crate) fn get(address: SocketAddr) -> anyhow::Result<Snapshot> {
    let body = http::client::get(address, "/stat.json")?;
    serde_json::from_slice(&body)
        .with_context(|| format!("{address}: not the counters of a pagewell server"))
}

fn print(arguments: &CountersArguments, snapshot: &Snapshot) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if !arguments.json {
        let text = table::render(snapshot, arguments.all);
        let gap = if arguments.interval.is_some() {
            "\n"
        } else {
            ""
        };
        write!(out, "{text}{gap}")?;
    } else if arguments.interval.is_some() {
        serde_json::to_writer(&mut out, snapshot)?;
        out.write_all(b"\n")?;
    } else {
        serde_json::to_writer_pretty(&mut out, snapshot)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
