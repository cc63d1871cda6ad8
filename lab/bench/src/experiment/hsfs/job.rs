//! Jobs that read at the same time, each a thread with its own list of reads.

use std::time::{Duration, Instant};

use pagewell_base::mix::Random;
use pagewell_cache::{Bounds, ReadMode};
use pagewell_device::Issuer;
use pagewell_load::measure::{Latency, Timeline};

use super::reading::Reader;
use super::rig::Rig;
use crate::experiment::{Error, OutOfTime, Result};

/// Reads that run on one thread, one after the other.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) reads: Box<dyn Iterator<Item = Read> + Send>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) offset: u64,
    pub(super) length: usize,
    pub(super) issuer: Issuer,
    /// The extent of the file, if the device has many.
    pub(super) bounds: Option<Bounds>,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) operations: u64,
    pub(super) bytes: u64,
    /// On the wall's clock.
    pub(super) latency: Latency,
    /// The sum of the latencies.
    pub(super) busy: Duration,
    /// Bytes, by when their reads ended.
    pub(super) timeline: Timeline,
}

/// One word of each so many bytes is compared with what it must be. All words of a device differ,
/// so a sector from the wrong place is found, at no measurable cost.
const CHECKED_EVERY: usize = 512;

impl Job {
    /// Reads from `start` to `start + length` in order, again and again.
    pub(super) fn sequential(name: &str, start: u64, length: u64, io_bytes: usize) -> Self {
        let count = (length / io_bytes as u64).max(1);
        let reads = (0u64..).map(move |index| start + index % count * io_bytes as u64);
        Self::new(name, reads, io_bytes)
    }

    /// Reads of the first `length` bytes in order, once.
    pub(super) fn once(name: &str, length: u64, io_bytes: usize) -> Self {
        Self::sequential(name, 0, length, io_bytes).take(length / io_bytes as u64)
    }

    /// Reads at random multiples of the length of a read, the same ones for a seed.
    pub(super) fn random(name: &str, start: u64, length: u64, io_bytes: usize, seed: u64) -> Self {
        let count = (length / io_bytes as u64).max(1);
        let mut random = Random(seed);
        let reads = std::iter::repeat_with(move || start + random.below(count) * io_bytes as u64);
        Self::new(name, reads, io_bytes)
    }

    fn new(name: &str, reads: impl Iterator<Item = u64> + Send + 'static, length: usize) -> Self {
        let issuer = Issuer::Reader;
        let reads = reads.map(move |offset| Read {
            offset,
            length,
            issuer,
            bounds: None,
        });
        Self {
            name: name.to_owned(),
            reads: Box::new(reads),
        }
    }

    pub(super) fn take(mut self, count: u64) -> Self {
        self.reads = Box::new(
            self.reads
                .take(usize::try_from(count).unwrap_or(usize::MAX)),
        );
        self
    }
}

/// Runs jobs until they are done or `limit` comes; an error after `deadline`.
pub(super) fn run_jobs(
    rig: &Rig,
    jobs: Vec<Job>,
    limit: Option<Instant>,
    deadline: Instant,
) -> Result<Vec<Stream>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .into_iter()
            .map(|job| scope.spawn(move || run_job(rig, job, limit, deadline)))
            .collect();
        let streams = threads.into_iter().map(|thread| {
            let gone = |_| Error::Wrong("a reader panicked".to_owned());
            thread.join().map_err(gone)?
        });
        streams.collect()
    })
}

fn run_job(rig: &Rig, job: Job, limit: Option<Instant>, deadline: Instant) -> Result<Stream> {
    let mut stream = Stream {
        name: job.name,
        operations: 0,
        bytes: 0,
        latency: Latency::default(),
        busy: Duration::ZERO,
        timeline: Timeline::default(),
    };
    let mut reader = Reader::new(&rig.device, rig.pieces);
    let mut buffer = Vec::new();
    let mut begin = Instant::now();
    let started = begin;
    for read in job.reads {
        buffer.resize(read.length, 0);
        let mode = ReadMode {
            may_block: true,
            issuer: read.issuer,
            bounds: read.bounds,
        };
        reader.read(read.offset, &mut buffer, mode)?;
        let end = Instant::now();
        if end > deadline {
            return Err(OutOfTime.into());
        }
        stream.latency.record(end - begin);
        stream.busy += end - begin;
        stream.timeline.record(end - started, read.length as u64);
        stream.operations += 1;
        stream.bytes += read.length as u64;
        check(rig, read.offset, &buffer)?;
        // The read across the limit counts: the times of run and drive include it.
        if limit.is_some_and(|limit| end > limit) {
            break;
        }
        begin = Instant::now();
    }
    Ok(stream)
}

fn check(rig: &Rig, offset: u64, bytes: &[u8]) -> Result<()> {
    let mut expected = [0; 8];
    for (index, sector) in bytes.chunks(CHECKED_EVERY).enumerate() {
        let at = offset + (index * CHECKED_EVERY) as u64;
        rig.pattern.fill(at, &mut expected);
        let count = sector.len().min(expected.len());
        if sector.get(..count) != expected.get(..count) {
            return Err(Error::Wrong(format!("wrong bytes came from byte {at}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stay_inside_and_repeat() {
        let offsets = |job: Job| job.reads.map(|read| read.offset).collect::<Vec<_>>();
        let sequential = || Job::sequential("s", 4096, 8192 * 3, 8192).take(4);
        assert_eq!(offsets(sequential()), [4096, 12_288, 20_480, 4096]);
        let random = |seed| Job::random("r", 4096, 1 << 20, 8192, seed).take(1000);
        let found = offsets(random(7));
        assert_eq!(found, offsets(random(7)));
        assert_ne!(found, offsets(random(8)));
        assert!(
            found
                .iter()
                .all(|at| (4096..=4096 + (1 << 20) - 8192).contains(at))
        );
        let distinct: std::collections::HashSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), 128, "all places are read");
    }
}
