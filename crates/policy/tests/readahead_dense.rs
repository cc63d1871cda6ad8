//! Readers that leave out a little in front of each piece, in virtual time: exact counts.

#![allow(clippy::unwrap_used)]

mod readahead_support;

use std::time::Duration;

use pagewell_policy::readahead::{Adaptive, Settings};
use readahead_support::{Device, KIB, MIB, Model};

const LENGTH: u64 = 64 * MIB;

/// A reader of `piece` bytes in every `stride`, from `first` on.
#[derive(Clone, Copy, Debug)]
struct Reader {
    first: u64,
    piece: u64,
    stride: u64,
}

/// None of these covers the first byte of a page.
const READERS: [Reader; 3] = [
    Reader {
        first: 4 * KIB,
        piece: 60 * KIB,
        stride: 64 * KIB,
    },
    Reader {
        first: 4 * KIB,
        piece: 8 * KIB,
        stride: 32 * KIB,
    },
    Reader {
        first: 16 * KIB,
        piece: 16 * KIB,
        stride: 64 * KIB,
    },
];
/// Until the stride has the majority, and what is late while the window grows.
const BEGINNING: u64 = 16;

fn model(length: u64, streams_max: usize, far: bool) -> Model {
    let device = Device {
        latency: Duration::from_micros(100),
        seek: Duration::ZERO,
        bytes_per_second: 2_000_000_000,
        depth: 32,
    };
    let device = if far {
        Device::far(Duration::from_millis(1), 1_000_000_000)
    } else {
        device
    };
    let settings = Settings {
        streams_max,
        ..Settings::flash(length)
    };
    Model::new(Adaptive::new(settings), length, 1 << 30, device)
}

impl Reader {
    fn offsets(self, is_backward: bool) -> Vec<u64> {
        let count = LENGTH / self.stride;
        let offset = |index: u64| match is_backward {
            false => self.first + index * self.stride,
            // The mirror of the same pieces.
            true => LENGTH - self.first - self.piece - index * self.stride,
        };
        (0..count).map(offset).collect()
    }
}

#[test]
fn who_leaves_out_the_beginning_of_each_page_has_one_stream() {
    for reader in READERS {
        for (is_backward, far) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut model = model(LENGTH, 8, far);
            let mut now = Duration::ZERO;
            for offset in reader.offsets(is_backward) {
                now = model.read(offset, reader.piece, now) + Duration::from_micros(200);
            }
            let (seen, counts) = (model.seen, model.counts());
            let context = format!("{reader:?} {is_backward} {far}: {seen:?} {counts:?}");
            assert_eq!(counts.streams, 1, "{context}");
            assert_eq!(counts.crowded, 0, "{context}");
            assert!(seen.demand_requests <= BEGINNING, "{context}");
            // The distance has grown: a window like the first one would take eight times as many.
            assert!(counts.plans <= LENGTH / MIB, "{context}");
        }
    }
}

#[test]
fn who_leaves_out_the_beginning_of_each_page_takes_nobodys_place() {
    for reader in READERS {
        let mut model = model(2 * LENGTH, 2, false);
        let mut now = Duration::ZERO;
        let mut missed = 0;
        for (index, offset) in reader.offsets(false).into_iter().enumerate() {
            now = model.read(offset, reader.piece, now) + Duration::from_micros(200);
            // The other comes later, when places would be gone.
            if let Some(other) = (index as u64).checked_sub(256) {
                let before = model.seen.demand_requests;
                now = model.read(LENGTH + other * 16 * KIB, 16 * KIB, now);
                missed += model.seen.demand_requests - before;
            }
        }
        let (seen, counts) = (model.seen, model.counts());
        let context = format!("{reader:?}: {missed} {seen:?} {counts:?}");
        assert_eq!((counts.streams, counts.crowded), (2, 0), "{context}");
        assert!(missed <= 2, "{context}");
    }
}
