//! Sequential streams and a random reader on a DVD: long runs, nobody starves.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewell_policy::elevator::{Class, Counts, Elevator, Extent, Member, RequestId, Settings};

use crate::choices::{Choices, SplitMix};
use crate::media::Media;

const MIB: u64 = 1 << 20;
const WINDOW: u64 = 4 * MIB;
/// Streams lie so far apart.
const APART: u64 = 1 << 30;
const TIME: Duration = Duration::from_secs(120);

/// Reads as fast as it gets, with read-ahead of [`WINDOW`] queued in requests of one size.
struct Stream {
    /// Bytes its reader has.
    read: u64,
    asked: u64,
    /// Came before what is in front of it.
    early: BTreeMap<u64, u64>,
    base: u64,
    /// Whether the reader waits for what is next, or only the read-ahead goes on.
    waits: bool,
}

/// What is simulated.
#[derive(Clone, Copy)]
struct Case {
    streams: u64,
    /// The first so many have readers that wait.
    waiting: u64,
    random_readers: u64,
    request_bytes: u64,
    transfer_bytes_max: u64,
    /// Whether readers react before the device gets its next request, or after.
    readers_first: bool,
}

struct Outcome {
    bytes: Vec<u64>,
    random_reads: Vec<u64>,
    random_wait_max: Duration,
    share_of_rate: f64,
    counts: Counts,
}

struct Simulation {
    case: Case,
    elevator: Elevator,
    now: Duration,
    streams: Vec<Stream>,
    /// Which stream and which of its bytes, or which random reader, a request is for.
    purpose: BTreeMap<RequestId, (u64, u64)>,
    by_place: BTreeMap<(u64, u64), RequestId>,
    random: SplitMix,
    random_reads: Vec<u64>,
    random_since: Vec<Duration>,
    random_wait_max: Duration,
    next_id: u64,
}

impl Simulation {
    fn new(case: Case) -> Self {
        let settings = Settings {
            depth_max: 1,
            ..Settings::rotating(case.transfer_bytes_max)
        };
        let streams = (0..case.streams).map(|number| Stream {
            read: 0,
            asked: 0,
            early: BTreeMap::new(),
            base: (number + 1) * APART,
            waits: number < case.waiting,
        });
        let readers = case.random_readers as usize;
        Self {
            case,
            elevator: Elevator::new(settings),
            now: Duration::ZERO,
            streams: streams.collect(),
            purpose: BTreeMap::new(),
            by_place: BTreeMap::new(),
            random: SplitMix::new(1),
            random_reads: vec![0; readers],
            random_since: vec![Duration::ZERO; readers],
            random_wait_max: Duration::ZERO,
            next_id: 0,
        }
    }

    fn insert(&mut self, purpose: (u64, u64), extent: Extent, class: Class) {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.purpose.insert(id, purpose);
        self.by_place.insert(purpose, id);
        assert!(self.elevator.insert(id, (0, extent), class, self.now));
    }

    fn random_read(&mut self, reader: u64) {
        let place = self.random.below((self.case.streams + 2) * APART / 8192) * 8192;
        let extent = Extent {
            offset: place,
            length: 8192,
        };
        self.random_since[reader as usize] = self.now;
        let purpose = (self.case.streams + reader, self.next_id);
        self.insert(purpose, extent, Class::SynchronousRead);
    }

    /// Tops up the read-ahead; readers that wait say for what.
    fn readers_react(&mut self) {
        for number in 0..self.case.streams {
            let stream = &self.streams[number as usize];
            let (base, read, waits) = (stream.base, stream.read, stream.waits);
            while self.streams[number as usize].asked < read + WINDOW {
                let asked = self.streams[number as usize].asked;
                let extent = Extent {
                    offset: base + asked,
                    length: self.case.request_bytes,
                };
                self.insert((number, asked), extent, Class::AsynchronousRead);
                self.streams[number as usize].asked += self.case.request_bytes;
            }
            if waits && let Some(id) = self.by_place.get(&(number, read)) {
                self.elevator.promote(*id, Class::SynchronousRead);
            }
        }
    }

    fn arrived(&mut self, members: &[Member]) {
        for member in members {
            let (who, place) = self.purpose.remove(&member.id).expect("asked for once");
            self.by_place.remove(&(who, place));
            if let Some(stream) = self.streams.get_mut(who as usize) {
                stream.early.insert(place, member.extent.length);
                while let Some(length) = stream.early.remove(&stream.read) {
                    stream.read += length;
                }
            } else {
                let reader = who - self.case.streams;
                let since = self.random_since[reader as usize];
                self.random_wait_max = self.random_wait_max.max(self.now - since);
                self.random_reads[reader as usize] += 1;
                self.random_read(reader);
            }
        }
    }

