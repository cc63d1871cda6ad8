//! Adaptive windows beside fixed ones on devices that are far, in virtual time: exact counts.

#![allow(clippy::unwrap_used)]

mod readahead_support;

use std::time::Duration;

use pagewell_policy::readahead::{Access, AccessKind, Adaptive, Bounds, Counts, Settings};
use readahead_support::{Device, KIB, MIB, Model, Random, Seen, access};

const LENGTH: u64 = 1 << 56;
const READ: u64 = 128 * KIB;
const BLOCK: u64 = MIB;
/// In blocks.
const FIXED: [u64; 4] = [1, 4, 16, 64];
const CAPACITY: u64 = 1 << 30;
/// What a reader of 3 GB/s does with a read.
const THINK: Duration = Duration::from_micros(44);
/// Files begin at multiples of this.
const REGION: u64 = 1 << 40;

/// As clients of NFS are set up.
fn auto() -> Settings {
    Settings {
        streams_max: 64,
        distance_bytes_min: 4 * MIB,
        distance_bytes_max: 64 * MIB,
        batch_bytes_min: BLOCK,
        block_bytes: Some(BLOCK),
        file_alignment_bytes: Some(REGION),
        ..Settings::flash(LENGTH)
    }
}

fn fixed(count: u64) -> Settings {
    Settings {
        distance_bytes_min: count * BLOCK,
        distance_bytes_max: count * BLOCK,
        ..auto()
    }
}

fn model(settings: Settings, capacity: u64, device: Device) -> Model {
    Model::new(Adaptive::new(settings), LENGTH, capacity, device)
}

/// Reads the beginning of a file, and says when it was done.
fn read_file(model: &mut Model, number: u64, size: u64, bytes: u64, begin: Duration) -> Duration {
    let mut now = begin;
    model.bounds = Some(Bounds {
        start: number * REGION,
        end: number * REGION + size,
    });
    for at in (0..bytes).step_by(usize::try_from(READ).unwrap()) {
        now = model.read(number * REGION + at, READ.min(bytes - at), now) + THINK;
    }
    now
}

fn whole_file(settings: Settings, device: Device, bytes: u64) -> (Duration, Seen, Counts) {
    read_whole(model(settings, CAPACITY, device), bytes)
}

/// The same when the server was asked something before: mounting takes calls.
fn whole_file_of_a_mount(
    settings: Settings,
    device: Device,
    bytes: u64,
) -> (Duration, Seen, Counts) {
    let mut model = model(settings, CAPACITY, device);
    model.know_latency();
    read_whole(model, bytes)
}

fn read_whole(mut model: Model, bytes: u64) -> (Duration, Seen, Counts) {
    let time = read_file(&mut model, 0, bytes, bytes, Duration::ZERO);
    (time, model.seen, model.counts())
}

/// From the first byte to the last, whatever the latency, the bandwidth and the length.
#[test]
fn it_is_as_fast_as_the_best_fixed_window() {
    for rate in [20_000_000, 100_000_000, 1_000_000_000, 10_000_000_000] {
        for microseconds in [100, 1000, 10_000, 50_000, 200_000] {
            let device = Device::far(Duration::from_micros(microseconds), rate);
            for bytes in [MIB, 3 * MIB + 5000, 8 * MIB, 64 * MIB, 256 * MIB] {
                for read in [whole_file, whole_file_of_a_mount] {
                    let all = FIXED.map(|count| read(fixed(count), device, bytes).0);
                    let best = all.into_iter().min().unwrap();
                    let (time, seen, counts) = read(auto(), device, bytes);
                    let context = format!("{device:?}, {bytes}: {time:?} {all:?} {counts:?}");
                    // What a tenth of a read takes to be used is all that may be lost.
                    assert!(time <= best + THINK / 10, "{context}");
                    assert_eq!(seen.demand_requests, 1, "{context}");
                    assert_eq!(seen.ahead_bytes, (bytes - READ).next_multiple_of(4096));
                }
            }
        }
    }
}

