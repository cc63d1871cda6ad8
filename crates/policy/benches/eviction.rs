//! Hit ratios of all eviction policies on synthetic traces, and what a miss costs.
//!
//! `cargo bench -p pagewell-policy --bench eviction`
//!
//! Pages of 64 KiB, a cache of 256 MiB. A `+` in the name of a trace: the read-ahead knows the
//! streams in it and says so; without it all pages come on demand.

#![allow(dead_code, unreachable_pub)] // of what it shares with the tests

#[path = "../tests/eviction/compared/mod.rs"]
mod compared;

use std::time::Instant;

use compared::{Clock, Eviction, Lru, Replay, Sieve};
use pagewell_base::mix::{STEP, mix};
use pagewell_policy::eviction::{Arrival, S3Fifo};

const FRAMES: u32 = 4096;
const MIB_PAGES: u64 = 16;
const ACCESSES: u64 = 1_000_000;
/// Pages of streams are numbered from here.
const STREAM_PAGES: u64 = 1 << 40;

/// A page, how it comes when it is missing, and whether the hit ratio counts it.
type Access = (u64, Arrival, bool);
type New = fn(u32) -> Box<dyn Eviction>;

const POLICIES: [(&str, New); 4] = [
    ("s3-fifo", |frames| Box::new(S3Fifo::new(frames))),
    ("lru", |frames| Box::new(Lru::new(frames))),
    ("clock", |frames| Box::new(Clock::new(frames))),
    ("sieve", |frames| Box::new(Sieve::new(frames))),
];

fn mixed(number: u64) -> u64 {
    mix(number.wrapping_add(1).wrapping_mul(STEP))
}

/// Page k of `pages` is read in proportion to 1 / (k + 1)^exponent.
fn zipf(pages: u64, exponent: f64) -> Vec<Access> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (0..pages)
        .map(|page| {
            sum += 1.0 / ((page + 1) as f64).powf(exponent);
            sum
        })
        .collect();
    let access = |number| {
        let point = mixed(number) as f64 / u64::MAX as f64 * sum;
        let page = sums.partition_point(|sum| *sum < point) as u64;
        (page, Arrival::Demand, true)
    };
    (0..ACCESSES).map(access).collect()
}

/// The same pages again and again.
fn cycle(pages: u64) -> Vec<Access> {
    (0..ACCESSES / 4)
        .map(|number| (number % pages, Arrival::Demand, true))
        .collect()
}

/// A warm set at random, interrupted by scans of twice the cache. Only the warm set counts.
fn scans(arrival: Arrival) -> Vec<Access> {
    let warm_pages = 128 * MIB_PAGES;
    let mut trace = Vec::new();
    for scan in 0..10 {
        let warm = (0..20_000).map(|n| mixed(scan * 20_000 + n) % warm_pages);
        trace.extend(warm.map(|page| (page, Arrival::Demand, true)));
        let pages = u64::from(FRAMES) * 2;
        trace.extend((0..pages).map(|page| (STREAM_PAGES + scan * pages + page, arrival, false)));
    }
    trace
}

/// 4 GiB streamed once while 64 MiB are read now and then. Only the warm set counts.
fn stream(arrival: Arrival) -> Vec<Access> {
    let warm_pages = 64 * MIB_PAGES;
    let mut trace: Vec<Access> = (0..4 * warm_pages)
        .map(|number| (number % warm_pages, Arrival::Demand, false))
        .collect();
    for page in 0..4096 * MIB_PAGES {
        trace.push((STREAM_PAGES + page, arrival, false));
        if page % 8 == 0 {
            trace.push((mixed(page) % warm_pages, Arrival::Demand, true));
        }
    }
    trace
}

/// Half zipf, half four streams that never come back.
fn blend(arrival: Arrival) -> Vec<Access> {
    let streams = |number: u64| (STREAM_PAGES * (1 + number % 4) + number / 4, arrival, false);
    zipf(u64::from(FRAMES) * 8, 0.9)
        .into_iter()
        .zip((0..).map(streams))
        .flat_map(|(hot, cold)| [hot, cold])
        .collect()
}

fn main() {
    let frames = u64::from(FRAMES);
    let traces = [
        ("zipf 0.7, 8 x cache", zipf(frames * 8, 0.7)),
        ("zipf 0.9, 8 x cache", zipf(frames * 8, 0.9)),
        ("zipf 1.1, 8 x cache", zipf(frames * 8, 1.1)),
        ("loop, 0.9 x cache", cycle(frames * 9 / 10)),
        ("loop, 1.25 x cache", cycle(frames * 5 / 4)),
        ("scans over warm 128 MiB", scans(Arrival::Demand)),
        ("scans over warm 128 MiB +", scans(Arrival::Stream)),
        ("stream over warm 64 MiB", stream(Arrival::Demand)),
        ("stream over warm 64 MiB +", stream(Arrival::Stream)),
        ("zipf 0.9 and 4 streams", blend(Arrival::Demand)),
        ("zipf 0.9 and 4 streams +", blend(Arrival::Stream)),
    ];
    let names = POLICIES.map(|(name, _)| format!("{name:>9}")).concat();
    println!("{:<27}{names}   hit ratio; ns per access", "trace");
    for (trace_name, trace) in &traces {
        let mut line = format!("{trace_name:<27}");
        let mut times = String::new();
        for (_, new) in POLICIES {
            let mut cache = Replay::new(FRAMES, new(FRAMES));
            let (mut hits, mut counted) = (0_u64, 0_u64);
            let start = Instant::now();
            for (page, arrival, counts) in trace {
                let hit = cache.access(*page, *arrival);
                hits += u64::from(hit && *counts);
                counted += u64::from(*counts);
            }
            let nanoseconds = start.elapsed().as_nanos() as f64 / trace.len() as f64;
            line += &format!("{:>9.3}", hits as f64 / counted as f64);
            times += &format!("{nanoseconds:>6.0}");
        }
        println!("{line}  {times}");
    }
}
