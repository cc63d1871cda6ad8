//! One run as a line and as a JSON row.

use serde_json::{Map, Value, json};

use super::units::{bytes, rate};
use crate::load::{Load, Measurement};
use crate::measure::{Latency, Mode, Phase, Row, Runs, Usage, known, number};

/// One line for people.
pub fn line(load: &Load, result: &Measurement) -> String {
    let seconds = result.elapsed.as_secs_f64().max(1e-9);
    let per_second = |count: u64| rate(number(count) / seconds);
    let mut line = format!("{:<11} ", load.workload);
    if load.workload.moves_data() {
        line += &format!("{} ", bytes(load.block_bytes.into()));
    }
    line += &format!("depth {} connections {}: ", load.depth, load.connections);
    line += &format!("{} operations/s", per_second(result.operations));
    if load.workload.moves_data() {
        line += &format!(", {} MB/s", rate(number(result.bytes) / seconds / 1e6));
    }
    if let Some(entries) = result.entries {
        line += &format!(
            ", {entries} entries in {} calls",
            result.calls / result.operations.max(1)
        );
    }
    let times = result.latency.quantiles();
    let times = [times.p50, times.p99, times.p999, times.max];
    let [p50, p99, p999, max] = times.map(|time| rate(time.as_secs_f64() * 1e6));
    line += &format!("; latency us p50 {p50} p99 {p99} p999 {p999} max {max}");
    if let Some(commit) = result.commit {
        line += &format!("; commit {} ms", rate(commit.as_secs_f64() * 1e3));
    }
    if let Some(server) = &result.server {
        line += &server_part(load, result, server);
    }
    if result.short_replies > 0 {
        line += &format!("; {} short replies", result.short_replies);
    }
    line + &format!(
        "; client {} us/operation",
        rate(micro_per_operation(&result.client, result))
    )
}

fn server_part(load: &Load, result: &Measurement, server: &Usage) -> String {
    let mut text = format!(
        "; server {} us/operation",
        rate(micro_per_operation(server, result))
    );
    if load.workload.moves_data() {
        text += &format!(", {} s/GiB", rate(seconds_per_gib(server, result)));
    }
    if let Some(calls) = result.system_calls {
        let each = number(calls) / number(result.operations.max(1));
        text += &format!(", {} system calls/operation", rate(each));
    }
    text + &format!(", at most {} resident", bytes(server.resident_bytes_high))
}

/// Processor time of one operation, in microseconds.
pub fn micro_per_operation(used: &Usage, result: &Measurement) -> f64 {
    used.cpu().as_secs_f64() * 1e6 / number(result.operations.max(1))
}

fn seconds_per_gib(used: &Usage, result: &Measurement) -> f64 {
    used.cpu().as_secs_f64() * number(1_u64 << 30) / number(result.bytes.max(1))
}

/// A row of a result: the means over the runs of one case on one server.
pub fn row(case: &str, mode: Option<Mode>, load: &Load, runs: &[Measurement]) -> Row {
    let mut row = Row::new(case, mode, Phase::Warm);
    row.seconds = runs.iter().map(|run| run.elapsed.as_secs_f64()).collect();
    row.operations = Some(runs.mean_count(|run| run.operations));
    let moves_data = load.workload.moves_data();
    row.bytes = moves_data.then(|| runs.mean_count(|run| run.bytes));
    row.usage = usage(runs);
    row.depth = Some(number(load.depth));
    let latency: Latency = runs.iter().map(|run| &run.latency).sum();
    row.latency = Some(latency.quantiles());
    row.x = details(load, runs);
    row
}

fn usage(runs: &[Measurement]) -> Option<Usage> {
    let used: Option<Vec<Usage>> = runs.iter().map(|run| run.server).collect();
    Some(Usage::mean(used?))
}

