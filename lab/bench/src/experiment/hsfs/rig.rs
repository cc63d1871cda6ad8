//! The modelled drive with a cache in front of it, and one measured run on it.
//!
//! ```text
//!   reader ──> cache ──> Stats ──> Model (dvd) ──> Pattern
//! ```
//!
//! **Clock.** The drive runs `speed` times as fast as a real one, the host does not. So the seconds
//! of a run are those that the drive was busy, on its own clock, and the rest on the host's: as a
//! drive of true speed would take with this host. The plain product of the wall's seconds and the
//! speed stands beside it; it makes the host look `speed` times slower, and the baseline worse.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_cache::{Cache, CachedDevice};
use pagewell_counters::names::{
    CACHE_DEADLINE_PICKS, CACHE_HITS, CACHE_MERGED_REQUESTS, CACHE_MISSES, CACHE_WRAPS,
    COPIED_BYTES,
};
use pagewell_layers::model::Parameters;
use pagewell_layers::{Model, Pattern, Snapshot, Stats};
use pagewell_load::measure::{Counting, Latency, Timeline, Usage, number};

use super::job::{Job, Stream, run_jobs};
use super::reading::Pieces;
use super::variant::Variant;
use crate::experiment::{Result, system};

const SEED: u64 = 6_588_256;

/// A drive of some length behind a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) length_bytes: u64,
    pub(super) cache_bytes: u64,
    pub(super) speed: f64,
    /// Requests at a time; a DVD takes one.
    pub(super) queue_depth: u32,
}

pub(super) struct Rig {
    pub(super) device: CachedDevice,
    pub(super) pattern: Pattern,
    pub(super) speed: f64,
    pub(super) pieces: Pieces,
    stats: Arc<Stats>,
    model: Arc<Model>,
}

pub(super) struct Run {
    pub(super) wall: Duration,
    pub(super) busy: Duration,
    pub(super) speed: f64,
    /// Bytes per second from the medium.
    pub(super) media_rate: f64,
    pub(super) streams: Vec<Stream>,
    pub(super) device: Snapshot,
    pub(super) usage: Usage,
    pub(super) seeks: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) merged: u64,
    pub(super) wraps: u64,
    pub(super) deadline_picks: u64,
    pub(super) copied_bytes: u64,
}

impl Rig {
    pub(super) fn new(variant: &Variant, setup: Setup) -> Result<Self> {
        let text = format!("dvd,speed={},depth={}", setup.speed, setup.queue_depth);
        let parameters = Parameters::parse(&text)?;
        let pattern = Pattern::new(setup.length_bytes, SEED);
        let model = Model::new(Arc::new(pattern.clone()), parameters);
        let model = model.map_err(system("a thread"))?;
        let model = Arc::new(model);
        let stats = Arc::new(Stats::new(model.clone()));
        let cache = Cache::new(variant.options(setup.cache_bytes, setup.speed))?;
        Ok(Self {
            device: cache.open(stats.clone()),
            pattern,
            speed: setup.speed,
            pieces: variant.pieces,
            stats,
            model,
        })
    }

    /// Runs jobs at the same time, each on a thread, until all are done or for `limit` on the
    /// drive's clock.
    pub(super) fn run(
        &self,
        jobs: Vec<Job>,
        limit: Option<Duration>,
        deadline: Instant,
    ) -> Result<Run> {
        let (before, totals) = (self.stats.snapshot(), self.model.totals());
        let (counting, used) = (Counting::begin(), Usage::now());
        let begin = Instant::now();
        let limit = limit.map(|limit| begin + limit.div_f64(self.speed));
        let streams = run_jobs(self, jobs, limit, deadline)?;
        let wall = begin.elapsed();
        let after = self.model.totals();
        Ok(Run {
            wall,
            // Work under way at the end was counted whole.
            busy: (after.busy - totals.busy).min(wall.mul_f64(self.speed)),
            speed: self.speed,
            media_rate: self.model.parameters().media_bytes_per_second,
            streams,
            device: self.stats.snapshot().difference(&before),
            usage: used.until_now(),
            seeks: after.seeks - totals.seeks,
            hits: counting.of(&CACHE_HITS),
            misses: counting.of(&CACHE_MISSES),
            merged: counting.of(&CACHE_MERGED_REQUESTS),
            wraps: counting.of(&CACHE_WRAPS),
            deadline_picks: counting.of(&CACHE_DEADLINE_PICKS),
            copied_bytes: counting.of(&COPIED_BYTES),
        })
    }
}

impl Run {
    /// Seconds with a drive of true speed.
    pub(super) fn seconds(&self) -> f64 {
        let idle = self.wall.as_secs_f64() - self.busy.as_secs_f64() / self.speed;
        self.busy.as_secs_f64() + idle.max(0.0)
    }

    pub(super) fn operations(&self) -> u64 {
        self.streams.iter().map(|stream| stream.operations).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.bytes).sum()
    }

    /// Bytes per second for the application.
    pub(super) fn rate(&self) -> f64 {
        number(self.bytes()) / self.seconds().max(1e-9)
    }

    pub(super) fn operations_per_second(&self) -> f64 {
        number(self.operations()) / self.seconds().max(1e-9)
    }

    /// Microseconds of processor time of an operation.
    pub(super) fn cpu_micro(&self) -> f64 {
        self.usage.cpu().as_secs_f64() * 1e6 / number(self.operations().max(1))
    }

    pub(super) fn hit_ratio(&self) -> f64 {
        number(self.hits) / number((self.hits + self.misses).max(1))
    }

    /// Of all streams, on the wall's clock.
    pub(super) fn latency(&self) -> Latency {
        self.streams.iter().map(|stream| &stream.latency).sum()
    }

    /// Bytes of all streams by time, on the wall's clock.
    pub(super) fn timeline(&self) -> Timeline {
        let mut all = Timeline::default();
        let each = self.streams.iter().map(|stream| &stream.timeline);
        each.for_each(|timeline| all.add(timeline));
        all
    }

    /// Mean operations under way: the sum of all latencies over the time.
    pub(super) fn waiting(&self) -> f64 {
        let busy = self.streams.iter().map(|stream| stream.busy.as_secs_f64());
        busy.sum::<f64>() / self.wall.as_secs_f64().max(1e-9)
    }

    /// Host time between the end of a request and the next start, in microseconds.
    pub(super) fn host_micro_per_request(&self) -> f64 {
        let idle = self.wall.as_secs_f64() - self.busy.as_secs_f64() / self.speed;
        idle * 1e6 / number(self.device.requests().max(1))
    }

    /// The least bytes of a stream over the most.
    pub(super) fn fairness(&self) -> f64 {
        let rates = || self.streams.iter().map(|stream| number(stream.bytes));
        rates().fold(f64::INFINITY, f64::min) / rates().fold(1.0, f64::max)
    }
}
