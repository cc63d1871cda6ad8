//! Random schedules against the model, and what they must have met.

use std::time::Duration;

use pagewell_policy::writeback::{Counts, Settings};

/// A schedule is replayed by its seed.
pub(crate) use pagewell_base::mix::Random as Numbers;

use crate::model::{Action, BYTES, FILES, Model};

pub(crate) fn small(numbers: &mut Numbers) -> Settings {
    let page_bytes = 1 << (4 + numbers.below(4));
    Settings {
        page_bytes,
        cluster_bytes_max: 1 + numbers.below(400),
        flight_bytes_max: 128 + numbers.below(1000),
        bandwidth_initial: 300 + numbers.below(3000),
        expire: Duration::from_secs(1 + numbers.below(30)),
        ..Settings::new(page_bytes * (2 + numbers.below(30)))
    }
}

fn range(numbers: &mut Numbers, longest: u64) -> (u64, u64) {
    let length = 1 + numbers.below(longest);
    (numbers.below(BYTES as u64 - length + 1), length)
}

fn action(numbers: &mut Numbers) -> Action {
    let file = numbers.below(FILES as u64) as usize;
    match numbers.below(100) {
        0..45 => {
            let (start, length) = range(numbers, 120);
            Action::Write {
                file,
                start,
                length,
            }
        }
        45..70 => Action::Next,
        70..88 => Action::Finish {
            which: numbers.below(8) as usize,
            written: numbers.below(10) > 0,
        },
        88..93 => {
            let (start, length) = range(numbers, BYTES as u64);
            Action::Tag {
                file,
                start,
                length,
            }
        }
        93..99 => Action::Wait(Duration::from_millis(1 << numbers.below(15))),
        _ => match numbers.below(4) {
            0 => Action::Forget,
            _ => Action::Next,
        },
    }
}

fn run(seed: u64, actions: u64) -> Counts {
    let mut numbers = Numbers(seed);
    let mut model = Model::new(small(&mut numbers));
    for _ in 0..actions {
        model.act(action(&mut numbers));
    }
    model.drain();
    model.policy.counts()
}

/// Runs many, and adds up what they met.
fn run_all() -> Counts {
    let mut sum = Counts::default();
    for seed in 0..100 {
        let counts = run(seed, 200);
        sum.refused += counts.refused;
        sum.paused += counts.paused;
        sum.redirtied_bytes += counts.redirtied_bytes;
        sum.expired_writes += counts.expired_writes;
        sum.retry_writes += counts.retry_writes;
        sum.background_writes += counts.background_writes;
        sum.tagged_writes += counts.tagged_writes;
        sum.flight_stops += counts.flight_stops;
        sum.tags_failed += counts.tags_failed;
        sum.tags_written += counts.tags_written;
        sum.forgotten_bytes += counts.forgotten_bytes;
        let by_reason = counts.tagged_writes
            + counts.expired_writes
            + counts.retry_writes
            + counts.behind_writes
            + counts.background_writes;
        assert_eq!(counts.writes, by_reason);
        assert_eq!(counts.writes, counts.written + counts.failed);
        assert_eq!(counts.tags, counts.tags_written + counts.tags_failed);
    }
    sum
}

#[test]
fn random_schedules_meet_every_reason() {
    let sum = run_all();
    assert!(
        sum.refused > 0 && sum.expired_writes > 0 && sum.retry_writes > 0,
        "{sum:?}"
    );
    assert!(
        sum.background_writes > 0 && sum.tagged_writes > 0,
        "{sum:?}"
    );
    assert!(
        sum.tags_failed > 0 && sum.tags_written > 0 && sum.forgotten_bytes > 0,
        "{sum:?}"
    );
    assert!(
        sum.redirtied_bytes > 0 && sum.flight_stops > 0 && sum.paused > 0,
        "{sum:?}"
    );
}
