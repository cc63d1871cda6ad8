//! Random reads by several threads, and their costs.
//!
//! The number of reads is fixed, not the time: both mappings read the same places in the same
//! order, so that device and eviction cost the same in both.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use pagewell_counters::names::{CACHE_FETCH_REQUESTS, CACHE_FETCHED_BYTES, CACHE_MISSES};
use pagewell_layers::Pattern;
use pagewell_load::measure::{Counting, Latency, Usage};

use super::file::File;
use super::kernel::Shootdowns;
use super::random::Offsets;
use super::window::WindowCounts;
use crate::experiment::{Error, Result};

pub(super) const READ_BYTES: usize = 8192;
/// One read in so many is timed.
const BATCH: u64 = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) threads: usize,
    /// Reads of all threads together.
    pub(super) reads: u64,
    pub(super) seed: u64,
}

/// The costs of the reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Hammered {
    pub(super) reads: u64,
    pub(super) elapsed: Duration,
    /// One read in [`BATCH`].
    pub(super) latency: Latency,
    pub(super) usage: Usage,
    pub(super) misses: u64,
    pub(super) device_requests: u64,
    pub(super) device_bytes: u64,
    pub(super) copied_bytes: u64,
    pub(super) window_hits: u64,
    pub(super) maps: u64,
    pub(super) unmaps: u64,
    pub(super) shootdowns: Shootdowns,
}

impl Hammered {
    /// Processor time of a read, in microseconds.
    pub(super) fn cpu_us(&self) -> f64 {
        self.usage.cpu().as_secs_f64() * 1e6 / self.reads.max(1) as f64
    }

    pub(super) fn reads_per_second(&self) -> f64 {
        self.reads as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The part of reads that found everything.
    pub(super) fn hit_ratio(&self) -> f64 {
        1.0 - self.misses as f64 / self.reads.max(1) as f64
    }

    /// A count for each million of reads.
    pub(super) fn per_million(&self, count: u64) -> f64 {
        count as f64 * 1e6 / self.reads.max(1) as f64
    }
}

/// Reads 8 KiB at random places.
pub(super) fn hammer(file: &File, plan: &Plan) -> Result<Hammered> {
    let barrier = Barrier::new(plan.threads + 1);
    let work = |thread: u64| {
        let seed = plan.seed.wrapping_mul(1021).wrapping_add(thread);
        let barrier = &barrier;
        let threads = plan.threads.max(1) as u64;
        // The first threads read the remainder.
        let reads = plan.reads / threads + u64::from(thread < plan.reads % threads);
        move || one_thread(file, reads, seed, barrier)
    };
    std::thread::scope(|scope| {
        let threads = (0..plan.threads as u64).map(|thread| scope.spawn(work(thread)));
        let threads: Vec<_> = threads.collect();
        barrier.wait();
        let counts = Counts::now(file);
        // The readers begin after the first reading of the counters, and end before the second.
        barrier.wait();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        let mut hammered = counts.until_now(file);
        for result in results {
            let panicked = |_| Error::Wrong("a reader ended in a defect".to_owned());
            let (reads, latency) = result.map_err(panicked)??;
            hammered.reads += reads;
            hammered.copied_bytes += reads * READ_BYTES as u64;
            hammered.latency.add(&latency);
        }
        Ok(hammered)
    })
}

fn one_thread(file: &File, reads: u64, seed: u64, barrier: &Barrier) -> Result<(u64, Latency)> {
    let mut target = vec![0; READ_BYTES];
    let mut offsets = Offsets::new(seed, file.device.length_bytes(), READ_BYTES as u64);
    let mut latency = Latency::default();
    barrier.wait();
    barrier.wait();
    let mut done = 0;
    while done < reads {
        let start = Instant::now();
        file.read(offsets.next(), &mut target)?;
        latency.record(start.elapsed());
        let batch = BATCH.min(reads - done);
        for _ in 1..batch {
            file.read(offsets.next(), &mut target)?;
            black_box(&target);
        }
        done += batch;
    }
    Ok((reads, latency))
}

/// Reads some places and compares every byte.
pub(super) fn check(file: &File, pattern: &Pattern, reads: u64) -> Result<()> {
    let mut target = vec![0; READ_BYTES];
    let mut offsets = Offsets::new(11, file.device.length_bytes(), READ_BYTES as u64);
    for _ in 0..reads {
        file.check(pattern, offsets.next(), &mut target)?;
    }
    Ok(())
}

/// Counters and clocks before a run.
struct Counts {
    counting: Counting,
    windows: WindowCounts,
    shootdowns: Shootdowns,
    usage: Usage,
    start: Instant,
}

impl Counts {
    fn now(file: &File) -> Self {
        Self {
            counting: Counting::begin(),
            windows: file.window_counts(),
            shootdowns: Shootdowns::now(),
            usage: Usage::now(),
            start: Instant::now(),
        }
    }

    fn until_now(&self, file: &File) -> Hammered {
        let elapsed = self.start.elapsed();
        let usage = self.usage.until_now();
        let windows = file.window_counts();
        Hammered {
            elapsed,
            usage,
            misses: self.counting.of(&CACHE_MISSES),
            device_requests: self.counting.of(&CACHE_FETCH_REQUESTS),
            device_bytes: self.counting.of(&CACHE_FETCHED_BYTES),
            window_hits: windows.hits - self.windows.hits,
            maps: windows.maps - self.windows.maps,
            unmaps: windows.unmaps - self.windows.unmaps,
            shootdowns: Shootdowns::now().since(&self.shootdowns),
            ..Hammered::default()
        }
    }
}