    fn run(case: Case) -> Outcome {
        let mut simulation = Self::new(case);
        let mut media = Media::dvd();
        for reader in 0..case.random_readers {
            simulation.random_read(reader);
        }
        simulation.readers_react();
        let mut current = simulation.elevator.dispatch(Duration::ZERO);
        while let Some(done) = current.take().filter(|_| simulation.now < TIME) {
            simulation.now += media.serve(done.extent);
            assert!(simulation.elevator.complete(done.id));
            simulation.arrived(&done.members);
            if case.readers_first {
                simulation.readers_react();
            }
            current = simulation.elevator.dispatch(simulation.now);
            simulation.readers_react();
        }
        let bytes: Vec<u64> = simulation
            .streams
            .iter()
            .map(|stream| stream.read)
            .collect();
        let outcome = Outcome {
            share_of_rate: media.share_of_rate(bytes.iter().sum(), simulation.now),
            bytes,
            random_reads: simulation.random_reads,
            random_wait_max: simulation.random_wait_max,
            counts: simulation.elevator.counts(),
        };
        outcome.print(case);
        outcome
    }
}

impl Outcome {
    fn print(&self, case: Case) {
        let mib: Vec<u64> = self.bytes.iter().map(|bytes| bytes / MIB).collect();
        println!(
            "{} streams ({} wait), {} KiB requests, transfers {} KiB, {} random: \
             {:.3} of the rate, MiB {mib:?}, random reads {:?}, longest {:?}; {:?}",
            case.streams,
            case.waiting,
            case.request_bytes >> 10,
            case.transfer_bytes_max >> 10,
            case.random_readers,
            self.share_of_rate,
            self.random_reads,
            self.random_wait_max,
            self.counts,
        );
    }

    fn no_stream_much_slower_than_another(&self, times: u64) {
        let (least, most) = (self.bytes.iter().min(), self.bytes.iter().max());
        assert!(least.unwrap() * times >= *most.unwrap(), "{:?}", self.bytes);
    }
}

fn cases(random_readers: u64) -> impl Iterator<Item = Case> {
    let sizes = [
        (MIB, MIB),
        (256 << 10, MIB),
        (64 << 10, MIB),
        (64 << 10, 128 << 10),
        (16 << 10, 16 << 10),
    ];
    sizes
        .into_iter()
        .flat_map(|sizes| (0..=3).map(move |waiting| (sizes, waiting)))
        .flat_map(|case| [true, false].map(|readers_first| (case, readers_first)))
        .map(
            move |(((request_bytes, transfer_bytes_max), waiting), readers_first)| Case {
                streams: 3,
                waiting,
                random_readers,
                request_bytes,
                transfer_bytes_max,
                readers_first,
            },
        )
}

#[test]
fn three_streams_together_run_near_the_media_rate_and_alike() {
    for case in cases(0) {
        let outcome = Simulation::run(case);
        assert!(outcome.share_of_rate >= 0.8, "{}", outcome.share_of_rate);
        outcome.no_stream_much_slower_than_another(2);
    }
}

#[test]
fn a_random_reader_neither_starves_nor_is_starved() {
    for case in cases(1) {
        let outcome = Simulation::run(case);
        assert!(outcome.share_of_rate >= 0.7, "{}", outcome.share_of_rate);
        outcome.no_stream_much_slower_than_another(2);
        assert!(outcome.random_wait_max <= Duration::from_millis(2500));
        assert!(outcome.random_reads[0] >= 60, "one in two seconds");
    }
}

/// With 16 readers at one place of the device each waits for the 15 others; the streams have
/// their turn by deadline, and a stream that is waited for has some more.
#[test]
fn sixteen_random_readers_do_not_starve_the_streams() {
    for case in cases(16) {
        let outcome = Simulation::run(case);
        outcome.no_stream_much_slower_than_another(3);
        assert!(outcome.share_of_rate >= 0.15, "{}", outcome.share_of_rate);
        let total: u64 = outcome.random_reads.iter().sum();
        assert!(total >= 480, "four a second");
        let least = *outcome.random_reads.iter().min().unwrap();
        assert!(least * 16 * 2 >= total, "{:?}", outcome.random_reads);
    }
}
