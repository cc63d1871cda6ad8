//! Pictures of the rules, beside the report.

use pagewell_load::measure::{Better, number};

use super::case::Case;
use super::program::Program;
use super::run::Run;
use super::target::TargetName;
use crate::experiment::picture::{BOTH, sides, values_of};
use crate::experiment::{Axis, Picture, Rule};

/// Requests of a picture of their order: some rounds over all blocks.
const PLACES_MAX: usize = 64;

/// The pictures of all cases that ran.
pub(super) fn pictures(cases: &[Case]) -> Vec<Picture> {
    let mut pictures = Vec::new();
    let in_memory = |case: &&Case| case.plan.target == TargetName::Memory;
    let first = cases
        .iter()
        .find(in_memory)
        .map(|case| case.plan.program.blocks);
    let cells = || {
        let cells = cases.iter().filter(in_memory);
        cells.filter(|case| Some(case.plan.program.blocks) == first)
    };
    if let Some(picture) = operations(cells()) {
        pictures.push(picture);
    }
    let on_disk = |rule: Rule| {
        let mut cases = cases.iter();
        cases.find(|case| {
            let plan = &case.plan;
            plan.rule == rule && matches!(plan.target, TargetName::Model(_))
        })
    };
    let last = |rule| Some((on_disk(rule)?, on_disk(rule)?.runs.last()?));
    if let Some(((case, before), (_, after))) = last(Rule::BlockEnd).zip(last(Rule::Delayed)) {
        pictures.extend(of_disk(&case.plan.target.title(), before, after));
    }
    pictures
}

/// Device operations of the program, for each cell of the report's table.
fn operations<'a>(cells: impl Iterator<Item = &'a Case>) -> Option<Picture> {
    let mut lines = Vec::new();
    for case in cells {
        let column = match case.plan.rule {
            Rule::BlockEnd => 0,
            Rule::Delayed => 1,
            _ => continue,
        };
        let values = values_of(&mut lines, cell_name(&case.plan.program));
        values[column] = Some(number(case.count(|run| run.reads + run.writes)));
        if let Some((operations, _)) = case.report().filter(|_| column == 0) {
            values[2] = Some(number(operations));
        }
    }
    // The program of the report first, then its other cells.
    let usual = Program::default();
    let usual = cell_name(&usual);
    lines.sort_by_key(|(name, _)| *name != usual);
    (!lines.is_empty()).then(|| {
        Picture::cases(
            "What 10,000 updates of a cached file ask the disc for",
            "The report counted as many operations as the rule of its system makes here, in each \
             of its cells; with writes delayed there are none before the flush.",
            (Axis::linear("device operations"), Better::Lower),
            lines,
        )
    })
}

fn cell_name(program: &Program) -> String {
    let (block, written) = (program.block_bytes, program.write_bytes);
    format!("blocks of {block}, {written} written")
}

/// The program on the disc that turns.
fn of_disk(disk: &str, before: &Run, after: &Run) -> [Picture; 3] {
    let some = |run: &'_ Run| {
        run.places
            .iter()
            .copied()
            .take(PLACES_MAX)
            .collect::<Vec<_>>()
    };
    let (first, other) = (some(before), some(after));
    [
        Picture::order(
            "The order of the requests on the disc",
            &format!(
                "The first requests, on a {disk}: blocks as they are rewritten, or all of them \
                 once, when they are flushed."
            ),
            &sides(BOTH, [&first[..], &other[..]]),
        ),
        Picture::sizes(
            "Sizes of the requests",
            &format!("With the flush at the end, on a {disk}."),
            &sides(BOTH, [before.sizes.clone(), after.sizes.clone()]),
        ),
        Picture::latencies(
            "How long an update takes",
            &format!("So many of all updates take at most so long, on a {disk}. Lower is better."),
            1.0,
            &sides(BOTH, [&before.latency, &after.latency]),
        ),
    ]
}
