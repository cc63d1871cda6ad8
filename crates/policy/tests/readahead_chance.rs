//! Reads in random order among so few blocks that some are next to others by chance, in virtual
//! time: exact counts.

#![allow(clippy::unwrap_used)]

mod readahead_support;

use std::time::Duration;

use pagewell_policy::readahead::{AccessKind, Adaptive, Bounds, Counts, Plan, Settings};
use readahead_support::{Device, KIB, MIB, Model, PAGE, Random, Seen, access};

/// Reads of a run, and bytes of one.
const READS: usize = 1024;
const READ: u64 = 4 * KIB;
/// What clients ask for at a time.
const BLOCK: u64 = 64 * KIB;
/// Blocks of the file.
const FILES: [u64; 2] = [16_384, 65_536];
const SEEDS: u64 = 300;
/// One part in this many is what calls may differ: 1.5 %.
const MORE_DIVISOR: u64 = 66;
const AHEAD_BYTES_MAX: u64 = 2 * MIB;

/// As clients of NFS are set up.
fn fixed(count: u64, length_bytes: u64) -> Settings {
    Settings {
        streams_max: 64,
        distance_bytes_min: count * BLOCK,
        distance_bytes_max: count * BLOCK,
        batch_bytes_min: BLOCK,
        block_bytes: Some(BLOCK),
        file_alignment_bytes: Some(1 << 40),
        ..Settings::flash(length_bytes)
    }
}

fn auto(length_bytes: u64) -> Settings {
    Settings {
        distance_bytes_min: 4 * MIB,
        distance_bytes_max: 64 * MIB,
        ..fixed(1, length_bytes)
    }
}

fn reads(settings: Settings, seed: u64) -> (u64, Seen, Counts) {
    let length = settings.length_bytes;
    let device = Device::far(Duration::from_millis(1), 1_000_000_000);
    let mut model = Model::new(Adaptive::new(settings), length, 1 << 30, device);
    model.bounds = Some(Bounds {
        start: 0,
        end: length,
    });
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut blocks: Vec<u64> = (0..length / READ).collect();
    let mut now = Duration::ZERO;
    for index in 0..READS {
        let left = (blocks.len() - index) as u64;
        let other = index + usize::try_from(random.below(left)).unwrap();
        blocks.swap(index, other);
        now = model.read(blocks[index] * READ, READ, now) + Duration::from_micros(5);
    }
    let calls = model.seen.demand_requests + model.seen.ahead_bytes.div_ceil(BLOCK);
    (calls, model.seen, model.counts())
}

/// What a run of so many seeds may cost more than with a read-ahead of one block, the worst of
/// them, and what may be fetched for nothing.
fn check(name: &str, of: impl Fn(u64) -> Settings) {
    for blocks in FILES {
        let length = blocks * READ;
        let mut streams = 0;
        for seed in 1..=SEEDS {
            let (one, ..) = reads(fixed(1, length), seed);
            let (calls, seen, counts) = reads(of(length), seed);
            let context =
                format!("{name}, {blocks}, seed {seed}: {one} {calls} {seen:?} {counts:?}");
            let more = calls.abs_diff(one);
            assert!(more * MORE_DIVISOR <= one, "{context}");
            assert!(seen.ahead_bytes <= AHEAD_BYTES_MAX, "{context}");
            streams += counts.streams;
        }
        // Without streams by chance there is nothing to be seen here.
        assert!(streams > SEEDS / 4, "{name}, {blocks}: {streams}");
    }
}

#[test]
fn eight_blocks_ahead_cost_random_reads_no_more_than_one() {
    check("8", |length| fixed(8, length));
}

#[test]
fn windows_that_adapt_cost_random_reads_no_more_than_one_block() {
    check("auto", auto);
}

