//! The rules of adaptive read-ahead, one test each.

#![allow(clippy::unwrap_used)]

mod readahead_support;

use std::time::Duration;

use pagewell_policy::readahead::{Access, AccessKind, Adaptive, Feedback, Plan, Settings};
use readahead_support::{KIB, MIB, PAGE, access, bytes_of};

const LENGTH: u64 = 1 << 34;

fn flash() -> Adaptive {
    Adaptive::new(Settings::flash(LENGTH))
}

fn miss(policy: &mut Adaptive, offset: u64, length: u64, milliseconds: u64) -> Plan {
    policy.access(&access(offset, length, AccessKind::Miss, milliseconds))
}

/// A reader that touches markers only: it never misses.
struct Reader {
    plan: Plan,
    milliseconds: u64,
}

impl Reader {
    fn begin(policy: &mut Adaptive, offset: u64, request: u64) -> Self {
        assert!(offset == 0 || miss(policy, offset, request, 1).fetch.is_empty());
        let plan = miss(policy, offset + request, request, 2);
        assert!(!plan.fetch.is_empty());
        Self {
            plan,
            milliseconds: 2,
        }
    }

    fn step(&mut self, policy: &mut Adaptive, kind: AccessKind) {
        let marker = self.plan.marker.unwrap();
        self.milliseconds += 1;
        self.plan = policy.access(&access(marker, 8 * KIB, kind, self.milliseconds));
    }

    fn steps(&mut self, policy: &mut Adaptive, count: u32) {
        (0..count).for_each(|_| self.step(policy, AccessKind::Marker));
    }
}

#[test]
fn one_read_asks_for_nothing_and_the_next_one_proves_the_stream() {
    let mut policy = flash();
    assert_eq!(miss(&mut policy, MIB, 8 * KIB, 1), Plan::default());
    let plan = miss(&mut policy, MIB + 8 * KIB, 8 * KIB, 2);
    let window = MIB + 16 * KIB..MIB + 2 * PAGE;
    assert_eq!(plan.fetch, [window]);
    assert_eq!(plan.marker, Some(MIB + PAGE));
    assert_eq!(plan.release, None);
    assert_eq!(policy.counts().streams, 1);
}

#[test]
fn a_read_of_the_beginning_is_a_beginning() {
    let mut policy = flash();
    let plan = miss(&mut policy, 0, 8 * KIB, 1);
    let window = 8 * KIB..2 * PAGE;
    assert_eq!(plan.fetch, [window]);
    assert_eq!(plan.marker, Some(PAGE));
}

#[test]
fn hits_between_two_misses_in_one_unit_do_not_hide_a_stream() {
    let mut policy = flash();
    assert!(miss(&mut policy, MIB, 1000, 1).fetch.is_empty());
    // 1000..4000 were found in the unit that was fetched.
    assert!(!miss(&mut policy, MIB + 4000, 1000, 2).fetch.is_empty());
}

#[test]
fn the_parts_of_one_read_are_one_access() {
    let mut policy = flash();
    for part in 0..16 {
        let plan = miss(&mut policy, 32 * MIB + part * PAGE, PAGE, 1);
        assert!(plan.fetch.is_empty(), "part {part}");
    }
    let plan = miss(&mut policy, 33 * MIB, PAGE, 2);
    assert!(!plan.fetch.is_empty());
    assert!(plan.fetch[0].start == 33 * MIB + PAGE && bytes_of(&plan) >= 2 * MIB);
    // What is longer than any read is a stream, whatever the clock says.
    let mut policy = flash();
    let plans = (0..17).map(|part| miss(&mut policy, 32 * MIB + part * PAGE, PAGE, 1));
    assert_eq!(plans.filter(|plan| !plan.fetch.is_empty()).count(), 1);
}

#[test]
fn the_distance_doubles_to_the_minimum_and_stays() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    let mut sizes = Vec::new();
    for _ in 0..16 {
        reader.step(&mut policy, AccessKind::Marker);
        sizes.push(bytes_of(&reader.plan));
        assert_eq!(reader.plan.fetch.len(), 1);
    }
    assert!(
        sizes[..6].windows(2).all(|pair| pair[0] < pair[1]),
        "{sizes:?}"
    );
    let batch = Settings::flash(LENGTH).distance_bytes_min / 2;
    assert!(
        sizes[9..].iter().all(|size| size.abs_diff(batch) <= PAGE),
        "{sizes:?}"
    );
    assert_eq!(policy.counts().grown, 0);
}

