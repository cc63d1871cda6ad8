//! Rates and levels from two snapshots.

mod stores;

use pagewell_counters::{Counter, Counts, names};

use crate::metrics::snapshot::{Latency, Procedure, Snapshot, Traffic};
use crate::metrics::text::{duration, money, short};
use pagewell_base::size;

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Events in a second.
    PerSecond,
    /// Bytes in a second.
    BytesPerSecond,
    /// 0 to 100.
    Percent,
    /// A duration.
    Microseconds,
    /// A number at a time.
    AtATime,
    /// A number now.
    Count,
    /// Bytes now.
    Bytes,
    /// Money in an hour; the currency stands in the further text.
    MoneyPerHour,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Such as `server calls`.
    pub name: String,
    /// Its value in the interval; `None` without events.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: Unit,
    /// Further text.
    pub detail: String,
    /// People have to look.
    pub is_warning: bool,
}

/// A procedure in the interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Such as `server`.
    pub program: &'static str,
    /// Such as `read`.
    pub procedure: String,
    /// Calls per second.
    pub calls: f64,
    /// Bytes per second, in both directions, if known.
    pub bytes: Option<f64>,
    /// Errors per second, if known.
    pub errors: Option<f64>,
    /// The time of these calls.
    pub latency: Option<Latency>,
}

/// The interval between two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// Such as `pagewell 0.1.0, up 3 min 2 s, resident 20 MiB`.
    pub title: String,
    /// Numbers of everything that the process has done so far.
    pub measures: Vec<Measure>,
    /// The same of object stores and web servers; none where they were not asked.
    pub stores: Vec<Measure>,
    /// Procedures called in the interval, most frequent first.
    pub procedures: Vec<Called>,
}

const SERVER: &str = "server";
const CLIENT: &str = "client";

/// Caches: name, counters of hits and of misses.
static RATIOS: [(&str, &Counter, &Counter); 4] = [
    ("cache hits", &names::CACHE_HITS, &names::CACHE_MISSES),
    (
        "client read hits",
        &names::CLIENT_READ_HITS,
        &names::CLIENT_READ_MISSES,
    ),
    (
        "client attribute hits",
        &names::CLIENT_ATTRIBUTE_HITS,
        &names::CLIENT_ATTRIBUTE_MISSES,
    ),
    (
        "client name hits",
        &names::CLIENT_NAME_HITS,
        &names::CLIENT_NAME_MISSES,
    ),
];

/// Devices: name, counters of bytes and of requests.
static DEVICES: [(&str, &Counter, &Counter); 2] = [
    (
        "device reads",
        &names::DEVICE_READ_BYTES,
        &names::DEVICE_READS,
    ),
    (
        "device writes",
        &names::DEVICE_WRITE_BYTES,
        &names::DEVICE_WRITES,
    ),
];

impl Look {
    /// `None` when the interval is empty or the process was restarted.
    pub fn between(earlier: &Snapshot, now: &Snapshot) -> Option<Self> {
        let seconds = now.uptime_seconds - earlier.uptime_seconds;
        // Covers NaN.
        if seconds.is_nan() || seconds <= 0.0 || now.is_of_another(earlier) {
            return None;
        }
        let interval = Interval {
            seconds,
            change: now.since(earlier),
            now,
        };
        let ways = [interval.server(), interval.client()];
        let measures = ways.into_iter().flatten();
        let measures = measures.chain(interval.ratios());
        Some(Self {
            title: now.title(),
            stores: interval.stores(),
            measures: measures.chain(interval.devices()).collect(),
            procedures: interval.procedures(),
        })
    }
}

struct Interval<'a> {
    seconds: f64,
    change: Snapshot,
    now: &'a Snapshot,
}

