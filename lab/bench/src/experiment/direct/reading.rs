//! One run of one path over some targets, one block of each in turn.
//!
//! The reader is one thread, as the tool of the report was. It reads block 0 of each target, then
//! block 1 of each. The large reads of [`Path::Direct`] and [`Path::Raw`] may be several at a time
//! (`depth`); small ones through the cache are one at a time, beside the cache's read-ahead.

use std::fs;
use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use pagewell_cache::{Cache, CacheOptions, CachedDevice, ReadMode};
use pagewell_counters::names::COPIED_BYTES;
use pagewell_device::{Buffer, Issuer, Operation, Outcome, Request};
use pagewell_layers::SizeHistogram;
use pagewell_load::measure::{Latency, Timeline, Usage};

use super::meter::{below_on_this_thread, device_threads_cpu, thread_cpu};
use super::path::Path;
use super::target::Target;
use crate::experiment::{Error, Result};

/// One operation in so many has its copy timed.
const SAMPLED: u64 = 64;
/// A read takes so much memory, times the depth.
const BLOCK_BYTES_MAX: u64 = 64 << 20;
/// Alignment of memory for direct transfers, enough for any device.
const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) path: Path,
    /// Bytes of an operation.
    pub(super) block_bytes: u64,
    /// Operations on each target.
    pub(super) blocks: u64,
    /// Operations at a time, over all targets.
    pub(super) depth: usize,
    /// Memory of the cache.
    pub(super) cache_bytes: u64,
    /// Compare every byte.
    pub(super) check: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    pub(super) latency: Latency,
    /// Sum of the times of all operations.
    pub(super) operation_time: Duration,
    /// Processor time of the process.
    pub(super) usage: Usage,
    /// The simulation's part of it.
    pub(super) device_cpu: Duration,
    pub(super) copied_bytes: u64,
    pub(super) device_requests: u64,
    pub(super) device_bytes: u64,
    /// Requests by issuer, without zeros.
    pub(super) by_issuer: Vec<(&'static str, u64)>,
    /// Mean outstanding at all devices together.
    pub(super) outstanding: f64,
    pub(super) phases: Phases,
    /// Bytes, by when their operations ended.
    pub(super) timeline: Timeline,
    /// Sizes of the requests to all devices.
    pub(super) sizes: SizeHistogram,
    /// Places of the first requests to the first device.
    pub(super) places: Vec<(u64, usize)>,
}

/// Where the wall time of the reader went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phases {
    /// It slept while a device worked, or simulated the device.
    pub(super) device: Duration,
    /// It copied out of the cache.
    pub(super) copy: Duration,
    /// It worked: lookup, submission, completion, read-ahead.
    pub(super) work: Duration,
    /// It had no processor.
    pub(super) runnable: Duration,
}

impl Reading {
    fn count_issuer(&mut self, name: &'static str, requests: u64) {
        match self.by_issuer.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += requests,
            None => self.by_issuer.push((name, requests)),
        }
    }

    /// Records an operation that took so long and ended at that time after the first began.
    fn record(&mut self, bytes: u64, took: Duration, at: Duration) {
        self.timeline.record(at, bytes);
        self.operations += 1;
        self.bytes += bytes;
        self.operation_time += took;
        self.latency.record(took);
    }

    /// Processor time without the simulation of devices.
    pub(super) fn engine_cpu(&self) -> Duration {
        self.usage.cpu().saturating_sub(self.device_cpu)
    }
}

pub(super) fn read(plan: &Plan, targets: &[Target]) -> Result<Reading> {
    let mut reader = Reader::new(plan, targets)?;
    for target in targets {
        let length = target.top.length_bytes();
        if plan.blocks.saturating_mul(plan.block_bytes) > length {
            return Err(Error::Wrong(format!(
                "{}: {length} bytes are fewer than {} blocks of {}",
                target.top.name(),
                plan.blocks,
                plan.block_bytes
            )));
        }
    }
    let before = Before::now(targets);
    let mut reading = match &mut reader {
        Reader::Direct(buffers) => read_direct(plan, targets, buffers)?,
        Reader::Cached { devices, buffer } => read_cached(plan, targets, devices, buffer)?,
    };
    before.end(targets, &mut reading);
    Ok(reading)
}

