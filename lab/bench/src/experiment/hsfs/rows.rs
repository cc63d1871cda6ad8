//! Rows of runs.

use pagewell_device::Issuer;
use pagewell_load::measure::{Quantiles, number};
use serde_json::{Map, Value, json};

use super::rig::Run;
use super::variant::Variant;
use crate::experiment::{DeviceUse, Figure, Phase, Reference, Result, Row, Session};

/// The number for people in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The time of a task.
    Seconds,
    /// The rate of a load.
    Operations,
}

/// The row of a case, with the counts of the last run.
pub(super) fn row(case: &str, variant: &Variant, phase: Phase, look: Look, runs: &[Run]) -> Row {
    let mut row = Row::new(case, variant.mode, phase);
    row.variant = variant.name.map(str::to_owned);
    row.seconds = runs.iter().map(Run::seconds).collect();
    if look == Look::Operations {
        let each = runs.iter().map(Run::operations_per_second).collect();
        row.figure = Some(Figure::rate("ops/s", each));
    }
    let Some(run) = runs.last() else {
        return row;
    };
    row.operations = Some(run.operations());
    row.bytes = Some(run.bytes());
    row.device = Some(DeviceUse {
        requests: run.device.requests(),
        bytes: run.device.bytes(),
        by_issuer: by_issuer(run),
    });
    row.copied_bytes = Some(run.copied_bytes);
    row.usage = Some(run.usage);
    row.hit_ratio = Some(run.hit_ratio());
    row.depth = Some(run.device.outstanding_mean());
    row.latency = Some(scaled(run.latency().quantiles(), run.speed));
    details(&mut row, run);
    row
}

/// Runs each variant once in each repeat, in turn, and keeps a row for each. Returns the runs of
/// each repeat, in the order of the variants.
pub(super) fn interleave(
    session: &mut Session,
    name: &str,
    variants: &[Variant],
    once: impl Fn(&Session, &Variant) -> Result<Run>,
    row: impl Fn(&Variant, &[Run]) -> Row,
) -> Result<Vec<Vec<Run>>> {
    let mut runs: Vec<Vec<Run>> = variants.iter().map(|_| Vec::new()).collect();
    let repeats = session.options().repeat.max(1);
    let mut measure = || -> Result<()> {
        for repeat in 0..repeats {
            for (variant, runs) in variants.iter().zip(&mut runs) {
                session.step(&format!("{name}, {}, {repeat}", variant.label()))?;
                runs.push(once(session, variant)?);
            }
        }
        Ok(())
    };
    let ended = measure();
    // Also after an early end.
    let measured = variants
        .iter()
        .zip(&runs)
        .filter(|(_, runs)| !runs.is_empty());
    session.rows_of(measured.map(|(variant, runs)| row(variant, runs)));
    ended?;
    let mut runs: Vec<_> = runs.into_iter().map(Vec::into_iter).collect();
    let of_repeat = |_| runs.iter_mut().filter_map(Iterator::next).collect();
    Ok((0..repeats).map(of_repeat).collect())
}

pub(super) fn reference(mut row: Row, value: f64, unit: &'static str) -> Row {
    row.reference = Some(Reference { value, unit });
    row
}

fn details(row: &mut Row, run: &Run) {
    let wall_seconds = run.wall.as_secs_f64();
    let sizes = Issuer::ALL.map(|issuer| (issuer.name().to_owned(), json!(sizes(run, issuer))));
    let sizes = sizes.into_iter().filter(|(_, sizes)| *sizes != json!({}));
    let streams = run.streams.iter().map(|stream| {
        let quantiles = scaled(stream.latency.quantiles(), run.speed);
        json!({
            "name": stream.name,
            "operations": stream.operations,
            "bytes": stream.bytes,
            "mean_ms": mean_milliseconds(run, stream),
            "p50_ms": quantiles.p50.as_secs_f64() * 1e3,
            "p99_ms": quantiles.p99.as_secs_f64() * 1e3,
            "max_ms": quantiles.max.as_secs_f64() * 1e3,
        })
    });
    row.put_all(json!({
        "speed": run.speed,
        "wall_seconds": wall_seconds,
        "wall_seconds_times_speed": wall_seconds * run.speed,
        "drive_busy_seconds": run.busy.as_secs_f64(),
        "seeks": run.seeks,
        "merged_requests": run.merged,
        "backward_moves": run.device.backward,
        "elevator_wraps": run.wraps,
        "elevator_deadline_picks": run.deadline_picks,
        "cpu_us_per_operation": run.cpu_micro(),
        "request_sizes": sizes.collect::<Map<_, _>>(),
        "streams": streams.collect::<Vec<_>>(),
    }));
}

/// Mean latency of a stream on the drive's clock.
pub(super) fn mean_milliseconds(run: &Run, stream: &super::job::Stream) -> f64 {
    stream.busy.as_secs_f64() * 1e3 * run.speed / number(stream.operations.max(1))
}

fn by_issuer(run: &Run) -> Vec<(&'static str, u64)> {
    let count = |issuer: Issuer| run.device.of(issuer).map(|flow| flow.requests).sum();
    let all = Issuer::ALL.map(|issuer| (issuer.name(), count(issuer)));
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Requests by the lower end of their size, in steps of 2 KiB.
fn sizes(run: &Run, issuer: Issuer) -> Map<String, Value> {
    let counts = run.device.sizes(Some(issuer)).counts;
    let counts = counts
        .into_iter()
        .enumerate()
        .filter(|(_, count)| *count > 0);
    let named = counts.map(|(bucket, count)| ((bucket * 2048).to_string(), json!(count)));
    named.collect()
}

/// Latencies on the drive's clock.
fn scaled(quantiles: Quantiles, speed: f64) -> Quantiles {
    Quantiles {
        p50: quantiles.p50.mul_f64(speed),
        p99: quantiles.p99.mul_f64(speed),
        p999: quantiles.p999.mul_f64(speed),
        max: quantiles.max.mul_f64(speed),
    }
}
