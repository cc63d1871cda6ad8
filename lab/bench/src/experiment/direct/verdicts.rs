//! Requirements.

use pagewell_load::report::{bytes, rate};

use super::case::{Case, Kind, Line};
use super::path::Path;
use super::reading::Reading;

/// Read-ahead over eight disks against one direct request at a time; the report had 2.06.
const OVERLAP_FACTOR: f64 = 1.8;
/// Processor time per byte of direct reads against buffered ones.
const CPU_FACTOR: f64 = 0.5;
/// Two paths at the disks' rate differ by the first request of one and the first batch of the
/// other.
const EQUAL: f64 = 0.99;

/// Counts that must hold.
pub(super) fn counts(case: &Case) -> Vec<(bool, String)> {
    let requests = case.lines.iter().filter_map(|line| requests(case, line));
    requests.chain(copies(case)).collect()
}

/// Times that must hold.
pub(super) fn times(case: &Case) -> Vec<(bool, String)> {
    if case.kind != Kind::Disks {
        return Vec::new();
    }
    overlap(case).into_iter().chain(depth(case)).collect()
}

/// A direct read is one request; a raw one is as many as it has pieces.
fn requests(case: &Case, line: &Line) -> Option<(bool, String)> {
    if line.path.is_cached() {
        return None;
    }
    let each = if line.path == Path::Raw {
        line.plan.block_bytes.div_ceil(case.piece_bytes)
    } else {
        1
    };
    let right = |run: &Reading| run.device_requests == run.operations * each;
    let pass = !line.readings.is_empty() && line.readings.iter().all(right);
    let requests = line.mean(|run| run.device_requests as f64 / run.operations.max(1) as f64);
    Some(verdict!(
        pass,
        "{}, {}: {} device requests for a read of {}, must be {each}",
        case.name,
        line.name(),
        rate(requests),
        bytes(line.plan.block_bytes),
    ))
}

fn copies(case: &Case) -> Option<(bool, String)> {
    let buffered = case.line(Path::Buffered, true)?;
    let right = |line: &Line| {
        let times = u64::from(line.path == Path::Buffered);
        let mut runs = line.readings.iter();
        runs.all(|run| run.copied_bytes == times * run.bytes)
    };
    Some(verdict!(
        !buffered.readings.is_empty() && case.lines.iter().all(right),
        "{}: each byte copied once when buffered, none otherwise",
        case.name
    ))
}

fn overlap(case: &Case) -> Option<(bool, String)> {
    let direct = case.line(Path::Direct, true)?;
    let buffered = case.line(Path::Buffered, true)?;
    let factor =
        buffered.mean(Reading::megabytes_per_second) / direct.mean(Reading::megabytes_per_second);
    Some(verdict!(
        factor >= OVERLAP_FACTOR,
        "{}, one operation at a time: buffered >= {OVERLAP_FACTOR} x O_DIRECT: {} x \
             (reference, other hardware: 2.06 x)",
        case.name,
        rate(factor),
    ))
}

fn depth(case: &Case) -> Vec<(bool, String)> {
    let direct = case.line(Path::Direct, false);
    let Some((direct, buffered)) = direct.zip(case.line(Path::Buffered, true)) else {
        return Vec::new();
    };
    let rates =
        direct.mean(Reading::megabytes_per_second) / buffered.mean(Reading::megabytes_per_second);
    let cpu = direct.mean(Reading::engine_seconds_per_gib)
        / buffered.mean(Reading::engine_seconds_per_gib);
    vec![
        verdict!(
            rates >= EQUAL,
            "{}, {} operations at a time: O_DIRECT >= buffered: {} x",
            case.name,
            direct.depth,
            rate(rates),
        ),
        verdict!(
            cpu <= CPU_FACTOR,
            "{}, {} operations at a time: processor time per byte of O_DIRECT <= {CPU_FACTOR} \
                 x buffered: {} x ({} and {} s/GiB without the simulation of disks)",
            case.name,
            direct.depth,
            rate(cpu),
            rate(direct.mean(Reading::engine_seconds_per_gib)),
            rate(buffered.mean(Reading::engine_seconds_per_gib)),
        ),
    ]
}