#[test]
fn a_rotating_medium_gets_its_batches() {
    let mut policy = Adaptive::new(Settings::rotating(LENGTH));
    let mut reader = Reader::begin(&mut policy, MIB, 2 * KIB);
    reader.steps(&mut policy, 12);
    assert!(bytes_of(&reader.plan) + PAGE >= 4 * MIB);
}

#[test]
fn windows_are_contiguous_and_the_marker_is_half_a_distance_before_their_end() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    let mut end = reader.plan.fetch[0].end;
    for _ in 0..30 {
        reader.step(&mut policy, AccessKind::Marker);
        assert_eq!(reader.plan.fetch[0].start, end);
        end = reader.plan.fetch[0].end;
        assert_eq!(end % PAGE, 0);
    }
    let ahead = end - reader.plan.marker.unwrap();
    assert!(ahead.abs_diff(2 * MIB) <= PAGE, "{ahead}");
}

#[test]
fn being_late_grows_the_distance_by_an_eighth_for_each_batch() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let before = policy.counts().grown;
    let marker = reader.plan.marker.unwrap();
    reader.step(&mut policy, AccessKind::Late);
    let window = reader.plan.fetch[0].end - marker;
    assert!(window.abs_diff(4 * MIB + MIB / 2) <= 2 * PAGE, "{window}");
    // Waiting for every page of a batch is being late once.
    let first = reader.plan.fetch[0].start;
    for page in 0..16 {
        policy.access(&access(first + page * PAGE, 8 * KIB, AccessKind::Late, 50));
    }
    assert!(
        policy.counts().grown - before <= 3,
        "{}",
        policy.counts().grown
    );
}

#[test]
fn the_distance_ends_at_its_maximum() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    for _ in 0..60 {
        reader.step(&mut policy, AccessKind::Late);
    }
    let most = Settings::flash(LENGTH).distance_bytes_max;
    assert!(bytes_of(&reader.plan) <= most);
    assert!(bytes_of(&reader.plan) >= most / 2 - PAGE);
}

#[test]
fn waste_and_refusal_halve_the_distance_and_late_grows_it_again() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let offset = reader.plan.fetch[0].start;
    for unit in 0..1024 {
        let offset = offset + unit * 4096;
        policy.feedback(Feedback::Wasted {
            offset,
            length: 4096,
        });
    }
    assert!(policy.counts().shrunk >= 1);
    reader.step(&mut policy, AccessKind::Marker);
    while reader.plan.fetch.is_empty() {
        reader.step(&mut policy, AccessKind::Marker);
    }
    let small = bytes_of(&reader.plan);
    assert!(small <= MIB + PAGE, "{small}");
    reader.steps(&mut policy, 4);
    assert!(
        bytes_of(&reader.plan) <= MIB + PAGE,
        "no doubling after waste"
    );
    for _ in 0..3 {
        reader.step(&mut policy, AccessKind::Late);
    }
    assert!(bytes_of(&reader.plan) > small);

    let refused = reader.plan.fetch[0].start;
    policy.feedback(Feedback::Refused { offset: refused });
    assert_eq!(policy.counts().refused, 1);
    // The reader comes to the hole, and the window begins again there.
    let plan = miss(&mut policy, refused, 8 * KIB, 100);
    assert_eq!(plan.fetch[0].start, refused + 8 * KIB);
}

#[test]
fn a_little_waste_among_much_use_is_forgiven() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let offset = reader.plan.fetch[0].start;
    for _ in 0..10_000 {
        policy.feedback(Feedback::Useful {
            offset,
            length: 9 * 4096,
        });
        policy.feedback(Feedback::Wasted {
            offset,
            length: 4096,
        });
    }
    assert_eq!(policy.counts().shrunk, 0);
}

