//! The rules of adaptive read-ahead for backward and strided streams, one test each.

#![allow(clippy::unwrap_used)]

mod readahead_support;

use pagewell_policy::readahead::{AccessKind, Adaptive, Feedback, Plan, Settings};
use readahead_support::{KIB, MIB, PAGE, access, bytes_of};

const LENGTH: u64 = 1 << 34;

fn flash() -> Adaptive {
    Adaptive::new(Settings::flash(LENGTH))
}

fn miss(policy: &mut Adaptive, offset: u64, length: u64, milliseconds: u64) -> Plan {
    policy.access(&access(offset, length, AccessKind::Miss, milliseconds))
}

#[test]
fn a_backward_stream_is_found_and_planned_downward() {
    let mut policy = flash();
    let top = 1 << 30;
    let mut plan = Plan::default();
    for read in 1..=3u64 {
        assert!(plan.fetch.is_empty());
        plan = miss(&mut policy, top - read * 8 * KIB, 8 * KIB, read);
    }
    assert_eq!(policy.counts().backward, 1);
    let mut end = top - 24 * KIB;
    for step in 0..20 {
        for range in &plan.fetch {
            assert_eq!(range.end, end, "step {step}");
            end = range.start;
        }
        let marker = plan.marker.unwrap();
        assert!(marker >= end);
        plan = policy.access(&access(marker - 8191, 8192, AccessKind::Marker, 10 + step));
    }
    assert!(bytes_of(&plan) + PAGE >= 2 * MIB && plan.fetch.len() > 1);
    assert!(
        plan.release
            .is_some_and(|range| range.end <= top && range.start > end)
    );
}

/// The parts of each read ascend while the reads descend.
#[test]
fn a_backward_stream_of_reads_in_parts_is_found() {
    let mut policy = flash();
    let mut plans = Vec::new();
    for read in 1..=3u64 {
        for part in 0..3 {
            let offset = (1 << 30) - read * 3 * PAGE + part * PAGE;
            plans.push(miss(&mut policy, offset, PAGE, read));
        }
    }
    let plan = plans.pop().unwrap();
    assert!(plans.iter().all(|plan| plan.fetch.is_empty()));
    assert_eq!(
        plan.fetch.first().map(|range| range.end),
        Some((1 << 30) - 9 * PAGE)
    );
    assert_eq!((policy.counts().streams, policy.counts().backward), (1, 1));
}

#[test]
fn a_backward_stream_ends_at_the_beginning() {
    let length = 3 * MIB + 777;
    let mut policy = Adaptive::new(Settings::flash(length));
    let mut low = length;
    let mut plan = Plan::default();
    for read in 0..3u64 {
        plan = miss(&mut policy, length - 777 - read * 8192, 8192, read);
    }
    while let Some(marker) = plan.marker {
        assert!(plan.fetch.iter().all(|range| range.end <= low));
        low = plan.fetch.last().map_or(low, |range| range.start);
        plan = policy.access(&access(marker, 1, AccessKind::Marker, 9));
    }
    low = plan.fetch.last().map_or(low, |range| range.start);
    assert_eq!(low, 0);
}

#[test]
fn strides_up_and_down_are_found() {
    for delta in [MIB.cast_signed(), -(MIB.cast_signed())] {
        let mut policy = flash();
        let at = |index: u64| {
            let way = delta * index.cast_signed();
            (4u64 << 30).checked_add_signed(way).unwrap()
        };
        let first = (0..100)
            .find_map(|index| {
                let plan = miss(&mut policy, at(index), 16 * KIB, index);
                (!plan.fetch.is_empty()).then_some((index, plan))
            })
            .unwrap();
        let (mut seen, mut plan) = first;
        assert!(seen <= 5, "{seen}");
        let mut planned = seen;
        for step in 0..10 {
            for range in &plan.fetch {
                planned += 1;
                assert_eq!(*range, at(planned)..at(planned) + 16 * KIB);
            }
            let marker = plan.marker.unwrap();
            seen = (seen + 1..=planned)
                .find(|index| at(*index) == marker)
                .unwrap();
            plan = policy.access(&access(marker, 16 * KIB, AccessKind::Marker, 200 + step));
        }
        assert!(planned - seen >= 30, "{planned} {seen}");
        assert_eq!(policy.counts().strides, 1);
    }
}

#[test]
fn a_short_stride_is_read_without_gaps() {
    let mut policy = flash();
    let plans = (0..10).map(|index| miss(&mut policy, MIB + index * 24 * KIB, 8 * KIB, index));
    let plan = plans
        .into_iter()
        .find(|plan| !plan.fetch.is_empty())
        .unwrap();
    assert_eq!(plan.fetch.len(), 1);
    assert_eq!((policy.counts().strides, policy.counts().streams), (0, 1));
}

/// The cache tells of whole pages.
#[test]
fn pages_that_nobody_read_shrink_a_stride_of_small_pieces() {
    let mut policy = flash();
    for read in 0..40 {
        let plan = miss(&mut policy, read * MIB + 32 * KIB, 4 * KIB, read);
        for range in plan.fetch {
            let offset = range.start - range.start % PAGE;
            let length = PAGE;
            policy.feedback(Feedback::Wasted { offset, length });
        }
    }
    assert!(policy.counts().shrunk > 0);
}
