//! The running totals of a process, and the differences of two readings.

use std::time::{SystemTime, UNIX_EPOCH};

use pagewell_counters::{Counts, served};
use pagewell_sunrpc::client::nfs_procedures;

use super::series::{Group, PerMille, SERIES, Source};
use crate::metrics::snapshot::resident_bytes;

#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// Seconds since 1970.
    pub(super) time: f64,
    /// By series: a total, with the second counter of a ratio, or a gauge.
    totals: [[u64; 2]; SERIES.len()],
    /// By group.
    latencies: [Counts; Group::COUNT],
}

/// The calls of the process' servers and clients.
#[derive(Default)]
struct Calls {
    by_group: [u64; Group::COUNT],
    latencies: [Counts; Group::COUNT],
    errors: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

fn group_of(procedure: &str) -> Group {
    match procedure {
        "read" => Group::Read,
        "write" | "commit" => Group::Write,
        _ => Group::Other,
    }
}

impl Calls {
    fn take() -> Self {
        let mut calls = Self::default();
        let fronts = served::fronts().into_iter();
        let programs = fronts.flat_map(|front| front.programs());
        // Latencies of MOUNT mean nothing.
        for program in programs.filter(|program| program.name != "mount") {
            for (name, counts) in program.procedures.iter().zip(program.counts) {
                calls.add(group_of(name), counts.calls, &counts.latency);
                calls.errors += counts.errors;
                calls.received_bytes += counts.bytes_received;
                calls.sent_bytes += counts.bytes_sent;
            }
        }
        for counts in nfs_procedures() {
            if counts.calls > 0 {
                calls.add(Group::Client, counts.calls, &counts.latency);
            }
        }
        calls
    }

    fn add(&mut self, group: Group, calls: u64, latency: &Counts) {
        let group = group as usize;
        self.by_group[group] += calls;
        self.latencies[group].add(latency);
    }
}

impl Reading {
    /// Reads the current totals.
    pub(super) fn take() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let calls = Calls::take();
        let total = |source: &Source| match source {
            Source::Rate(counters) => [counters.iter().map(|counter| counter.get()).sum(), 0],
            Source::Ratio(first, second) => [first.get(), second.get()],
            Source::Gauge(gauge) => [u64::try_from(gauge.get()).unwrap_or(0), 0],
            Source::Resident => [resident_bytes(), 0],
            Source::Calls(group) => [calls.by_group[*group as usize], 0],
            Source::Errors => [calls.errors, 0],
            Source::Received => [calls.received_bytes, 0],
            Source::Sent => [calls.sent_bytes, 0],
            Source::Latency(..) => [0, 0],
        };
        Self {
            time: now.map_or(0.0, |time| time.as_secs_f64()),
            totals: std::array::from_fn(|number| total(&SERIES[number].source)),
            latencies: calls.latencies,
        }
    }

    /// The value of a gauge, to be summed over a step; 0 for other series.
    pub(super) fn gauge(&self, number: usize) -> f64 {
        match SERIES[number].source {
            // Exact up to 2^53.
            Source::Gauge(_) | Source::Resident => self.totals[number][0] as f64,
            _ => 0.0,
        }
    }

    /// Each series since a reading `seconds` before; NaN without events. `gauge` has the means.
    pub(super) fn since(
        &self,
        earlier: &Self,
        seconds: f64,
        gauge: impl Fn(usize) -> f64,
    ) -> [f32; SERIES.len()] {
        let quantiles: [_; Group::COUNT] = std::array::from_fn(|group| {
            let latencies = self.latencies[group].difference(&earlier.latencies[group]);
            latencies.quantiles()
        });
        // Seven digits are shown.
        std::array::from_fn(|number| {
            let grown = |part: usize| {
                let (now, then) = (self.totals[number][part], earlier.totals[number][part]);
                now.saturating_sub(then) as f64
            };
            match SERIES[number].source {
                Source::Gauge(_) | Source::Resident => gauge(number) as f32,
                Source::Ratio(..) => (grown(0) / (grown(0) + grown(1))) as f32,
                Source::Latency(group, per_mille) => {
                    let quantiles = quantiles[group as usize];
                    let time = match per_mille {
                        PerMille::Median => quantiles.p50,
                        PerMille::P99 => quantiles.p99,
                        PerMille::P999 => quantiles.p999,
                    };
                    match quantiles.count {
                        0 => f32::NAN,
                        _ => time.as_secs_f32(),
                    }
                }
                _ => (grown(0) / seconds) as f32,
            }
        })
    }

    /// Memory of its histograms.
    #[cfg(test)]
    pub(super) fn histogram_bytes(&self) -> usize {
        let words = self
            .latencies
            .iter()
            .map(|counts| counts.buckets.capacity());
        words.sum::<usize>() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_counters::Histogram;
    use std::time::Duration;

    fn number(name: &str) -> usize {
        let found = SERIES.iter().position(|series| series.name == name);
        found.unwrap()
    }

    #[test]
    fn rates_ratios_and_latencies_are_of_the_interval_alone() {
        let mut earlier = Reading::take();
        let mut now = earlier.clone();
        let [sent, hits] = ["server_sent", "cache_hit_ratio"].map(number);
        earlier.totals[sent] = [100, 0];
        now.totals[sent] = [150, 0];
        earlier.totals[hits] = [1000, 0];
        now.totals[hits] = [1003, 1];
        let histogram = Histogram::new();
        (0..1000).for_each(|_| histogram.record(Duration::from_secs(1)));
        earlier.latencies[Group::Read as usize] = histogram.counts();
        histogram.record(Duration::from_micros(8));
        now.latencies[Group::Read as usize] = histogram.counts();
        let values = now.since(&earlier, 10.0, |_| 7.0);
        assert_eq!((values[sent], values[hits]), (5.0, 0.75));
        let [p50, p999, dirty] = ["read_p50", "read_p999", "dirty"].map(number);
        assert!(
            values[p50] >= 8e-6 && values[p999] < 1e-5,
            "{}",
            values[p50]
        );
        assert_eq!(values[dirty], 7.0, "a mean");
        let nothing = earlier.since(&earlier, 10.0, |_| 0.0);
        assert!(nothing[p50].is_nan() && nothing[hits].is_nan());
        assert_eq!(nothing[sent], 0.0);
    }

    #[test]
    fn procedures_belong_to_their_groups() {
        let names = pagewell_sunrpc::nfs3::Procedure::NAMES.iter();
        let groups: Vec<Group> = names.map(|name| group_of(name)).collect();
        let count = |group| groups.iter().filter(|found| **found == group).count();
        let all = [Group::Read, Group::Write, Group::Other].map(count);
        assert_eq!(all, [1, 2, groups.len() - 3]);
    }
}
