//! Cases, and the report's numbers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewell_layers::model::Parameters;
use pagewell_load::measure::Runs;

use super::program::{BLOCK_BYTES, Order, Program};
use super::run::{Plan, Run};
use super::target::TargetName;
use crate::experiment::{Result, Rule};

/// The report's disks turn at this speed.
const DISK: &str = "hdd-7200";
/// The rules of the report, the default first.
const RULES: [Rule; 5] = [
    Rule::Delayed,
    Rule::BlockEnd,
    Rule::NoCluster,
    Rule::Sync,
    Rule::BugReplica,
];
/// How much faster than a real one the disk's clock runs, so that ten thousand writes in sequence
/// take seconds.
const SPEED: f64 = 20.0;
const SLOW: Duration = Duration::from_millis(5);
/// Updates where two devices are compared: enough against chance.
const LONG_UPDATES: u64 = 200_000;
/// How often the other thread commits.
const COMMIT_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes from block to block, and written: the cells of the report's table.
const BLOCK_SIZES: [u64; 3] = [BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1];
const WRITE_SIZES: [u64; 6] = [
    BLOCK_BYTES - 1,
    BLOCK_BYTES,
    BLOCK_BYTES + 1,
    BLOCK_BYTES / 2 - 1,
    BLOCK_BYTES / 2,
    BLOCK_BYTES / 2 + 1,
];
/// Device operations and seconds of the report, on an old machine: a row for each block size, a
/// column for each write size.
const REPORT_OPERATIONS: [[u64; 6]; 3] = [
    [7500, 7500, 7500, 7500, 7500, 7500],
    [0, 8750, 8750, 0, 0, 0],
    [8750, 8750, 8750, 0, 0, 0],
];
const REPORT_SECONDS: [[f64; 6]; 3] = [
    [34.10, 31.52, 32.63, 33.79, 34.00, 33.58],
    [1.97, 39.30, 40.09, 0.76, 0.58, 0.74],
    [46.22, 40.48, 40.57, 1.00, 1.05, 1.02],
];
/// Device operations of the report with 16 blocks.
const REPORT_16_BLOCKS: u64 = 9375;

/// What to run. By default all sizes of the report under all rules, in memory, on a scratch file
/// and on slow devices; otherwise one program, on a scratch file unless a target is given.
#[derive(Clone, Debug, Default, Args)]
pub struct Choice {
    /// What the file is on: memory, file, delay:TIME or model:NAME[,OPTION=VALUE]...
    #[arg(value_name = "TARGET")]
    pub targets: Vec<TargetName>,
    /// The program; unless it is another than the default, all of the report's.
    #[command(flatten)]
    pub program: Program,
    /// Only this rule, one of delayed, block-end, nocluster, sync, bug-replica and one-range; can
    /// be repeated
    #[arg(long = "rule", value_name = "RULE")]
    pub rules: Vec<Rule>,
    /// Where scratch files are made; by default TMPDIR
    #[arg(long, value_name = "PATH")]
    pub directory: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) plan: Plan,
    pub(super) runs: Vec<Run>,
}

impl Choice {
    fn rules(&self) -> &[Rule] {
        if self.rules.is_empty() {
            &RULES
        } else {
            &self.rules
        }
    }

    pub(super) fn cases(&self, quick: bool) -> Result<Vec<Case>> {
        let mut plans = Vec::new();
        let is_usual = self.program == Program::default();
        if is_usual && self.targets.is_empty() && self.rules.is_empty() {
            plans = report(quick)?;
        } else {
            let default = [TargetName::File];
            let targets = match self.targets.as_slice() {
                [] => &default[..],
                targets => targets,
            };
            for target in targets {
                let rules = self.rules().iter();
                plans.extend(rules.map(|rule| plan(target, self.program, *rule)));
            }
        }
        let case = |plan| Case {
            plan,
            runs: Vec::new(),
        };
        Ok(plans.into_iter().map(case).collect())
    }
}

