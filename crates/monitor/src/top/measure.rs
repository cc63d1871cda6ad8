//! What happened between two snapshots, as numbers that go up and down.

use pagewell_counters::{Counter, Counts, names};

use crate::metrics::snapshot::{Latency, Procedure, Snapshot};
use crate::metrics::table;
use pagewell_base::size;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Events in a second.
    PerSecond,
    /// Bytes in a second.
    BytesPerSecond,
    /// Of all, 0 to 100.
    Percent,
    /// A time.
    Microseconds,
    /// How many at a time.
    AtATime,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Such as `server calls`.
    pub name: String,
    /// Its value in the interval; nothing when nothing happened that it is about.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: Unit,
    /// What else is to be said.
    pub detail: String,
}

/// One procedure in the interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Such as `server`.
    pub program: &'static str,
    /// Such as `read`.
    pub procedure: String,
    /// Calls in a second.
    pub calls: f64,
    /// Bytes in a second, both ways, if they are known.
    pub bytes: Option<f64>,
    /// Errors in a second, if they are known.
    pub errors: Option<f64>,
    /// Their time.
    pub latency: Option<Latency>,
}

/// What happened between two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// Such as `pagewell 0.1.0, up 3 min 2 s, resident 20 MiB`.
    pub title: String,
    /// Numbers of what the process has ever done.
    pub measures: Vec<Measure>,
    /// Procedures that were called in the interval, the most frequent first.
    pub procedures: Vec<Called>,
}

/// The program whose calls are answered. MOUNT says nothing about what is fast or slow.
const SERVED: &str = "nfs";
const SERVER: &str = "server";
const CLIENT: &str = "client";

/// Things looked up: name, counters of what was found and of what was not.
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
    /// What happened between two snapshots; nothing when no time has passed or the process was
    /// restarted.
    pub fn between(earlier: &Snapshot, now: &Snapshot) -> Option<Self> {
        let seconds = now.uptime_seconds - earlier.uptime_seconds;
        // Not a number is not above zero either.
        if seconds.is_nan() || seconds <= 0.0 {
            return None;
        }
        let interval = Interval {
            seconds,
            change: now.since(earlier),
            now,
        };
        let mut measures = Vec::new();
        interval.server(&mut measures);
        interval.client(&mut measures);
        interval.ratios(&mut measures);
        interval.devices(&mut measures);
        Some(Self {
            title: title(now),
            measures,
            procedures: interval.procedures(),
        })
    }
}

/// The first line: which process it is.
pub fn title(snapshot: &Snapshot) -> String {
    format!(
        "pagewell {}, up {}, resident {}",
        snapshot.version,
        table::uptime(snapshot.uptime_seconds),
        size::display(snapshot.resident_bytes)
    )
}

struct Interval<'a> {
    seconds: f64,
    change: Snapshot,
    now: &'a Snapshot,
}

