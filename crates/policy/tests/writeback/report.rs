//! The program of the `seekreadwrite` report against the policy alone: 10,000 updates of eight
//! blocks, seek, read, seek, write, in the order 0 5 2 7 4 1 6 3, and what the device sees.

use std::time::Duration;

use pagewell_policy::writeback::{
    Admission, Extent, Settings, TagState, Urgency, Write, WriteBack,
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
}

struct Program {
    policy: WriteBack,
    now: Duration,
    under_way: Vec<Write>,
    writes: u64,
    pauses: u64,
}

impl Program {
    fn new() -> Self {
        Self {
            policy: WriteBack::new(Settings::new(64 << 20)),
            now: Duration::ZERO,
            under_way: Vec::new(),
            writes: 0,
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
                Admission::Refused => panic!("64 KiB are not too much"),
            }
        }
        match self.policy.wrote(extent, self.now) {
            Urgency::Later => (),
            Urgency::Now => self.drive(),
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
        }
    }
}

/// Block size and write size.
const CELLS: [(u64, u64); 18] = [
    (8191, 8191),
    (8191, 8192),
    (8191, 8193),
    (8192, 8191),
    (8192, 8192),
    (8192, 8193),
    (8193, 8191),
    (8193, 8192),
    (8193, 8193),
    (8191, 4095),
    (8191, 4096),
    (8191, 4097),
    (8192, 4095),
    (8192, 4096),
    (8192, 4097),
    (8193, 4095),
    (8193, 4096),
    (8193, 4097),
];

#[test]
fn delayed_writes_nothing_in_the_loop_and_at_most_nine_times_at_the_end() {
    for (block_size, write_size) in CELLS {
        let seen = Program::new().run(&ORDER_8, block_size, write_size);
        assert_eq!(seen.in_the_loop, 0, "{block_size}/{write_size}");
        assert!(
            (1..=9).contains(&seen.at_the_end),
            "{block_size}/{write_size} {seen:?}"
        );
    }
    let order: Vec<u64> = (0..16).collect();
    let seen = Program::new().run(&order, 8192, 8192);
    assert_eq!((seen.in_the_loop, seen.at_the_end), (0, 1), "one run");
}