/// Counts in memory, for all cells and rules; times on a file and on slow devices.
fn report(quick: bool) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    let blocks: &[u64] = if quick { &[8] } else { &[8, 16] };
    for blocks in blocks {
        for program in cells(*blocks) {
            let rules = RULES.iter();
            plans.extend(rules.map(|rule| plan(&TargetName::Memory, program, *rule)));
        }
    }
    for program in cells(8) {
        plans.push(plan(&TargetName::File, program, Rule::Delayed));
        if !quick || program == Program::default() {
            plans.push(plan(&TargetName::File, program, Rule::BlockEnd));
        }
    }
    let disk = TargetName::Model(disk()?);
    // The others wait for each write, which takes long on every device.
    let rules = if quick { &RULES[..2] } else { &RULES };
    for rule in rules {
        if *rule != Rule::Delayed && *rule != Rule::BlockEnd {
            plans.push(plan(&TargetName::File, Program::default(), *rule));
        }
        plans.push(plan(&disk, Program::default(), *rule));
    }
    for commit_interval in [None, Some(COMMIT_INTERVAL)] {
        for time in [Duration::ZERO, SLOW] {
            let program = Program {
                updates: LONG_UPDATES,
                ..Program::default()
            };
            let plan = plan(&TargetName::Delay(time), program, Rule::Delayed);
            plans.push(Plan {
                commit_interval,
                ..plan
            });
        }
    }
    Ok(plans)
}

fn plan(target: &TargetName, program: Program, rule: Rule) -> Plan {
    Plan {
        target: target.clone(),
        program,
        rule,
        commit_interval: None,
    }
}

fn disk() -> Result<Parameters> {
    Ok(Parameters::parse(&format!("{DISK},speed={SPEED}"))?)
}

/// The programs of the report's table.
fn cells(blocks: u64) -> impl Iterator<Item = Program> {
    let sizes = BLOCK_SIZES.into_iter();
    sizes.flat_map(move |block_bytes| {
        WRITE_SIZES.into_iter().map(move |write_bytes| Program {
            blocks,
            block_bytes,
            write_bytes,
            ..Program::default()
        })
    })
}

impl Case {
    pub(super) fn name(&self) -> String {
        let plan = &self.plan;
        let committed = if plan.commit_interval.is_some() {
            ", made durable all the while"
        } else {
            ""
        };
        format!("{}, {}{committed}", plan.target.title(), plan.program)
    }

    /// Whether the program is one of the report's, but for its sizes and number of blocks.
    pub(super) fn is_of_report(&self) -> bool {
        let program = self.plan.program;
        let default = Program::default();
        program.updates == default.updates && program.order == Order::Stride
    }

    /// Device operations and, if the report has them, seconds.
    pub(super) fn report(&self) -> Option<(u64, Option<f64>)> {
        let program = self.plan.program;
        if !self.is_of_report() {
            return None;
        }
        let default = program
            == Program {
                blocks: program.blocks,
                ..Program::default()
            };
        match self.plan.rule {
            Rule::BlockEnd if program.blocks == 8 => {
                let row = BLOCK_SIZES
                    .iter()
                    .position(|size| *size == program.block_bytes)?;
                let column = WRITE_SIZES
                    .iter()
                    .position(|size| *size == program.write_bytes)?;
                let seconds = Some(REPORT_SECONDS[row][column]);
                Some((REPORT_OPERATIONS[row][column], seconds))
            }
            Rule::BlockEnd if default && program.blocks == 16 => Some((REPORT_16_BLOCKS, None)),
            // The times are of another machine: FreeBSD 3.2 with `noclusterw` and `sync`.
            Rule::NoCluster if default && program.blocks == 8 => Some((10_000, Some(58.0))),
            Rule::BugReplica if default && program.blocks == 8 => Some((20_000, Some(105.0))),
            // What the report says is right.
            Rule::Sync if default => Some((10_000, None)),
            _ => None,
        }
    }

    /// How often it runs: more often where time matters, once where the run is long and only counts
    /// do.
    pub(super) fn repeats(&self, asked: usize) -> usize {
        if self.plan.rule == Rule::Delayed {
            asked.max(super::TIMED_RUNS_MIN)
        } else {
            asked
        }
    }

    /// The least of a number over all runs, without disturbances.
    pub(super) fn least(&self, of: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// The mean of a count, rounded.
    pub(super) fn count(&self, of: impl Fn(&Run) -> u64) -> u64 {
        self.runs.mean_count(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_report_has_its_numbers() {
        let cases = Choice::default().cases(false).unwrap();
        let known = |rule, blocks| {
            let of = |case: &&Case| {
                let plan = &case.plan;
                plan.rule == rule
                    && plan.program.blocks == blocks
                    && plan.target == TargetName::Memory
                    && case.report().is_some()
            };
            cases.iter().filter(of).count()
        };
        assert_eq!(known(Rule::BlockEnd, 8), 18);
        assert_eq!(known(Rule::BlockEnd, 16), 1);
        assert_eq!(known(Rule::NoCluster, 8), 1);
        assert_eq!(known(Rule::Delayed, 8), 0);
        let delayed = |case: &&Case| case.plan.rule == Rule::Delayed;
        assert!(cases.iter().filter(delayed).count() >= 18 * 3);
    }
}
