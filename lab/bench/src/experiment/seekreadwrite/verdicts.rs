//! Requirements. Times are those of the fastest of several runs: a run takes some hundredths of a
//! second, and the machine's other work is no property of a rule.

use pagewell_load::report::rate;

use super::case::Case;
use super::run::Run;
use super::target::TargetName;
use crate::experiment::Rule;

/// The longest time of the program where storage is no disk.
const SECONDS_MAX: f64 = 1.0;
/// The slowest cell against the fastest.
const SPREAD_MAX: f64 = 2.0;
/// A slow device against one that takes no time.
const SLOW_FACTOR: f64 = 1.1;

/// Counts that must hold of all cases.
pub(super) fn counts(cases: &[Case]) -> Vec<(bool, String)> {
    let mut verdicts = Vec::new();
    let delayed = || cases.iter().filter(|case| is_plain(case, Rule::Delayed));
    verdicts.extend(worst(
        delayed(),
        "delayed: no device write in the program",
        |case| case.runs.iter().map(|run| run.writes).max(),
    ));
    verdicts.extend(flushes(delayed()));
    let same = |case: &&Case| case.plan.rule != Rule::BugReplica;
    let name = "every rule but bug-replica: no device read in the program";
    verdicts.extend(worst(cases.iter().filter(same), name, |case| {
        case.runs.iter().map(|run| run.reads).max()
    }));
    for rule in Rule::ALL {
        verdicts.extend(of_report(cases, rule, true));
    }
    verdicts.extend(no_waits(cases));
    verdicts
}

/// Times that must hold of all cases.
pub(super) fn times(cases: &[Case]) -> Vec<(bool, String)> {
    let on_devices = Rule::ALL.into_iter();
    let on_devices = on_devices.filter_map(|rule| of_report(cases, rule, false));
    elapsed(cases)
        .into_iter()
        .chain(slow_device(cases))
        .chain(on_devices)
        .collect()
}

/// A case of this rule without another thread that commits.
fn is_plain(case: &Case, rule: Rule) -> bool {
    case.plan.rule == rule && case.plan.commit_interval.is_none()
}

/// A count that must be zero everywhere.
fn worst<'a>(
    cases: impl Iterator<Item = &'a Case>,
    what: &str,
    count: impl Fn(&Case) -> Option<u64>,
) -> Option<(bool, String)> {
    let found: Vec<u64> = cases.filter_map(count).collect();
    let most = *found.iter().max()?;
    let cases = found.len();
    Some(verdict!(
        most == 0,
        "{what}: at most {most} in {cases} cases"
    ))
}

/// One write for each block of the file at most.
fn flushes<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<(bool, String)> {
    let (mut pass, mut most) = (true, None);
    for case in cases {
        let writes = case.runs.iter().map(|run| run.flush_writes).max()?;
        pass &= writes <= case.plan.program.file_blocks();
        most = most.max(Some(writes));
    }
    let most = most?;
    let what = "delayed: at most one device write for each block of the file at the flush";
    Some(verdict!(pass, "{what}: at most {most}"))
}

/// The report's device operations, exactly: a count in memory, which answers at once. Where a
/// device takes time, a block may change again before its write begins, and one write is for both.
fn of_report(cases: &[Case], rule: Rule, in_memory: bool) -> Option<(bool, String)> {
    let known = cases.iter().filter(|case| {
        is_plain(case, rule) && (case.plan.target == TargetName::Memory) == in_memory
    });
    let known: Vec<(&Case, u64)> = known
        .filter_map(|case| Some((case, case.report()?.0)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let wrong = known.iter().find_map(|(case, expected)| {
        let operations = |run: &Run| run.reads + run.writes;
        let other = case
            .runs
            .iter()
            .map(operations)
            .find(|count| count != expected)?;
        Some(format!(
            "{}: {other} operations, not {expected}",
            case.name()
        ))
    });
    let text = format!(
        "{}: the device operations of the report, exactly, in {} cases {}",
        rule.name(),
        known.len(),
        if in_memory { "in memory" } else { "on devices" }
    );
    Some(match wrong {
        None => (true, text),
        Some(wrong) => verdict!(false, "{text}; {wrong}"),
    })
}

/// Memory and the file: no cell is slow, and none much slower than another.
fn elapsed(cases: &[Case]) -> Vec<(bool, String)> {
    let of = |target: &TargetName| -> Vec<f64> {
        let cases = cases.iter().filter(|case| {
            is_plain(case, Rule::Delayed) && case.is_of_report() && case.plan.target == *target
        });
        let cells = cases.filter(|case| case.plan.program.blocks == 8);
        cells.map(|case| case.least(Run::seconds)).collect()
    };
    let mut verdicts = Vec::new();
    for target in [TargetName::Memory, TargetName::File] {
        let seconds = of(&target);
        let fastest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = seconds.iter().copied().fold(0.0, f64::max);
        if seconds.len() < 2 {
            continue;
        }
        let on = target.title();
        verdicts.push(verdict!(
            slowest < SECONDS_MAX,
            "{on}, delayed: every cell below {SECONDS_MAX} s with its flush: {} s",
            rate(slowest)
        ));
        let spread = slowest / fastest;
        verdicts.push(verdict!(
            spread < SPREAD_MAX,
            "{on}, delayed: slowest cell below {SPREAD_MAX} x the fastest: {} x",
            rate(spread)
        ));
    }
    verdicts
}

/// The device's time does not reach the program.
fn slow_device(cases: &[Case]) -> Option<(bool, String)> {
    let fast = delayed_on(cases, false, false)?;
    let slow = delayed_on(cases, true, false)?;
    let seconds = |case: &Case| case.least(|run| run.loop_time.as_secs_f64());
    let factor = seconds(slow) / seconds(fast);
    Some(verdict!(
        factor <= SLOW_FACTOR,
        "delayed: the program on {} within {SLOW_FACTOR} x of {}: {} x",
        slow.plan.target.title(),
        fast.plan.target.title(),
        rate(factor)
    ))
}

/// A commit in progress does not stop the program.
fn no_waits(cases: &[Case]) -> Option<(bool, String)> {
    let slow = delayed_on(cases, true, true)?;
    let waits = slow.runs.iter().map(|run| run.busy_waits).max()?;
    let writes = slow.count(|run| run.writes);
    Some(verdict!(
        waits == 0 && writes > 0,
        "{}: no update waits for a write of the same bytes: {waits} waits beside {writes} \
             writes",
        slow.name()
    ))
}

/// The case of `delayed` on a device that takes time, or one that takes none.
fn delayed_on(cases: &[Case], is_slow: bool, is_committed: bool) -> Option<&Case> {
    cases.iter().find(|case| {
        let plan = &case.plan;
        matches!(plan.target, TargetName::Delay(time) if time.is_zero() != is_slow)
            && plan.rule == Rule::Delayed
            && plan.commit_interval.is_some() == is_committed
    })
}
