//! One phase of one run: its operations one by one, and their costs on both sides.

use std::time::{Duration, Instant};

use pagewell_counters::names;
use pagewell_load::measure::{Counting, Latency, Timeline, Usage, number};
use pagewell_sunrpc::client::ProcedureStatistics;
use pagewell_sunrpc::nfs3::Procedure;

/// How often to sample the bandwidth, as fio does.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// Calls of the main procedures, and of all others together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) commits: u64,
    pub(super) others: u64,
    /// As the client counts them: the sum of the others.
    pub(super) requests: u64,
    /// Sum of the times from call to reply.
    pub(super) time: Duration,
}

/// One phase of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    /// The operations.
    pub(super) loop_time: Duration,
    /// Closing the file after them, for writes.
    pub(super) close_time: Duration,
    /// Bytes of each operation.
    pub(super) block_bytes: u32,
    /// Nanoseconds of each operation, in order.
    pub(super) latencies: Vec<u32>,
    /// KB/s in each interval.
    pub(super) bandwidths: Vec<f64>,
    /// Bytes, by when their operations ended.
    pub(super) timeline: Timeline,
    pub(super) calls: Calls,
    pub(super) usage: Usage,
    pub(super) server: Option<Usage>,
    pub(super) copied_bytes: u64,
    /// Answers of the client's caches, hits first.
    pub(super) attributes: (u64, u64),
    pub(super) names: (u64, u64),
    pub(super) data: (u64, u64),
    /// Additional memory in use afterwards.
    pub(super) left_in_use: i64,
    /// Agreed bytes of a READ and of a WRITE.
    pub(super) transfer_bytes: (u32, u32),
}

impl Recording {
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.block_bytes) * self.latencies.len() as u64
    }

    /// The operations and the close.
    pub(super) fn seconds(&self) -> f64 {
        (self.loop_time + self.close_time).as_secs_f64()
    }

    /// KB/s, KB of 1024 bytes, with the close.
    pub(super) fn kilobytes_per_second(&self) -> f64 {
        number(self.bytes()) / 1024.0 / self.seconds().max(1e-9)
    }

    /// KB/s of the second half of the operations, after learning.
    pub(super) fn steady_kilobytes_per_second(&self) -> f64 {
        let half = &self.latencies[self.latencies.len() / 2..];
        let nanoseconds: u64 = half.iter().map(|one| u64::from(*one)).sum();
        let bytes = u64::from(self.block_bytes) * half.len() as u64;
        number(bytes) / 1024.0 / (number(nanoseconds) / 1e9).max(1e-9)
    }

    /// Mean operations at a time, for the program.
    pub(super) fn depth(&self) -> f64 {
        let nanoseconds: u64 = self.latencies.iter().map(|one| u64::from(*one)).sum();
        number(nanoseconds) / 1e9 / self.loop_time.as_secs_f64().max(1e-9)
    }

    /// Mean calls at a time.
    pub(super) fn depth_of_calls(&self) -> f64 {
        self.calls.time.as_secs_f64() / self.seconds().max(1e-9)
    }

    /// WRITE calls for each operation.
    pub(super) fn writes_per_operation(&self) -> f64 {
        number(self.calls.writes) / number(self.latencies.len()).max(1.0)
    }

    /// Microseconds of processor time here for each operation.
    pub(super) fn client_cpu(&self) -> f64 {
        self.usage.cpu().as_secs_f64() * 1e6 / number(self.latencies.len()).max(1.0)
    }

    /// The latencies of the operations.
    pub(super) fn latency(&self) -> Latency {
        let mut latency = Latency::default();
        let times = self.latencies.iter().map(|time| u64::from(*time));
        times.for_each(|time| latency.record(Duration::from_nanos(time)));
        latency
    }

    /// Microseconds of processor time at the server for each operation.
    pub(super) fn server_cpu(&self) -> Option<f64> {
        let cpu = self.server?.cpu().as_secs_f64();
        Some(cpu * 1e6 / number(self.latencies.len()).max(1.0))
    }
}

/// The median of the ratios of `of` in runs side by side; 0 without any.
pub(super) fn middle_ratio(
    runs: &[Recording],
    beside: &[Recording],
    of: impl Fn(&Recording) -> f64,
) -> f64 {
    let pairs = runs.iter().zip(beside);
    let ratios: Vec<f64> = pairs
        .map(|(one, two)| of(one) / of(two).max(1e-9))
        .collect();
    pagewell_load::measure::median(&ratios).unwrap_or(0.0)
}

/// The moment when a phase begins.
pub(super) struct Beginning {
    calls: Vec<ProcedureStatistics>,
    counting: Counting,
    in_use: i64,
    server: Option<Usage>,
    usage: Usage,
}

impl Beginning {
    pub(super) fn now(calls: Vec<ProcedureStatistics>, server: Option<Usage>) -> Self {
        Self {
            calls,
            counting: Counting::begin(),
            in_use: in_use(),
            server,
            usage: Usage::now(),
        }
    }

    /// Puts what happened since into a recording.
    pub(super) fn end(
        self,
        recording: &mut Recording,
        calls: &[ProcedureStatistics],
        server: Option<Usage>,
    ) {
        recording.usage = self.usage.until_now();
        let both = server.zip(self.server);
        recording.server = both.map(|(now, before)| now.since(&before));
        let of = |counter| self.counting.of(counter);
        recording.copied_bytes = of(&names::COPIED_BYTES);
        recording.attributes = (
            of(&names::CLIENT_ATTRIBUTE_HITS),
            of(&names::CLIENT_ATTRIBUTE_MISSES),
        );
        recording.names = (of(&names::CLIENT_NAME_HITS), of(&names::CLIENT_NAME_MISSES));
        // Only writes have a close that takes time.
        let (hits, misses) = match recording.close_time > Duration::ZERO {
            true => (&names::CLIENT_WRITE_HITS, &names::CLIENT_WRITE_MISSES),
            false => (&names::CLIENT_READ_HITS, &names::CLIENT_READ_MISSES),
        };
        recording.data = (of(hits), of(misses));
        recording.calls = difference(calls, &self.calls);
        recording.left_in_use = in_use() - self.in_use;
    }
}

