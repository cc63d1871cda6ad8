//! What must hold, and whether it does. Counts of calls are the same in each run; where times
//! count, the middle run does, and the fastest where no difference is expected.

use pagewell_fs::nfs::ReadAhead;

use super::case::{Case, Configuration, median};
use super::recording::Recording;
use super::run::{Memory, Place, REPORT_BLOCK_BYTES, Setting};
use super::workload::Workload;
use crate::experiment::{Mode, Result};
use crate::report::rate;

/// WRITE calls for each random write of 4 KiB, when the whole file fits into the cache.
const WRITES_PER_OPERATION_MAX: f64 = 0.11;
/// WRITE calls of the report's client for each random write of 4 KiB.
const REPORT_WRITES_PER_OPERATION: f64 = 0.88;
/// How near to it the baseline has to be: what is written for want of memory, or because it is
/// old, comes on top.
const REPORT_DIFFERENCE_MAX: f64 = 0.05;
/// Random writes of 4 KiB against the report's client.
const RANDOM_WRITE_RATIO_MIN: f64 = 5.0;
/// Writes with 64 server threads against 4.
const MANY_THREADS_MIN: f64 = 0.9;

/// Reads of the file in blocks of the report: how many READs there are is arithmetic.
pub(super) fn exact_reads(place: &Place) -> Result<Vec<(bool, String)>> {
    let setting = Setting {
        mode: Mode::Enhanced,
        read_ahead: ReadAhead::Auto,
        transfer_bytes: Some(REPORT_BLOCK_BYTES),
        round_trip: None,
        memory: Memory::Whole,
    };
    let mut verdicts = Vec::new();
    let expected = place.file_bytes / u64::from(REPORT_BLOCK_BYTES);
    for workload in [Workload::ALL[0], Workload::READ_LARGE] {
        let runs = place.read(&setting, workload, 2)?;
        let reads: Vec<u64> = runs.iter().map(|run| run.calls.reads).collect();
        let (name, mebibytes) = (workload.name(), place.file_bytes >> 20);
        verdicts.push((
            reads == [expected, 0],
            format!(
                "{name}, rsize 64k: {mebibytes} MiB are exactly {expected} READs, and none the \
                 second time: {reads:?}"
            ),
        ));
    }
    let run = place.write(&setting, Workload::LAYOUT)?;
    verdicts.push((
        run.calls.writes == expected && run.calls.reads == 0,
        format!(
            "{}, wsize 64k: {} MiB are exactly {expected} WRITEs and no READ: {} and {}",
            Workload::LAYOUT.name(),
            place.file_bytes >> 20,
            run.calls.writes,
            run.calls.reads
        ),
    ));
    Ok(verdicts)
}

/// What must hold of the table.
pub(super) fn of_cases(cases: &[Case], places: &[Place]) -> Vec<(bool, String)> {
    let mut verdicts = vec![layouts(places)];
    verdicts.extend(calls_add_up(cases));
    verdicts.extend(random_writes(cases));
    verdicts.extend(threads(cases));
    verdicts.extend(caches(cases));
    let left = cases
        .iter()
        .flat_map(Case::all)
        .map(|run| run.left_in_use)
        .max();
    verdicts.extend(left.map(|left| {
        let what = "pages lent and staging memory return after every run";
        (left == 0, format!("{what}: at most {left} stay"))
    }));
    verdicts
}

fn layouts(places: &[Place]) -> (bool, String) {
    let all = || places.iter().flat_map(|place| &place.layouts);
    let reads: u64 = all().map(|layout| layout.calls.reads).sum();
    let count = all().count();
    (
        reads == 0,
        format!("{count} files laid out with writes of 4k: no READ: {reads}"),
    )
}

fn calls_add_up(cases: &[Case]) -> Option<(bool, String)> {
    let sum = |run: &Recording| {
        let calls = &run.calls;
        calls.reads + calls.writes + calls.commits + calls.others
    };
    let all = || cases.iter().flat_map(Case::all);
    let count = all().count();
    (count > 0).then(|| {
        let wrong = all().filter(|run| sum(run) != run.calls.requests).count();
        (
            wrong == 0,
            format!("calls are the sum of their procedures, COMMIT included, in {count} runs"),
        )
    })
}

