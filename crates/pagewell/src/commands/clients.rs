//! `pagewell clients`.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pagewell_base::{duration, size};
use pagewell_monitor::metrics::{Client, ExportUse, Snapshot, text};
use serde::Serialize;

use crate::escape;
use crate::failure::Outcome;
use crate::output;
use crate::target::TargetArguments;

const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);

/// List the clients of a running server.
///
/// For each address and export: calls and bytes a second, seen during one interval, when the last
/// call came, connections, files with locks, and times that a connection had to wait because of a
/// limit. Of clients that are gone, those that came last are remembered.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell clients                        of the only server that runs here
  pagewell clients --connect 10.0.0.1     of a server that was started with --http
  pagewell clients --interval 10          calls and bytes of ten seconds
  pagewell clients --json | jq '.clients[].address'")]
pub(crate) struct ClientsArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// For how long calls and bytes are counted
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1",
        value_parser = |text: &str| duration::within(text, INTERVALS)
    )]
    interval: Duration,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    interval_seconds: f64,
    /// With what was counted in the interval.
    clients: &'a [Client],
}

pub(crate) fn run(arguments: &ClientsArguments) -> anyhow::Result<Outcome> {
    let target = arguments.target.target()?;
    let before = target.counters()?;
    std::thread::sleep(arguments.interval);
    let now = target.counters()?.since(&before);
    let seconds = now.uptime_seconds - before.uptime_seconds;
    let mut out = std::io::stdout().lock();
    let printed = if arguments.json {
        let document = Document {
            interval_seconds: seconds,
            clients: &now.clients,
        };
        output::json(&mut out, &document)
    } else {
        std::io::Write::write_all(&mut out, table(&now, seconds).as_bytes())
    };
    printed.context(output::OUTPUT)?;
    Ok(Outcome::Done)
}

fn table(now: &Snapshot, seconds: f64) -> String {
    if now.clients.is_empty() {
        return "no client has connected\n".to_owned();
    }
    let rows = now.clients.iter().flat_map(|client| rows(client, seconds));
    let heads = [
        "client",
        "export",
        "version",
        "calls/s",
        "bytes/s",
        "last call",
        "connections",
        "locks",
        "limit waits",
    ];
    let rows: Vec<[String; 9]> = std::iter::once(heads.map(str::to_owned))
        .chain(rows)
        .collect();
    let mut widths = [0; 9];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match at {
                0..3 => write!(line, "{cell:<width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A line for each export, or one for a client without any.
fn rows(client: &Client, seconds: f64) -> Vec<[String; 9]> {
    let none = ExportUse {
        export: String::new(),
        calls: 0,
        received_bytes: 0,
        sent_bytes: 0,
    };
    let exports = match client.exports.as_slice() {
        [] => std::slice::from_ref(&none),
        exports => exports,
    };
    let each = exports.iter().map(|one| {
        let bytes = (one.received_bytes + one.sent_bytes) as f64 / seconds.max(0.001);
        [
            client.address.clone(),
            match one.export.as_str() {
                "" => "-".to_owned(),
                name => escape::text(name.as_bytes()),
            },
            "3".to_owned(),
            format!("{:.0}", one.calls as f64 / seconds.max(0.001)),
            size::display(bytes as u64),
            format!("{} ago", text::uptime(client.idle_seconds)),
            client.connections.to_string(),
            client.locks.to_string(),
            client.limit_waits.to_string(),
        ]
    });
    each.collect()
}
