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
use pagewell_source_dir::{Directory, Options};
use pagewell_source_ram::RamFileSystem;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use reference::Traits;
use tempfile::TempDir;

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
            "NotDirectory",
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
    verifier_in_times: false,
    identifiers_stay: true,
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

/// A directory of the local system, opened again at a restart.
struct Local {
    directory: Option<Directory>,
    options: Options,
    place: TempDir,
}

impl Local {
    fn new(options: &Options) -> Self {
        let place = tempfile::Builder::new().prefix("pagewell-model-").tempdir();
        let place = place.unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        std::fs::set_permissions(place.path(), everybody).unwrap();
        Self {
            directory: Some(Directory::open(place.path(), options.clone()).unwrap()),
            options: options.clone(),
            place,
        }
    }
}

impl Instance for Local {
    fn filesystem(&self) -> &dyn FileSystem {
        self.directory.as_ref().unwrap()
    }

    fn restart(&mut self) -> bool {
        self.directory = None;
        pagewell_fs::identity::act_for_server();
        let opened = Directory::open(self.place.path(), self.options.clone());
        self.directory = Some(opened.unwrap());
        true
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.directory = None;
        pagewell_fs::identity::act_for_server(); // or this thread cannot remove the directory
    }
}

/// Names and attributes need not be on the device for these tests.
fn handles() -> Options {
    Options {
        metadata_sync: false,
        ..Options::default()
    }
}

fn path_hints() -> Options {
    Options {
        force_trails: true,
        ..handles()
    }
}

fn local_traits(identifiers_stay: bool) -> Traits {
    let protected = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks");
    Traits {
        links_protected: protected.is_ok_and(|text| text.trim() != "0"),
        reads_move_accessed: true,
        before_always: true,
        never_blocks: false,
        verifier_in_times: true,
        identifiers_stay,
        file_bytes_max: 0,
    }
}

/// Only root can act for several users.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        pagewell_skip::skip("needs root to act as several users");
    }
    root
}

fn local_equals_the_model(cases: u32, options: &Options) {
    if !is_root() {
        return;
    }
    run_sequences(cases, |steps, outcomes| {
        let mut driver = Driver::new(
            Box::new(Local::new(options)),
            local_traits(!options.force_trails),
            outcomes,
        );
        driver.run(steps);
        driver.remove_all();
    });
}

#[test]
fn directories_by_handle_equal_the_model() {
    local_equals_the_model(200, &handles());
}

#[test]
fn directories_by_path_hint_equal_the_model() {
    local_equals_the_model(200, &path_hints());
}

#[test]
fn directories_stay_whole_under_threads() {
    if is_root() {
        for (seed, options) in [handles(), path_hints()].iter().enumerate() {
            let local = Local::new(options);
            concurrent::random_operations(local.filesystem(), false, seed as u64);
            tree::remove_all(local.filesystem());
        }
    }
}

#[test]
fn directories_report_true_changes() {
    if is_root() {
        concurrent::consistent_changes(Local::new(&handles()).filesystem());
    }
}