/// Where mounting has shown how far the server is, the beginning is shorter than with any fixed
/// window.
#[test]
fn a_latency_that_is_known_makes_the_beginning_shorter() {
    for milliseconds in [10, 50, 200] {
        let latency = Duration::from_millis(milliseconds);
        let device = Device::far(latency, 10_000_000_000);
        let all = FIXED.map(|count| whole_file_of_a_mount(fixed(count), device, 64 * MIB).0);
        let best = all.into_iter().min().unwrap();
        let (time, _, counts) = whole_file_of_a_mount(auto(), device, 64 * MIB);
        assert!(time + latency / 4 < best, "{time:?} {all:?} {counts:?}");
    }
    // Near, there is no reason for longer windows.
    let device = Device::far(Duration::from_micros(100), 10_000_000_000);
    let counts = [whole_file, whole_file_of_a_mount].map(|read| read(auto(), device, 64 * MIB).2);
    assert_eq!(counts[0], counts[1]);
}

/// Four round trips and the bytes; a window that grows by eighths needs more than twenty.
#[test]
fn a_far_file_takes_few_round_trips() {
    let latency = Duration::from_millis(50);
    let device = Device::far(latency, 10_000_000_000);
    let (time, _, counts) = whole_file(auto(), device, 64 * MIB);
    let used = THINK * u32::try_from(64 * MIB / READ).unwrap();
    assert!(time < latency * 4 + used, "{time:?} {counts:?}");
    // The next one begins with what this one has learnt.
    let mut model = model(auto(), CAPACITY, device);
    let first = read_file(&mut model, 0, 16 * MIB, 16 * MIB, Duration::ZERO);
    let second = read_file(&mut model, 1, 16 * MIB, 16 * MIB, first) - first;
    assert!(second + latency / 2 < first, "{first:?} {second:?}");
}

/// Who reads a little gets little, also where all others have needed much.
#[test]
fn nothing_is_fetched_for_readers_of_beginnings() {
    let device = Device::far(Duration::from_millis(50), 1_000_000_000);
    let mut model = model(auto(), CAPACITY, device);
    let mut now = read_file(&mut model, 0, 256 * MIB, 256 * MIB, Duration::ZERO);
    let before = model.seen.ahead_bytes;
    for number in 1..=100 {
        now = read_file(&mut model, number, 256 * MIB, READ, now);
    }
    let each = (model.seen.ahead_bytes - before) / 100;
    assert!(each <= 8 * READ, "{each}");
}

/// A way of 100 MB/s and 1 ms holds 100 KB. Being late there says nothing about the window: what is
/// usual, an eighth for each of two times, and the rest of a block.
#[test]
fn a_narrow_way_gets_no_long_window_at_once() {
    let device = Device::far(Duration::from_millis(1), 100_000_000);
    let mut model = model(auto(), CAPACITY, device);
    read_file(&mut model, 0, 1 << 30, 8 * MIB, Duration::ZERO);
    let ahead = model.seen.ahead_bytes - 8 * MIB;
    assert!(ahead <= 6 * MIB, "{ahead} {:?}", model.counts());
}

/// A reader who waits for a wide way all the time is not helped by a longer window.
#[test]
fn a_way_that_is_full_gets_no_longer_window() {
    for (latency, rate) in [(1, 1_000_000_000), (1, 100_000_000), (10, 500_000_000)] {
        let device = Device::far(Duration::from_millis(latency), rate);
        let mut model = model(auto(), CAPACITY, device);
        let now = read_file(&mut model, 0, 1 << 30, 512 * MIB, Duration::ZERO);
        let ahead = model.seen.ahead_bytes - 512 * MIB;
        let counts = model.counts();
        // Twice what the way holds, and the least, with a trial of more.
        let most = 8 * (rate * latency / 1000) + 4 * MIB;
        assert!(ahead <= most + most / 2, "{ahead} {counts:?}");
        let carried = Duration::from_secs_f64((512 * MIB) as f64 / rate as f64);
        assert!(now <= carried + carried / 10, "{now:?} {carried:?}");
    }
}

#[test]
fn random_readers_cause_no_read_ahead_far_away_either() {
    let device = Device::far(Duration::from_millis(10), 1_000_000_000);
    let mut model = model(auto(), CAPACITY, device);
    let now = read_file(&mut model, 0, 64 * MIB, 64 * MIB, Duration::ZERO);
    let (planned, demanded) = (model.counts().planned_bytes, model.seen.demand_requests);
    let mut random = Random(11);
    let mut at = now;
    for _ in 0..2000 {
        let offset = REGION + MIB + random.below(1 << 18) * 4 * KIB * 3;
        at = model.read(offset, 4 * KIB, at) + THINK;
    }
    assert_eq!(model.counts().planned_bytes, planned);
    assert!(model.seen.demand_requests - demanded <= 2000);
}