fn details(load: &Load, runs: &[Measurement]) -> Map<String, Value> {
    let moves_data = load.workload.moves_data();
    let high = runs.iter().filter_map(|run| run.server);
    let high = high.map(|server| server.resident_bytes_high).max();
    known(json!({
        "workload": load.workload.name(),
        "connections": load.connections,
        "block_bytes": moves_data.then_some(load.block_bytes),
        "entries": runs.iter().find_map(|run| run.entries),
        "resident_bytes_high": high,
        "runs": runs.iter().map(one_run).collect::<Vec<_>>(),
    }))
}

fn one_run(run: &Measurement) -> Map<String, Value> {
    known(json!({
        "seconds": run.elapsed.as_secs_f64(),
        "operations": run.operations,
        "calls": run.calls,
        "bytes": run.bytes,
        "short_replies": run.short_replies,
        "client_cpu_seconds": run.client.cpu().as_secs_f64(),
        "commit_seconds": run.commit.map(|time| time.as_secs_f64()),
        "server_system_calls": run.system_calls,
        "server_own_bytes_high": run.own_bytes_high,
        "server_cpu_seconds": run.server.map(|server| server.cpu().as_secs_f64()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Workload;
    use std::time::Duration;

    fn measurement(seconds: u64, server: Option<Usage>) -> Measurement {
        let mut latency = Latency::default();
        latency.record(Duration::from_micros(seconds));
        Measurement {
            elapsed: Duration::from_secs(seconds),
            operations: 1000 * seconds,
            calls: 1001 * seconds,
            bytes: seconds << 20,
            short_replies: 0,
            entries: None,
            commit: None,
            latency,
            server,
            system_calls: None,
            own_bytes_high: None,
            client: Usage::default(),
        }
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let load = Load::new(Workload::Getattr, "f");
        let row = row("getattr", None, &load, &[measurement(1, None)]).json();
        for absent in [
            "cpu_seconds",
            "context_switches",
            "bytes",
            "mode",
            "hit_ratio",
        ] {
            assert!(row.get(absent).is_none(), "{absent}");
        }
        assert!(row["x"].get("resident_bytes_high").is_none());
        assert_eq!(row["latency_us"]["max"], json!(1.0));
    }

    #[test]
    fn a_row_has_the_means_of_its_runs() {
        let used = |milliseconds, resident_bytes_high| Usage {
            user: Duration::from_millis(milliseconds),
            system: Duration::from_millis(2 * milliseconds),
            context_switches: milliseconds,
            resident_bytes_high,
            ..Usage::default()
        };
        let runs = [
            measurement(1, Some(used(100, 7))),
            measurement(3, Some(used(300, 5))),
        ];
        let load = Load::new(Workload::Read, "f");
        let row = row("read", Some(Mode::Enhanced), &load, &runs).json();
        assert_eq!(row["seconds"]["mean"], json!(2.0));
        assert_eq!(row["x"]["seconds_each"], json!([1.0, 3.0]));
        assert_eq!(
            (&row["operations"], &row["bytes"]),
            (&json!(2000), &json!(2 << 20))
        );
        assert!((row["cpu_seconds"]["system"].as_f64().unwrap() - 0.4).abs() < 1e-9);
        assert_eq!(row["context_switches"], json!(200));
        assert_eq!(row["x"]["resident_bytes_high"], json!(7));
        assert_eq!(row["x"]["runs"][1]["operations"], json!(3000));
        let per_operation = micro_per_operation(&used(100, 0), &runs[0]);
        assert!((per_operation - 300.0).abs() < 1e-9);
        assert!((seconds_per_gib(&used(100, 0), &runs[0]) - 307.2).abs() < 1e-9);
    }

    #[test]
    fn a_line_says_what_was_done_and_how_fast() {
        let load = Load {
            depth: 16,
            ..Load::new(Workload::Read, "f")
        };
        let line = line(&load, &measurement(2, Some(Usage::default())));
        for part in [
            "read",
            "128 KiB depth 16",
            "1,000 operations/s",
            "1.05 MB/s",
            "server",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}
