//! Many random schedules: from seeds, and from a fuzzer (`cargo bolero test`).

use std::thread;

use pagewell_policy::elevator::Counts;

use crate::choices::{Choices, Input, SplitMix};
use crate::schedule::Schedule;

const SCHEDULES: u64 = 1_000_000;
const STEPS_MAX: u64 = 32;

/// How many schedules: the variable `ELEVATOR_SCHEDULES`, or a million.
fn wanted() -> u64 {
    match std::env::var("ELEVATOR_SCHEDULES") {
        Ok(text) => text.parse().expect("ELEVATOR_SCHEDULES is not a number"),
        Err(_) => SCHEDULES,
    }
}

/// What all schedules together did, so that it shows when they stop to reach a branch.
fn add(total: &mut Counts, counts: &Counts) {
    total.promoted += counts.promoted;
    total.overlapped += counts.overlapped;
    total.dispatched += counts.dispatched;
    total.merged += counts.merged;
    total.wraps += counts.wraps;
    total.deadline_picks += counts.deadline_picks;
    total.deadline_postponed += counts.deadline_postponed;
    total.backward_moves += counts.backward_moves;
    total.run_continuations += counts.run_continuations;
    total.bridged_gaps += counts.bridged_gaps;
    total.depth_refusals += counts.depth_refusals;
}

fn run_seeds(seeds: impl Iterator<Item = u64>) -> Counts {
    let mut total = Counts::default();
    for seed in seeds {
        let run = || {
            let mut choices = SplitMix::new(seed);
            let steps = 4 + choices.below(STEPS_MAX - 4);
            Schedule::run(&mut choices, steps)
        };
        match std::panic::catch_unwind(run) {
            Ok(counts) => add(&mut total, &counts),
            Err(_) => panic!("schedule with seed {seed}"),
        }
    }
    total
}

#[test]
fn a_million_random_schedules_keep_to_the_rules() {
    let wanted = wanted();
    let threads = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let total = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let seeds = (worker..wanted).step_by(threads as usize);
                scope.spawn(move || run_seeds(seeds))
            })
            .collect();
        let mut total = Counts::default();
        for worker in workers {
            add(&mut total, &worker.join().unwrap());
        }
        total
    });
    println!("{wanted} schedules: {total:?}");
    let reached = [
        total.promoted,
        total.overlapped,
        total.merged,
        total.wraps,
        total.deadline_picks,
        total.deadline_postponed,
        total.run_continuations,
        total.bridged_gaps,
        total.depth_refusals,
    ];
    assert!(wanted < 1000 || reached.iter().all(|count| *count > wanted / 1000));
}

#[test]
fn any_input_is_a_schedule_that_keeps_to_the_rules() {
    bolero::check!()
        .with_iterations(5_000)
        .for_each(|input: &[u8]| {
            Schedule::run(&mut Input(input), 300);
        });
}
