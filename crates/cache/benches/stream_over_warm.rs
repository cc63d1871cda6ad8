//! Streams 4 GiB through a cache of 256 MiB that holds a warm working set of 64 MiB, and says how
//! much of the set is left and how much memory the process took at most.
//!
//! `cargo bench -p pagewell-cache --bench stream_over_warm`

#![allow(clippy::unwrap_used)] // a bench

use std::sync::Arc;
use std::time::Instant;

use pagewell_cache::{Cache, CacheOptions, CachedDevice, PAGE_BYTES, ReadMode};
use pagewell_layers::Pattern;

const MIB: u64 = 1 << 20;
const CACHE_BYTES: u64 = 256 * MIB;
const WARM_BYTES: u64 = 64 * MIB;
const STREAM_BYTES: u64 = 4096 * MIB;
const READ_BYTES: usize = 8192;

fn resident_high_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

fn read(device: &CachedDevice, range: std::ops::Range<u64>) {
    let mut target = vec![0; READ_BYTES];
    for offset in range.step_by(READ_BYTES) {
        device.read_at(offset, &mut target, ReadMode::WAIT).unwrap();
    }
}

fn main() {
    let before_kib = resident_high_kib();
    let cache = Cache::new(CacheOptions::new(CACHE_BYTES)).unwrap();
    let warm = cache.open(Arc::new(Pattern::new(WARM_BYTES, 1)));
    for _ in 0..3 {
        read(&warm, 0..WARM_BYTES);
    }
    let stream = cache.open(Arc::new(Pattern::new(STREAM_BYTES, 2)));
    let start = Instant::now();
    read(&stream, 0..STREAM_BYTES);
    let seconds = start.elapsed().as_secs_f64();
    let (resident, _) = warm.resident_pages();
    let pages = WARM_BYTES / PAGE_BYTES as u64;
    println!(
        "{} MiB streamed in {seconds:.2} s through a cache of {} MiB: {resident} of {pages} warm \
         pages left ({:.1} %)",
        STREAM_BYTES / MIB,
        CACHE_BYTES / MIB,
        resident as f64 * 100.0 / pages as f64,
    );
    let high_kib = resident_high_kib();
    println!(
        "resident at most {} MiB, of which {} MiB before the cache (limit: cache + 64 MiB)",
        high_kib / 1024,
        before_kib / 1024
    );
    assert!(resident * 10 >= pages * 9, "{resident} of {pages} pages");
    assert!(high_kib * 1024 <= CACHE_BYTES + 64 * MIB, "{high_kib} KiB");
}