#[test]
fn the_budget_cuts_a_plan_or_puts_it_off() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let marker = reader.plan.marker.unwrap();
    let small = |offset, budget_bytes| Access {
        budget_bytes,
        spare_bytes: budget_bytes,
        ..access(offset, 8 * KIB, AccessKind::Marker, 100)
    };
    let off = policy.clone().access(&small(marker, 0));
    assert!(off.fetch.is_empty() && off.marker.unwrap() > marker);
    let cut = policy.clone().access(&small(marker, MIB + 5));
    assert_eq!(bytes_of(&cut), MIB);
    // Crumbs are not asked for while there is time.
    let crumbs = policy.access(&small(marker, PAGE));
    assert!(crumbs.fetch.is_empty());
    assert_eq!(policy.counts().budget_cuts, 1);
    let later = policy.access(&small(crumbs.marker.unwrap(), u64::MAX));
    assert!(bytes_of(&later) > 2 * MIB);
}

#[test]
fn nothing_past_the_end_and_no_marker_there() {
    let length = MIB + 12_345;
    let mut policy = Adaptive::new(Settings::flash(length));
    let mut plan = miss(&mut policy, 0, 64 * KIB, 1);
    let mut end = 0;
    while let Some(marker) = plan.marker {
        plan = policy.access(&access(marker, 8 * KIB, AccessKind::Marker, 2));
        end = plan.fetch.last().map_or(end, |range| range.end);
    }
    assert_eq!(end, length);
    let plan = miss(&mut policy, length, 4096, 3);
    assert_eq!(plan, Plan::default());
}

#[test]
fn what_was_passed_is_released_except_for_the_back_seek() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, 5 * MIB, 8 * KIB);
    let mut released = 5 * MIB;
    for _ in 0..30 {
        reader.step(&mut policy, AccessKind::Marker);
        if let Some(range) = reader.plan.release.clone() {
            assert_eq!(range.start, released);
            released = range.end;
            assert!(released + MIB <= reader.plan.fetch[0].start);
        }
    }
    assert!(released > 40 * MIB, "{released}");
}

/// A read that began before the position, because another went ahead of it.
#[test]
fn what_is_being_read_is_not_released() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, 5 * MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let ahead = reader.plan.marker.unwrap();
    reader.step(&mut policy, AccessKind::Marker);
    let plan = miss(&mut policy, ahead - 8 * MIB, 16 * MIB, 50);
    let release = plan.release.map_or(0, |range| range.end);
    assert!(release + MIB <= ahead - 8 * MIB, "{release}");
}

#[test]
fn random_reads_neither_ask_nor_disturb() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let mut quiet = Reader {
        plan: reader.plan.clone(),
        milliseconds: reader.milliseconds,
    };
    let mut twin = policy.clone();
    for step in 0..20u64 {
        for number in 0..50 {
            let offset = 8 * (1 << 30) + (step * 50 + number) * (step * 50 + number) * 8200;
            let plan = miss(&mut policy, offset, 8 * KIB, 20);
            assert_eq!(plan, Plan::default(), "{offset}");
        }
        reader.step(&mut policy, AccessKind::Marker);
        quiet.step(&mut twin, AccessKind::Marker);
        assert_eq!(reader.plan, quiet.plan);
    }
    assert_eq!(policy.counts().random, 1001);
}

#[test]
fn eight_interleaved_streams_keep_their_windows_and_a_ninth_waits_for_a_place() {
    let mut policy = flash();
    let start = |stream: u64| (1 + stream * (stream + 4)) * 64 * MIB;
    let mut readers: Vec<Reader> = (0..8)
        .map(|stream| Reader::begin(&mut policy, start(stream), 8 * KIB))
        .collect();
    for _ in 0..20 {
        for reader in &mut readers {
            let end = reader.plan.fetch[0].end;
            reader.step(&mut policy, AccessKind::Marker);
            assert_eq!(reader.plan.fetch[0].start, end);
        }
    }
    assert_eq!(policy.counts().streams, 8);
    let ninth = 100 * 64 * MIB;
    miss(&mut policy, ninth, 8 * KIB, 30);
    assert_eq!(
        miss(&mut policy, ninth + 8 * KIB, 8 * KIB, 31),
        Plan::default()
    );
    assert_eq!(policy.counts().crowded, 1);
    let later = Duration::from_secs(2).as_millis() as u64;
    miss(&mut policy, ninth + 16 * KIB, 8 * KIB, later);
    let plan = miss(&mut policy, ninth + 24 * KIB, 8 * KIB, later + 1);
    assert!(!plan.fetch.is_empty());
}

