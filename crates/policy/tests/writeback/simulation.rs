//! Pacing in virtual time: several writers, devices of many speeds.
//!
//! A writer dirties page after page as fast as it is let. The device writes what it is given one
//! after the other, at its speed. Whatever is measured is measured after the first part of the
//! run, in which bandwidth and limits find their place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use pagewell_policy::writeback::{Admission, Extent, Settings, WriteBack, WriteId};

use crate::schedules::Numbers;

const MB: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Finished(WriteId, u64),
    /// A writer asks.
    Asks(usize),
    /// A writer writes, after a pause.
    Writes(usize),
    /// It is looked whether something is due.
    Look,
}

#[derive(Clone, Copy, Debug)]
struct Writer {
    file: u64,
    call_bytes: u64,
    /// Bytes between the beginnings of two calls.
    stride: u64,
    at: u64,
    bytes: u64,
    waiting_since: Option<Duration>,
    /// When it asked first for the call it is about to make.
    asked: Option<Duration>,
}

fn writer(file: u64, call_bytes: u64) -> Writer {
    Writer {
        file,
        call_bytes,
        stride: call_bytes,
        at: 0,
        bytes: 0,
        waiting_since: None,
        asked: None,
    }
}

#[derive(Debug, Default)]
struct Seen {
    longest_pause: Duration,
    longest_refusal: Duration,
    /// From the first question to the call, at any time.
    longest_wait: Duration,
    /// After settling.
    dirty_bytes_most: u64,
    /// Of the setpoint, after settling.
    dirty_least: f64,
    dirty_most: f64,
    written_bytes: u64,
}

struct Simulation {
    policy: WriteBack,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    order: u64,
    device_free: Duration,
    /// From when on, and bytes per second.
    speeds: Vec<(Duration, u64)>,
    writers: Vec<Writer>,
    settled: Duration,
    seen: Seen,
    numbers: Numbers,
}

/// What a writer needs to fill memory, in bytes per second.
const MEMORY_SPEED: u64 = 10_000 * MB;

/// What the device needs for a request, whatever its length.
const REQUEST_TIME: Duration = Duration::from_micros(50);

fn time_of(bytes: u64, speed: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / speed as f64)
}

impl Simulation {
    fn new(speeds: &[(u64, u64)], writers: Vec<Writer>, settled: u64) -> Self {
        let settings = Settings::new(4 << 30);
        let speeds = speeds
            .iter()
            .map(|&(from, speed)| (Duration::from_secs(from), speed));
        Self {
            policy: WriteBack::new(settings),
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            order: 0,
            device_free: Duration::ZERO,
            speeds: speeds.collect(),
            writers,
            settled: Duration::from_secs(settled),
            seen: Seen {
                dirty_least: f64::MAX,
                ..Seen::default()
            },
            numbers: Numbers(1),
        }
    }

