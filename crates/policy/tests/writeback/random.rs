//! Small writes in random order, each block once: how many writes to the device are there for each?
//!
//! In virtual time, over a file of so many pages, with so much room. Compared with the rule of
//! before, which began at half of the limit and took pages as they came in ascending order, and
//! with what is saved by pages that stay from beginning to end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pagewell_policy::writeback::{Admission, Settings, WriteBack, WriteId};

use crate::reasons::{EVERYTHING, extent};
use crate::schedules::Numbers;

const PAGE: u64 = 65_536;
const BLOCK: u64 = 4096;
const BLOCKS: u64 = PAGE / BLOCK;
const PAGES: u64 = 4096;
/// So much of what could stay does.
const SHARE: f64 = 0.7;
/// From one call to the next.
const CALL_TIME: Duration = Duration::from_micros(4);
/// What the device needs for a request, and for a byte.
const REQUEST_TIME: Duration = Duration::from_micros(25);
const BYTES_PER_MICROSECOND: u64 = 1000;

fn order(seed: u64) -> Vec<u64> {
    let mut numbers = Numbers(seed);
    let mut order: Vec<u64> = (0..PAGES * BLOCKS).collect();
    for left in (1..order.len()).rev() {
        order.swap(left, numbers.below(left as u64 + 1) as usize);
    }
    order
}

/// One writer and one device.
struct Run {
    policy: WriteBack,
    now: Duration,
    free: Duration,
    flying: VecDeque<(Duration, WriteId)>,
    keeps: bool,
    writes: u64,
}

impl Run {
    /// What has ended until now ends, and what may go goes.
    fn drive(&mut self) {
        while let Some(&(at, id)) = self.flying.front()
            && at <= self.now
        {
            self.flying.pop_front();
            if self.keeps {
                self.policy.finished_unflushed(id, at);
            } else {
                self.policy.finished(id, true, at);
            }
        }
        if self.policy.wants_flush(self.now) {
            self.policy.flush_begins();
            self.policy.flush_succeeded();
        }
        while let Some(write) = self.policy.next(self.now) {
            self.writes += 1;
            let bytes = Duration::from_micros(write.extent.length / BYTES_PER_MICROSECOND);
            self.free = self.free.max(self.now) + REQUEST_TIME + bytes;
            self.flying.push_back((self.free, write.id));
        }
    }

    /// Until the next write ends.
    fn wait(&mut self) {
        let (at, _) = self.flying.front().unwrap();
        self.now = self.now.max(*at);
        self.drive();
    }

    fn write(&mut self, block: u64) {
        let bytes = extent(block * BLOCK, BLOCK);
        loop {
            match self.policy.admit(bytes, true, self.now) {
                Admission::Refused => self.wait(),
                Admission::Paused(pause) => {
                    self.now += pause;
                    break;
                }
                _ => break,
            }
        }
        self.policy.wrote(bytes, self.now);
        self.now += CALL_TIME;
        self.drive();
    }
}

/// Writes to the device for each write, with room for this part of the file.
fn writes_per_write(room: f64, keeps: bool) -> f64 {
    let limit = (PAGES as f64 * room) as u64 * PAGE;
    let mut run = Run {
        policy: WriteBack::new(Settings::new(limit)),
        now: Duration::from_secs(1),
        free: Duration::ZERO,
        flying: VecDeque::new(),
        keeps,
        writes: 0,
    };
    for block in order(7) {
        run.write(block);
    }
    let tag = run.policy.tag(EVERYTHING, run.now);
    run.drive();
    while !run.flying.is_empty() {
        run.wait();
    }
    run.policy.tag_state(tag);
    assert_eq!(run.policy.dirty_bytes(), 0);
    run.writes as f64 / (PAGES * BLOCKS) as f64
}

/// The same by the rule of before.
fn before(room: f64) -> f64 {
    let most = (PAGES as f64 * room) as usize / 2;
    let mut pages: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut cursor, mut writes) = (0, 0);
    let ranges = |mask: u32| u64::from((mask & !(mask << 1)).count_ones());
    for block in order(7) {
        *pages.entry(block / BLOCKS).or_default() |= 1 << (block % BLOCKS);
        if pages.len() > most {
            let next = pages.range(cursor..).next().or(pages.iter().next());
            let (page, mask) = next.map(|(page, mask)| (*page, *mask)).unwrap();
            pages.remove(&page);
            cursor = page + 1;
            writes += ranges(mask);
        }
    }
    writes += pages.values().map(|mask| ranges(*mask)).sum::<u64>();
    writes as f64 / (PAGES * BLOCKS) as f64
}

#[test]
fn random_writes_are_gathered_as_far_as_there_is_room() {
    for room in [0.1, 0.25, 0.5, 0.75, 1.0, 1.1, 1.15, 1.25, 2.0] {
        let (new, kept) = (writes_per_write(room, false), writes_per_write(room, true));
        let old = before(room);
        println!("room {room:.2}: {old:.3} before, {new:.3}, {kept:.3} kept");
        // What stays from beginning to end: between where thinning ends and where it begins.
        let stays = room * 11.0 / 16.0;
        let most = if room * 7.0 / 8.0 > 1.0 {
            1.0 / 16.0
        } else {
            1.0 - 15.0 / 16.0 * stays * SHARE
        };
        assert!(new <= most && kept <= most, "room {room}: {new}, {kept}");
        assert!(
            new < old && kept < old,
            "room {room}: {new}, {kept}, before {old}"
        );
    }
}
