//! What write-back costs: nanoseconds for one call of a writer, with its write-out.
//!
//! `cargo bench -p pagewell-policy --bench writeback`

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pagewell_base::mix::{STEP, mix};
use pagewell_policy::writeback::{Admission, Extent, Settings, WriteBack};

const CALLS: u64 = 400_000;

fn mixed(number: u64) -> u64 {
    mix(number.wrapping_mul(STEP))
}

/// Writes, and keeps eight writes at a device that has done them when the ninth comes.
fn run(length: u64, place: impl Fn(u64) -> u64) -> (Duration, u64) {
    let mut policy = WriteBack::new(Settings::new(256 << 20));
    let mut under_way = VecDeque::new();
    let start = Instant::now();
    for number in 0..CALLS {
        let now = Duration::from_micros(20 * number);
        let extent = Extent {
            offset: place(number),
            length,
        };
        while let Admission::Refused = policy.admit(extent, true, now) {
            under_way.extend(std::iter::from_fn(|| policy.next(now)).map(|write| write.id));
            if let Some(id) = under_way.pop_front() {
                policy.finished(id, true, now);
            }
        }
        black_box(policy.wrote(extent, now));
        while let Some(write) = policy.next(now) {
            under_way.push_back(write.id);
            if under_way.len() > 8
                && let Some(id) = under_way.pop_front()
            {
                policy.finished(id, true, now);
            }
        }
    }
    (start.elapsed(), policy.counts().writes)
}

fn main() {
    println!(
        "{:<16} {:>8} {:>10} {:>10}",
        "places", "bytes", "ns/call", "writes"
    );
    for length in [4096, 8192, 64 << 10] {
        let rows: [(&str, &dyn Fn(u64) -> u64); 3] = [
            ("eight blocks", &|number| number * 5 % 8 * length),
            ("sequential", &|number| number * length),
            ("random in 1 GiB", &|number| {
                mixed(number) % ((1 << 30) / length) * length
            }),
        ];
        for (places, place) in rows {
            let (time, writes) = run(length, place);
            let nanoseconds = time.as_nanos() as f64 / CALLS as f64;
            println!("{places:<16} {length:>8} {nanoseconds:>10.0} {writes:>10}");
        }
    }
}
