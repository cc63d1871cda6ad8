//! Two gateways over one store: random operations, a model beside them, and faults.
//!
//! ```text
//!   operations ──> gateway ──> link: done, not done, answer lost, done later, killed ──> store
//!        └──────────────> chronicle <────────── versions, and what each gateway has seen
//! ```
//!
//! What holds, whatever happens:
//!
//! - **One version.** What a read returns is a version of the object as a whole, the one that its
//!   gateway has seen last, or one that a program which has it open began with. A gateway with
//!   changes of its own returns the version that these are based on, with all of them.
//! - **No unseen overwrite.** A new version is the one before it with the changes of its gateway,
//!   and the gateway had seen that one before it made the first of these changes. Or it is a new
//!   file where there is none; or what was renamed.
//! - **Acknowledged is there.** After a commit, a close or a sync that succeeds, all changes that
//!   came before are in the store; with a journal, they are so after a kill, a start and a sync.
//!   Or a conflict was reported, and then they are in a file that the error names. A conflict has a
//!   reason.
//! - **Nothing is left behind.** An upload that has no end is noted in the staging folder.
//!
//! A request may be done long after its gateway has given it up. In the middle of a request the
//! other gateway may do anything, and programs at the same one may write to the file that is sent.
//! No thread sends anything by itself, so a seed is a history.

mod chronicle;
mod draft;
mod history;
mod link;

use std::time::Duration;

use pagewell_base::mix::Random;
use pagewell_object_client::Acknowledge;
use tempfile::TempDir;

use super::{How, MOUNT};
use history::{Setup, history};

/// A folder, in memory where the system has such.
fn folder() -> TempDir {
    let shared = std::path::Path::new("/dev/shm");
    if shared.is_dir() {
        TempDir::new_in(shared).unwrap()
    } else {
        TempDir::new().unwrap()
    }
}

/// Histories with these seeds, in which one request of so many is not as it should be; 0: none.
fn histories(seeds: std::ops::Range<u64>, faults: u64) {
    for seed in seeds {
        let mut random = Random(seed);
        let mut how = || How {
            acknowledge: [Acknowledge::Store, Acknowledge::Journal][random.below(2) as usize],
            is_at_once: random.below(2) == 0,
            age: [Duration::ZERO, MOUNT.age][random.below(2) as usize],
            has_metadata: false,
            // Few bytes are sent before they are committed, or none.
            part_bytes: [0, 128, 1_000][random.below(3) as usize],
            ..MOUNT
        };
        let how = [how(), how()];
        let setup = Setup {
            faults,
            others: [0, 6][random.below(2) as usize],
            how,
        };
        history(seed, setup);
    }
}

// 10,000 together.

#[test]
fn histories_without_faults_are_right() {
    histories(0..2_500, 0);
}

#[test]
fn more_histories_without_faults_are_right() {
    histories(2_500..5_000, 0);
}

#[test]
fn histories_with_many_faults_are_right() {
    histories(5_000..7_500, 8);
}

#[test]
fn histories_with_some_faults_are_right() {
    histories(7_500..10_000, 20);
}