impl Interval<'_> {
    #[allow(clippy::cast_precision_loss)] // what is shown has three digits
    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// By how much a counter has grown; nothing when it was always zero.
    fn counter(&self, counter: &Counter) -> Option<u64> {
        let name = counter.name();
        let ever = self.now.counters.get(name).copied().unwrap_or(0);
        (ever > 0).then(|| self.change.counters.get(name).copied().unwrap_or(0))
    }

    fn server(&self, measures: &mut Vec<Measure>) {
        let of = |snapshot: &Snapshot| -> Vec<Procedure> {
            let all = snapshot.procedures.iter();
            let of = all.filter(|procedure| procedure.program == SERVED);
            of.cloned().collect()
        };
        if of(self.now).iter().all(|procedure| procedure.calls == 0) {
            return;
        }
        let procedures = of(&self.change);
        let sum = |of: fn(&Procedure) -> u64| -> u64 { procedures.iter().map(of).sum() };
        let mut latency = Counts::default();
        for procedure in &procedures {
            latency.add(&procedure.latency_histogram.counts());
        }
        let errors = Unit::PerSecond.show(self.rate(sum(|one| one.errors)));
        let calls = Calls {
            title: SERVER,
            calls: sum(|one| one.calls),
            detail: format!("{errors} with an error"),
            latency,
            bytes: [
                ("receives", sum(|one| one.received_bytes)),
                ("sends", sum(|one| one.sent_bytes)),
            ],
        };
        self.calls(&calls, measures);
    }

    fn client(&self, measures: &mut Vec<Measure>) {
        if self.now.client_calls() == 0 {
            return;
        }
        let mut latency = Counts::default();
        for procedure in &self.change.client_procedures {
            latency.add(&procedure.latency_histogram.counts());
        }
        let count = |counter| self.counter(counter).unwrap_or(0);
        let again = Unit::PerSecond.show(self.rate(count(&names::CLIENT_RETRANSMISSIONS)));
        let calls = Calls {
            title: CLIENT,
            calls: self.change.client_calls(),
            detail: format!("{again} sent again"),
            latency,
            bytes: [
                ("receives", count(&names::CLIENT_RECEIVED_BYTES)),
                ("sends", count(&names::CLIENT_SENT_BYTES)),
            ],
        };
        self.calls(&calls, measures);
    }

    fn calls(&self, calls: &Calls, measures: &mut Vec<Measure>) {
        let mut put = |name: &str, value, unit, detail| {
            measures.push(Measure {
                name: format!("{} {name}", calls.title),
                value,
                unit,
                detail,
            });
        };
        let rate = Some(self.rate(calls.calls));
        put("calls", rate, Unit::PerSecond, calls.detail.clone());
        let latency = &calls.latency;
        let quantiles = (latency.count() > 0).then(|| Latency::of(&latency.quantiles()));
        let detail = quantiles.map_or(String::new(), |latency| {
            let (p99, p999) = (table::duration(latency.p99), table::duration(latency.p999));
            format!("p50; p99 {p99}, p99.9 {p999}")
        });
        let half = quantiles.map(|latency| latency.p50);
        put("latency", half, Unit::Microseconds, detail);
        // Little's law: the sum of all times is the mean number at a time times the time.
        #[allow(clippy::cast_precision_loss)] // what is shown has three digits
        let busy = latency.sum_nanoseconds as f64 / 1e9 / self.seconds;
        let detail = "calls at a time, mean".to_owned();
        put("queue depth", Some(busy), Unit::AtATime, detail);
        for (name, bytes) in calls.bytes {
            let bytes = Some(self.rate(bytes));
            put(name, bytes, Unit::BytesPerSecond, String::new());
        }
    }

    fn ratios(&self, measures: &mut Vec<Measure>) {
        for (name, hits, misses) in RATIOS {
            let (hits, misses) = (self.counter(hits), self.counter(misses));
            if hits.is_none() && misses.is_none() {
                continue;
            }
            let (hits, misses) = (hits.unwrap_or(0), misses.unwrap_or(0));
            let lookups = hits.saturating_add(misses);
            #[allow(clippy::cast_precision_loss)] // what is shown has three digits
            let percent = (lookups > 0).then(|| hits as f64 * 100.0 / lookups as f64);
            measures.push(Measure {
                name: name.to_owned(),
                value: percent,
                unit: Unit::Percent,
                detail: format!("of {}", Unit::PerSecond.show(self.rate(lookups))),
            });
        }
    }

    fn devices(&self, measures: &mut Vec<Measure>) {
        for (name, bytes, requests) in DEVICES {
            let (Some(bytes), requests) = (self.counter(bytes), self.counter(requests)) else {
                continue;
            };
            let requests = Unit::PerSecond.show(self.rate(requests.unwrap_or(0)));
            measures.push(Measure {
                name: name.to_owned(),
                value: Some(self.rate(bytes)),
                unit: Unit::BytesPerSecond,
                detail: format!("{requests} requests"),
            });
        }
    }

    fn procedures(&self) -> Vec<Called> {
        let all = self.change.procedures.iter();
        let served = all.filter(|procedure| procedure.program == SERVED && procedure.calls > 0);
        let served = served.map(|procedure| Called {
            program: SERVER,
            procedure: procedure.procedure.clone(),
            calls: self.rate(procedure.calls),
            bytes: Some(
                self.rate(
                    procedure
                        .received_bytes
                        .saturating_add(procedure.sent_bytes),
                ),
            ),
            errors: Some(self.rate(procedure.errors)),
            latency: procedure.latency_us,
        });
        let all = self.change.client_procedures.iter();
        let made = all.filter(|procedure| procedure.calls > 0);
        let made = made.map(|procedure| Called {
            program: CLIENT,
            procedure: procedure.procedure.clone(),
            calls: self.rate(procedure.calls),
            bytes: None,
            errors: None,
            latency: procedure.latency_us,
        });
        let mut called: Vec<Called> = served.chain(made).collect();
        called.sort_by(|a, b| b.calls.total_cmp(&a.calls));
        called
    }
}

/// Calls of one program in the interval.
struct Calls {
    title: &'static str,
    calls: u64,
    detail: String,
    latency: Counts,
    bytes: [(&'static str, u64); 2],
}

impl Unit {
    /// A value for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::PerSecond => format!("{}/s", short(value)),
            Self::BytesPerSecond => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
                let bytes = value.round() as u64;
                format!("{}/s", size::display(bytes))
            }
            Self::Percent => format!("{} %", short(value)),
            Self::Microseconds => table::duration(value),
            Self::AtATime => short(value),
        }
    }

    /// The unit alone, as text output has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::BytesPerSecond => "bytes/s",
            Self::Percent => "%",
            Self::Microseconds => "us",
            Self::AtATime => "mean",
        }
    }
}

/// Three digits, with k, M or G for thousands.
pub fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value < 1e4 => (value, ""),
        value if value < 1e6 => (value / 1e3, "k"),
        value if value < 1e9 => (value / 1e6, "M"),
        value => (value / 1e9, "G"),
    };
    let digits = match value {
        0.0 => 0,
        value if value < 9.95 => 2,
        value if value < 99.5 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{unit}")
}