/// Memory pinned and staged, in pages and bytes: none of it may stay.
fn in_use() -> i64 {
    let unpinned = names::CACHE_UNPINNED_PAGES.get();
    let pinned = names::CACHE_PINNED_PAGES.get().saturating_sub(unpinned);
    names::CACHE_STAGING_BYTES.get() + i64::try_from(pinned).unwrap_or(i64::MAX)
}

fn difference(now: &[ProcedureStatistics], before: &[ProcedureStatistics]) -> Calls {
    let mut calls = Calls::default();
    for (number, procedure) in (0u32..).zip(now) {
        let earlier = before.get(number as usize);
        let earlier = earlier.cloned().unwrap_or_default();
        let count = procedure.calls.saturating_sub(earlier.calls);
        let time = procedure
            .latency
            .difference(&earlier.latency)
            .sum_nanoseconds;
        calls.time += Duration::from_nanos(time);
        let kind = if number == Procedure::Read.number() {
            &mut calls.reads
        } else if number == Procedure::Write.number() {
            &mut calls.writes
        } else if number == Procedure::Commit.number() {
            &mut calls.commits
        } else {
            &mut calls.others
        };
        *kind += count;
        calls.requests += count;
    }
    calls
}

impl Calls {
    /// Adds all calls of another client.
    pub(super) fn add(&mut self, procedures: &[ProcedureStatistics]) {
        let other = difference(procedures, &[]);
        self.reads += other.reads;
        self.writes += other.writes;
        self.commits += other.commits;
        self.others += other.others;
        self.requests += other.requests;
        self.time += other.time;
    }
}

pub(super) struct Stopwatch {
    started: Instant,
    /// The last sample of the bandwidth: its time, and the operations until then.
    sampled: (Instant, usize),
    recording: Recording,
}

impl Stopwatch {
    /// Starts, with room for so many operations.
    pub(super) fn start(operations: usize, block_bytes: u32) -> Self {
        let now = Instant::now();
        Self {
            started: now,
            sampled: (now, 0),
            recording: Recording {
                block_bytes,
                latencies: Vec::with_capacity(operations),
                ..Recording::default()
            },
        }
    }

    /// Records an operation that began at `began` and ends now.
    pub(super) fn lap(&mut self, began: Instant) {
        let now = Instant::now();
        let nanoseconds = u32::try_from((now - began).as_nanos()).unwrap_or(u32::MAX);
        let recording = &mut self.recording;
        recording.latencies.push(nanoseconds);
        let bytes = recording.block_bytes.into();
        recording.timeline.record(now - self.started, bytes);
        if now - self.sampled.0 >= SAMPLE_INTERVAL {
            self.sample(now);
        }
    }

    fn sample(&mut self, now: Instant) {
        let (since, operations) = self.sampled;
        let recording = &mut self.recording;
        let done = recording.latencies.len() - operations;
        let bytes = number(done as u64) * f64::from(recording.block_bytes);
        let seconds = (now - since).as_secs_f64();
        if seconds > 0.0 && done > 0 {
            recording.bandwidths.push(bytes / 1024.0 / seconds);
        }
        self.sampled = (now, recording.latencies.len());
    }

    /// All operations have ended.
    pub(super) fn stop(mut self) -> Recording {
        let now = Instant::now();
        self.sample(now);
        self.recording.loop_time = now - self.started;
        self.recording
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_the_operations() {
        let recording = Recording {
            loop_time: Duration::from_secs(2),
            close_time: Duration::from_secs(2),
            block_bytes: 4096,
            latencies: vec![1_000_000_000, 500_000_000, 250_000_000, 250_000_000],
            ..Recording::default()
        };
        assert_eq!(recording.bytes(), 16_384);
        assert_eq!(recording.kilobytes_per_second(), 4.0);
        assert_eq!(recording.steady_kilobytes_per_second(), 16.0);
        assert_eq!(recording.depth(), 1.0);
    }

    #[test]
    fn calls_are_counted_by_kind_and_add_up() {
        let statistics = |calls: &[u64]| -> Vec<ProcedureStatistics> {
            let each = calls.iter().map(|calls| ProcedureStatistics {
                calls: *calls,
                ..Default::default()
            });
            each.collect()
        };
        let mut later = vec![0; 22];
        later[6] = 5;
        later[7] = 3;
        later[21] = 1;
        later[1] = 4;
        let calls = difference(&statistics(&later), &statistics(&[0, 1]));
        assert_eq!(
            (calls.reads, calls.writes, calls.commits, calls.others),
            (5, 3, 1, 3)
        );
        let sum = calls.reads + calls.writes + calls.commits + calls.others;
        assert_eq!(calls.requests, sum);
    }

    #[test]
    fn a_stopwatch_takes_each_operation() {
        let mut watch = Stopwatch::start(3, 1024);
        (0..3).for_each(|_| watch.lap(Instant::now()));
        let recording = watch.stop();
        assert_eq!(recording.latencies.len(), 3);
        assert_eq!(
            recording.bandwidths.len(),
            1,
            "the last interval, however short"
        );
    }
}
