//! Whether the first server meets its requirements.

use super::required::{Measure, Required};
use super::rounds::{CaseResult, Server};
use crate::measure::Spread;
use crate::report::{self, Verdict, micro_per_operation, rate};

/// The most memory of its own, in bytes.
const OWN_BYTES_MAX: u64 = 64 << 20;

/// The requirements on the first server, beside others, and on its memory.
///
/// What could not be measured is not met; a server that did not take part requires nothing.
pub fn verdicts(servers: &[Server], results: &[CaseResult], memory: &CaseResult) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for result in results {
        for required in result.case.required {
            let others = required.beside.find(servers, result);
            let judged = others
                .iter()
                .map(|other| judge(servers, result, *required, *other));
            verdicts.extend(judged);
        }
    }
    verdicts.push(residence(servers, memory));
    verdicts
}

fn judge(servers: &[Server], result: &CaseResult, required: Required, other: usize) -> Verdict {
    let name = |index: usize| servers.get(index).map_or("", |server| server.name.as_str());
    let (own, factor) = (name(0), required.factor);
    let (what, sign, measured) = match required.measure {
        Measure::Rate => (own.to_owned(), ">=", result.ratio(other)),
        Measure::Processor => {
            let what = format!("processor time per operation of {own}");
            (what, "<=", processor(result, other))
        }
    };
    let enough = |median: f64| match required.measure {
        Measure::Rate => median >= factor,
        Measure::Processor => median <= factor,
    };
    Verdict {
        experiment: "serve",
        exact: false,
        pass: measured.is_some_and(|measured| enough(measured.median)),
        what: format!(
            "{}: {what} {sign} {factor:.2} x {}: {}",
            result.case.name,
            name(other),
            shown(measured)
        ),
    }
}

fn processor(result: &CaseResult, other: usize) -> Option<Spread> {
    let [own, beside] = [0, other].map(|index| result.runs.get(index));
    let runs = own.into_iter().chain(beside).flatten();
    if !runs.into_iter().all(|run| run.server.is_some()) {
        return None;
    }
    result.factor(other, |run| {
        let used = run.server.as_ref();
        used.map_or(f64::NAN, |used| micro_per_operation(used, run))
    })
}

fn residence(servers: &[Server], memory: &CaseResult) -> Verdict {
    let runs = memory.runs.first().map_or(&[][..], Vec::as_slice);
    let high = runs.iter().filter_map(|run| run.own_bytes_high).max();
    let name = servers.first().map_or("", |server| server.name.as_str());
    Verdict {
        experiment: "serve",
        exact: false,
        pass: high.is_some_and(|high| high < OWN_BYTES_MAX),
        what: format!(
            "{}: memory of {name} at its highest, without mapped files, < {}: {}",
            memory.case.name,
            report::bytes(OWN_BYTES_MAX),
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
    use crate::compare::rounds::tests::server;

    const COMMON_READ: &str = "read 128 KiB, depth 16";

    /// Which requirements are met when a case and the memory case have these results.
    fn passes(peer: &str, case: &CaseResult, memory: &CaseResult) -> Vec<bool> {
        let mut servers = [server("own"), server(peer)];
        servers[1].limit = peer.starts_with("bare");
        let verdicts = verdicts(&servers, std::slice::from_ref(case), memory);
        verdicts.iter().map(|verdict| verdict.pass).collect()
    }

    fn memory() -> CaseResult {
        result(COMMON_READ, &[(1, 1)], &[(1, 1)])
    }

    #[test]
    fn a_read_is_required_something_else_beside_each_kind_of_server() {
        for (peer, rate) in [("bare copy", 85), ("unfs3", 100), ("nfs-ganesha", 130)] {
            let case = |own| result("read 64 KiB, depth 4", &[(own, 9)], &[(100, 1)]);
            assert_eq!(passes(peer, &case(rate), &memory()), [true, true], "{peer}");
            assert_eq!(passes(peer, &case(rate - 1), &memory()), [false, true]);
        }
        let other = result("read 64 KiB, depth 4", &[(1, 1)], &[(100, 1)]);
        assert_eq!(passes("unknown", &other, &memory()), [true]);
    }

    #[test]
    fn one_read_must_be_twice_as_fast_at_half_the_cost() {
        let strict = |own: (u64, u64), other: (u64, u64)| {
            let case = result(COMMON_READ, &[own], &[other]);
            passes("nfs-ganesha", &case, &memory())
        };
        // Processor time is per operation, and there are as many as megabytes.
        assert_eq!(strict((200, 100), (100, 100)), [true, true, true]);
        assert_eq!(strict((199, 99), (100, 100)), [false, true, true]);
        assert_eq!(strict((200, 101), (100, 100)), [true, false, true]);
    }

    #[test]
    fn single_calls_may_cost_a_little_more_and_many_may_not_be_slow() {
        let single = |own: (u64, u64)| {
            let case = result("getattr, depth 1", &[own], &[(100, 100)]);
            passes("any", &case, &memory())
        };
        assert_eq!(single((100, 130)), [true, true, true]);
        assert_eq!(single((100, 131)), [true, false, true]);
        assert_eq!(single((99, 99)), [false, true, true]);
        let many = |own| {
            let case = result("getattr, depth 32", &[(own, 900)], &[(100, 1)]);
            passes("any", &case, &memory())
        };
        assert_eq!(many(200), [true, true]);
        assert_eq!(many(199), [false, true]);
    }

    #[test]
    fn the_best_of_the_bare_servers_counts() {
        let mut servers = ["own", "bare copy", "bare mapping"].map(server);
        servers[1].limit = true;
        servers[2].limit = true;
        let mut case = result("read 64 KiB, depth 4", &[(80, 1)], &[(90, 1)]);
        let other = result("read 64 KiB, depth 4", &[], &[(100, 1)]);
        case.runs.extend(other.runs.into_iter().skip(1));
        let found = verdicts(&servers, &[case], &memory());
        assert_eq!(found.len(), 2);
        assert!(!found[0].pass && found[0].what.contains(">= 0.85 x bare mapping: 0.800"));
    }

    #[test]
    fn too_much_memory_or_none_measured_fails() {
        let case = result("readdirplus of 1000, depth 4", &[(2, 1)], &[(1, 1)]);
        let mut memory = memory();
        let mut with = |high: Option<u64>| {
            for run in memory.runs.iter_mut().flatten() {
                run.own_bytes_high = high;
            }
            passes("any", &case, &memory)[1]
        };
        assert!(with(Some(OWN_BYTES_MAX - 1)));
        assert!(!with(Some(OWN_BYTES_MAX)));
        assert!(!with(None));
    }

    #[test]
    fn unmeasured_processor_time_is_not_half() {
        let mut case = result(COMMON_READ, &[(200, 0)], &[(100, 100)]);
        case.runs[0][0].server = None;
        let found = passes("nfs-ganesha", &case, &memory());
        assert_eq!(found, [true, false, true]);
    }
}
