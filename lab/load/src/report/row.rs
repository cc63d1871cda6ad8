//! One run as a line and as a JSON row.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::units::{bytes, rate};
use crate::load::{Load, Measurement};
use crate::measure::{ProcessUse, Quantiles};

/// One line for people.
#[must_use]
#[allow(clippy::cast_precision_loss)] // for people
pub fn line(load: &Load, result: &Measurement) -> String {
    let seconds = result.elapsed.as_secs_f64().max(1e-9);
    let per_second = |count: u64| rate(count as f64 / seconds);
    let mut line = format!("{:<11} ", load.workload);
    if load.workload.moves_data() {
        line += &format!("{} ", bytes(load.block_bytes.into()));
    }
    line += &format!("depth {} connections {}: ", load.depth, load.connections);
    line += &format!("{} operations/s", per_second(result.operations));
    if load.workload.moves_data() {
        line += &format!(", {} MB/s", rate(result.bytes as f64 / seconds / 1e6));
    }
    if let Some(entries) = result.entries {
        line += &format!(
            ", {entries} entries in {} calls",
            result.calls / result.operations.max(1)
        );
    }
    let Quantiles {
        p50,
        p99,
        p999,
        max,
    } = result.latency.quantiles();
    let micro = |latency: Duration| rate(latency.as_secs_f64() * 1e6);
    line += &format!(
        "; latency us p50 {} p99 {} p999 {} max {}",
        micro(p50),
        micro(p99),
        micro(p999),
        micro(max)
    );
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

#[allow(clippy::cast_precision_loss)] // for people
fn server_part(load: &Load, result: &Measurement, server: &ProcessUse) -> String {
    let mut text = format!(
        "; server {} us/operation",
        rate(micro_per_operation(server, result))
    );
    if load.workload.moves_data() {
        text += &format!(", {} s/GiB", rate(seconds_per_gib(server, result)));
    }
    if let Some(calls) = result.system_calls {
        let each = calls as f64 / result.operations.max(1) as f64;
        text += &format!(", {} system calls/operation", rate(each));
    }
    text + &format!(", at most {} resident", bytes(server.resident_bytes_high))
}

/// Processor time of one operation, in microseconds.
#[must_use]
#[allow(clippy::cast_precision_loss)] // below 2^52
pub fn micro_per_operation(used: &ProcessUse, result: &Measurement) -> f64 {
    used.cpu().as_secs_f64() * 1e6 / result.operations.max(1) as f64
}

/// Processor time of a gibibyte of file data, in seconds.
#[allow(clippy::cast_precision_loss)] // below 2^52
fn seconds_per_gib(used: &ProcessUse, result: &Measurement) -> f64 {
    const GIB: f64 = (1u64 << 30) as f64;
    used.cpu().as_secs_f64() * GIB / result.bytes.max(1) as f64
}

/// A row of a result: the means of the runs of one case on one server. What was not measured is
/// not there. `mode` is `baseline` or `enhanced`; `x` is added to what is put there anyway.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
pub fn row(
    (experiment, case, mode): (&str, &str, Option<&str>),
    load: &Load,
    runs: &[Measurement],
    x: Map<String, Value>,
) -> Value {
    let mean = |of: &dyn Fn(&Measurement) -> f64| {
        runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
    };
    let seconds = runs.iter().map(|run| run.elapsed.as_secs_f64());
    let mut row = Map::new();
    let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
    put("experiment", json!(experiment));
    put("case", json!(case));
    if let Some(mode) = mode {
        put("mode", json!(mode));
    }
    put("phase", json!("warm"));
    put("repeats", json!(runs.len()));
    put(
        "seconds",
        json!({
            "mean": mean(&|run| run.elapsed.as_secs_f64()),
            "low": seconds.clone().fold(f64::INFINITY, f64::min),
            "high": seconds.fold(0.0, f64::max),
        }),
    );
    put(
        "operations",
        json!(mean(&|run| run.operations as f64).round() as u64),
    );
    if load.workload.moves_data() {
        put("bytes", json!(mean(&|run| run.bytes as f64).round() as u64));
    }
    let server = |of: &dyn Fn(&ProcessUse) -> f64| {
        runs.iter()
            .map(|run| run.server.as_ref().map(of))
            .sum::<Option<f64>>()
    };
    let count = runs.len().max(1) as f64;
    let user = server(&|used| used.user.as_secs_f64() / count);
    let system = server(&|used| used.system.as_secs_f64() / count);
    if let Some((user, system)) = user.zip(system) {
        put("cpu_seconds", json!({ "user": user, "system": system }));
    }
    if let Some(switches) = server(&|used| used.context_switches as f64 / count) {
        put("context_switches", json!(switches.round() as u64));
    }
    put("depth", json!(load.depth));
    put("latency_us", latency(runs));
    put("x", details(load, runs, x));
    Value::Object(row)
}

/// Quantiles of all runs together.
fn latency(runs: &[Measurement]) -> Value {
    let mut all = crate::measure::Latency::default();
    runs.iter().for_each(|run| all.add(&run.latency));
    let Quantiles {
        p50,
        p99,
        p999,
        max,
    } = all.quantiles();
    let micro = |latency: Duration| latency.as_secs_f64() * 1e6;
    json!({ "p50": micro(p50), "p99": micro(p99), "p999": micro(p999), "max": micro(max) })
}

/// What only this experiment has.
fn details(load: &Load, runs: &[Measurement], mut x: Map<String, Value>) -> Value {
    x.insert("workload".to_owned(), json!(load.workload.name()));
    x.insert("connections".to_owned(), json!(load.connections));
    if load.workload.moves_data() {
        x.insert("block_bytes".to_owned(), json!(load.block_bytes));
    }
    if let Some(entries) = runs.iter().find_map(|run| run.entries) {
        x.insert("entries".to_owned(), json!(entries));
    }
    let high = runs
        .iter()
        .filter_map(|run| Some(run.server?.resident_bytes_high))
        .max();
    if let Some(high) = high {
        x.insert("resident_bytes_high".to_owned(), json!(high));
    }
    let runs: Vec<Value> = runs.iter().map(one_run).collect();
    x.insert("runs".to_owned(), Value::Array(runs));
    Value::Object(x)
}

fn one_run(run: &Measurement) -> Value {
    let mut value = Map::new();
    let mut put = |name: &str, number: Value| value.insert(name.to_owned(), number);
    put("seconds", json!(run.elapsed.as_secs_f64()));
    put("operations", json!(run.operations));
    put("calls", json!(run.calls));
    put("bytes", json!(run.bytes));
    put("short_replies", json!(run.short_replies));
    put("client_cpu_seconds", json!(run.client.cpu().as_secs_f64()));
    if let Some(commit) = run.commit {
        put("commit_seconds", json!(commit.as_secs_f64()));
    }
    if let Some(calls) = run.system_calls {
        put("server_system_calls", json!(calls));
    }
    if let Some(bytes) = run.own_bytes_high {
        put("server_own_bytes_high", json!(bytes));
    }
    if let Some(server) = &run.server {
        put("server_cpu_seconds", json!(server.cpu().as_secs_f64()));
    }
    Value::Object(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Workload;
    use crate::measure::Latency;

    fn measurement(seconds: u64, server: Option<ProcessUse>) -> Measurement {
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
            client: ProcessUse::default(),
        }
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let load = Load::new(Workload::Getattr, "f");
        let row = row(
            ("serve", "getattr", None),
            &load,
            &[measurement(1, None)],
            Map::new(),
        );
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
        let used = |milliseconds, resident_bytes_high| ProcessUse {
            user: Duration::from_millis(milliseconds),
            system: Duration::from_millis(2 * milliseconds),
            context_switches: milliseconds,
            resident_bytes_high,
        };
        let runs = [
            measurement(1, Some(used(100, 7))),
            measurement(3, Some(used(300, 5))),
        ];
        let load = Load::new(Workload::Read, "f");
        let row = row(
            ("serve", "read", Some("enhanced")),
            &load,
            &runs,
            Map::new(),
        );
        assert_eq!(
            row["seconds"],
            json!({ "mean": 2.0, "low": 1.0, "high": 3.0 })
        );
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
        let line = line(&load, &measurement(2, Some(ProcessUse::default())));
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
