//! Whether the first server is what it must be.

use super::median::Spread;
use super::rounds::{CaseResult, Server};
use crate::report::{self, rate, seconds_per_gib};

/// The most memory the first server may ever have resident, in bytes.
const RESIDENT_BYTES_MAX: u64 = 64 << 20;

/// One requirement and whether it is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is met.
    pub pass: bool,
    /// What was required and what was measured.
    pub what: String,
}

/// The requirements on the first server, against the second, and on its memory.
///
/// What could not be measured is not met.
#[must_use]
pub fn verdicts(servers: &[Server], results: &[CaseResult], memory: &CaseResult) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if let [own, other, ..] = servers {
        for result in results {
            verdicts.push(speed(own, other, result));
            verdicts.extend(cost(own, other, result));
        }
    }
    verdicts.push(residence(servers, memory));
    verdicts
}

fn speed(own: &Server, other: &Server, result: &CaseResult) -> Verdict {
    let needed = result.case.required.rate_factor;
    // Without a factor that is asked for, equal is not enough.
    let enough = |median| {
        if needed > 1.0 {
            median >= needed
        } else {
            median > needed
        }
    };
    let ratio = result.ratio(1);
    let sign = if needed > 1.0 { ">=" } else { ">" };
    Verdict {
        pass: ratio.is_some_and(|ratio| enough(ratio.median)),
        what: format!(
            "{}: {} {sign} {needed:.1} x {}: {}",
            result.case.name,
            own.name,
            other.name,
            shown(ratio)
        ),
    }
}

fn cost(own: &Server, other: &Server, result: &CaseResult) -> Option<Verdict> {
    let allowed = result.case.required.cpu_factor?;
    let known = result.runs.iter().flatten().all(|run| run.server.is_some());
    let factor = result.factor(1, |run| {
        run.server
            .as_ref()
            .map_or(f64::NAN, |used| seconds_per_gib(used, run))
    });
    let factor = factor.filter(|_| known);
    Some(Verdict {
        pass: factor.is_some_and(|factor| factor.median <= allowed),
        what: format!(
            "{}: processor time per byte of {} <= {allowed:.1} x {}: {}",
            result.case.name,
            own.name,
            other.name,
            shown(factor)
        ),
    })
}

fn residence(servers: &[Server], memory: &CaseResult) -> Verdict {
    let runs = memory.runs.first().map_or(&[][..], Vec::as_slice);
    let high = runs
        .iter()
        .filter_map(|run| Some(run.server?.resident_bytes_high))
        .max();
    let name = servers.first().map_or("", |server| server.name.as_str());
    Verdict {
        pass: high.is_some_and(|high| high < RESIDENT_BYTES_MAX),
        what: format!(
            "{}: resident memory of {name} at its highest < {}: {}",
            memory.case.name,
            report::bytes(RESIDENT_BYTES_MAX),
            high.map_or_else(|| "not measured".to_owned(), report::bytes)
        ),
    }
}

fn shown(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "not measured".to_owned(),
        |Spread { median, low, high }| format!("{} ({}..{})", rate(median), rate(low), rate(high)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::rounds::tests::result;
    use crate::load::Target;

    fn server(name: &str) -> Server {
        let address = "127.0.0.1:1".parse().unwrap();
        let target = Target {
            nfs: address,
            mount: address,
            export: "/".to_owned(),
        };
        Server {
            name: name.to_owned(),
            version: String::new(),
            target,
            process: None,
        }
    }

    /// Which requirements are met when a case and the memory case have these results.
    fn passes(case: &CaseResult, memory: &CaseResult) -> Vec<bool> {
        let servers = [server("own"), server("peer")];
        let verdicts = verdicts(&servers, std::slice::from_ref(case), memory);
        verdicts.iter().map(|verdict| verdict.pass).collect()
    }

    #[test]
    fn every_case_must_be_faster_and_one_twice_at_half_the_cost() {
        let memory = result(0, &[(1, 1)], &[(1, 1)]);
        let ordinary = |own, other| passes(&result(0, &[(own, 9)], &[(other, 1)]), &memory);
        assert_eq!(ordinary(101, 100), [true, true]);
        assert_eq!(ordinary(100, 100), [false, true]);
        let strict = |own: (u64, u64), other| passes(&result(1, &[own], &[other]), &memory);
        assert_eq!(strict((200, 100), (100, 100)), [true, true, true]);
        assert_eq!(strict((199, 99), (100, 100)), [false, true, true]);
        assert_eq!(strict((200, 101), (100, 100)), [true, false, true]);
    }

    #[test]
    fn too_much_memory_or_none_measured_fails() {
        let case = result(0, &[(2, 1)], &[(1, 1)]);
        let mut memory = result(0, &[(1, 1)], &[(1, 1)]);
        let mut with = |high: Option<u64>| {
            for run in memory.runs.iter_mut().flatten() {
                run.server = high.map(|resident_bytes_high| crate::measure::ProcessUse {
                    resident_bytes_high,
                    ..Default::default()
                });
            }
            passes(&case, &memory)[1]
        };
        assert!(with(Some(RESIDENT_BYTES_MAX - 1)));
        assert!(!with(Some(RESIDENT_BYTES_MAX)));
        assert!(!with(None));
    }

    #[test]
    fn unmeasured_processor_time_is_not_half() {
        let memory = result(0, &[(1, 1)], &[(1, 1)]);
        let mut case = result(1, &[(200, 0)], &[(100, 100)]);
        case.runs[0][0].server = None;
        assert_eq!(passes(&case, &memory), [true, false, true]);
    }
}
