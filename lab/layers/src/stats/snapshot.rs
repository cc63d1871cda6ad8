//! What was counted, read once: plain values that can be subtracted, added up and shown.

use std::time::Duration;

use pagewell_counters::Counts;

use super::iostat::Iostat;
use super::sizes::SizeHistogram;
use pagewell_device::{Issuer, Operation};

/// Requests of one issuer and one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Their origin.
    pub issuer: Issuer,
    /// What was to be done.
    pub operation: Operation,
    /// Requests submitted.
    pub requests: u64,
    /// Writes among them that were durable by themselves.
    pub durable: u64,
    /// Bytes transferred by those that are complete.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Sizes of the requests submitted; of flushes there are none.
    pub sizes: SizeHistogram,
    /// Times from submission to completion.
    pub latency: Counts,
}

/// All that a [`super::Stats`] has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the device.
    pub device: String,
    /// Since counting began; of a difference, between the two.
    pub time: Duration,
    /// One for each issuer and operation, in the order of [`Issuer::ALL`], reads first, then
    /// writes, then flushes.
    pub flows: Vec<Flow>,
    /// Requests submitted and not complete, flushes too.
    pub outstanding: u64,
    /// The most at a time since the beginning or since
    /// [`super::Stats::reset_outstanding_max`].
    pub outstanding_max: u64,
    /// Sum of the times of all requests beyond the device's queue depth.
    pub waiting_time: Duration,
    /// Sum of the times of all requests within the device's queue depth.
    pub active_time: Duration,
    /// Time in which a request was waiting.
    pub waiting_busy: Duration,
    /// Time in which a request was outstanding.
    pub active_busy: Duration,
    /// Requests by distance from the end of the one before: number 0 is none, number N is
    /// 2^(N-1) up to, not including, 2^N bytes.
    pub seek_distances: Vec<u64>,
    /// Requests that started before the end of the one before.
    pub backward: u64,
    /// Requests that became part of another before they came here, as told by
    /// [`super::Stats::note_merged`].
    pub merged: u64,
}

impl Snapshot {
    /// What happened after `earlier` was taken from the same device. Numbers that are no sums
    /// (`outstanding`, `outstanding_max`) stay.
    #[must_use]
    pub fn difference(&self, earlier: &Self) -> Self {
        let flows = self.flows.iter().zip(&earlier.flows);
        let less = |now: &[u64], before: &[u64]| {
            let both = now.iter().zip(before);
            both.map(|(now, before)| now.saturating_sub(*before))
                .collect::<Vec<_>>()
        };
        let flows = flows.map(|(now, before)| Flow {
            issuer: now.issuer,
            operation: now.operation,
            requests: now.requests.saturating_sub(before.requests),
            durable: now.durable.saturating_sub(before.durable),
            bytes: now.bytes.saturating_sub(before.bytes),
            errors: now.errors.saturating_sub(before.errors),
            sizes: SizeHistogram {
                counts: less(&now.sizes.counts, &before.sizes.counts),
            },
            latency: now.latency.difference(&before.latency),
        });
        Self {
            device: self.device.clone(),
            time: self.time.saturating_sub(earlier.time),
            flows: flows.collect(),
            outstanding: self.outstanding,
            outstanding_max: self.outstanding_max,
            waiting_time: self.waiting_time.saturating_sub(earlier.waiting_time),
            active_time: self.active_time.saturating_sub(earlier.active_time),
            waiting_busy: self.waiting_busy.saturating_sub(earlier.waiting_busy),
            active_busy: self.active_busy.saturating_sub(earlier.active_busy),
            seek_distances: less(&self.seek_distances, &earlier.seek_distances),
            backward: self.backward.saturating_sub(earlier.backward),
            merged: self.merged.saturating_sub(earlier.merged),
        }
    }

    /// Reads and writes submitted.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.count(Operation::Read) + self.count(Operation::Write)
    }

    /// Requests of one operation submitted.
    #[must_use]
    pub fn count(&self, operation: Operation) -> u64 {
        let flows = self.flows.iter();
        let flows = flows.filter(|flow| flow.operation == operation);
        flows.map(|flow| flow.requests).sum()
    }

    /// Writes submitted that were durable by themselves.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.flows.iter().map(|flow| flow.durable).sum()
    }

    /// Bytes transferred.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.flows.iter().map(|flow| flow.bytes).sum()
    }

    /// Requests that failed, flushes too.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.flows.iter().map(|flow| flow.errors).sum()
    }

    /// The flows of one issuer.
    pub fn of(&self, issuer: Issuer) -> impl Iterator<Item = &Flow> {
        self.flows.iter().filter(move |flow| flow.issuer == issuer)
    }

    /// Sizes of the requests of one issuer, or of all.
    #[must_use]
    pub fn sizes(&self, issuer: Option<Issuer>) -> SizeHistogram {
        let mut sum = SizeHistogram::default();
        for flow in &self.flows {
            if issuer.is_none_or(|issuer| issuer == flow.issuer) {
                sum.add(&flow.sizes);
            }
        }
        sum
    }

    /// Times of the reads and writes of one issuer, or of all.
    #[must_use]
    pub fn latency(&self, issuer: Option<Issuer>) -> Counts {
        let mut sum = Counts::default();
        let transfers = self.flows.iter();
        for flow in transfers.filter(|flow| flow.operation != Operation::Flush) {
            if issuer.is_none_or(|issuer| issuer == flow.issuer) {
                sum.add(&flow.latency);
            }
        }
        sum
    }

    /// Requests outstanding, as a mean over the time.
    #[must_use]
    pub fn outstanding_mean(&self) -> f64 {
        let sum = self.waiting_time + self.active_time;
        ratio(sum.as_secs_f64(), self.time.as_secs_f64())
    }

    /// Which part of the requests started where the one before ended, 0 to 1.
    #[must_use]
    pub fn sequential_share(&self) -> f64 {
        let sequential = self.seek_distances.first().copied().unwrap_or(0);
        let all: u64 = self.seek_distances.iter().sum();
        ratio(sequential as f64, all as f64)
    }

    /// Which part of what was asked for came as a part of another request, 0 to 1.
    #[must_use]
    pub fn merge_ratio(&self) -> f64 {
        let all = self.merged + self.requests();
        ratio(self.merged as f64, all as f64)
    }

    /// A row as `iostat -xn` shows it; of a difference.
    #[must_use]
    pub fn iostat(&self) -> Iostat {
        Iostat::new(self)
    }
}

/// Zero when there is nothing to divide by.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
