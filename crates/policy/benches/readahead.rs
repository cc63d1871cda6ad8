//! What a read-ahead policy costs for each access that it is told, and what it answers.
//!
//! `cargo bench -p pagewell-policy --bench readahead`. An argument is the number of accesses for
//! each line (default 2,000,000; `--bench` and other options are ignored).

use std::hint::black_box;
use std::time::{Duration, Instant};

use pagewell_base::mix::{STEP, mix};
use pagewell_policy::readahead::{Access, AccessKind, Adaptive, Settings};

const LENGTH: u64 = 1 << 40;
const REQUEST: u64 = 8192;
const ACCESSES: u64 = 2_000_000;
/// Streams begin so far apart.
const APART: u64 = 1 << 36;

/// Makes the access of a number; the second value is the marker of the last plan.
type Pattern = fn(u64, Option<u64>) -> (u64, AccessKind);

fn sequential_misses(number: u64, _: Option<u64>) -> (u64, AccessKind) {
    (number * REQUEST, AccessKind::Miss)
}

fn markers(number: u64, marker: Option<u64>) -> (u64, AccessKind) {
    match marker {
        Some(marker) if number > 0 => (marker, AccessKind::Marker),
        _ => (number * REQUEST, AccessKind::Miss),
    }
}

fn eight_streams_late(number: u64, _: Option<u64>) -> (u64, AccessKind) {
    let (stream, step) = (number % 8, number / 8);
    let kind = if step < 2 {
        AccessKind::Miss
    } else {
        AccessKind::Late
    };
    (
        stream * (stream + 1) / 2 * (APART / 8) + step * REQUEST,
        kind,
    )
}

fn random_misses(number: u64, _: Option<u64>) -> (u64, AccessKind) {
    // A multiplication alone would be a stride.
    let place = mix(number.wrapping_add(1).wrapping_mul(STEP));
    (place % LENGTH / REQUEST * REQUEST, AccessKind::Miss)
}

fn strides(number: u64, _: Option<u64>) -> (u64, AccessKind) {
    (number * 262_144, AccessKind::Late)
}

fn measure(name: &str, policy: &mut Adaptive, pattern: Pattern, accesses: u64) {
    let mut marker = None;
    let start = Instant::now();
    for number in 0..accesses {
        let (offset, kind) = pattern(number, marker);
        let plan = policy.access(black_box(&Access {
            offset,
            length: REQUEST,
            kind,
            budget_bytes: u64::MAX,
            spare_bytes: 0,
            now: Duration::from_micros(number * 10),
            bounds: None,
            latency: None,
        }));
        marker = plan.marker.or(marker);
        black_box(&plan);
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / accesses as f64;
    let counts = policy.counts();
    println!(
        "{name:<28} {nanoseconds:>8.1} ns/access {:>9} sequential {:>9} random {:>3} streams \
         {:>9} plans {:>7} MiB asked",
        counts.sequential,
        counts.random,
        counts.streams,
        counts.plans,
        counts.planned_bytes >> 20,
    );
}

fn main() {
    let accesses = std::env::args()
        .find_map(|word| word.parse().ok())
        .unwrap_or(ACCESSES);
    let patterns: [(&str, Pattern); 5] = [
        ("sequential, all miss", sequential_misses),
        ("markers only", markers),
        ("eight streams, all late", eight_streams_late),
        ("random, all miss", random_misses),
        ("strides, all late", strides),
    ];
    for (name, pattern) in patterns {
        let adaptive = &mut Adaptive::new(Settings::flash(LENGTH));
        measure(&format!("adaptive {name}"), adaptive, pattern, accesses);
        measure(
            &format!("none     {name}"),
            &mut Adaptive::new(Settings::off()),
            pattern,
            accesses,
        );
    }
}
