//! Runs as tables for people.

use pagewell_load::report::{Table, bytes, rate};

use super::case::{Case, Kind, Line};
use super::path::Path;
use super::reading::Reading;
use crate::experiment::Result;

const COLUMNS: &str = "\
    path | at a time | bytes | seconds | MB/s (10^6) | MiB/s | us/op | p50 | p99 | p99.9 | \
    CPU us/op user | system | engine alone | requests/MiB | outstanding | copied | \
    reference MB/s | us/op";

const PHASES: &str = "\
    path | at a time | waits for devices | copies | works | has no processor | processors idle";

/// The tables of a case, and its cost of copies.
pub(super) fn text(case: &Case) -> Result<String> {
    let targets = case.targets()?;
    let mut text = format!("{} ({})\n", case.name, shortened(&targets));
    text += &format!(
        "{} compared byte by byte, all right\n\n",
        bytes(case.checked_bytes)
    );
    let lines: Vec<_> = case.lines.iter().map(|line| cells(case, line)).collect();
    text += &Table::new(COLUMNS.split(" | "), 1.., lines).text();
    text += "\nwhere the reader's time went\n";
    let lines: Vec<_> = case.lines.iter().map(phase_cells).collect();
    text += &Table::new(PHASES.split(" | "), 1.., lines).text();
    text.push('\n');
    for line in &case.lines {
        if let Some(last) = line.readings.last() {
            text += &format!("{}: {}\n", line.name(), last.classic());
        }
    }
    text += &copy_cost(case).unwrap_or_default();
    Ok(text)
}

fn shortened(names: &[String]) -> String {
    match names {
        [first, _, .., last] => format!("{first} ... {last}"),
        names => names.join(", "),
    }
}

fn cells(case: &Case, line: &Line) -> Vec<String> {
    let quantiles = line.latency().quantiles();
    let micro = |time: std::time::Duration| rate(time.as_secs_f64() * 1e6);
    let per_operation = |of: &dyn Fn(&Reading) -> f64| {
        rate(line.mean(|run| of(run) * 1e6 / run.operations.max(1) as f64))
    };
    let reference = line.path.reference();
    let known = line.depth == 1 && case.kind != Kind::Named;
    let shown = |value: f64| if known { rate(value) } else { String::new() };
    vec![
        line.path.name().to_owned(),
        line.depth.to_string(),
        bytes(line.mean_count(|run| run.bytes)),
        rate(line.mean(|run| run.elapsed.as_secs_f64())),
        rate(line.mean(Reading::megabytes_per_second)),
        rate(line.mean(Reading::mebibytes_per_second)),
        rate(line.mean(Reading::microseconds)),
        micro(quantiles.p50),
        micro(quantiles.p99),
        micro(quantiles.p999),
        per_operation(&|run| run.usage.user.as_secs_f64()),
        per_operation(&|run| run.usage.system.as_secs_f64()),
        rate(line.mean(Reading::engine_microseconds)),
        rate(line.mean(Reading::requests_per_mebibyte)),
        rate(line.mean(|run| run.outstanding)),
        bytes(line.mean_count(|run| run.copied_bytes)),
        shown(reference.megabytes_per_second()),
        shown(reference.microseconds),
    ]
}

fn phase_cells(line: &Line) -> Vec<String> {
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let mut cells = vec![line.path.name().to_owned(), line.depth.to_string()];
    cells.extend((0..4).map(|index| percent(line.mean(|run| run.shares()[index]))));
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    cells.push(percent(line.mean(|run| {
        let used = run.usage.cpu().as_secs_f64() / run.elapsed.as_secs_f64().max(1e-9);
        (1.0 - used / processors).max(0.0)
    })));
    cells
}

/// The cost of a copy: the difference between both paths, and the time of the copies themselves.
fn copy_cost(case: &Case) -> Option<String> {
    let buffered = case.line(Path::Buffered, true)?;
    let pinned = case.line(Path::NoCopy, true)?;
    let copies = |run: &Reading| run.phases.copy.as_secs_f64() * 1e6 / run.operations.max(1) as f64;
    let difference = |of: &dyn Fn(&Reading) -> f64| buffered.mean(of) - pinned.mean(of);
    Some(format!(
        "copy cost of a read of {}: buffered - nocopy {} us of wall time, {} us of processor \
         time; the copies themselves took {} us (reference, other hardware: 18 us)\n",
        bytes(buffered.plan.block_bytes),
        rate(difference(&Reading::microseconds)),
        rate(difference(&Reading::engine_microseconds)),
        rate(buffered.mean(copies)),
    ))
}
