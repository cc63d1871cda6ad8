//! What the elevator costs: nanoseconds for one request, from its arrival to its completion.
//!
//! `cargo bench -p pagewell-policy --bench elevator`

use std::hint::black_box;
use std::time::{Duration, Instant};

use pagewell_base::mix::{STEP, mix};
use pagewell_policy::elevator::{Class, Elevator, Extent, RequestId, Settings};

const REQUEST_BYTES: u64 = 64 << 10;
const TRANSFER_BYTES_MAX: u64 = 1 << 20;
const REQUESTS: u64 = 400_000;

fn mixed(number: u64) -> u64 {
    mix(number.wrapping_mul(STEP))
}

/// Keeps `queued` requests waiting, and dispatches and completes one by one.
fn run(settings: Settings, queued: usize, place: impl Fn(u64) -> u64) -> (Duration, u64) {
    let mut elevator = Elevator::new(settings);
    let start = Instant::now();
    let mut next = 0;
    let mut done = 0;
    while done < REQUESTS {
        while elevator.queued() < queued {
            let extent = Extent {
                offset: place(next) * REQUEST_BYTES,
                length: REQUEST_BYTES,
            };
            let class = Class::ALL[(next % 2) as usize];
            let now = Duration::from_micros(next);
            elevator.insert(RequestId(next), (0, extent), class, now);
            next += 1;
        }
        if let Some(dispatch) = elevator.dispatch(Duration::from_micros(next)) {
            done += dispatch.members.len() as u64;
            black_box(elevator.complete(dispatch.id));
        }
    }
    (start.elapsed(), elevator.counts().dispatched)
}

fn main() {
    println!(
        "{:<12} {:<11} {:>7} {:>12} {:>11}",
        "settings", "places", "queued", "ns/request", "merged"
    );
    let kinds = [
        ("rotating", Settings::rotating(TRANSFER_BYTES_MAX)),
        ("flash", Settings::flash(TRANSFER_BYTES_MAX)),
        ("plain", Settings::plain()),
    ];
    for (name, settings) in kinds {
        for queued in [1, 16, 256, 4096] {
            for (places, random) in [("sequential", false), ("random", true)] {
                let place = |number| {
                    if random {
                        mixed(number) % (1 << 24)
                    } else {
                        number
                    }
                };
                let (time, dispatched) = run(settings, queued, place);
                let nanoseconds = time.as_nanos() as f64 / REQUESTS as f64;
                let merged = REQUESTS as f64 / dispatched as f64;
                println!("{name:<12} {places:<11} {queued:>7} {nanoseconds:>12.0} {merged:>10.1}x");
            }
        }
    }
}