pub(super) fn random_writes(cases: &[Case]) -> Vec<(bool, String)> {
    let of = |mode, configuration| {
        cases.iter().find(move |case| {
            let same = case.workload == Workload::RANDOM_WRITE_SMALL;
            same && case.mode == mode && case.configuration == configuration
        })
    };
    let mut verdicts = Vec::new();
    for configuration in Configuration::ALL {
        let (Some(baseline), Some(enhanced)) = (
            of(Mode::Baseline, configuration),
            of(Mode::Enhanced, configuration),
        ) else {
            continue;
        };
        if baseline.first().is_empty() || enhanced.first().is_empty() {
            continue;
        }
        let per = |case: &Case| {
            let each = case.first().iter().map(Recording::writes_per_operation);
            each.fold(0.0, f64::max)
        };
        let name = enhanced.name(true);
        verdicts.push((
            per(enhanced) <= WRITES_PER_OPERATION_MAX,
            format!(
                "{name}: at most {WRITES_PER_OPERATION_MAX} WRITEs for each write: {:.3}",
                per(enhanced),
            ),
        ));
        let each = baseline.first().iter().map(Recording::writes_per_operation);
        let difference = |each: f64| (each - REPORT_WRITES_PER_OPERATION).abs();
        verdicts.push((
            each.map(difference).fold(0.0, f64::max) <= REPORT_DIFFERENCE_MAX,
            format!(
                "{name}: the baseline needs {REPORT_WRITES_PER_OPERATION} WRITEs for each write, \
                 as the report's client did: {:.3}",
                per(baseline)
            ),
        ));
        verdicts.push((
            per(enhanced) <= 1.0 && per(baseline) <= 1.0,
            format!("{name}: never more than 1 WRITE for each write"),
        ));
        let speed = |case: &Case| median(case.first(), Recording::kilobytes_per_second);
        let ratio = speed(enhanced) / speed(baseline).max(1e-9);
        verdicts.push((
            ratio >= RANDOM_WRITE_RATIO_MIN,
            format!(
                "{name}: at least {RANDOM_WRITE_RATIO_MIN} x baseline: {} x",
                rate(ratio)
            ),
        ));
    }
    verdicts
}

fn threads(cases: &[Case]) -> Vec<(bool, String)> {
    let writes = Workload::ALL.into_iter().filter(|workload| workload.writes);
    let verdicts = writes.filter_map(|workload| {
        let speed = |configuration| {
            let case = cases.iter().find(|case| {
                case.workload == workload
                    && case.mode == Mode::Enhanced
                    && case.configuration == configuration
            })?;
            let runs = case.first();
            let rates = runs.iter().map(Recording::kilobytes_per_second);
            rates.reduce(f64::max)
        };
        let ratio = speed(Configuration::Many)? / speed(Configuration::Few)?.max(1e-9);
        Some((
            ratio >= MANY_THREADS_MIN,
            format!(
                "{}: 64 server threads are not slower than 4 (at least {MANY_THREADS_MIN} x): {} x",
                workload.name(),
                rate(ratio)
            ),
        ))
    });
    verdicts.collect()
}

/// Hits and misses count the operations of the program, each once.
fn caches(cases: &[Case]) -> Option<(bool, String)> {
    let all = || cases.iter().flat_map(Case::all);
    let count = all().count();
    (count > 0).then(|| {
        let looked_up = |run: &Recording| run.data.0 + run.data.1;
        let wrong = all().find(|run| looked_up(run) != run.latencies.len() as u64);
        let wrong = wrong.map_or(String::new(), |run| {
            format!(": {} of {}", looked_up(run), run.latencies.len())
        });
        (
            wrong.is_empty(),
            format!("hits and misses of data are the operations, in {count} runs{wrong}"),
        )
    })
}