    fn speed(&self) -> u64 {
        let past = self.speeds.iter().rev().find(|(from, _)| *from <= self.now);
        past.unwrap_or(&self.speeds[0]).1
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn run(mut self, end: u64) -> Self {
        let end = Duration::from_secs(end);
        for number in 0..self.writers.len() {
            self.at(Duration::ZERO, Event::Asks(number));
        }
        self.at(Duration::ZERO, Event::Look);
        while let Some(Reverse((time, _, event))) = self.events.pop()
            && time < end
        {
            self.now = time;
            match event {
                Event::Finished(id, bytes) => {
                    self.policy.finished(id, true, time);
                    if time >= self.settled {
                        self.seen.written_bytes += bytes;
                    }
                    self.drive();
                    self.wake();
                }
                Event::Asks(number) => self.ask(number),
                Event::Writes(number) => self.write(number),
                Event::Look => {
                    self.drive();
                    self.at(time + Duration::from_millis(100), Event::Look);
                }
            }
            self.observe();
        }
        self
    }

    fn observe(&mut self) {
        if self.now < self.settled {
            return;
        }
        let limits = self.policy.limits();
        let part = self.policy.dirty_memory_bytes() as f64 / limits.setpoint_bytes as f64;
        self.seen.dirty_least = self.seen.dirty_least.min(part);
        let bytes = self.policy.dirty_memory_bytes();
        self.seen.dirty_bytes_most = self.seen.dirty_bytes_most.max(bytes);
        self.seen.dirty_most = self.seen.dirty_most.max(part);
    }

    fn drive(&mut self) {
        while let Some(write) = self.policy.next(self.now) {
            let bytes = write.extent.length;
            let time = time_of(bytes, self.speed()) + REQUEST_TIME;
            self.device_free = self.device_free.max(self.now) + time;
            self.at(self.device_free, Event::Finished(write.id, bytes));
        }
    }

    /// Refused writers ask again.
    fn wake(&mut self) {
        for number in 0..self.writers.len() {
            if let Some(since) = self.writers[number].waiting_since.take() {
                let waited = self.now - since;
                if self.now >= self.settled {
                    self.seen.longest_refusal = self.seen.longest_refusal.max(waited);
                }
                self.at(self.now, Event::Asks(number));
            }
        }
    }

    /// Each file lies in a place of its own.
    fn extent(&self, number: usize) -> Extent {
        let writer = &self.writers[number];
        Extent {
            offset: (writer.file << 40) + writer.at,
            length: writer.call_bytes,
        }
    }

    fn ask(&mut self, number: usize) {
        self.writers[number].asked.get_or_insert(self.now);
        match self.policy.admit(self.extent(number), true, self.now) {
            Admission::Granted => self.write(number),
            Admission::Paused(pause) => {
                self.seen.longest_pause = self.seen.longest_pause.max(pause);
                self.at(self.now + pause, Event::Writes(number));
            }
            Admission::Refused => self.writers[number].waiting_since = Some(self.now),
        }
    }

    fn write(&mut self, number: usize) {
        let extent = self.extent(number);
        self.policy.wrote(extent, self.now);
        let hard = self.policy.limits().hard_bytes;
        let others: u64 = self
            .writers
            .iter()
            .map(|writer| writer.call_bytes.max(65_536))
            .sum();
        assert!(
            self.policy.dirty_memory_bytes() <= hard + others,
            "over the limit"
        );
        let writer = &mut self.writers[number];
        let asked = writer.asked.take().unwrap_or(self.now);
        self.seen.longest_wait = self.seen.longest_wait.max(self.now - asked);
        writer.at += writer.stride;
        if self.now >= self.settled {
            writer.bytes += writer.call_bytes;
        }
        // Else the same writer asks first again and again.
        let percent = u32::try_from(50 + self.numbers.below(101)).unwrap();
        let time = time_of(extent.length, MEMORY_SPEED).max(Duration::from_micros(5));
        let time = time * percent / 100;
        self.at(self.now + time, Event::Asks(number));
        self.drive();
    }

    fn check(&self, what: &str) {
        let seen = &self.seen;
        assert!(
            seen.longest_pause <= Duration::from_millis(200),
            "{what}: {seen:?}"
        );
        let two_seconds = 2 * self.speed();
        assert!(
            seen.dirty_bytes_most <= two_seconds + two_seconds / 4,
            "{what}: {seen:?}"
        );
        assert!(
            seen.dirty_least >= 0.5 && seen.dirty_most <= 2.0,
            "{what}: {seen:?}"
        );
    }

    /// The share of the file with the most over that of the file with the least.
    fn unfairness(&self) -> f64 {
        let files: Vec<u64> = self.writers.iter().map(|writer| writer.bytes).collect();
        let (least, most) = (files.iter().min().unwrap(), files.iter().max().unwrap());
        *most as f64 / (*least).max(1) as f64
    }
}

#[test]
fn several_writers_on_devices_of_many_speeds() {
    for (speed, settled, end) in [
        (MB, 300, 330),
        (10 * MB, 50, 60),
        (100 * MB, 10, 15),
        (500 * MB, 6, 8),
        (3000 * MB, 3, 4),
    ] {
        let call = if speed > 200 * MB {
            512 << 10
        } else {
            64 << 10
        };
        let writers = (0..4).map(|file| writer(file, call)).collect();
        let simulation = Simulation::new(&[(0, speed)], writers, settled).run(end);
        let what = format!("{speed} bytes/s");
        println!(
            "{what} {:?} {:.2} {:?}",
            simulation.seen,
            simulation.unfairness(),
            simulation.policy.limits()
        );
        simulation.check(&what);
        let request = time_of(1 << 20, speed) + REQUEST_TIME;
        let could = (1 << 20) as f64 / request.as_secs_f64() * (end - settled) as f64;
        assert!(
            simulation.seen.written_bytes as f64 >= 0.95 * could,
            "{what}"
        );
        // Where calls cost less than a pause, writers that are awake take what is saved up.
        let most = if request > Duration::from_millis(1) {
            1.25
        } else {
            2.5
        };
        let unfairness = simulation.unfairness();
        assert!(unfairness < most, "{what} {unfairness}");
    }
}

#[test]
fn a_speed_that_changes_in_the_middle() {
    for (before, after, settled, end) in [
        (200 * MB, 20 * MB, 60, 70),
        (20 * MB, 200 * MB, 30, 35),
        (400 * MB, 40 * MB, 60, 65),
    ] {
        let writers = (0..3).map(|file| writer(file, 256 << 10)).collect();
        let simulation = Simulation::new(&[(0, before), (10, after)], writers, settled).run(end);
        let what = format!("{before} to {after} bytes/s");
        println!(
            "{what} {:?} {:.2} {:?}",
            simulation.seen,
            simulation.unfairness(),
            simulation.policy.limits()
        );
        simulation.check(&what);
        // Nobody is stopped while what is too much is written.
        let longest = simulation.seen.longest_wait;
        assert!(longest <= Duration::from_millis(300), "{what}: {longest:?}");
        let could = after * (end - settled);
        assert!(
            simulation.seen.written_bytes as f64 >= 0.9 * could as f64,
            "{what}"
        );
    }
}
