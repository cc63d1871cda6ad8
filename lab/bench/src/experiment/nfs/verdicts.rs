//! Requirements. Counts of calls are the same in each run; of times the median run counts. What was
//! not counted is not met: few calls are good, none are no measurement.

use pagewell_load::measure::Runs;
use pagewell_load::report::rate;

use super::case::{Case, Configuration, find};
use super::recording::Recording;
use super::run::{Place, REPORT_BLOCK_BYTES, Setting};
use super::workload::Workload;
use crate::experiment::{Mode, Result};

/// WRITE calls for each random write of 4 KiB, when the whole file fits into the cache.
const WRITES_PER_OPERATION_MAX: f64 = 0.11;
/// WRITE calls of the report's client for each random write of 4 KiB.
pub(super) const REPORT_WRITES_PER_OPERATION: f64 = 0.88;
/// The most by which the baseline may differ: writes for want of memory or because of age are
/// added.
const REPORT_DIFFERENCE_MAX: f64 = 0.05;
/// Random writes of 4 KiB against the report's client.
const RANDOM_WRITE_RATIO_MIN: f64 = 5.0;

/// Reads of the file in blocks of the report: the number of READs is arithmetic.
pub(super) fn exact_reads(place: &Place) -> Result<Vec<(bool, String)>> {
    let setting = Setting {
        transfer_bytes: Some(REPORT_BLOCK_BYTES),
        ..Setting::USUAL
    };
    let mut verdicts = Vec::new();
    let expected = place.file_bytes / u64::from(REPORT_BLOCK_BYTES);
    for workload in [Workload::ALL[0], Workload::READ_LARGE] {
        let runs = place.read(&setting, workload, 2)?;
        let reads: Vec<u64> = runs.iter().map(|run| run.calls.reads).collect();
        let (name, mebibytes) = (workload.name(), place.file_bytes >> 20);
        verdicts.push(verdict!(
            reads == [expected, 0],
            "{name}, rsize 64k: {mebibytes} MiB are exactly {expected} READs, and none the \
                 second time: {reads:?}"
        ));
    }
    let run = place.write(&setting, Workload::LAYOUT)?;
    verdicts.push(verdict!(
        run.calls.writes == expected && run.calls.reads == 0,
        "{}, wsize 64k: {} MiB are exactly {expected} WRITEs and no READ: {} and {}",
        Workload::LAYOUT.name(),
        place.file_bytes >> 20,
        run.calls.writes,
        run.calls.reads
    ));
    Ok(verdicts)
}

/// Counts that the table must have.
pub(super) fn counts(cases: &[Case], places: &[Place]) -> Vec<(bool, String)> {
    let all: Vec<&Recording> = places.iter().flat_map(|place| &place.layouts).collect();
    let mut verdicts = vec![layouts(&all)];
    verdicts.extend(calls_add_up(cases));
    verdicts.extend(caches(cases));
    let left = cases.iter().flat_map(Case::all).map(|run| run.left_in_use);
    // Less than nothing is wrong, too.
    verdicts.extend(left.max_by_key(|left| left.abs()).map(|left| {
        let what = "pages pinned and staging memory return after every run";
        verdict!(left == 0, "{what}: at most {left} bytes stay")
    }));
    verdicts
}

fn layouts(layouts: &[&Recording]) -> (bool, String) {
    let reads: u64 = layouts.iter().map(|layout| layout.calls.reads).sum();
    let count = layouts.len();
    let are_written = count > 0 && layouts.iter().all(|layout| layout.calls.writes > 0);
    verdict!(
        are_written && reads == 0,
        "{count} files laid out with writes of 4k: no READ: {reads}"
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
        let are_counted = all().any(|run| run.calls.requests > 0);
        verdict!(
            are_counted && wrong == 0,
            "calls are the sum of their procedures, COMMIT included, in {count} runs"
        )
    })
}

