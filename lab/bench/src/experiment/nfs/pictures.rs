//! Pictures of the workloads at the client, beside the report.

use pagewell_load::measure::{Better, Runs, number};

use super::case::{Case, Configuration, find};
use super::recording::Recording;
use super::run::REPORT_BLOCK_BYTES;
use super::verdicts::REPORT_WRITES_PER_OPERATION;
use super::workload::Workload;
use crate::experiment::picture::{BOTH, sides};
use crate::experiment::{Axis, Mode, Picture};

const MIB: f64 = 1_048_576.0;

/// The pictures of all cases that ran; with `ours` the threads of the server are known.
pub(super) fn pictures(cases: &[Case], ours: bool) -> Vec<Picture> {
    let mut pictures = Vec::new();
    if cases.iter().all(|case| case.first().is_empty()) {
        return pictures;
    }
    for configuration in Configuration::ALL {
        pictures.push(rates(cases, configuration, ours));
    }
    pictures.push(calls(cases));
    for workload in [Workload::RANDOM_WRITE_SMALL, Workload::RANDOM_READ_SMALL] {
        let run = |mode| {
            let case = find(cases, workload, Configuration::Few, mode)?;
            case.first().last()
        };
        if let Some((before, after)) = run(Mode::Baseline).zip(run(Mode::Enhanced)) {
            pictures.extend(operations(workload, before, after));
        }
    }
    pictures
}

/// A number of each workload with few threads or many: here, and in the report.
fn compared(
    cases: &[Case],
    configuration: Configuration,
    own: impl Fn(&Recording) -> f64,
    report: impl Fn(Workload, Mode) -> Option<f64>,
) -> Vec<(String, [Option<f64>; 4])> {
    let workloads = Workload::ALL.into_iter();
    let workloads = workloads.map(|workload| {
        let here = |mode| {
            let case = find(cases, workload, configuration, mode)?;
            Some(case.first().median(&own))
        };
        let [before, after] = [Mode::Baseline, Mode::Enhanced];
        let values = [
            here(before),
            here(after),
            report(workload, before),
            report(workload, after),
        ];
        (workload.name(), values)
    });
    workloads.collect()
}

fn rates(cases: &[Case], configuration: Configuration, ours: bool) -> Picture {
    let many = configuration == Configuration::Many;
    let report = |workload: Workload, mode| Some(workload.reference(mode, many));
    Picture::cases(
        &format!("Eight workloads, {}", configuration.name(ours)),
        "Further to the right is faster. The report: two machines and 10 Gbit/s, an unpatched and \
         a patched kernel; here client and server share one machine.",
        (Axis::logarithmic("KB/s"), Better::Higher),
        compared(
            cases,
            configuration,
            Recording::kilobytes_per_second,
            report,
        ),
    )
}

/// Calls for each operation of a program. The report's sequential reads and writes had calls of 64
/// KiB; of random writes it counted the calls.
fn calls(cases: &[Case]) -> Picture {
    let report = |workload: Workload, mode| match (workload.random, workload.writes) {
        _ if mode == Mode::Enhanced => None,
        (false, _) => Some(f64::from(workload.block_bytes) / f64::from(REPORT_BLOCK_BYTES)),
        _ if workload == Workload::RANDOM_WRITE_SMALL => Some(REPORT_WRITES_PER_OPERATION),
        _ => None,
    };
    let own = |run: &Recording| {
        number(run.calls.reads + run.calls.writes) / number(run.latencies.len().max(1))
    };
    Picture::cases(
        "READ and WRITE calls for each operation of the program",
        "Further to the left is better: each call costs both sides time. The report counted calls \
         of its unpatched kernel.",
        (Axis::logarithmic("calls/operation"), Better::Lower),
        compared(cases, Configuration::Few, own, report),
    )
}

fn operations(workload: Workload, before: &Recording, after: &Recording) -> [Picture; 2] {
    let (first, second) = (before.latency(), after.latency());
    let name = workload.name();
    [
        Picture::latencies(
            &format!("How long a {name} takes"),
            "So many of all operations take at most so long. Lower is better.",
            1.0,
            &sides(BOTH, [&first, &second]),
        ),
        Picture::timeline(
            (
                &format!("{name}: what the program gets done, over time"),
                "Higher is better. The time of closing the file comes after it.",
            ),
            ["s", "MiB/s"],
            (1.0, MIB),
            sides(BOTH, [&before.timeline, &after.timeline]),
        ),
    ]
}
