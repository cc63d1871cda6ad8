//! A million random schedules of streams against their specification.
//!
//! Up to four readers go forward through a file, each at its own place with requests of its own
//! size, in any order, and random reads fall between them. What is planned is in memory at the next
//! access and stays, so the specification is exact:
//!
//! - **order:** the plans of a reader follow each other without a hole, in front of it;
//! - **no duplicate:** nothing is planned twice;
//! - **no loss:** a proven stream never misses, except where its budget ended a plan;
//! - **bounds:** no plan is longer than its budget, passes the end of the file, or runs further
//!   ahead than the largest distance and one batch;
//! - a random read plans nothing and changes no stream.
//!
//! `READAHEAD_SCHEDULES` is how many schedules are run.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pagewell_base::mix::Random;
use pagewell_policy::readahead::{Access, AccessKind, Adaptive, Plan, Settings};

const SCHEDULES: u64 = 1_000_000;
const ACCESSES: u64 = 24;
const KIB: u64 = 1 << 10;
const PAGE: u64 = 64 * KIB;
/// Readers and random reads are so far from each other that none is taken for another.
const APART: u64 = 1 << 30;
/// One read finds the place, the next proves the stream.
const MISSES_MAX: u32 = 2;

struct Reader {
    at: u64,
    end: u64,
    request: u64,
    /// Everything before this was planned or read.
    planned: u64,
    marker: Option<u64>,
    misses: u32,
    /// A plan was cut by its budget.
    is_cut: bool,
}

impl Reader {
    fn new(index: u64, length: u64, random: &mut Random) -> Self {
        let at = index * APART + random.below(1000) * 4 * KIB;
        Self {
            at,
            // Some come to the end of the file.
            end: length.min((index + 1) * APART - 64 * PAGE),
            request: [4 * KIB, 8 * KIB, 12 * KIB, 64 * KIB, 256 * KIB][random.below(5) as usize],
            planned: at,
            marker: None,
            misses: 0,
            is_cut: false,
        }
    }

    /// How a read finds its bytes; `None` is a hit that nobody is told of.
    fn kind(&self, until: u64) -> Option<AccessKind> {
        if until > self.planned {
            return Some(AccessKind::Miss);
        }
        let page = self.marker? / PAGE;
        (page >= self.at / PAGE && page <= (until - 1) / PAGE).then_some(AccessKind::Marker)
    }

    fn read(&mut self, policy: &mut Adaptive, budget_bytes: u64, now: Duration, seed: u64) {
        let until = (self.at + self.request).min(self.end);
        let kind = self.kind(until);
        if let Some(kind) = kind {
            if kind == AccessKind::Miss {
                self.misses += 1;
                let is_allowed = self.misses <= MISSES_MAX || self.is_cut;
                assert!(
                    is_allowed,
                    "schedule {seed}: a proven stream missed at {}",
                    self.at
                );
                self.planned = until;
            } else {
                self.marker = None;
            }
            let plan = policy.access(&Access {
                offset: self.at,
                length: until - self.at,
                kind,
                budget_bytes,
                spare_bytes: budget_bytes,
                now,
                bounds: None,
                latency: None,
            });
            self.check(&plan, until, policy.settings(), budget_bytes, seed);
        }
        self.at = until;
    }

    fn check(&mut self, plan: &Plan, until: u64, settings: &Settings, budget: u64, seed: u64) {
        let mut bytes = 0;
        for range in &plan.fetch {
            assert!(range.start < range.end, "schedule {seed}: {plan:?}");
            assert!(
                range.end <= settings.length_bytes,
                "schedule {seed}: {plan:?}"
            );
            // In front of the reader, after the last plan, and without a hole.
            assert_eq!(range.start, self.planned, "schedule {seed}: {plan:?}");
            self.planned = range.end;
            bytes += range.end - range.start;
        }
        assert!(bytes <= budget, "schedule {seed}: {plan:?} for {budget}");
        let ahead = self.planned.saturating_sub(until);
        let most = settings.distance_bytes_max + settings.batch_bytes_min;
        assert!(ahead <= most, "schedule {seed}: {ahead} ahead");
        if let Some(marker) = plan.marker {
            assert!(marker < self.planned, "schedule {seed}: {plan:?}");
            self.marker = Some(marker);
        }
        if let Some(release) = &plan.release {
            assert!(
                release.end <= self.at,
                "schedule {seed}: {plan:?} at {}",
                self.at
            );
        }
        self.is_cut |= budget < u64::MAX;
    }
}

/// Runs one schedule; how many plans it had.
fn run(seed: u64) -> u64 {
    let random = &mut Random(seed);
    let count = 1 + random.below(4);
    // The last gibibyte is for random reads; the end may be close behind a reader.
    let length = if random.below(4) == 0 {
        (count - 1) * APART + 5 * KIB * KIB + random.below(1 << 20)
    } else {
        (count + 1024) * APART
    };
    let settings = if random.below(2) == 0 {
        Settings::flash(length)
    } else {
        Settings::rotating(length)
    };
    let policy = &mut Adaptive::new(settings);
    let mut readers: Vec<_> = (0..count)
        .map(|index| Reader::new(index, length, random))
        .collect();
    let is_tight = random.below(8) == 0;
    let mut now = Duration::ZERO;
    for _ in 0..ACCESSES {
        now += Duration::from_micros(1 + random.below(2000));
        let budget_bytes = if is_tight {
            random.below(1 << 20)
        } else {
            u64::MAX
        };
        if random.below(6) == 0 && length > (count + 1) * APART {
            let offset = (count + random.below(1023)) * APART + random.below(1 << 17) * 4 * KIB;
            let before = policy.counts();
            let plan = policy.access(&Access {
                offset,
                length: 4 * KIB,
                kind: AccessKind::Miss,
                budget_bytes,
                spare_bytes: budget_bytes,
                now,
                bounds: None,
                latency: None,
            });
            assert_eq!(
                plan,
                Plan::default(),
                "schedule {seed}: a random read at {offset}"
            );
            assert_eq!(policy.counts().planned_bytes, before.planned_bytes);
            continue;
        }
        let which = random.below(count) as usize;
        let reader = &mut readers[which];
        if reader.at < reader.end {
            reader.read(policy, budget_bytes, now, seed);
        }
    }
    policy.counts().plans
}

#[test]
fn streams_keep_their_specification() {
    let schedules = std::env::var("READAHEAD_SCHEDULES");
    let schedules = schedules.map_or(SCHEDULES, |count| count.parse().unwrap());
    let plans: u64 = (0..schedules).map(run).sum();
    // So that it shows when schedules stop to reach what they check.
    assert!(
        plans > 2 * schedules,
        "{plans} plans in {schedules} schedules"
    );
}
