//! Counts, read once: plain values to subtract and add up.

use std::time::Duration;

use super::sizes::SizeHistogram;
use pagewell_device::{Issuer, Operation};

/// Requests of one issuer and one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Their origin.
    pub issuer: Issuer,
    /// What they ask for.
    pub operation: Operation,
    /// Requests submitted.
    pub requests: u64,
    /// Writes among them that were durable by themselves.
    pub durable: u64,
    /// Bytes of those that are complete.
    pub bytes: u64,
    /// Sizes of those submitted; none for flushes.
    pub sizes: SizeHistogram,
}

impl Flow {
    pub(super) fn new(issuer: Issuer, operation: Operation) -> Self {
        Self {
            issuer,
            operation,
            requests: 0,
            durable: 0,
            bytes: 0,
            sizes: SizeHistogram::empty(),
        }
    }
}

/// All that a [`super::Stats`] has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Since counting began; of a difference, between the two.
    pub time: Duration,
    /// One for each issuer and operation, in the order of [`Issuer::ALL`], then reads, writes,
    /// flushes.
    pub flows: Vec<Flow>,
    /// Sum of the times from submission to completion, with flushes.
    pub outstanding_time: Duration,
    /// Requests that started before the end of the previous one.
    pub backward: u64,
    /// First byte and bytes of the first few hundred requests since counting began, in their order;
    /// of a difference, those that came between.
    pub places: Vec<(u64, usize)>,
}

impl Snapshot {
    /// What happened since `earlier`, a snapshot of the same device.
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
            sizes: SizeHistogram {
                counts: less(&now.sizes.counts, &before.sizes.counts),
            },
        });
        Self {
            time: self.time.saturating_sub(earlier.time),
            flows: flows.collect(),
            outstanding_time: self
                .outstanding_time
                .saturating_sub(earlier.outstanding_time),
            backward: self.backward.saturating_sub(earlier.backward),
            places: self
                .places
                .get(earlier.places.len()..)
                .unwrap_or_default()
                .to_vec(),
        }
    }

    /// Reads and writes submitted.
    pub fn requests(&self) -> u64 {
        self.count(Operation::Read) + self.count(Operation::Write)
    }

    /// Requests of one operation submitted.
    pub fn count(&self, operation: Operation) -> u64 {
        let flows = self.flows.iter();
        let flows = flows.filter(|flow| flow.operation == operation);
        flows.map(|flow| flow.requests).sum()
    }

    /// Writes submitted that were durable by themselves.
    pub fn durable(&self) -> u64 {
        self.flows.iter().map(|flow| flow.durable).sum()
    }

    /// Bytes transferred.
    pub fn bytes(&self) -> u64 {
        self.flows.iter().map(|flow| flow.bytes).sum()
    }

    /// The flows of one issuer.
    pub fn of(&self, issuer: Issuer) -> impl Iterator<Item = &Flow> {
        self.flows.iter().filter(move |flow| flow.issuer == issuer)
    }

    /// Sizes of the requests of one issuer, or of all.
    pub fn sizes(&self, issuer: Option<Issuer>) -> SizeHistogram {
        let mut sum = SizeHistogram::default();
        for flow in &self.flows {
            if issuer.is_none_or(|issuer| issuer == flow.issuer) {
                sum.add(&flow.sizes);
            }
        }
        sum
    }

    /// Mean number of outstanding requests over the time.
    pub fn outstanding_mean(&self) -> f64 {
        let time = self.time.as_secs_f64();
        if time > 0.0 {
            self.outstanding_time.as_secs_f64() / time
        } else {
            0.0
        }
    }
}
