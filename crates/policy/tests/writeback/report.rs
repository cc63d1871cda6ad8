//! The program of the `seekreadwrite` report against the policy alone: 10,000 updates of eight
//! blocks, seek, read, seek, write, in the order 0 5 2 7 4 1 6 3, and what the device sees.

use std::time::Duration;

use pagewell_policy::writeback::{
    Admission, Extent, Rule, Settings, TagState, Urgency, Write, WriteBack,
};

const UPDATES: u64 = 10_000;
const ORDER_8: [u64; 8] = [0, 5, 2, 7, 4, 1, 6, 3];
const EVERYTHING: Extent = Extent {
    offset: 0,
    length: u64::MAX,
};

/// What the device saw.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    in_the_loop: u64,
    at_the_end: u64,
    waits: u64,
}

struct Program {
    policy: WriteBack,
    now: Duration,
    under_way: Vec<Write>,
    writes: u64,
    waits: u64,
    pauses: u64,
}

impl Program {
    fn new(rule: Rule) -> Self {
        Self {
            policy: WriteBack::new(Settings::new(rule, 64 << 20)),
            now: Duration::ZERO,
            under_way: Vec::new(),
            writes: 0,
            waits: 0,
            pauses: 0,
        }
    }

    fn drive(&mut self) {
        while let Some(write) = self.policy.next(self.now) {
            self.writes += 1;
            self.under_way.push(write);
        }
    }

    fn finish_all(&mut self) {
        for write in std::mem::take(&mut self.under_way) {
            self.policy.finished(write.id, true, self.now);
        }
    }

    fn commit(&mut self, extent: Extent) {
        let tag = self.policy.tag(extent, self.now);
        loop {
            match self.policy.tag_state(tag) {
                TagState::Written => return,
                TagState::Failed => panic!("nothing fails here"),
                TagState::Pending => {
                    self.drive();
                    assert!(!self.under_way.is_empty(), "a tag that cannot end");
                    self.finish_all();
                }
            }
        }
    }

    fn write(&mut self, offset: u64, length: u64) {
        let extent = Extent { offset, length };
        // 2 microseconds a call: the whole loop is shorter than any expiry.
        self.now += Duration::from_micros(2);
        loop {
            match self.policy.admit(extent, true, self.now) {
                Admission::Granted => break,
                Admission::Paused(_) => self.pauses += 1,
                Admission::Busy => {
                    self.waits += 1;
                    self.drive();
                    assert!(!self.under_way.is_empty(), "busy for ever");
                    self.finish_all();
                }
                Admission::Refused => panic!("64 KiB are not too much"),
            }
        }
        match self.policy.wrote(extent, self.now) {
            Urgency::Later => (),
            Urgency::Now => self.drive(),
            Urgency::Synchronous => self.commit(extent),
        }
    }

    fn run(mut self, order: &[u64], block_size: u64, write_size: u64) -> Seen {
        for block in order.iter().cycle().take(UPDATES as usize) {
            self.write(block * block_size, write_size);
        }
        let in_the_loop = self.writes;
        self.commit(EVERYTHING);
        assert_eq!(self.pauses, 0);
        assert_eq!(self.policy.dirty_pages(), 0);
        assert_eq!(self.policy.flight_bytes(), 0);
        Seen {
            in_the_loop,
            at_the_end: self.writes - in_the_loop,
            waits: self.waits,
        }
    }
}

/// Block size, write size, and how often the device of 2000 wrote in 10,000.
const CELLS: [(u64, u64, u64); 18] = [
    (8191, 8191, 7500),
    (8191, 8192, 7500),
    (8191, 8193, 7500),
    (8192, 8191, 0),
    (8192, 8192, 8750),
    (8192, 8193, 8750),
    (8193, 8191, 8750),
    (8193, 8192, 8750),
    (8193, 8193, 8750),
    (8191, 4095, 7500),
    (8191, 4096, 7500),
    (8191, 4097, 7500),
    (8192, 4095, 0),
    (8192, 4096, 0),
    (8192, 4097, 0),
    (8193, 4095, 0),
    (8193, 4096, 0),
    (8193, 4097, 0),
];

#[test]
fn block_end_writes_as_often_as_reported_in_all_18_cells() {
    for (block_size, write_size, reported) in CELLS {
        let seen = Program::new(Rule::BlockEnd).run(&ORDER_8, block_size, write_size);
        assert_eq!(seen.in_the_loop, reported, "{block_size}/{write_size}");
    }
}

#[test]
fn block_end_makes_each_visit_wait_for_the_write_of_the_one_before() {
    let seen = Program::new(Rule::BlockEnd).run(&ORDER_8, 8192, 8192);
    // All under way end together when one is waited for: a wait each round but the first.
    assert_eq!(seen.waits, UPDATES / 8 - 1);
}

#[test]
fn block_end_with_sixteen_blocks() {
    let order: Vec<u64> = (0..16).map(|number| number * 5 % 16).collect();
    let seen = Program::new(Rule::BlockEnd).run(&order, 8192, 8192);
    assert_eq!(seen.in_the_loop, 9375);
}

#[test]
fn no_cluster_writes_each_time() {
    let seen = Program::new(Rule::NoCluster).run(&ORDER_8, 8192, 8192);
    assert_eq!((seen.in_the_loop, seen.at_the_end), (10_000, 0));
}

#[test]
fn sync_writes_each_time() {
    for rule in [Rule::Sync, Rule::BugReplica] {
        let seen = Program::new(rule).run(&ORDER_8, 8192, 8192);
        assert_eq!((seen.in_the_loop, seen.at_the_end), (10_000, 0));
    }
}

#[test]
fn delayed_writes_nothing_in_the_loop_and_at_most_nine_times_at_the_end() {
    for (block_size, write_size, _) in CELLS {
        let seen = Program::new(Rule::Delayed).run(&ORDER_8, block_size, write_size);
        assert_eq!(
            (seen.in_the_loop, seen.waits),
            (0, 0),
            "{block_size}/{write_size}"
        );
        assert!(
            (1..=9).contains(&seen.at_the_end),
            "{block_size}/{write_size} {seen:?}"
        );
    }
    let order: Vec<u64> = (0..16).collect();
    let seen = Program::new(Rule::Delayed).run(&order, 8192, 8192);
    assert_eq!((seen.in_the_loop, seen.at_the_end), (0, 1), "one run");
}

/// The NFS report: 4 KiB in random order, each once, over blocks of 64 KiB were 0.88 WRITEs for
/// each, the last ranges of the blocks included: each time but the first a block knows another
/// range, unless the new bytes touch it.
#[test]
fn one_range_writes_nearly_each_time_in_random_order() {
    const WRITES: u64 = 16 * 1024;
    let mut program = Program::new(Rule::OneRange);
    program.policy = WriteBack::new(Settings {
        block_bytes: 65_536,
        ..Settings::new(Rule::OneRange, 1 << 30)
    });
    let mut order: Vec<u64> = (0..WRITES).collect();
    let mut random = 1_u64;
    for at in (1..order.len()).rev() {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let other = usize::try_from(random >> 33).unwrap() % (at + 1);
        order.swap(at, other);
    }
    for place in order {
        program.write(place * 4096, 4096);
    }
    program.commit(EVERYTHING);
    let each = program.writes as f64 / WRITES as f64;
    assert!((0.86..0.90).contains(&each), "{each}");
    assert!(
        program.waits > WRITES / 2,
        "one at a time: {}",
        program.waits
    );
}
