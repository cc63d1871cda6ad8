//! Read-ahead among files that lie side by side: where it stops, and where it does not.

#![allow(clippy::unwrap_used)]

mod readahead_support;

use std::time::Duration;

use pagewell_policy::readahead::{Access, AccessKind, Adaptive, Bounds, Counts, Plan, Settings};
use readahead_support::{Device, KIB, MIB, Model, Random, Seen, access, bytes_of};

const LENGTH: u64 = 1 << 30;
const BLOCK: u64 = 8 * KIB;
const FILES: u64 = 400;
const START: u64 = MIB;

/// A drive of the year 2000: 8.5 MB/s, 67 ms a seek.
const DVD: Device = Device {
    latency: Duration::from_micros(430),
    seek: Duration::from_millis(67),
    bytes_per_second: 8_500_000,
    depth: 1,
};

fn miss(policy: &mut Adaptive, offset: u64, bound: u64, milliseconds: u64) -> Plan {
    policy.access(&Access {
        bounds: Some(Bounds {
            start: 0,
            end: bound,
        }),
        ..access(offset, BLOCK, AccessKind::Miss, milliseconds)
    })
}

/// A reader in the middle of a file, and the end of it.
fn begun() -> (Adaptive, u64) {
    let mut policy = Adaptive::new(Settings::rotating(LENGTH));
    let bound = START + 100 * KIB;
    assert_eq!(miss(&mut policy, START, bound, 1), Plan::default());
    let mut plan = miss(&mut policy, START + BLOCK, bound, 2);
    for step in 3..10 {
        assert!(
            plan.fetch.iter().all(|range| range.end <= bound),
            "{plan:?}"
        );
        let Some(marker) = plan.marker else { break };
        plan = policy.access(&access(marker, BLOCK, AccessKind::Marker, step));
    }
    assert!(policy.counts().planned_bytes <= bound - START);
    (policy, bound)
}

#[test]
fn a_window_ends_with_its_file() {
    let (policy, bound) = begun();
    let counts = policy.counts();
    assert_eq!(
        counts.planned_bytes,
        bound - START - 2 * BLOCK,
        "{counts:?}"
    );
    assert!(counts.bounded > 0 && counts.unbound == 0, "{counts:?}");
}

#[test]
fn who_goes_straight_on_has_no_bound_any_more() {
    let (mut policy, bound) = begun();
    let plan = miss(&mut policy, bound, bound + 10 * KIB, 20);
    assert!(bytes_of(&plan) > 10 * KIB, "{plan:?}");
    assert_eq!(policy.counts().unbound, 1);
    assert_eq!(policy.counts().streams, 1);
}

#[test]
fn who_comes_by_after_others_keeps_to_one_more_file() {
    let (mut policy, bound) = begun();
    let next = bound + 40 * KIB;
    miss(&mut policy, 500 * MIB, 501 * MIB, 20);
    let plan = miss(&mut policy, bound, next, 21);
    let end = plan.fetch.last().unwrap().end;
    assert_eq!((end, policy.counts().unbound), (next, 0), "{plan:?}");
    miss(&mut policy, 600 * MIB, 601 * MIB, 22);
    let plan = miss(&mut policy, next, next + 10 * KIB, 23);
    assert!(plan.fetch.last().unwrap().end > next + 10 * KIB, "{plan:?}");
    assert_eq!(policy.counts().unbound, 1);
}

/// Files of 2 to 256 KiB side by side.
fn files() -> Vec<(u64, u64)> {
    let mut random = Random(7);
    let mut at = START;
    let file = |_| {
        let length = (1 + random.below(128)) * 2 * KIB;
        at += length;
        (at - length, at)
    };
    (0..FILES).map(file).collect()
}

/// Reads files in blocks, and says what it took.
fn walk(files: &[(u64, u64)], is_told: bool) -> (Seen, Counts, Duration) {
    let policy = Adaptive::new(Settings::rotating(LENGTH));
    let mut model = Model::new(policy, LENGTH, 32 * MIB, DVD);
    let mut now = Duration::from_millis(1);
    for (start, end) in files {
        model.bounds = is_told.then_some(Bounds {
            start: 0,
            end: *end,
        });
        for offset in (*start..*end).step_by(usize::try_from(BLOCK).unwrap()) {
            now = model.read(offset, BLOCK.min(end - offset), now) + Duration::from_micros(20);
        }
    }
    (model.seen, model.counts(), now)
}

#[test]
fn files_out_of_order_cost_little_more_than_their_bytes() {
    let mut files = files();
    let mut random = Random(9);
    files.sort_by_cached_key(|_| random.next());
    let bytes: u64 = files.iter().map(|(start, end)| end - start).sum();
    let (told, counts, _) = walk(&files, true);
    let (blind, _, _) = walk(&files, false);
    assert!(
        told.ahead_bytes <= bytes * 11 / 10,
        "{told:?} {counts:?} of {bytes}"
    );
    assert!(told.wasted_bytes * 10 <= bytes, "{told:?} {counts:?}");
    assert!(
        blind.ahead_bytes > told.ahead_bytes * 3 / 2,
        "{blind:?} {told:?}"
    );
}