impl Interval<'_> {
    /// Per second, for three digits.
    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// The growth of a counter; `None` when it was always zero.
    fn counter(&self, counter: &Counter) -> Option<u64> {
        (self.now.counter(counter) > 0).then(|| self.change.counter(counter))
    }

    fn show(&self, count: u64) -> String {
        Unit::PerSecond.show(self.rate(count))
    }

    fn server(&self) -> Vec<Measure> {
        if served(self.now).all(|procedure| procedure.calls == 0) {
            return Vec::new();
        }
        let traffic = || served(&self.change).filter_map(|one| one.traffic);
        let sum = |of: fn(Traffic) -> u64| -> u64 { traffic().map(of).sum() };
        let detail = format!("{} with an error", self.show(sum(|one| one.errors)));
        let bytes = (sum(|one| one.received_bytes), sum(|one| one.sent_bytes));
        self.calls(SERVER, detail, bytes, served(&self.change))
    }

    fn client(&self) -> Vec<Measure> {
        if self.now.client_calls() == 0 {
            return Vec::new();
        }
        let count = |counter| self.change.counter(counter);
        let again = self.show(count(&names::CLIENT_RETRANSMISSIONS));
        let detail = format!("{again} sent again");
        let received = count(&names::CLIENT_RECEIVED_BYTES);
        let bytes = (received, count(&names::CLIENT_SENT_BYTES));
        self.calls(CLIENT, detail, bytes, &self.change.client_procedures)
    }

    /// The calls of one program, with further text and the bytes of both directions.
    fn calls<'a>(
        &self,
        program: &str,
        detail: String,
        (received, sent): (u64, u64),
        procedures: impl IntoIterator<Item = &'a Procedure>,
    ) -> Vec<Measure> {
        let (mut count, mut latency) = (0, Counts::default());
        for procedure in procedures {
            count += procedure.calls;
            latency.add(&procedure.latency_histogram.counts());
        }
        let quantiles = Latency::of(&latency);
        let slowest = quantiles.map_or(String::new(), |latency| {
            let (p99, p999) = (duration(latency.p99), duration(latency.p999));
            format!("p50; p99 {p99}, p99.9 {p999}")
        });
        let median = quantiles.map(|latency| latency.p50);
        // Little's law: the sum of latencies is the mean number at a time, times the interval.
        let busy = self.rate(latency.sum_nanoseconds) / 1e9;
        let mean = "calls at a time, mean".to_owned();
        let bytes = |bytes| Some(self.rate(bytes));
        let measures = [
            ("calls", Some(self.rate(count)), Unit::PerSecond, detail),
            ("latency", median, Unit::Microseconds, slowest),
            ("queue depth", Some(busy), Unit::AtATime, mean),
            (
                "receives",
                bytes(received),
                Unit::BytesPerSecond,
                String::new(),
            ),
            ("sends", bytes(sent), Unit::BytesPerSecond, String::new()),
        ];
        let measure = |(name, value, unit, detail)| Measure {
            name: format!("{program} {name}"),
            value,
            unit,
            detail,
            is_warning: false,
        };
        measures.map(measure).into()
    }

    fn ratios(&self) -> impl Iterator<Item = Measure> {
        RATIOS.iter().filter_map(|(name, hits, misses)| {
            let (hits, misses) = (self.counter(hits), self.counter(misses));
            hits.or(misses)?;
            let hits = hits.unwrap_or(0);
            let lookups = hits.saturating_add(misses.unwrap_or(0));
            Some(Measure {
                name: (*name).to_owned(),
                value: (lookups > 0).then(|| self.rate(hits) * 100.0 / self.rate(lookups)),
                unit: Unit::Percent,
                detail: format!("of {}", self.show(lookups)),
                is_warning: false,
            })
        })
    }

    fn devices(&self) -> impl Iterator<Item = Measure> {
        DEVICES.iter().filter_map(|(name, bytes, requests)| {
            let bytes = self.counter(bytes)?;
            Some(Measure {
                name: (*name).to_owned(),
                value: Some(self.rate(bytes)),
                unit: Unit::BytesPerSecond,
                detail: format!("{} requests", self.show(self.change.counter(requests))),
                is_warning: false,
            })
        })
    }

    fn procedures(&self) -> Vec<Called> {
        let made = self.change.client_procedures.iter();
        let all = served(&self.change).map(|one| (SERVER, one));
        let all = all.chain(made.map(|one| (CLIENT, one)));
        let called = all.filter(|(_, one)| one.calls > 0).map(|(program, one)| {
            let traffic = one.traffic;
            let bytes = traffic.map(|one| one.received_bytes.saturating_add(one.sent_bytes));
            Called {
                program,
                procedure: one.procedure.clone(),
                calls: self.rate(one.calls),
                bytes: bytes.map(|bytes| self.rate(bytes)),
                errors: traffic.map(|one| self.rate(one.errors)),
                latency: one.latency_us,
            }
        });
        let mut called: Vec<Called> = called.collect();
        called.sort_by(|a, b| b.calls.total_cmp(&a.calls));
        called
    }
}

/// The procedures of the NFS server. Latencies of MOUNT mean nothing.
fn served(snapshot: &Snapshot) -> impl Iterator<Item = &Procedure> {
    let all = snapshot.procedures.iter();
    all.filter(|procedure| procedure.program == "nfs")
}

impl Unit {
    /// A value with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::PerSecond => format!("{}/s", short(value)),
            // Saturates.
            Self::BytesPerSecond => format!("{}/s", size::display(value.round() as u64)),
            Self::Percent => format!("{} %", short(value)),
            Self::Microseconds => duration(value),
            Self::AtATime | Self::Count => short(value),
            Self::Bytes => size::display(value.round() as u64),
            Self::MoneyPerHour => format!("{}/h", money(value)),
        }
    }

    /// The unit alone, for text output.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::BytesPerSecond => "bytes/s",
            Self::Percent => "%",
            Self::Microseconds => "us",
            Self::AtATime => "mean",
            Self::Count => "now",
            Self::Bytes => "bytes",
            Self::MoneyPerHour => "1/h",
        }
    }
}
