//! Many readers, a cache and a device in virtual time: does read-ahead keep its promises?
//!
//! The model itself panics when a plan goes past the end or over the budget.

#![allow(clippy::unwrap_used)]

mod readahead_support;

use std::time::Duration;

use pagewell_policy::readahead::{Adaptive, Settings};
use readahead_support::{Device, KIB, MIB, Model, Random};

/// Enough for the windows of eight streams.
const CAPACITY: u64 = 256 * MIB;

#[derive(Clone, Copy, Debug)]
enum Pattern {
    Forward,
    Backward,
    Random,
    Stride(u64),
}

#[derive(Clone, Copy, Debug)]
struct Reader {
    pattern: Pattern,
    /// Where it begins.
    start: u64,
    /// Where it ends: after so many bytes of the file.
    span: u64,
    request: u64,
    think: Duration,
    done: u64,
    next: Duration,
}

impl Reader {
    fn new(pattern: Pattern, start: u64, span: u64, request: u64, think: Duration) -> Self {
        let next = Duration::from_nanos(start % 1000);
        Self {
            pattern,
            start,
            span,
            request,
            think,
            done: 0,
            next,
        }
    }

    fn step(&mut self, model: &mut Model, random: &mut Random) {
        let offset = match self.pattern {
            Pattern::Forward => self.start + self.done,
            Pattern::Backward => self.start + self.span - self.done - self.request,
            Pattern::Random => self.start + random.below(self.span / 4096) * 4096,
            Pattern::Stride(stride) => self.start + self.done / self.request * stride,
        };
        let now = self.next;
        self.next = model.read(offset, self.request, now) + self.think;
        self.done += self.request;
    }

    fn is_done(&self) -> bool {
        match self.pattern {
            Pattern::Stride(stride) => self.done / self.request * stride + stride > self.span,
            _ => self.done + self.request > self.span,
        }
    }
}

/// Runs all readers to their ends, the one whose turn it is first. Returns the elapsed time.
fn run(model: &mut Model, readers: &mut [Reader], random: &mut Random) -> Duration {
    let mut elapsed = Duration::ZERO;
    while let Some(reader) = readers
        .iter_mut()
        .filter(|reader| !reader.is_done())
        .min_by_key(|reader| reader.next)
    {
        reader.step(model, random);
        elapsed = elapsed.max(reader.next);
    }
    elapsed
}

const NVME: Device = Device {
    latency: Duration::from_micros(80),
    seek: Duration::ZERO,
    bytes_per_second: 500_000_000,
    depth: 4,
};

const DVD: Device = Device {
    latency: Duration::from_micros(430),
    seek: Duration::from_millis(67),
    bytes_per_second: 8_500_000,
    depth: 1,
};

fn adaptive(length: u64) -> Adaptive {
    Adaptive::new(Settings::flash(length))
}

fn forward(start: u64, span: u64, request: u64) -> Reader {
    Reader::new(
        Pattern::Forward,
        start,
        span,
        request,
        Duration::from_micros(20),
    )
}

/// Two thirds of what the device can do, in random mixes: after the beginning nobody waits.
#[test]
fn readers_slower_than_the_device_do_not_wait() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut accesses = 0;
    for schedule in 0..60 {
        let length = 8 << 30;
        let count = 1 + random.below(8);
        let device = Device {
            latency: Duration::from_micros(50 + random.below(3000)),
            seek: Duration::from_micros(random.below(4000)),
            bytes_per_second: 50_000_000 + random.below(2_000_000_000),
            depth: 1 + usize::try_from(random.below(4)).unwrap(),
        };
        let mut model = Model::new(adaptive(length), length, CAPACITY, device);
        // What the device does in pieces of half a MiB, a quarter of a backward batch.
        let piece = Duration::from_nanos(MIB / 2 * 1_000_000_000 / device.bytes_per_second);
        let seconds = (piece + device.latency + device.seek).as_secs_f64();
        let each = (MIB as f64 / 2.0 / seconds) as u64 / count * 2 / 3;
        let mut readers: Vec<Reader> = (0..count)
            .map(|number| {
                let request = 4096 << random.below(6);
                let think = Duration::from_nanos(request * 1_000_000_000 / each);
                let start = (number << 30) + random.below(1 << 17) * 4096;
                let pattern = match random.below(4) {
                    0 => Pattern::Backward,
                    _ => Pattern::Forward,
                };
                Reader::new(
                    pattern,
                    start,
                    (24 + random.below(40)) * MIB,
                    request,
                    think,
                )
            })
            .collect();
        run(&mut model, &mut readers, &mut random);
        let (seen, counts) = (model.seen, model.counts());
        accesses += seen.reads;
        let bytes: u64 = readers.iter().map(|reader| reader.done).sum();
        let context = format!("schedule {schedule}: {device:?} {readers:?} {seen:?} {counts:?}");
        assert_eq!(counts.streams, count, "{context}");
        // Each stream meets its device a few times while it doubles, and then no more.
        assert!(seen.demand_requests + seen.late <= 24 * count, "{context}");
        assert_eq!(seen.wasted_bytes, 0, "{context}");
        let most = bytes + count * 8 * MIB;
        assert!(
            seen.ahead_bytes <= most && seen.ahead_bytes * 10 >= bytes * 9,
            "{context}"
        );
    }
    assert!(accesses > 200_000, "{accesses}");
}