#[test]
fn files_as_they_lie_are_read_as_without_bounds() {
    let files = files();
    let (told, counts, time) = walk(&files, true);
    let (blind, _, blind_time) = walk(&files, false);
    assert_eq!((counts.streams, counts.unbound), (1, 1), "{counts:?}");
    // The first file is the only one whose end is minded.
    assert!(
        told.demand_requests <= blind.demand_requests + 1,
        "{told:?} {blind:?}"
    );
    assert!(
        told.ahead_requests <= blind.ahead_requests + 4,
        "{told:?} {blind:?}"
    );
    assert!(
        time <= blind_time + 2 * (DVD.seek + DVD.latency),
        "{time:?} {blind_time:?}"
    );
}

/// Files of a server: each has a region of the address space to itself.
const REGION: u64 = 1 << 40;
const FILE: u64 = 2 * MIB - 5;

fn apart() -> Settings {
    Settings {
        file_alignment_bytes: Some(REGION),
        ..Settings::flash(1 << 56)
    }
}

/// What may be read of a file there, in whole units.
fn file(number: u64, bytes: u64) -> Bounds {
    Bounds {
        start: number * REGION,
        end: number * REGION + bytes,
    }
}

fn is_inside(plan: &Plan, file: Bounds) -> bool {
    let end = file.end.next_multiple_of(4 * KIB);
    let inside = |range: &std::ops::Range<u64>| range.start >= file.start && range.end <= end;
    plan.fetch.iter().chain(&plan.release).all(inside)
        && plan
            .marker
            .is_none_or(|marker| (file.start..end).contains(&marker))
}

#[test]
fn a_stream_that_goes_backward_is_not_planned_below_its_file() {
    for is_told in [true, false] {
        for read in [1000, 8 * KIB, 12 * KIB, 64 * KIB, 256 * KIB] {
            let mut policy = Adaptive::new(apart());
            let within = file(7, FILE);
            let (mut end, mut now) = (within.end, 1);
            while end > within.start {
                let offset = end.saturating_sub(read).max(within.start);
                let plan = policy.access(&Access {
                    bounds: is_told.then_some(within),
                    ..access(offset, end - offset, AccessKind::Miss, now)
                });
                // Who was told nothing knows only where a file begins.
                assert!(plan.fetch.iter().all(|range| range.start >= within.start));
                assert!(!is_told || is_inside(&plan, within), "{plan:?}");
                (end, now) = (offset, now + 1);
            }
            let counts = policy.counts();
            assert!(
                counts.backward > 0 && counts.planned_bytes > MIB,
                "{counts:?}"
            );
            // Its stream knows it, so that it does not even want to.
            assert_eq!(
                (counts.outside, counts.bounded > 0),
                (0, true),
                "{counts:?}"
            );
        }
    }
}

#[test]
fn who_went_back_to_the_beginning_of_a_file_gives_its_place_away() {
    let mut policy = Adaptive::new(Settings {
        streams_max: 1,
        ..apart()
    });
    for number in 1..20 {
        let within = file(number, 512 * KIB);
        for step in 1..=8 {
            policy.access(&Access {
                bounds: Some(within),
                ..access(
                    within.end - step * 64 * KIB,
                    64 * KIB,
                    AccessKind::Miss,
                    number,
                )
            });
        }
    }
    let counts = policy.counts();
    assert_eq!((counts.backward, counts.crowded), (19, 0), "{counts:?}");
}

#[test]
fn nothing_outside_of_the_readers_file_is_ever_planned() {
    let lengths = [1, 100 * KIB, 3 * MIB + 17, REGION - MIB, 2 * REGION + 5];
    let starts = [0, 1, 2, 3, 4];
    let mut random = Random(21);
    for settings in [
        apart(),
        Settings {
            block_bytes: Some(MIB),
            distance_bytes_max: 64 * MIB,
            ..apart()
        },
    ] {
        let mut policy = Adaptive::new(settings);
        let mut marker = None;
        for now in 1..4000 {
            let number = random.below(5);
            let index = usize::try_from(number).unwrap();
            let within = file(starts[index], lengths[index]);
            let length = within.end - within.start;
            let read = (1 + random.below(40)) * 7 * KIB;
            // Near an end of it, where a stream would leave it.
            let way = random.below(3) * read * random.below(30);
            let from_end = random.below(2) == 0;
            let mut at = if from_end {
                length.saturating_sub(way)
            } else {
                way.min(length - 1)
            };
            for step in 0..12 {
                let kind = match (marker, random.below(5)) {
                    (Some(place), 0) if within.start <= place && place < within.end => {
                        at = place - within.start;
                        AccessKind::Marker
                    }
                    (_, 1) => AccessKind::Late,
                    _ => AccessKind::Miss,
                };
                let bytes = read.min(length - at);
                if bytes == 0 {
                    break;
                }
                let plan = policy.access(&Access {
                    bounds: Some(within),
                    ..access(within.start + at, bytes, kind, now * 20 + step)
                });
                assert!(is_inside(&plan, within), "{plan:?} of {within:?}");
                marker = plan.marker.or(marker);
                at = if from_end {
                    at.saturating_sub(read)
                } else {
                    (at + read).min(length)
                };
            }
        }
        assert!(policy.counts().planned_bytes > 100 * MIB);
    }
}
