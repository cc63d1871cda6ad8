//! Arbitrary events: no panic, no overflow, no answer that breaks the contract, with any settings,
//! at any offset up to the last of 64 bits.

use std::time::Duration;

use pagewell_policy::writeback::{Admission, Extent, Settings, Tag, Write, WriteBack, WriteId};

/// Bytes of input for one event.
const EVENT_BYTES: usize = 8;
/// The default of the generator is 64 bytes, which is eight events.
const INPUT_BYTES_MAX: usize = 200 * EVENT_BYTES;
/// A cache never writes more in one call: what it writes is in memory.
const CALL_BYTES_MAX: u64 = 256 << 10;

fn offset(event: &[u8]) -> u64 {
    let value = event[2..5]
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    match event[1] % 5 {
        0 => value,
        1 => value << 12,
        2 => u64::MAX - value,
        3 => value << 40,
        _ => value & 0xFFFF,
    }
}

struct Feeder {
    policy: WriteBack,
    now: Duration,
    under_way: Vec<Write>,
    tags: Vec<Tag>,
}

impl Feeder {
    fn feed(&mut self, event: &[u8]) {
        let extent = |most: u64| Extent {
            offset: offset(event),
            length: match event[5] % 4 {
                0 => 8192,
                1 => u64::from(event[6]),
                2 => u64::from(event[6]) << 12,
                _ => u64::MAX >> (event[6] % 64),
            }
            .min(most),
        };
        match event[0] % 10 {
            0..4 => self.write(extent(CALL_BYTES_MAX)),
            4 => self.next(),
            5 => self.finish(usize::from(event[5]), event[6] > 31),
            6 => {
                let tag = self.policy.tag(extent(u64::MAX), self.now);
                self.tags.push(tag);
            }
            7 => {
                let step = Duration::from_micros(1 << (event[5] % 40));
                self.now = self.now.saturating_add(step);
                if event[6] == 0 {
                    self.now = Duration::MAX;
                }
            }
            8 => {
                for extent in self.policy.dirty_in(extent(u64::MAX)) {
                    assert!(extent.length > 0 && self.policy.is_dirty(extent));
                }
                if let Some(tag) = self.tags.pop() {
                    self.policy.tag_state(tag);
                }
            }
            _ => {
                // A write that nobody knows, and time that goes back.
                self.policy
                    .finished(WriteId(u64::MAX), true, Duration::ZERO);
                let _ = self.policy.next_at(Duration::ZERO);
                if event[5] < 16 {
                    self.policy.forget();
                }
            }
        }
        let limits = self.policy.limits();
        assert!(limits.background_bytes <= limits.free_run_bytes);
        assert!(limits.free_run_bytes <= limits.setpoint_bytes);
        assert!(limits.setpoint_bytes <= limits.hard_bytes);
    }

    fn write(&mut self, extent: Extent) {
        match self.policy.admit(extent, true, self.now) {
            Admission::Granted | Admission::Paused(_) => {
                self.policy.wrote(extent, self.now);
            }
            Admission::Refused => (),
        }
    }

    fn next(&mut self) {
        // One write of a single byte each is the worst that settings can ask for.
        for _ in 0..64 {
            let Some(write) = self.policy.next(self.now) else {
                let at = self.policy.next_at(self.now);
                assert!(at.is_none_or(|at| at > self.now || self.now == Duration::MAX));
                break;
            };
            assert!(write.extent.length > 0);
            for other in &self.under_way {
                let (one, two) = (other.extent, write.extent);
                assert!(one.end() <= two.offset || two.end() <= one.offset);
            }
            self.under_way.push(write);
        }
    }

    fn finish(&mut self, which: usize, written: bool) {
        if !self.under_way.is_empty() {
            let write = self.under_way.swap_remove(which % self.under_way.len());
            self.policy.finished(write.id, written, self.now);
        }
    }
}

#[test]
fn any_events() {
    bolero::check!()
        .with_iterations(400)
        .with_generator(bolero::produce::<Vec<u8>>().with().len(2..=INPUT_BYTES_MAX))
        .for_each(|input: &Vec<u8>| {
            let (choice, events) = input.split_at(input.len().min(1));
            let kind = choice.first().copied().unwrap_or_default();
            let usual = Settings::new(64 << 20);
            let settings = match kind % 4 {
                0 => usual,
                1 => Settings {
                    page_bytes: 4096,
                    cluster_bytes_max: 1,
                    flight_bytes_max: 1,
                    bandwidth_initial: 1,
                    device_time_max: Duration::MAX,
                    ..usual
                },
                2 => Settings {
                    dirty_bytes_max: 0,
                    bandwidth_initial: u64::MAX,
                    expire: Duration::MAX,
                    ..usual
                },
                _ => Settings {
                    page_bytes: u64::MAX,
                    expire: Duration::ZERO,
                    ..usual
                },
            };
            let mut feeder = Feeder {
                policy: WriteBack::new(settings),
                now: Duration::ZERO,
                under_way: Vec::new(),
                tags: Vec::new(),
            };
            for event in events.chunks_exact(EVENT_BYTES) {
                feeder.feed(event);
            }
        });
}
