//! Rounds of runs.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use super::case::{Case, LISTED_FILES, Rate};
use crate::load::{Load, LoadError, Measurement, Target, Workload, remove, run};
use crate::measure::{Spread, number};
use crate::report;

/// How long system calls are counted.
const COUNTED_TIME: Duration = Duration::from_millis(250);
/// What a sequential write writes meanwhile.
const COUNTED_BYTES: u64 = 64 << 20;

/// A server that takes part.
#[derive(Clone, Debug)]
pub struct Server {
    /// Short name.
    pub name: String,
    /// Its version, as it says itself.
    pub version: String,
    /// Where it listens.
    pub target: Target,
    /// Its process, when it runs on this machine.
    pub process: Option<u32>,
    /// Whether it is a bare server, the limit of the machine.
    pub limit: bool,
    /// What it cannot do.
    pub without: Option<Workload>,
}

/// A comparison to make, of the first server with the others.
#[derive(Clone, Debug)]
pub struct Plan {
    /// At least one.
    pub servers: Vec<Server>,
    /// The directory that all of them export.
    pub directory: PathBuf,
    /// How often each server does each case.
    pub rounds: usize,
    /// Count system calls, in a short run of its own.
    pub counts_system_calls: bool,
}

/// The runs of one case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// What was done.
    pub case: Case,
    /// The runs of each server, in the order of the plan and of the rounds; none if it does not
    /// take part.
    pub runs: Vec<Vec<Measurement>>,
    /// System calls of one operation for each server, if counted.
    pub system_calls: Vec<Option<f64>>,
}

impl Plan {
    fn takes_part(&self, index: usize, case: &Case) -> bool {
        let Some(server) = self.servers.get(index) else {
            return false;
        };
        let before = self.servers.iter().take(index);
        let limits = before.filter(|server| server.limit).count();
        let wanted = !server.limit || limits < case.limits;
        wanted && server.without != Some(case.load.workload)
    }
}

impl CaseResult {
    pub(super) fn took_part(&self, server: usize) -> bool {
        self.runs.get(server).is_some_and(|runs| !runs.is_empty())
    }

    /// The spread of one number over the runs of a server.
    pub fn spread(&self, server: usize, of: impl Fn(&Measurement) -> f64) -> Option<Spread> {
        Spread::of(&self.runs.get(server)?.iter().map(of).collect::<Vec<f64>>())
    }

    /// The first server's rate over another's, round by round.
    pub fn ratio(&self, other: usize) -> Option<Spread> {
        self.factor(other, |run| self.rate(run))
    }

    /// The first server's number over another's, round by round.
    pub(super) fn factor(&self, other: usize, of: impl Fn(&Measurement) -> f64) -> Option<Spread> {
        let pairs = self.runs.first()?.iter().zip(self.runs.get(other)?);
        let factors: Vec<f64> = pairs
            .map(|(own, other)| of(own) / of(other).max(f64::MIN_POSITIVE))
            .collect();
        Spread::of(&factors)
    }

    /// The speed of a run in the unit of the case.
    pub fn rate(&self, run: &Measurement) -> f64 {
        let count = match self.case.rate {
            Rate::Megabytes => number(run.bytes) / 1e6,
            Rate::Operations => number(run.operations),
        };
        count / run.elapsed.as_secs_f64().max(1e-9)
    }
}

/// An error and where it happened.
#[derive(Debug, thiserror::Error)]
#[error("{server}, {case}: {error}")]
pub struct CompareError {
    server: String,
    case: String,
    error: LoadError,
}

impl CompareError {
    fn new(server: &Server, case: &str, error: LoadError) -> Self {
        Self {
            server: server.name.clone(),
            case: case.to_owned(),
            error,
        }
    }
}

/// Every server reads the file of a case once and every byte is verified: a fast server must also
/// be right, and afterwards every cache holds the same.
///
/// # Errors
///
/// The server that failed, and why.
pub fn warm(plan: &Plan, case: &Case) -> Result<(), CompareError> {
    for server in &plan.servers {
        let load = Load {
            workload: Workload::Read,
            block_bytes: 256 << 10,
            depth: 4,
            connections: 1,
            duration: None,
            verify: true,
            ..case.load.clone()
        };
        run(&server.target, &load, None)
            .map_err(|error| CompareError::new(server, "verified read", error))?;
    }
    Ok(())
}

/// Runs a case on all servers in turn; `progress` gets a line for each run.
///
/// # Errors
///
/// The server that failed, and why.
pub fn compare(
    plan: &Plan,
    case: &Case,
    mut progress: impl FnMut(&str),
) -> Result<CaseResult, CompareError> {
    let mut runs: Vec<Vec<Measurement>> = vec![Vec::new(); plan.servers.len()];
    let mut system_calls = vec![None; plan.servers.len()];
    for round in 0..plan.rounds.max(1) {
        let mut order: Vec<_> = plan.servers.iter().zip(&mut runs).enumerate().collect();
        order.retain(|(index, _)| plan.takes_part(*index, case));
        if round % 2 == 1 {
            order.reverse();
        }
        for (_, (server, runs)) in order {
            let result = one(plan, server, case)
                .map_err(|error| CompareError::new(server, &case.name, error))?;
            progress(&format!(
                "{:<13} {}",
                server.name,
                report::line(&case.load, &result)
            ));
            runs.push(result);
        }
    }
    if plan.counts_system_calls {
        let counts = plan.servers.iter().zip(&mut system_calls).enumerate();
        for (_, (server, calls)) in counts.filter(|(index, _)| plan.takes_part(*index, case)) {
            *calls = system_calls_of(plan, server, case)
                .map_err(|error| CompareError::new(server, &case.name, error))?;
        }
    }
    Ok(CaseResult {
        case: case.clone(),
        runs,
        system_calls,
    })
}