#[test]
fn streams_that_begin_at_equal_distances_all_find_a_place() {
    let mut policy = flash();
    for stream in 1..=8 {
        miss(&mut policy, stream * 640 * MIB, 8 * KIB, stream);
    }
    for stream in 1..=8 {
        let offset = stream * 640 * MIB + 8 * KIB;
        let plan = miss(&mut policy, offset, 8 * KIB, 10 + stream);
        assert_eq!(
            plan.fetch.first().map(|range| range.start),
            Some(offset + 8 * KIB)
        );
    }
    assert_eq!(policy.counts().crowded, 0);
}

#[test]
fn a_skip_is_followed() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let end = reader.plan.fetch[0].end;
    // Near: bridged at once, without a gap.
    let plan = miss(&mut policy.clone(), end + 256 * KIB, 8 * KIB, 50);
    assert_eq!(plan.fetch[0].start, end);
    assert!(plan.fetch[0].end > end + 256 * KIB + 4 * MIB - PAGE);
    // Far: the second read there has the distance of the stream.
    let far = end + 12 * MIB;
    assert!(miss(&mut policy, far, 8 * KIB, 50).fetch.is_empty());
    let plan = miss(&mut policy, far + 8 * KIB, 8 * KIB, 51);
    assert!(bytes_of(&plan) >= 4 * MIB - PAGE, "{}", bytes_of(&plan));
    assert_eq!(policy.counts().skips, 1);
}

#[test]
fn reads_out_of_order_in_the_window_are_one_stream() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 128 * KIB);
    reader.steps(&mut policy, 8);
    let start = reader.plan.fetch[0].start;
    for piece in [3u64, 0, 2, 1, 7, 5, 4, 6] {
        let told = access(start + piece * 128 * KIB, 128 * KIB, AccessKind::Late, 30);
        policy.access(&told);
    }
    assert_eq!((policy.counts().streams, policy.counts().random), (1, 1));
}

#[test]
fn a_miss_in_the_window_begins_it_again() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let middle = reader.plan.fetch[0].start + MIB;
    let plan = miss(&mut policy, middle, 8 * KIB, 50);
    assert_eq!(plan.fetch[0].start, middle + 8 * KIB);
}

#[test]
fn misses_in_a_row_within_the_window_shrink_it() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    reader.steps(&mut policy, 12);
    let offset = reader.plan.fetch[0].start;
    let sizes: Vec<u64> = (0..10)
        .map(|read| {
            bytes_of(&miss(
                &mut policy,
                offset + read * 8 * KIB,
                8 * KIB,
                50 + read,
            ))
        })
        .collect();
    // The first one counts as being late.
    assert!(
        sizes[0] > 4 * MIB + 2 * PAGE && sizes[9] <= 2 * PAGE,
        "{sizes:?}"
    );
}

#[test]
fn a_marker_of_a_lost_stream_begins_it_again() {
    let mut policy = flash();
    let plan = policy.access(&access(5 * MIB, 8 * KIB, AccessKind::Marker, 1));
    assert!(!plan.fetch.is_empty() && plan.marker.is_some());
}

#[test]
fn a_slow_reader_falls_back_to_the_grown_distance() {
    let mut policy = flash();
    let mut reader = Reader::begin(&mut policy, MIB, 8 * KIB);
    for _ in 0..40 {
        reader.step(&mut policy, AccessKind::Late);
    }
    assert!(bytes_of(&reader.plan) > 8 * MIB);
    for _ in 0..20 {
        reader.milliseconds += 3000;
        reader.step(&mut policy, AccessKind::Marker);
    }
    assert!(bytes_of(&reader.plan) <= 2 * MIB + PAGE);
}
