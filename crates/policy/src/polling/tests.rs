//! Clients and machines in virtual time.

use super::*;
use std::iter::repeat_n;

const LIMIT: Duration = Duration::from_micros(50);
/// What it takes to be woken.
const WAKING: Duration = Duration::from_micros(20);

/// What a run has cost.
#[derive(Debug, Default)]
struct Cost {
    /// Processor time of polls.
    polled: Duration,
    /// Processor time of polls that found nothing.
    in_vain: Duration,
    polls: u32,
    polls_in_vain: u32,
    total: Duration,
}

/// Waits `gaps` long, on a machine on which a thread that polls either keeps the work away or
/// does not.
fn run(polling: &mut Polling, keeps_away: bool, gaps: impl IntoIterator<Item = Duration>) -> Cost {
    let mut cost = Cost::default();
    for gap in gaps {
        let limit = polling.begin(false);
        let found = gap <= limit && !keeps_away && !limit.is_zero();
        let polled = if found { gap } else { limit };
        let total = match (found, keeps_away) {
            (true, _) => gap,
            (false, true) => limit + gap + WAKING,
            (false, false) => gap + WAKING,
        };
        polling.waited(Waited {
            total,
            slept: !found,
            was_interrupted: false,
        });
        cost.polls += u32::from(!limit.is_zero());
        cost.polls_in_vain += u32::from(!limit.is_zero() && !found);
        cost.polled += polled;
        cost.in_vain += if found { Duration::ZERO } else { polled };
        cost.total += total;
    }
    cost
}

fn microseconds(gaps: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Duration> {
    gaps.into_iter().map(Duration::from_micros)
}

#[test]
fn a_client_that_waits_for_each_answer_is_polled_for() {
    let mut polling = Polling::new(LIMIT);
    let cost = run(&mut polling, false, microseconds(repeat_n(15, 1000)));
    assert_eq!((cost.polls, cost.polls_in_vain), (1000 - TRUSTED, 0));
}

#[test]
fn an_idle_thread_sleeps() {
    let mut polling = Polling::new(LIMIT);
    run(&mut polling, false, microseconds(repeat_n(15, 100)));
    let cost = run(&mut polling, false, microseconds(repeat_n(5_000, 1000)));
    assert_eq!(cost.polls, 1, "the first long wait is not known before");
}

#[test]
fn a_client_that_needs_the_processor_gets_it() {
    let mut polling = Polling::new(LIMIT);
    let cost = run(&mut polling, true, microseconds(repeat_n(15, 100_000)));
    assert!(cost.polls <= 40, "{cost:?}");
    let ratio = cost.polled.as_secs_f64() / cost.total.as_secs_f64();
    assert!(ratio < 0.001, "{cost:?}");
}

#[test]
fn polls_come_back_when_the_processor_is_free_again() {
    let mut polling = Polling::new(LIMIT);
    run(&mut polling, true, microseconds(repeat_n(15, 100_000)));
    let cost = run(&mut polling, false, microseconds(repeat_n(15, 20_000)));
    assert!(cost.polls > 15_000, "{cost:?}");
}

#[test]
fn a_new_client_is_not_doubted_for_what_others_did() {
    let mut polling = Polling::new(LIMIT);
    run(&mut polling, true, microseconds(repeat_n(15, 100_000)));
    polling.trust_again();
    let cost = run(&mut polling, false, microseconds(repeat_n(15, 100)));
    assert!(cost.polls >= 100 - TRUSTED, "{cost:?}");
}

#[test]
fn an_interrupted_poll_is_no_success() {
    let mut polling = Polling::new(LIMIT);
    let mut polls = 0;
    for _ in 0..10_000 {
        polls += u32::from(!polling.begin(false).is_zero());
        polling.waited(Waited {
            total: Duration::from_micros(40),
            slept: false,
            was_interrupted: true,
        });
    }
    assert!(polls <= 12, "{polls}");
}

#[test]
fn bursts_cost_one_poll_in_vain_each() {
    let mut polling = Polling::new(LIMIT);
    let burst = [10, 12, 9, 14, 11, 10, 8, 30_000];
    let gaps = burst.into_iter().cycle().take(8 * 1000);
    let cost = run(&mut polling, false, microseconds(gaps));
    assert!(cost.polls_in_vain <= 1000, "{cost:?}");
    let ratio = cost.in_vain.as_secs_f64() / cost.total.as_secs_f64();
    assert!(ratio < 0.002, "{cost:?}");
}

#[test]
fn work_that_comes_just_too_late_is_not_polled_for() {
    let mut polling = Polling::new(LIMIT);
    let cost = run(&mut polling, false, microseconds(repeat_n(60, 100_000)));
    let ratio = cost.in_vain.as_secs_f64() / cost.total.as_secs_f64();
    assert!(ratio < 0.001, "{cost:?}");
}

#[test]
fn gaps_of_any_length_in_any_order_waste_little() {
    let mut state = 7u64;
    let mut polling = Polling::new(LIMIT);
    let gaps = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 200
    });
    let cost = run(&mut polling, false, microseconds(gaps.take(100_000)));
    let ratio = cost.in_vain.as_secs_f64() / cost.total.as_secs_f64();
    assert!(ratio < 0.05, "{cost:?}");
}

#[test]
fn no_limit_is_no_poll() {
    let mut polling = Polling::new(Duration::ZERO);
    let cost = run(&mut polling, false, microseconds(repeat_n(0, 100)));
    assert_eq!((cost.polls, cost.polled), (0, Duration::ZERO));
}

#[test]
fn where_threads_are_crowded_none_polls_and_all_do_as_soon_as_they_are_not() {
    let mut polling = Polling::new(LIMIT);
    run(&mut polling, false, microseconds(repeat_n(15, 100)));
    for _ in 0..1000 {
        assert_eq!(polling.begin(true), Duration::ZERO);
        polling.waited(Waited {
            total: Duration::from_micros(60),
            slept: true,
            was_interrupted: false,
        });
        assert!(polling.is_at_work());
    }
    assert_eq!(polling.begin(false), LIMIT);
    polling.waited(Waited {
        total: Duration::from_secs(1),
        slept: true,
        was_interrupted: false,
    });
    assert!(!polling.is_at_work());
}