/// Calls too depend on how long a block may stay unwritten.
pub(super) fn random_writes(cases: &[Case]) -> Vec<(bool, String)> {
    let mut verdicts = Vec::new();
    for configuration in Configuration::ALL {
        let of = |mode| find(cases, Workload::RANDOM_WRITE_SMALL, configuration, mode);
        let Some((baseline, enhanced)) = of(Mode::Baseline).zip(of(Mode::Enhanced)) else {
            continue;
        };
        let per = |case: &Case| {
            let each = case.first().iter().map(Recording::writes_per_operation);
            each.fold(0.0, f64::max)
        };
        let least = |case: &Case| case.first().iter().map(|run| run.calls.writes).min();
        let is_counted = |case: &Case| least(case).is_some_and(|writes| writes > 0);
        let name = enhanced.name(true);
        verdicts.push(verdict!(
            is_counted(enhanced) && per(enhanced) <= WRITES_PER_OPERATION_MAX,
            "{name}: at most {WRITES_PER_OPERATION_MAX} WRITEs for each write: {:.3}",
            per(enhanced),
        ));
        let each = baseline.first().iter().map(Recording::writes_per_operation);
        let difference = |each: f64| (each - REPORT_WRITES_PER_OPERATION).abs();
        verdicts.push(verdict!(
            each.map(difference).fold(0.0, f64::max) <= REPORT_DIFFERENCE_MAX,
            "{name}: the baseline needs {REPORT_WRITES_PER_OPERATION} WRITEs for each write, \
                 as the report's client did: {:.3}",
            per(baseline)
        ));
        let is_few = |case: &Case| is_counted(case) && per(case) <= 1.0;
        verdicts.push(verdict!(
            is_few(enhanced) && is_few(baseline),
            "{name}: never more than 1 WRITE for each write"
        ));
        let speed = |case: &Case| case.first().median(Recording::kilobytes_per_second);
        let ratio = speed(enhanced) / speed(baseline).max(1e-9);
        verdicts.push(verdict!(
            ratio >= RANDOM_WRITE_RATIO_MIN,
            "{name}: at least {RANDOM_WRITE_RATIO_MIN} x baseline: {} x",
            rate(ratio)
        ));
    }
    verdicts
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
        verdict!(
            wrong.is_empty(),
            "hits and misses of data are the operations, in {count} runs{wrong}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::case;
    use super::super::recording::Calls;
    use super::*;
    use std::time::Duration;

    /// A thousand random writes of each mode, of which the client counted so many calls.
    fn random(baseline: u64, enhanced: u64) -> Vec<Case> {
        let mut cases = case::usual_cases();
        for (case, writes) in cases.iter_mut().zip([baseline, enhanced]) {
            let seconds = if case.mode == Mode::Baseline { 50 } else { 1 };
            case.phases[0].1.push(Recording {
                loop_time: Duration::from_secs(seconds),
                block_bytes: 4096,
                latencies: vec![1000; 1000],
                calls: Calls {
                    writes,
                    requests: writes,
                    ..Calls::default()
                },
                ..Recording::default()
            });
        }
        cases
    }

    fn passes(verdicts: impl IntoIterator<Item = (bool, String)>) -> Vec<bool> {
        verdicts.into_iter().map(|(pass, _)| pass).collect()
    }

    #[test]
    fn few_calls_are_good_and_none_are_not_counted() {
        let passes = |baseline, enhanced| passes(random_writes(&random(baseline, enhanced)));
        assert_eq!(passes(880, 100), [true; 4]);
        assert_eq!(passes(880, 111), [false, true, true, true]);
        assert_eq!(passes(1001, 100), [true, false, false, true]);
        assert_eq!(passes(880, 0), [false, true, false, true]);
        assert_eq!(passes(0, 100), [true, false, false, true]);
    }

    #[test]
    fn calls_that_were_not_counted_do_not_add_up() {
        assert_eq!(passes(calls_add_up(&random(880, 100))), [true]);
        assert_eq!(passes(calls_add_up(&random(0, 0))), [false]);
        let mut wrong = random(880, 100);
        wrong[1].phases[0].1[0].calls.commits = 1;
        assert_eq!(passes(calls_add_up(&wrong)), [false]);
    }

    #[test]
    fn a_layout_without_writes_is_none() {
        let of = |reads, writes| Recording {
            calls: Calls {
                reads,
                writes,
                ..Calls::default()
            },
            ..Recording::default()
        };
        assert!(layouts(&[&of(0, 4), &of(0, 5)]).0);
        assert!(!layouts(&[&of(0, 4), &of(1, 5)]).0);
        assert!(!layouts(&[&of(0, 4), &of(0, 0)]).0);
        assert!(!layouts(&[]).0);
    }
}