/// The memory of a reader, all present before the clock starts, as a kernel's is.
enum Reader {
    Direct(Vec<Buffer>),
    Cached {
        devices: Vec<CachedDevice>,
        buffer: Vec<u8>,
    },
}

impl Reader {
    fn new(plan: &Plan, targets: &[Target]) -> Result<Self> {
        let length = usize::try_from(plan.block_bytes.min(BLOCK_BYTES_MAX)).unwrap_or(0);
        if length as u64 != plan.block_bytes {
            let most = pagewell_load::report::bytes(BLOCK_BYTES_MAX);
            return Err(Error::Wrong(format!("an operation reads at most {most}")));
        }
        if !plan.path.is_cached() {
            let buffers = (0..plan.depth.max(1)).map(|_| Buffer::new(length, ALIGNMENT));
            return Ok(Self::Direct(buffers.collect()));
        }
        let options = CacheOptions {
            populate_bytes: u64::MAX,
            ..CacheOptions::new(plan.cache_bytes)
        };
        let cache = Cache::new(options)?;
        let devices = targets.iter().map(|target| cache.open(target.top.clone()));
        Ok(Self::Cached {
            devices: devices.collect(),
            buffer: vec![0; length],
        })
    }
}

struct Arrived {
    index: u64,
    submitted: Instant,
    outcome: Outcome,
    buffer: Buffer,
}

fn read_direct(plan: &Plan, targets: &[Target], buffers: &mut Vec<Buffer>) -> Result<Reading> {
    let count = targets.len().max(1) as u64;
    let total = plan.blocks * targets.len() as u64;
    let depth = buffers.len();
    let (sender, receiver) = mpsc::sync_channel::<Arrived>(depth);
    let mut reading = Reading::default();
    let (mut next, mut outstanding) = (0, 0);
    let first = Instant::now();
    while reading.operations < total {
        while next < total
            && let Some(buffer) = buffers.pop()
        {
            let (index, sender) = (next, sender.clone());
            let target = &targets[(index % count) as usize];
            let submitted = Instant::now();
            let offset = index / count * plan.block_bytes;
            let done = move |outcome, buffer| {
                // There is room for all, and the receiver waits below.
                drop(sender.send(Arrived {
                    index,
                    submitted,
                    outcome,
                    buffer,
                }));
            };
            let request = Request::owned(Operation::Read, offset, buffer, Issuer::Reader, done);
            submit(plan.path, target, request);
            next += 1;
            outstanding += 1;
        }
        let Ok(arrived) = receiver.recv() else {
            return Err(Error::Wrong(format!("{outstanding} requests were lost")));
        };
        outstanding -= 1;
        arrived.outcome.result?;
        let took = arrived.submitted.elapsed();
        reading.record(plan.block_bytes, took, first.elapsed());
        if plan.check {
            let offset = arrived.index / count * plan.block_bytes;
            targets[(arrived.index % count) as usize].check(offset, &arrived.buffer)?;
        }
        buffers.push(arrived.buffer);
    }
    Ok(reading)
}

fn submit(path: Path, target: &Target, request: Request) {
    if path != Path::Raw {
        return target.top.submit(request);
    }
    let piece = usize::try_from(target.piece_bytes()).unwrap_or(usize::MAX);
    let mut lengths = vec![piece; request.len() / piece];
    if !request.len().is_multiple_of(piece) {
        lengths.push(request.len() % piece);
    }
    target.top.submit_many(request.split(&lengths));
}

fn read_cached(
    plan: &Plan,
    targets: &[Target],
    devices: &[CachedDevice],
    buffer: &mut [u8],
) -> Result<Reading> {
    let length = buffer.len();
    let mut reading = Reading::default();
    let (mut copying, mut samples) = (Duration::ZERO, 0_u32);
    let mut start = Instant::now();
    let first = start;
    for block in 0..plan.blocks {
        let offset = block * plan.block_bytes;
        for (device, target) in devices.iter().zip(targets) {
            if plan.path == Path::NoCopy {
                lend(device, offset, length, plan.check.then_some(target))?;
            } else if reading.operations.is_multiple_of(SAMPLED) {
                copying += copy_timed(device, offset, buffer)?;
                samples += 1;
            } else {
                device.read_at(offset, buffer, ReadMode::WAIT)?;
            }
            if plan.check && plan.path == Path::Buffered {
                target.check(offset, buffer)?;
            }
            black_box(&buffer);
            let end = Instant::now();
            reading.record(plan.block_bytes, end - start, end - first);
            start = end;
        }
    }
    // All copies, from the timed ones.
    let share = reading.operations as f64 / f64::from(samples.max(1));
    reading.phases.copy = copying.mul_f64(share);
    Ok(reading)
}