fn system_calls_of(plan: &Plan, server: &Server, case: &Case) -> Result<Option<f64>, LoadError> {
    let mut case = case.clone();
    case.load.count_system_calls = true;
    case.load.duration = case.load.duration.map(|time| time.min(COUNTED_TIME));
    case.load.file_bytes = case.load.file_bytes.map(|bytes| bytes.min(COUNTED_BYTES));
    let result = one(plan, server, &case)?;
    let each = |calls: u64| number(calls) / number(result.operations.max(1));
    Ok(result.system_calls.map(each))
}

fn one(plan: &Plan, server: &Server, case: &Case) -> Result<Measurement, LoadError> {
    if case.load.workload.writes() {
        settle(plan)?;
    }
    let result = run(&server.target, &case.load, server.process)?;
    if case.load.workload == Workload::Write {
        remove(&server.target, &case.load.path)?;
    }
    check_entries(&result)?;
    Ok(result)
}

/// An empty answer would be the fastest. A listing may have "." and "..".
fn check_entries(result: &Measurement) -> Result<(), LoadError> {
    let files = u64::from(LISTED_FILES);
    match result.entries {
        Some(now) if !(files..=files + 2).contains(&now) => {
            Err(LoadError::WrongEntries { files, now })
        }
        _ => Ok(()),
    }
}

/// Lets the file system write what it has, freed blocks included: no server pays for another.
fn settle(plan: &Plan) -> Result<(), LoadError> {
    let directory = File::open(&plan.directory)?;
    rustix::fs::syncfs(&directory).map_err(std::io::Error::from)?;
    std::thread::sleep(Duration::from_millis(100));
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::compare::serve_cases;
    use crate::measure::{Latency, Usage};

    /// A run of one second with these many megabytes and this much processor time.
    pub(crate) fn measured(megabytes: u64, cpu_milliseconds: u64) -> Measurement {
        let mut latency = Latency::default();
        latency.record(Duration::from_micros(megabytes));
        let used = Usage {
            user: Duration::from_millis(cpu_milliseconds),
            resident_bytes_high: 20 << 20,
            ..Usage::default()
        };
        Measurement {
            elapsed: Duration::from_secs(1),
            operations: megabytes,
            calls: megabytes,
            bytes: megabytes * 1_000_000,
            short_replies: 0,
            entries: None,
            commit: None,
            latency,
            server: Some(used),
            system_calls: None,
            own_bytes_high: Some(20 << 20),
            client: Usage::default(),
        }
    }

    pub(crate) fn server(name: &str) -> Server {
        let address = "127.0.0.1:1".parse().unwrap();
        Server {
            name: name.to_owned(),
            version: "1".to_owned(),
            target: Target {
                nfs: address,
                mount: address,
                export: "/".to_owned(),
            },
            process: None,
            limit: false,
            without: None,
        }
    }

    /// The result of a case in which the first server makes these numbers and the second those.
    pub(crate) fn result(case: &str, own: &[(u64, u64)], other: &[(u64, u64)]) -> CaseResult {
        let cases = serve_cases(Duration::from_secs(1));
        let case = cases.into_iter().find(|found| found.name == case).unwrap();
        let runs = |numbers: &[(u64, u64)]| {
            numbers
                .iter()
                .map(|(rate, cpu)| measured(*rate, *cpu))
                .collect()
        };
        CaseResult {
            case,
            runs: vec![runs(own), runs(other)],
            system_calls: vec![Some(2.0), None],
        }
    }

    #[test]
    fn a_listing_of_something_else_is_refused() {
        let of = |entries| {
            check_entries(&Measurement {
                entries,
                ..measured(1, 1)
            })
            .is_ok()
        };
        let each = [None, Some(0), Some(999), Some(1000), Some(1002), Some(1003)].map(of);
        assert_eq!(each, [true, false, false, true, true, false]);
    }

    #[test]
    fn ratios_are_taken_inside_a_round() {
        let result = result(
            "read 64 KiB, depth 1",
            &[(100, 1), (900, 1), (50, 1)],
            &[(50, 1), (300, 1), (50, 1)],
        );
        let ratio = result.ratio(1).unwrap();
        assert_eq!(
            ratio,
            Spread {
                median: 2.0,
                low: 1.0,
                high: 3.0
            }
        );
        let rate = result.spread(0, |run| result.rate(run)).unwrap();
        assert_eq!(
            rate,
            Spread {
                median: 100.0,
                low: 50.0,
                high: 900.0
            }
        );
        assert_eq!(result.ratio(2), None);
    }

    #[test]
    fn bare_servers_do_what_is_asked_of_so_many_and_others_what_they_can() {
        let mut servers = ["own", "peer", "bare", "barer"].map(server);
        servers[1].without = Some(Workload::ReaddirPlus);
        servers[2].limit = true;
        servers[3].limit = true;
        let plan = Plan {
            servers: servers.to_vec(),
            directory: PathBuf::new(),
            rounds: 1,
            counts_system_calls: false,
        };
        let part = |name: &str| {
            let cases = serve_cases(Duration::from_secs(1));
            let case = cases.into_iter().find(|found| found.name == name).unwrap();
            let parts = (0..5).map(|index| plan.takes_part(index, &case));
            parts.collect::<Vec<_>>()
        };
        let all = [true, true, true, true, false];
        assert_eq!(part("read 1 MiB, depth 16, 4 connections"), all);
        assert_eq!(part("getattr, depth 1"), [true, true, true, false, false]);
        let listing = part("readdirplus of 1000, depth 4");
        assert_eq!(listing, [true, false, false, false, false]);
    }
}
