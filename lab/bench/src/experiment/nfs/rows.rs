//! Runs as rows, and as the report's Table 1.

use std::time::Duration;

use pagewell_load::measure::{Latency, Runs, Usage, number};
use pagewell_load::report::{Table, rate};

use super::case::Case;
use super::recording::Recording;
use super::workload::Workload;
use crate::experiment::{DeviceUse, Figure, Mode, Phase, Reference, Row};
use serde_json::json;

const COLUMNS: &str = "\
    workload | mode | phase | KB/s | p50 us | p99 us | READ | WRITE | COMMIT | all calls | \
    WRITE/op | calls at a time | client us/op | server us/op | reference KB/s";

/// A row for each phase of a case.
pub(super) fn rows(case: &Case, ours: bool) -> Vec<Row> {
    let phases = case.phases.iter().filter(|(_, runs)| !runs.is_empty());
    let rows = phases.map(|(phase, runs)| {
        let mut row = row(&case.name(ours), case.workload, case.mode, *phase, runs);
        if *phase != Phase::Warm {
            let many = case.configuration == super::case::Configuration::Many;
            row.reference = Some(Reference {
                value: case.workload.reference(case.mode, many),
                unit: "KB/s",
            });
        }
        row
    });
    rows.collect()
}

pub(super) fn row(
    name: &str,
    workload: Workload,
    mode: Mode,
    phase: Phase,
    runs: &[Recording],
) -> Row {
    let mut row = Row::new(name, mode, phase);
    row.seconds = runs.iter().map(Recording::seconds).collect();
    let rates = runs.iter().map(Recording::kilobytes_per_second).collect();
    row.figure = Some(Figure::rate("KB/s", rates));
    let Some(first) = runs.first() else {
        return row;
    };
    row.operations = Some(first.latencies.len() as u64);
    row.bytes = Some(first.bytes());
    row.copied_bytes = Some(runs.mean_count(|run| run.copied_bytes));
    row.device = Some(DeviceUse {
        requests: runs.mean_count(|run| run.calls.requests),
        // The client counts none: those of the program.
        bytes: first.bytes(),
        by_issuer: vec![
            ("read", runs.mean_count(|run| run.calls.reads)),
            ("write", runs.mean_count(|run| run.calls.writes)),
            ("commit", runs.mean_count(|run| run.calls.commits)),
            ("other", runs.mean_count(|run| run.calls.others)),
        ],
    });
    row.usage = Some(Usage::mean(runs.iter().map(|run| run.usage)));
    put_details(&mut row, workload, first, runs);
    row
}

/// Values of this experiment alone.
fn put_details(row: &mut Row, workload: Workload, first: &Recording, runs: &[Recording]) {
    let (hits, misses) = first.data;
    if hits + misses > 0 {
        row.hit_ratio = Some(number(hits) / number(hits + misses));
    }
    row.depth = Some(runs.mean(Recording::depth_of_calls));
    let mut latency = Latency::default();
    runs.iter().for_each(|run| latency.add(&run.latency()));
    row.latency = Some(latency.quantiles());
    row.put_all(json!({
        "effective_queue_depth": runs.mean(Recording::depth),
        "steady_kb_per_second": runs.median(Recording::steady_kilobytes_per_second),
        "close_seconds": runs.mean(|run| run.close_time.as_secs_f64()),
        "client_cpu_us_per_operation": runs.mean(Recording::client_cpu),
        "server_cpu_us_per_operation": server_cpu(runs),
        "writes_per_operation": runs.mean(Recording::writes_per_operation),
        "rsize": first.transfer_bytes.0,
        "wsize": first.transfer_bytes.1,
        "attribute_hits": first.attributes.0,
        "attribute_misses": first.attributes.1,
        "name_hits": first.names.0,
        "name_misses": first.names.1,
        "data_hits": hits,
        "data_misses": misses,
        "left_in_use": runs.iter().map(|run| run.left_in_use).max(),
        "bandwidth_kb_per_second": first.bandwidths,
        "fio": super::fio::text(job(workload), workload, first),
    }));
}

/// The mean of the server's processor time, if it is ours.
fn server_cpu(runs: &[Recording]) -> Option<f64> {
    runs.first()?.server?;
    Some(runs.mean(|run| run.server_cpu().unwrap_or(0.0)))
}

/// The report's names of jobs.
pub(super) fn job(workload: Workload) -> &'static str {
    match workload.writes {
        true => "write_file",
        false => "read_file",
    }
}

pub(super) fn table(cases: &[Case], ours: bool) -> String {
    let mut lines = Vec::new();
    for case in cases {
        for row in rows(case, ours) {
            let runs = case.phases.iter().find(|(phase, _)| *phase == row.phase);
            if let Some((_, runs)) = runs {
                lines.push(cells(&row, runs));
            }
        }
    }
    let mut text = "KB are 1024 bytes; the time of closing the file counts; each run is a mount \
                    of its own\n\n"
        .to_owned();
    text += &Table::new(COLUMNS.split(" | "), 3.., lines).text();
    text
}

fn cells(row: &Row, runs: &[Recording]) -> Vec<String> {
    let micro = |time: Duration| rate(time.as_secs_f64() * 1e6);
    let latency = row.latency.unwrap_or_default();
    let count = |of: fn(&Recording) -> u64| runs.mean_count(of).to_string();
    let reference = row.reference.as_ref().map(|found| rate(found.value));
    vec![
        row.case.clone(),
        row.mode.map_or("", Mode::name).to_owned(),
        row.phase.name().to_owned(),
        rate(runs.median(Recording::kilobytes_per_second)),
        micro(latency.p50),
        micro(latency.p99),
        count(|run| run.calls.reads),
        count(|run| run.calls.writes),
        count(|run| run.calls.commits),
        count(|run| run.calls.requests),
        format!("{:.3}", runs.mean(Recording::writes_per_operation)),
        format!("{:.2}", runs.mean(Recording::depth_of_calls)),
        rate(runs.mean(Recording::client_cpu)),
        server_cpu(runs).map_or("-".to_owned(), rate),
        reference.unwrap_or("-".to_owned()),
    ]
}