/// Pins bytes page by page, and lets them go.
fn lend(device: &CachedDevice, offset: u64, length: usize, check: Option<&Target>) -> Result<()> {
    let mut done = 0;
    while done < length {
        let at = offset + done as u64;
        let page = device.pin(at, length - done, ReadMode::WAIT)?;
        if let Some(target) = check {
            target.check(at, &page)?;
        }
        done += black_box(&*page).len();
    }
    Ok(())
}

/// A buffered read in two steps; the time of the second, the copy.
fn copy_timed(device: &CachedDevice, offset: u64, buffer: &mut [u8]) -> Result<Duration> {
    let mut copying = Duration::ZERO;
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        let page = device.pin(offset + done as u64, rest.len(), ReadMode::WAIT)?;
        let start = Instant::now();
        rest[..page.len()].copy_from_slice(&page);
        black_box(&rest);
        copying += start.elapsed();
        done += page.len();
    }
    COPIED_BYTES.add(buffer.len() as u64);
    Ok(copying)
}

/// All clocks and counters before a run.
struct Before {
    devices: Vec<pagewell_layers::Snapshot>,
    device_cpu: Duration,
    below: Duration,
    copied_bytes: u64,
    runnable: Duration,
    thread: Duration,
    usage: Usage,
    start: Instant,
}

impl Before {
    fn now(targets: &[Target]) -> Self {
        Self {
            devices: targets.iter().map(Target::snapshot).collect(),
            device_cpu: device_cpu(targets),
            below: below_on_this_thread(),
            copied_bytes: COPIED_BYTES.get(),
            runnable: runnable(),
            thread: thread_cpu(),
            usage: Usage::now(),
            start: Instant::now(),
        }
    }

    /// Adds clocks and counters to a reader's counts.
    fn end(&self, targets: &[Target], reading: &mut Reading) {
        reading.elapsed = self.start.elapsed();
        reading.usage = self.usage.until_now();
        let thread = thread_cpu().saturating_sub(self.thread);
        let runnable = runnable().saturating_sub(self.runnable);
        let below = below_on_this_thread().saturating_sub(self.below);
        reading.device_cpu = device_cpu(targets).saturating_sub(self.device_cpu);
        reading.copied_bytes = COPIED_BYTES.get() - self.copied_bytes;
        let copy = reading.phases.copy;
        reading.phases = Phases {
            device: reading.elapsed.saturating_sub(thread + runnable) + below,
            copy,
            work: thread.saturating_sub(below + copy),
            runnable,
        };
        for (target, before) in targets.iter().zip(&self.devices) {
            let counted = target.snapshot().difference(before);
            reading.device_requests += counted.requests();
            reading.device_bytes += counted.bytes();
            reading.outstanding += counted.outstanding_mean();
            reading.sizes.add(&counted.sizes(None));
            if reading.places.is_empty() {
                reading.places.clone_from(&counted.places);
            }
            for flow in counted.flows.iter().filter(|flow| flow.requests > 0) {
                reading.count_issuer(flow.issuer.name(), flow.requests);
            }
        }
    }
}

/// Processor time of simulated devices so far.
fn device_cpu(targets: &[Target]) -> Duration {
    let metered = targets.iter().filter_map(|target| target.metered.as_ref());
    let (mut submissions, mut completions) = (Duration::ZERO, Duration::ZERO);
    for times in metered.map(|metered| metered.times()) {
        submissions += times.0;
        completions += times.1;
    }
    (submissions + device_threads_cpu()).saturating_sub(completions)
}

/// How long this thread has waited for a processor: the second number of schedstat.
fn runnable() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split(' ').nth(1).and_then(|text| text.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}
