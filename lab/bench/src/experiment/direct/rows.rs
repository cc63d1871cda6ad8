//! Runs as rows.

use pagewell_load::measure::{Latency, Runs, Usage};
use serde_json::json;

use super::case::{Case, Line};
use super::path::Path;
use super::reading::Reading;
use crate::experiment::{DeviceUse, Figure, Mode, Phase, Reference, Row};

/// A row for each line; the baseline is one direct read at a time.
pub(super) fn rows(case: &Case) -> Vec<Row> {
    case.lines.iter().map(|line| row(case, line)).collect()
}

fn row(case: &Case, line: &Line) -> Row {
    let runs = &line.readings;
    let mode = match line.path {
        Path::Direct if line.depth == 1 => Mode::Baseline,
        Path::Raw => Mode::Baseline,
        _ => Mode::Enhanced,
    };
    let mut row = Row::new(case.name.as_str(), mode, Phase::Cold);
    row.variant = (line.path != Path::Direct || line.depth > 1).then(|| line.name());
    row.seconds = runs.iter().map(|run| run.elapsed.as_secs_f64()).collect();
    let rates = runs.iter().map(Reading::megabytes_per_second);
    row.figure = Some(Figure::rate("MB/s", rates.collect()));
    let Some(first) = runs.first() else {
        return row;
    };
    row.operations = Some(first.operations);
    row.bytes = Some(first.bytes);
    row.copied_bytes = Some(line.mean_count(|run| run.copied_bytes));
    row.device = Some(DeviceUse {
        requests: line.mean_count(|run| run.device_requests),
        bytes: line.mean_count(|run| run.device_bytes),
        by_issuer: first.by_issuer.clone(),
    });
    row.usage = Some(Usage::mean(runs.iter().map(|run| run.usage)));
    row.depth = Some(line.mean(|run| run.outstanding));
    row.latency = Some(line.latency().quantiles());
    if line.depth == 1 {
        row.reference = Some(Reference {
            value: line.path.reference().megabytes_per_second(),
            unit: "MB/s",
        });
    }
    let share = |index: usize| line.mean(|run| run.shares()[index]);
    row.put_all(json!({
        "path": line.path.name(),
        "operations_at_a_time": line.depth,
        "mean_us": line.mean(Reading::microseconds),
        "engine_cpu_us": line.mean(Reading::engine_microseconds),
        "device_simulation_cpu_seconds": line.mean(|run| run.device_cpu.as_secs_f64()),
        "device_requests_per_mib": line.mean(Reading::requests_per_mebibyte),
        "share_device_wait": share(0),
        "share_copy": share(1),
        "share_work": share(2),
        "share_no_processor": share(3),
        "classic": runs.iter().map(Reading::classic).collect::<Vec<_>>(),
    }));
    row
}

impl Line {
    /// What distinguishes it from the other lines of its case.
    pub(super) fn name(&self) -> String {
        if self.depth == 1 {
            self.path.name().to_owned()
        } else {
            format!("{}, {} at a time", self.path, self.depth)
        }
    }

    pub(super) fn mean(&self, of: impl Fn(&Reading) -> f64) -> f64 {
        self.readings.mean(of)
    }

    pub(super) fn mean_count(&self, of: impl Fn(&Reading) -> u64) -> u64 {
        self.readings.mean_count(of)
    }

    /// Of all runs.
    pub(super) fn latency(&self) -> Latency {
        self.readings.iter().map(|run| &run.latency).sum()
    }
}

impl Reading {
    pub(super) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9) / 1e6
    }

    pub(super) fn mebibytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9) / f64::from(1 << 20)
    }

    /// Mean time of an operation.
    pub(super) fn microseconds(&self) -> f64 {
        self.operation_time.as_secs_f64() * 1e6 / self.operations.max(1) as f64
    }

    /// Processor time of an operation without the simulation of devices, in microseconds.
    pub(super) fn engine_microseconds(&self) -> f64 {
        self.engine_cpu().as_secs_f64() * 1e6 / self.operations.max(1) as f64
    }

    /// Processor time of a gibibyte, in seconds.
    pub(super) fn engine_seconds_per_gib(&self) -> f64 {
        self.engine_cpu().as_secs_f64() * (1u64 << 30) as f64 / self.bytes.max(1) as f64
    }

    pub(super) fn requests_per_mebibyte(&self) -> f64 {
        self.device_requests as f64 * f64::from(1 << 20) / self.bytes.max(1) as f64
    }

    /// Parts of the reader's time: waiting for devices, copying, working, without a processor.
    pub(super) fn shares(&self) -> [f64; 4] {
        let all = self.elapsed.as_secs_f64().max(1e-9);
        let phases = &self.phases;
        [phases.device, phases.copy, phases.work, phases.runnable]
            .map(|part| part.as_secs_f64() / all)
    }

    /// The line of the report's tool. Its megabyte is a thousandth of a gibibyte.
    pub(super) fn classic(&self) -> String {
        let megabytes = self.bytes as f64 * 1000.0 / (1u64 << 30) as f64;
        let seconds = self.elapsed.as_secs_f64();
        format!(
            "Completed reading {megabytes:.0} mbytes in {seconds:.6} seconds ({:.2} Mbytes/sec), \
             {:.0}usec mean",
            megabytes / seconds.max(1e-9),
            self.microseconds(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_classic_line_is_that_of_the_report() {
        let reading = Reading {
            operations: 8 * 2048,
            bytes: 16 << 30,
            elapsed: Duration::from_micros(257_977_850),
            operation_time: Duration::from_micros(15_867 * 8 * 2048),
            ..Reading::default()
        };
        assert_eq!(
            reading.classic(),
            "Completed reading 16000 mbytes in 257.977850 seconds (62.02 Mbytes/sec), \
             15867usec mean"
        );
    }
}
