//! Every kind of writable file system against one reference model.
//!
//! Problem: NFSv3 has 20 operations, POSIX some hundred rules about them, and most bugs sit where
//! two rules meet. Rule: random operations of several users run on the file system and on the
//! plainest possible model ([`reference`]); after each, results, attributes and reports of change
//! must agree. What fails is shrunk to the shortest sequence that still fails.
//!
//! A kind joins with a [`driver::Instance`], its [`reference::Traits`] and a few lines below.
//!
//! Seeds are fixed, so a run can be repeated; `PAGEWELL_MODEL_SEED` and `PAGEWELL_MODEL_CASES`
//! give a longer search.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test: to panic is to fail

mod concurrent;
mod driver;
mod names;
mod object;
mod operation;
mod reference;
mod rules;
mod steps;
mod tree;

use std::cell::RefCell;

use driver::{Driver, Instance, Outcomes};
use pagewell_fs::FileSystem;
use pagewell_fs::ram::RamFileSystem;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use reference::Traits;

/// Steps of one sequence, at most.
const STEPS: usize = 120;

fn from_environment<T: std::str::FromStr>(name: &str, usual: T) -> T {
    let value = std::env::var(name).ok().and_then(|text| text.parse().ok());
    value.unwrap_or(usual)
}

fn run_sequences(cases: u32, run: impl Fn(&[operation::Step], &RefCell<Outcomes>)) {
    let outcomes = RefCell::new(Outcomes::new());
    let mut runner = TestRunner::new(Config {
        cases: from_environment("PAGEWELL_MODEL_CASES", cases),
        rng_seed: RngSeed::Fixed(from_environment("PAGEWELL_MODEL_SEED", 1)),
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..Config::default()
    });
    let result = runner.run(&operation::steps(STEPS), |steps| {
        run(&steps, &outcomes);
        Ok::<(), TestCaseError>(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    check_coverage(&outcomes.into_inner());
}

/// What each operation must have met, or the sequences test less than they claim.
const MUST_MEET: [(&str, &[&str]); 17] = [
    (
        "Lookup",
        &[
            "Ok",
            "NotFound",
            "AccessDenied",
            "NotDirectory",
            "Stale",
            "BadId",
        ],
    ),
    ("Attributes", &["Ok", "Stale", "BadId"]),
    (
        "SetAttributes",
        &[
            "Ok",
            "NotPermitted",
            "AccessDenied",
            "NotSync",
            "FileTooLarge",
        ],
    ),
    ("Access", &["Ok", "Stale", "BadId"]),
    ("ReadLink", &["Ok", "Invalid"]),
    (
        "Read",
        &["Ok", "AccessDenied", "IsDirectory", "Invalid", "Stale"],
    ),
    (
        "Write",
        &["Ok", "AccessDenied", "IsDirectory", "FileTooLarge", "Stale"],
    ),
    ("Commit", &["Ok", "IsDirectory"]),
    (
        "Create",
        &[
            "Ok",
            "Exists",
            "AccessDenied",
            "NotPermitted",
            "NameTooLong",
        ],
    ),
    (
        "MakeDirectory",
        &["Ok", "Exists", "AccessDenied", "Invalid"],
    ),
    (
        "MakeSymlink",
        &["Ok", "Exists", "AccessDenied", "NameTooLong"],
    ),
    (
        "MakeNode",
        &["Ok", "Exists", "AccessDenied", "NotPermitted"],
    ),
    ("Link", &["Ok", "Exists", "AccessDenied", "NotPermitted"]),
    (
        "Remove",
        &[
            "Ok",
            "NotFound",
            "AccessDenied",
            "NotPermitted",
            "IsDirectory",
        ],
    ),
    (
        "RemoveDirectory",
        &["Ok", "NotFound", "AccessDenied", "NotEmpty", "NotDirectory"],
    ),
    (
        "Rename",
        &[
            "Ok",
            "NotFound",
            "Invalid",
            "NotEmpty",
            "IsDirectory",
            "NotDirectory",
        ],
    ),
    (
        "ReadDirectory",
        &["Ok", "AccessDenied", "NotDirectory", "Stale"],
    ),
];

fn check_coverage(outcomes: &Outcomes) {
    for (operation, wanted) in MUST_MEET {
        let met = outcomes.get(operation).cloned().unwrap_or_default();
        for outcome in wanted {
            assert!(
                met.contains_key(*outcome),
                "no {outcome} of {operation}: {met:?}"
            );
        }
    }
}

/// A new one for each sequence; nothing of it survives a restart.
struct Ram(RamFileSystem);

impl Ram {
    fn new() -> Self {
        Self(RamFileSystem::new(1 << 30).unwrap())
    }
}

impl Instance for Ram {
    fn filesystem(&self) -> &dyn FileSystem {
        &self.0
    }

    fn restart(&mut self) -> bool {
        false
    }
}

const RAM_TRAITS: Traits = Traits {
    links_protected: false,
    reads_move_accessed: false,
    before_always: true,
    never_blocks: true,
    file_bytes_max: 0,
};

#[test]
fn ram_equals_the_model() {
    run_sequences(400, |steps, outcomes| {
        let mut driver = Driver::new(Box::new(Ram::new()), RAM_TRAITS, outcomes);
        driver.run(steps);
        assert_eq!(driver.remove_all(), 0, "bytes that nobody uses");
    });
}

#[test]
fn ram_stays_whole_under_threads() {
    for seed in 0..4 {
        let ram = Ram::new();
        let used = ram.0.used_bytes();
        concurrent::random_operations(&ram.0, true, seed);
        tree::remove_all(&ram.0);
        assert_eq!(ram.0.used_bytes(), used, "bytes that nobody uses");
    }
}

#[test]
fn ram_reports_true_changes() {
    concurrent::consistent_changes(&Ram::new().0);
}
