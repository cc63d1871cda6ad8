use pagewell_cache::WriteRule as Rule;

use super::program::Program;
use super::run::Plan;
use super::target::TargetName;

fn run(rule: Rule, program: Program) -> super::run::Run {
    let plan = Plan {
        target: TargetName::Memory,
        program,
        rule,
        commit_interval: None,
    };
    plan.run(&std::env::temp_dir()).unwrap()
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
    assert!(run.written_bytes >= 8 * 8193, "{run:?}");
}
