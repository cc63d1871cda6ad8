use std::time::Duration;

use super::program::Program;
use super::run::Plan;
use super::target::TargetName;
use super::{Choice, run_choice};
use crate::experiment::{Options, Rule, Session};

fn run(rule: Rule, program: Program) -> super::run::Run {
    let plan = Plan {
        target: TargetName::Memory,
        program,
        rule,
        commit_interval: None,
    };
    plan.run(None).unwrap()
}

#[test]
fn each_rule_asks_the_device_for_what_the_report_says() {
    // A tenth of the report's updates.
    let program = Program {
        updates: 1000,
        ..Program::default()
    };
    let counts = |rule| {
        let run = run(rule, program);
        (run.reads, run.writes)
    };
    assert_eq!(counts(Rule::Delayed), (0, 0));
    assert_eq!(counts(Rule::BlockEnd), (0, 875));
    assert_eq!(counts(Rule::NoCluster), (0, 1000));
    assert_eq!(counts(Rule::Sync), (0, 1000));
    assert_eq!(counts(Rule::BugReplica), (1000, 1000));
    let run = run(Rule::BugReplica, program);
    let least = 1000 * (program.block_bytes + program.write_bytes);
    assert!(run.device_bytes >= least, "what is read counts: {run:?}");
}

#[test]
fn what_is_delayed_goes_in_few_writes() {
    let program = Program {
        updates: 100,
        block_bytes: 8193,
        write_bytes: 8193,
        ..Program::default()
    };
    let run = run(Rule::Delayed, program);
    assert!((1..=9).contains(&run.flush_writes), "{run:?}");
    assert!(run.device_bytes >= 8 * 8193, "{run:?}");
}

#[test]
fn what_was_measured_before_the_time_is_over_stays() {
    let mut time_max = Duration::from_millis(500);
    let session = loop {
        let mut session = Session::new(Options {
            quick: true,
            repeat: 1_000_000,
            time_max,
            progress: false,
        });
        run_choice(&mut session, &Choice::default());
        // On a busy machine the time may be over before the first run begins.
        if !session.rows().is_empty() {
            break session;
        }
        time_max *= 2;
        assert!(time_max < Duration::from_mins(5), "no run begins");
    };
    assert_eq!(session.failures().len(), 1);
    assert!(
        session.rows()[0]
            .mean()
            .is_some_and(|seconds| seconds > 0.0)
    );
    assert!(session.verdicts().is_empty());
}
