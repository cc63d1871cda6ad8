//! Whether unneeded threads of a server cost anything: the same writes to a server with 4 and to
//! one with 64, run by run beside each other.
//!
//! The report's server lost a quarter of its rate with 64. A run here takes some tens of
//! milliseconds, so what counts is the median of the ratios of many pairs, each of which begins
//! with the other server.

use pagewell_load::report::rate;

use super::case::Configuration;
use super::recording::{Recording, middle_ratio};
use super::run::{Place, Setting};
use super::workload::Workload;
use crate::experiment::{Result, Session};

/// Pairs of runs of each workload.
const REPEATS: usize = 61;
/// 64 threads against 4: less is not chance.
const RATIO_MIN: f64 = 0.95;

/// Runs all workloads that write, and judges them.
pub(super) fn run(session: &mut Session, few: &Place, many: &Place) -> Result<()> {
    let repeats = session.options().repeat.max(REPEATS);
    for workload in Workload::ALL.into_iter().filter(|one| one.writes) {
        let [mut of_few, mut of_many] = [Vec::new(), Vec::new()];
        for repeat in 1..=repeats {
            let name = workload.name();
            session.step(&format!("{name}, 4 and 64 threads, {repeat} of {repeats}"))?;
            let mut sides = [(few, &mut of_few), (many, &mut of_many)];
            if repeat % 2 == 0 {
                sides.reverse();
            }
            for (place, runs) in sides {
                runs.push(place.write(&Setting::USUAL, workload)?);
            }
        }
        let (pass, what) = verdict(workload, &of_few, &of_many);
        session.verdict(pass, what);
    }
    Ok(())
}

fn verdict(workload: Workload, few: &[Recording], many: &[Recording]) -> (bool, String) {
    let ratio = middle_ratio(many, few, Recording::kilobytes_per_second);
    let threads = Configuration::ALL.map(Configuration::threads);
    verdict!(
        ratio >= RATIO_MIN,
        "{}: {} server threads are not slower than {} (at least {RATIO_MIN} x): {} x (middle \
             of {} runs side by side)",
        workload.name(),
        threads[1],
        threads[0],
        rate(ratio),
        few.len()
    )
}
