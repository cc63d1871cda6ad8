//! What holds for any accesses: properties of adaptive read-ahead.

#![allow(clippy::unwrap_used)]

mod readahead_support;

use std::time::Duration;

use pagewell_policy::readahead::{Access, AccessKind, Adaptive, Bounds, Feedback, Plan, Settings};
use proptest::prelude::*;
use readahead_support::{Device, KIB, MIB, Model, PAGE, access, bytes_of};

fn kind() -> impl Strategy<Value = AccessKind> {
    prop_oneof![
        Just(AccessKind::Miss),
        Just(AccessKind::Late),
        Just(AccessKind::Marker),
    ]
}

#[derive(Clone, Debug)]
enum Event {
    /// Where the last access ended, and so much on or back.
    Near(i64, u64, AccessKind, u64),
    Far(u64, u64, AccessKind, u64),
    /// The marker of the last plan that had one.
    Marker,
    Feedback(u8, u64, u64),
    Pause(u64),
}

fn event(length: u64) -> impl Strategy<Value = Event> {
    let size = prop_oneof![Just(4096u64), Just(8192), Just(65536), 1..=2 * MIB];
    let way = prop_oneof![8 => Just(0i64), 1 => -300_000..300_000i64];
    let budget = prop_oneof![4 => Just(u64::MAX), 1 => 0..4 * MIB];
    let offset = prop_oneof![
        0..=length,
        0..=u64::MAX,
        (length.saturating_sub(MIB)..=length)
    ];
    prop_oneof![
        8 => (way, size.clone(), kind(), budget.clone())
            .prop_map(|(way, size, kind, budget)| Event::Near(way, size, kind, budget)),
        2 => (offset.clone(), size, kind(), budget)
            .prop_map(|(offset, size, kind, budget)| Event::Far(offset, size, kind, budget)),
        4 => Just(Event::Marker),
        2 => (0..3u8, offset, 1..MIB).prop_map(|(what, at, bytes)| {
            Event::Feedback(what, at, bytes)
        }),
        1 => (0..5_000u64).prop_map(Event::Pause),
    ]
}

/// Runs events, and checks each plan against what any plan must be.
fn check(policy: &mut Adaptive, length: u64, events: &[Event]) -> Result<(), TestCaseError> {
    let mut now = Duration::ZERO;
    let (mut end, mut marker) = (0u64, 0u64);
    let mut planned = 0u64;
    for event in events {
        now += Duration::from_micros(100);
        let (offset, length_bytes, kind, budget_bytes) = match *event {
            Event::Near(way, size, kind, budget) => {
                (end.saturating_add_signed(way), size, kind, budget)
            }
            Event::Far(offset, size, kind, budget) => (offset, size, kind, budget),
            Event::Marker => (marker, 4096, AccessKind::Marker, u64::MAX),
            Event::Pause(milliseconds) => {
                now += Duration::from_millis(milliseconds);
                continue;
            }
            Event::Feedback(what, offset, length) => {
                policy.feedback(match what {
                    0 => Feedback::Useful { offset, length },
                    1 => Feedback::Wasted { offset, length },
                    _ => Feedback::Refused { offset },
                });
                continue;
            }
        };
        end = offset.saturating_add(length_bytes);
        let told = Access {
            offset,
            length: length_bytes,
            kind,
            budget_bytes,
            spare_bytes: budget_bytes,
            now,
            bounds: (offset % 3 == 0).then(|| Bounds {
                start: offset.saturating_sub(budget_bytes % MIB),
                end: end.saturating_add(budget_bytes % MIB),
            }),
            latency: (offset % 5 > 1).then(|| Duration::from_micros(length_bytes % 60_000)),
        };
        let plan = policy.access(&told);
        prop_assert!(bytes_of(&plan) <= budget_bytes, "{plan:?} {told:?}");
        for range in plan.fetch.iter().chain(&plan.release) {
            prop_assert!(
                range.start < range.end && range.end <= length,
                "{plan:?} {told:?}"
            );
        }
        for pair in plan.fetch.windows(2) {
            let apart = pair[0].end <= pair[1].start || pair[1].end <= pair[0].start;
            prop_assert!(apart, "{plan:?}");
        }
        if let Some(place) = plan.marker {
            prop_assert!(place < length, "{plan:?}");
            marker = place;
        }
        if let (Some(release), AccessKind::Miss) = (&plan.release, kind) {
            let apart = release.end <= offset || release.start >= end;
            prop_assert!(apart, "{plan:?} {told:?}");
        }
        planned = planned.saturating_add(bytes_of(&plan));
        prop_assert_eq!(policy.counts().planned_bytes, planned);
    }
    Ok(())
}

fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0u64),
        Just(1u64 << 30),
        Just(u64::MAX),
        1..=100 * MIB,
        (u64::MAX - MIB)..=u64::MAX,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_is_within_the_file_and_the_budget(
        (length, events) in lengths()
            .prop_flat_map(|length| (Just(length), prop::collection::vec(event(length), 1..200))),
        rotating in any::<bool>(),
    ) {
        let settings = match rotating {
            true => Settings::rotating(length),
            false => Settings::flash(length),
        };
        check(&mut Adaptive::new(settings), length, &events)?;
        check(&mut Adaptive::new(Settings::off()), length, &events)?;
    }

    /// However markers, late pages and budgets alternate, windows follow each other without gaps
    /// and without overlap, and releases do too and stay behind the reader.
    #[test]
    fn windows_of_a_stream_tile_the_file(
        start in 0..1000u64,
        request in 1..200u64,
        steps in prop::collection::vec((any::<bool>(), prop_oneof![
            3 => Just(u64::MAX),
            1 => 0..8 * MIB,
        ]), 1..100),
    ) {
        let (start, request) = (start * 4096, request * 4096);
        let mut policy = Adaptive::new(Settings::flash(1 << 40));
        policy.access(&access(start, request, AccessKind::Miss, 1));
        let plan = policy.access(&access(start + request, request, AccessKind::Miss, 2));
        let mut window_end = plan.fetch.first().map_or(start + 2 * request, |range| range.end);
        let mut marker = plan.marker;
        let mut released = start.next_multiple_of(PAGE);
        for (step, (late, budget_bytes)) in steps.into_iter().enumerate() {
            // Without a marker the reader runs to the end of what was asked for.
            let offset = marker.unwrap_or(window_end);
            let kind = match (marker, late) {
                (None, _) => AccessKind::Miss,
                (_, true) => AccessKind::Late,
                (_, false) => AccessKind::Marker,
            };
            let told = access(offset, 4096, kind, 3 + step as u64);
            let plan = policy.access(&Access {
                budget_bytes,
                spare_bytes: budget_bytes,
                ..told
            });
            let fresh = if marker.is_none() { offset + 4096 } else { window_end };
            for range in &plan.fetch {
                prop_assert_eq!(range.start, fresh);
                window_end = range.end;
            }
            if marker.is_none() {
                window_end = window_end.max(offset + 4096);
            }
            marker = plan.marker.or(marker.filter(|old| *old > offset));
            prop_assert!(marker.is_none_or(|marker| marker > offset && marker < window_end));
            if let Some(range) = plan.release {
                prop_assert_eq!(range.start, released);
                released = range.end;
                prop_assert!(released + MIB <= offset);
            }
        }
        prop_assert_eq!((policy.counts().streams, policy.counts().refused), (1, 0));
    }

    /// Reads that are nowhere adjacent, in any order, ask for nothing.
    #[test]
    fn random_reads_ask_for_nothing(places in prop::collection::hash_set(1..1u64 << 40, 1..400)) {
        let mut policy = Adaptive::new(Settings::flash(u64::MAX));
        for (step, place) in places.into_iter().enumerate() {
            let told = access(place * 12_288, 8192, AccessKind::Miss, step as u64);
            prop_assert_eq!(policy.access(&told), Plan::default());
        }
    }

    /// Strays between its reads change nothing for a stream.
    #[test]
    fn random_reads_do_not_disturb_a_stream(
        strays in prop::collection::vec((0..20u64, (1u64 << 40)..(1 << 50)), 0..100),
    ) {
        let mut alone = Adaptive::new(Settings::flash(u64::MAX));
        let mut disturbed = alone.clone();
        let mut offset = 0;
        let mut kind = AccessKind::Miss;
        for step in 0..20 {
            for (_, place) in strays.iter().filter(|(when, _)| *when == step) {
                let stray = access(place * 12_288, 8192, AccessKind::Miss, step);
                prop_assert_eq!(disturbed.access(&stray), Plan::default());
            }
            let told = access(offset, 8192, kind, step);
            let plan = alone.access(&told);
            prop_assert_eq!(&disturbed.access(&told), &plan);
            (offset, kind) = (plan.marker.unwrap(), AccessKind::Marker);
        }
    }

    /// One reader of any request size from anywhere: it hits, and nothing is fetched for nothing.
    #[test]
    fn a_reader_hits(
        start in 0..50_000u64,
        request in 512..300_000u64,
        backward in any::<bool>(),
        latency_microseconds in 10..3000u64,
    ) {
        let length = 1 << 32;
        let device = Device {
            latency: Duration::from_micros(latency_microseconds),
            seek: Duration::from_micros(100),
            bytes_per_second: 200_000_000,
            depth: 2,
        };
        let policy = Adaptive::new(Settings::flash(length));
        let mut model = Model::new(policy, length, 128 * MIB, device);
        let span = 48 * MIB;
        let reads = span / request;
        let mut now = Duration::ZERO;
        for read in 0..reads {
            let done = read * request;
            let offset = match backward {
                true => start * 4096 + span - done - request,
                false => start * 4096 + done,
            };
            let think = Duration::from_nanos(request * 10); // 100 MB/s
            now = model.read(offset, request, now) + think;
        }
        let seen = model.seen;
        prop_assert_eq!(model.counts().streams, 1);
        prop_assert!(seen.demand_requests + seen.late <= 24, "{:?}", seen);
        prop_assert!(seen.wasted_bytes == 0, "{:?}", seen);
        prop_assert!(seen.ahead_bytes <= span + 8 * MIB + 8 * KIB, "{:?}", seen);
    }
}
