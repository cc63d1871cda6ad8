//! Runs as rows, and as tables for people.

use pagewell_load::measure::{Runs, Usage};
use pagewell_load::report::{Table, rate};

use super::case::Case;
use super::run::Run;
use crate::experiment::{DeviceUse, Mode, Phase, Reference, Row, Rule};
use serde_json::json;

const COLUMNS: &str = "\
    on | rule | blocks | of bytes | written | reads | writes | at flush | seconds | flush ms | \
    CPU % | reference operations, s";

pub(super) fn text(cases: &[Case]) -> String {
    let lines: Vec<Vec<String>> = cases.iter().map(cells).collect();
    let mut text = "device operations of the program, and of the flush after it; the file was \
                    compared with what it must hold after each run\n\n"
        .to_owned();
    text += &Table::new(COLUMNS.split(" | "), 2.., lines).text();
    text
}

fn cells(case: &Case) -> Vec<String> {
    let plan = &case.plan;
    let busy = |run: &Run| 100.0 * run.usage.cpu().as_secs_f64() / run.loop_time.as_secs_f64();
    let reference = case.report().map(|(operations, seconds)| match seconds {
        Some(seconds) => format!("{operations}, {seconds:.2}"),
        None => operations.to_string(),
    });
    let committed = if plan.commit_interval.is_some() {
        ", commits"
    } else {
        ""
    };
    vec![
        format!("{}{committed}", plan.target.title()),
        plan.rule.name().to_owned(),
        plan.program.blocks.to_string(),
        plan.program.block_bytes.to_string(),
        plan.program.write_bytes.to_string(),
        case.count(|run| run.reads).to_string(),
        case.count(|run| run.writes).to_string(),
        case.count(|run| run.flush_writes).to_string(),
        rate(case.runs.median(|run| run.loop_time.as_secs_f64())),
        rate(case.runs.median(|run| run.flush_time.as_secs_f64() * 1e3)),
        rate(case.runs.mean(busy)),
        reference.unwrap_or_default(),
    ]
}

/// A case as a row. The report's rules are baselines.
pub(super) fn row(case: &Case) -> Row {
    let plan = &case.plan;
    let mode = match plan.rule {
        Rule::Delayed => Mode::Enhanced,
        _ => Mode::Baseline,
    };
    let mut row = Row::new(case.name(), mode, Phase::Warm);
    let usual = matches!(plan.rule, Rule::Delayed | Rule::BlockEnd);
    row.variant = (!usual).then(|| plan.rule.name().to_owned());
    row.seconds = case.runs.iter().map(Run::seconds).collect();
    row.operations = Some(plan.program.updates);
    let updates = plan.program.updates;
    row.bytes = updates.checked_mul(plan.program.block_bytes + plan.program.write_bytes);
    row.device = Some(DeviceUse {
        requests: case.count(|run| run.reads + run.writes + run.flush_writes),
        bytes: case.count(|run| run.device_bytes),
        by_issuer: Vec::new(),
    });
    row.usage = Some(Usage::mean(case.runs.iter().map(|run| run.usage)));
    row.reference = case
        .report()
        .and_then(|(_, seconds)| seconds.map(|value| Reference { value, unit: "s" }));
    row.put_all(json!({
        "rule": plan.rule.name(),
        "target": plan.target.title(),
        "blocks": plan.program.blocks,
        "block_bytes": plan.program.block_bytes,
        "write_bytes": plan.program.write_bytes,
        "loop_reads": case.count(|run| run.reads),
        "loop_writes": case.count(|run| run.writes),
        "flush_writes": case.count(|run| run.flush_writes),
        "busy_waits": case.count(|run| run.busy_waits),
        "loop_seconds": case.runs.mean(|run| run.loop_time.as_secs_f64()),
        "flush_seconds": case.runs.mean(|run| run.flush_time.as_secs_f64()),
        "reference_operations": case.report().map(|(operations, _)| operations),
    }));
    row
}