/// The same reads of an object that fits into memory, with and without room for it.
#[test]
fn reads_at_random_bring_the_rest_of_an_object_that_fits() {
    let latency = Duration::from_millis(50);
    let run = |brings_along, spare_bytes| {
        let device = Device::far(latency, 1_000_000_000);
        let settings = Settings {
            brings_along,
            ..auto()
        };
        let mut model = model(settings, CAPACITY, device);
        model.know_latency();
        model.spare_bytes = spare_bytes;
        let start = 7 * REGION;
        let end = start + 100 * MIB;
        model.bounds = Some(Bounds { start, end });
        let (mut random, mut now) = (Random(11), Duration::ZERO);
        for _ in 0..200 {
            let page = random.below(100 * MIB / (8 * KIB));
            now = model.read(start + page * 8 * KIB, 8 * KIB, now) + THINK;
        }
        (now, model.seen)
    };
    for (brings_along, spare_bytes) in [(true, 0), (false, CAPACITY)] {
        let (alone, seen) = run(brings_along, spare_bytes);
        assert!(alone >= latency * 190, "{alone:?} {seen:?}");
        assert!(seen.ahead_bytes < MIB, "{seen:?}");
    }
    let (along, seen) = run(true, CAPACITY);
    assert!(along < latency * 25, "{along:?} {seen:?}");
    assert!(seen.ahead_bytes <= 100 * MIB, "{seen:?}");
}

/// A cache too small for what is needed: less is asked for, and the reader goes on.
#[test]
fn little_memory_means_short_windows() {
    let device = Device::far(Duration::from_millis(50), 1_000_000_000);
    let mut model = model(auto(), 16 * MIB, device);
    read_file(&mut model, 0, 128 * MIB, 128 * MIB, Duration::ZERO);
    let (seen, counts) = (model.seen, model.counts());
    assert!(counts.budget_cuts > 0, "{counts:?}");
    assert!(seen.ahead_bytes <= 130 * MIB, "{seen:?} {counts:?}");
    assert!(seen.wasted_bytes <= 2 * MIB, "{seen:?} {counts:?}");
}

/// A fixed read-ahead of eight blocks is eight blocks behind the one that is read, not one more or
/// less, and one is one.
#[test]
fn blocks_are_counted_from_the_one_that_is_read() {
    for (count, block) in [(1, 64 * KIB), (8, 64 * KIB), (8, MIB), (3, 192 * KIB)] {
        let mut policy = Adaptive::new(Settings {
            distance_bytes_min: count * block,
            distance_bytes_max: count * block,
            batch_bytes_min: block,
            block_bytes: Some(block),
            ..Settings::flash(LENGTH)
        });
        let mut plan = policy.access(&access(0, 4 * KIB, AccessKind::Miss, 1));
        let mut marks = 0;
        for step in 2..200 {
            let marker = plan.marker.unwrap();
            plan = policy.access(&access(marker, 4 * KIB, AccessKind::Marker, step));
            if step > 100 {
                marks += 1;
                let inside = marker / block;
                let fetch = (inside + count) * block..(inside + count + 1) * block;
                assert_eq!(plan.fetch, [fetch], "{count} x {block}");
                assert_eq!(plan.marker, Some((inside + 1) * block));
            }
        }
        assert!(marks > 90);
    }
}

/// More files than places, one after the other: each that has been read gives its place away.
#[test]
fn a_file_that_was_read_gives_its_place_away() {
    let mut policy = Adaptive::new(auto());
    for number in 0..200 {
        let begin = number * REGION;
        let told = |offset, kind| Access {
            bounds: Some(Bounds {
                start: 0,
                end: begin + MIB / 2,
            }),
            ..access(offset, READ, kind, number)
        };
        let plan = policy.access(&told(begin, AccessKind::Miss));
        assert!(!plan.fetch.is_empty(), "file {number}");
        policy.access(&told(begin + MIB / 2 - READ, AccessKind::Late));
        // There is nothing to read ahead of who takes a file in one read.
        let begin = (1000 + number) * REGION;
        let small = Access {
            bounds: Some(Bounds {
                start: 0,
                end: begin + READ,
            }),
            ..access(begin, READ, AccessKind::Miss, number)
        };
        assert_eq!(policy.access(&small).fetch, []);
    }
    assert_eq!(policy.counts().crowded, 0);
}
