//! One run of the program, counted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewell_counters::names::{CACHE_WRITE_FETCH_WAITS, CACHE_WRITE_PAUSES, CACHE_WRITE_REFUSALS};
use pagewell_device::Operation;
use pagewell_layers::SizeHistogram;
use pagewell_load::measure::{Counting, Latency, Usage};

use super::program::Program;
use super::storage::Storage;
use super::target::TargetName;
use crate::experiment::{Result, Rule};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) target: TargetName,
    pub(super) program: Program,
    pub(super) rule: Rule,
    /// How often another thread makes everything durable meanwhile.
    pub(super) commit_interval: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The program.
    pub(super) loop_time: Duration,
    /// Making everything durable after it.
    pub(super) flush_time: Duration,
    /// Device reads of the program.
    pub(super) reads: u64,
    /// Device writes of the program.
    pub(super) writes: u64,
    /// Device writes after it.
    pub(super) flush_writes: u64,
    /// Bytes read and written in all.
    pub(super) device_bytes: u64,
    /// What this process used for the program.
    pub(super) usage: Usage,
    /// Times that the program waited for a write of the same block, for memory, or for a fetch.
    pub(super) busy_waits: u64,
    /// Of each update.
    pub(super) latency: Latency,
    /// Places of the first requests of the program and of the flush.
    pub(super) places: Vec<(u64, usize)>,
    /// Sizes of all requests.
    pub(super) sizes: SizeHistogram,
}

impl Run {
    /// The program and the flush.
    pub(super) fn seconds(&self) -> f64 {
        (self.loop_time + self.flush_time).as_secs_f64()
    }
}

impl Plan {
    /// Runs it on a new file, and compares the file with what it must hold.
    pub(super) fn run(&self, directory: Option<&Path>) -> Result<Run> {
        let target = self.target.open(self.program.file_bytes(), directory)?;
        let storage = Storage::new(target.stats.clone(), self.rule)?;
        // What is read again each time is not warm.
        if self.rule != Rule::BugReplica {
            self.program.warm(&storage)?;
        }
        let counting = Counting::begin();
        let before = target.stats.snapshot();
        let (usage, start) = (Usage::now(), Instant::now());
        let latency = self.run_loop(&storage)?;
        let (loop_time, usage) = (start.elapsed(), usage.until_now());
        let start = Instant::now();
        storage.settle()?;
        let middle = target.stats.snapshot();
        let of_cache = [
            &CACHE_WRITE_FETCH_WAITS,
            &CACHE_WRITE_PAUSES,
            &CACHE_WRITE_REFUSALS,
        ];
        let of_cache: u64 = of_cache.map(|counter| counting.of(counter)).iter().sum();
        let busy_waits = storage.busy_waits() + of_cache;
        storage.sync()?;
        let flush_time = start.elapsed();
        let after = target.stats.snapshot();
        drop(storage);
        target.check(&self.program.result()?)?;
        let looped = middle.difference(&before);
        let all = after.difference(&before);
        Ok(Run {
            loop_time,
            flush_time,
            reads: looped.count(Operation::Read),
            writes: looped.count(Operation::Write),
            flush_writes: after.difference(&middle).count(Operation::Write),
            device_bytes: all.bytes(),
            usage,
            busy_waits,
            latency,
            sizes: all.sizes(None),
            places: all.places,
        })
    }

    fn run_loop(&self, storage: &Storage) -> Result<Latency> {
        let Some(interval) = self.commit_interval else {
            return self.program.run(storage);
        };
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let committer = scope.spawn(|| -> Result<()> {
                while !ended.load(Ordering::Relaxed) {
                    storage.sync()?;
                    std::thread::sleep(interval);
                }
                Ok(())
            });
            let ran = self.program.run(storage);
            ended.store(true, Ordering::Relaxed);
            let committed = committer.join().unwrap_or(Ok(()));
            committed.and(ran)
        })
    }
}