/// A stream among reads elsewhere is found all the same, and has its window after a few of them.
#[test]
fn a_reader_among_random_ones_is_read_ahead_of() {
    let length = FILES[1] * READ;
    let device = Device::far(Duration::from_millis(1), 1_000_000_000);
    let policy = Adaptive::new(auto(2 * length));
    let mut model = Model::new(policy, 2 * length, 1 << 30, device);
    let (mut random, mut now) = (Random(5), Duration::ZERO);
    for at in (0..16 * MIB).step_by(16 << 10) {
        now = model.read(at, 16 * KIB, now) + Duration::from_micros(50);
        now = model.read(length + random.below(FILES[1]) * READ, READ, now);
    }
    let counts = model.counts();
    // Of what is read in order all but the first read is there or on its way.
    assert!(
        model.seen.demand_requests <= 1 + 1024,
        "{:?} {counts:?}",
        model.seen
    );
    assert!(
        model.seen.ahead_bytes >= 16 * MIB - 16 * KIB,
        "{:?}",
        model.seen
    );
}

/// The cache forgets the marker of a page that is touched, whatever it tells about the touch.
#[test]
fn whoever_touches_the_page_of_the_marker_moves_it() {
    let inside = 8 * KIB;
    for kind in [AccessKind::Marker, AccessKind::Late, AccessKind::Miss] {
        let mut policy = Adaptive::new(Settings::flash(1 << 30));
        policy.access(&access(MIB, PAGE, AccessKind::Miss, 1));
        let plan = policy.access(&access(MIB + PAGE, PAGE, AccessKind::Miss, 2));
        let (marker, end) = (plan.marker.unwrap(), plan.fetch[0].end);
        assert!(marker + 2 * PAGE <= end, "{plan:?}");
        let plan = policy.access(&access(marker + inside, READ, kind, 3));
        assert_eq!(plan.marker, Some(marker + PAGE), "{kind:?}");
        assert!(plan.fetch.is_empty(), "{kind:?}: {plan:?}");
        // Who reads on there is the reader.
        let plan = policy.access(&access(marker + PAGE, READ, AccessKind::Marker, 4));
        assert_eq!(plan.fetch.first().map(|range| range.start), Some(end));
    }
}

/// What touches other pages leaves the marker where it is.
#[test]
fn the_marker_stays_when_another_page_is_touched_by_chance() {
    let mut policy = Adaptive::new(Settings::flash(1 << 30));
    policy.access(&access(MIB, PAGE, AccessKind::Miss, 1));
    let plan = policy.access(&access(MIB + PAGE, PAGE, AccessKind::Miss, 2));
    let (marker, end) = (plan.marker.unwrap(), plan.fetch[0].end);
    for page in [marker - PAGE, marker + PAGE] {
        let touch = access(page + 8 * KIB, READ, AccessKind::Late, 3);
        assert_eq!(policy.access(&touch).marker, None, "{page}");
    }
    let plan = policy.access(&access(marker, READ, AccessKind::Marker, 4));
    assert_eq!(plan.fetch.first().map(|range| range.start), Some(end));
}

/// The two first reads of a stream.
fn begin(policy: &mut Adaptive, offset: u64, milliseconds: u64) -> Plan {
    let first = access(offset, PAGE, AccessKind::Miss, milliseconds);
    policy.access(&first);
    let second = access(offset + PAGE, PAGE, AccessKind::Miss, milliseconds + 1);
    policy.access(&second)
}

#[test]
fn a_stream_that_was_passed_over_keeps_its_place_from_nobody() {
    let mut policy = Adaptive::new(Settings {
        streams_max: 2,
        ..Settings::flash(1 << 30)
    });
    let chance = begin(&mut policy, MIB, 1).marker.unwrap();
    let marker = begin(&mut policy, 64 * MIB, 3).marker.unwrap();
    assert_eq!(begin(&mut policy, 128 * MIB, 5), Plan::default());
    assert_eq!(policy.counts().crowded, 1);
    // Both are passed over; then the reader goes on, in order.
    let mut touch = |offset: u64| policy.access(&access(offset, READ, AccessKind::Marker, 7));
    touch(chance + 8 * KIB);
    touch(marker + 8 * KIB);
    let reader = touch(marker + PAGE);
    assert!(!begin(&mut policy, 192 * MIB, 8).fetch.is_empty());
    // Two are left that nobody passed over, and the reader is one of them.
    assert_eq!(begin(&mut policy, 512 * MIB, 10), Plan::default());
    assert_eq!(policy.counts().crowded, 2);
    let marker = reader.marker.unwrap();
    let plan = policy.access(&access(marker, READ, AccessKind::Marker, 12));
    assert_eq!(plan.fetch[0].start, reader.fetch[0].end);
}