/// Random mixes of everything, some faster than the device, in a cache that is too small.
#[test]
fn anything_goes_within_the_bounds() {
    let mut random = Random(0x0DDB_1A5E_5BAD_5EED);
    let mut accesses = 0;
    for schedule in 0..80 {
        let length = (1 << 30) + random.below(1 << 30);
        let device = Device {
            latency: Duration::from_micros(random.below(5000)),
            seek: Duration::from_micros(random.below(10_000)),
            bytes_per_second: 5_000_000 + random.below(3_000_000_000),
            depth: 1 + usize::try_from(random.below(8)).unwrap(),
        };
        let capacity = (8 + random.below(64)) * MIB;
        let mut model = Model::new(adaptive(length), length, capacity, device);
        let mut readers: Vec<Reader> = (0..1 + random.below(12))
            .map(|_| {
                let request = 1 + random.below(128 * KIB);
                let pattern = match random.below(6) {
                    0 => Pattern::Backward,
                    1 => Pattern::Random,
                    2 => Pattern::Stride(request + random.below(MIB)),
                    _ => Pattern::Forward,
                };
                let span = (1 + random.below(32)) * MIB;
                let start = random.below(length - 2 * span);
                let think = Duration::from_micros(random.below(2000));
                Reader::new(pattern, start, span, request, think)
            })
            .collect();
        run(&mut model, &mut readers, &mut random);
        let (seen, counts) = (model.seen, model.counts());
        accesses += seen.reads;
        let context = format!("schedule {schedule}: {device:?} {readers:?} {seen:?} {counts:?}");
        assert!(counts.wasted_bytes <= counts.planned_bytes, "{context}");
        let told = counts.sequential + counts.random;
        assert!(counts.plans <= told && told <= seen.reads * 4, "{context}");
        // A cache of at least 8 MiB never loses more than it keeps.
        assert!(
            seen.wasted_bytes <= seen.ahead_bytes / 2 + 8 * MIB,
            "{context}"
        );
    }
    assert!(accesses > 50_000, "{accesses}");
}

#[test]
fn random_readers_cause_no_read_ahead_and_take_none_away() {
    let length = 64 << 30;
    let mut random = Random(77);
    let mut model = Model::new(adaptive(length), length, CAPACITY, NVME);
    let noise = |start| {
        let think = Duration::from_micros(100);
        Reader::new(Pattern::Random, start, 16 << 30, 8 * KIB, think)
    };
    let mut readers: Vec<Reader> = (0..4).map(|_| noise(40 << 30)).collect();
    readers
        .iter_mut()
        .for_each(|reader| reader.done = reader.span - 64 * MIB);
    run(&mut model, &mut readers, &mut random);
    assert_eq!(model.counts().plans, 0, "{:?}", model.counts());
    let demanded = model.seen.demand_requests;

    readers
        .iter_mut()
        .for_each(|reader| reader.done = reader.span - 64 * MIB);
    readers.push(forward(1 << 30, 512 * MIB, 8 * KIB));
    run(&mut model, &mut readers, &mut random);
    let counts = model.counts();
    assert_eq!((counts.streams, counts.wasted_bytes), (1, 0), "{counts:?}");
    assert!(
        model.seen.demand_requests - demanded <= 4 * 8192 + 12,
        "{:?}",
        model.seen
    );
}

#[test]
fn strides_are_fetched_ahead() {
    let length = 8 << 30;
    let mut model = Model::new(adaptive(length), length, CAPACITY, NVME);
    let think = Duration::from_micros(500);
    let stride = Reader::new(Pattern::Stride(MIB), 5 * MIB, 4 << 30, 16 * KIB, think);
    run(&mut model, &mut [stride], &mut Random(1));
    let (seen, counts) = (model.seen, model.counts());
    assert!(
        seen.reads > 4000 && counts.strides == 1,
        "{seen:?} {counts:?}"
    );
    assert!(
        seen.demand_requests + seen.late <= 12,
        "{seen:?} {counts:?}"
    );
    assert!(seen.ahead_bytes <= seen.reads * 16 * KIB + MIB, "{seen:?}");
}

fn megabytes_per_second(policy: Adaptive, readers: &mut [Reader]) -> f64 {
    let mut model = Model::new(policy, 4 << 30, CAPACITY, DVD);
    let elapsed = run(&mut model, readers, &mut Random(3));
    let bytes: u64 = readers.iter().map(|reader| reader.done).sum();
    bytes as f64 / 1e6 / elapsed.as_secs_f64()
}

#[test]
fn one_stream_runs_at_the_media_rate_and_three_at_four_fifths_of_it() {
    let settings = || Adaptive::new(Settings::rotating(4 << 30));
    let streams = |count: u64| -> Vec<Reader> {
        (0..count)
            .map(|number| forward(number << 30, 160 * MIB, 8 * KIB))
            .collect()
    };
    let media = DVD.bytes_per_second as f64 / 1e6;
    let one = megabytes_per_second(settings(), &mut streams(1));
    assert!(one >= 0.95 * media, "{one} of {media}");
    let three = megabytes_per_second(settings(), &mut streams(3));
    assert!(three >= 0.8 * media, "{three} of {media}");
    let none = megabytes_per_second(Adaptive::new(Settings::off()), &mut streams(3));
    assert!(none < 0.05 * media, "{none} of {media}");
}

#[test]
fn a_stream_of_small_reads_hits_and_the_device_gets_large_requests() {
    let length = 1 << 30;
    let mut model = Model::new(adaptive(length), length, 64 * MIB, NVME);
    run(
        &mut model,
        &mut [forward(0, length, 8 * KIB)],
        &mut Random(5),
    );
    let seen = model.seen;
    assert_eq!(seen.reads, 131_072);
    assert!(seen.demand_requests <= 2, "{seen:?}");
    assert!(seen.late * 100 <= seen.reads, "{seen:?}");
    assert!(seen.ahead_bytes / seen.ahead_requests >= MIB, "{seen:?}");
    assert_eq!(seen.wasted_bytes, 0, "{seen:?}");
}
