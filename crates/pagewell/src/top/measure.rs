//! What happened between two snapshots, as numbers that go up and down.

use pagewell_counters::Counts;

use crate::metrics::snapshot::{Latency, Procedure, Snapshot};
use crate::metrics::table;
use crate::size;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
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
pub(crate) struct Measure {
    /// Such as `server calls`.
    pub(crate) name: String,
    /// Its value in the interval; nothing when nothing happened that it is about.
    pub(crate) value: Option<f64>,
    /// Its unit.
    pub(crate) unit: Unit,
    /// What else is to be said.
    pub(crate) detail: String,
}

/// One procedure in the interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Called {
    /// Such as `server`.
    pub(crate) program: &'static str,
    /// Such as `read`.
    pub(crate) procedure: String,
    /// Calls in a second.
    pub(crate) calls: f64,
    /// Bytes in a second, both ways.
    pub(crate) bytes: f64,
    /// Errors in a second.
    pub(crate) errors: f64,
    /// Their time.
    pub(crate) latency: Option<Latency>,
}

/// What happened between two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Look {
    /// Such as `pagewell 0.1.0, up 3 min 2 s, resident 20 MiB`.
    pub(crate) title: String,
    /// Numbers of what the process has ever done.
    pub(crate) measures: Vec<Measure>,
    /// Procedures that were called in the interval, the most frequent first.
    pub(crate) procedures: Vec<Called>,
}

/// Programs by the name that they have in snapshots, and that for people. MOUNT says nothing
/// about what is fast or slow.
const PROGRAMS: [(&str, &str); 1] = [("nfs", "server")];

/// Things looked up: name, counters of what was found and of what was not.
const RATIOS: [(&str, &str, &str); 1] = [(
    "cache hits",
    "pagewell_cache_hits_total",
    "pagewell_cache_misses_total",
)];

/// Devices: name, counters of bytes and of requests.
const DEVICES: [(&str, &str, &str); 2] = [
    (
        "device reads",
        "pagewell_device_read_bytes_total",
        "pagewell_device_reads_total",
    ),
    (
        "device writes",
        "pagewell_device_write_bytes_total",
        "pagewell_device_writes_total",
    ),
];

impl Look {
    /// What happened between two snapshots; nothing when no time has passed or the process was
    /// restarted.
    pub(crate) fn between(earlier: &Snapshot, now: &Snapshot) -> Option<Self> {
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
        for (program, title) in PROGRAMS {
            interval.program(program, title, &mut measures);
        }
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
pub(crate) fn title(snapshot: &Snapshot) -> String {
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
    fn counter(&self, name: &str) -> Option<u64> {
        let ever = self.now.counters.get(name).copied().unwrap_or(0);
        (ever > 0).then(|| self.change.counters.get(name).copied().unwrap_or(0))
    }

    fn program(&self, program: &str, title: &str, measures: &mut Vec<Measure>) {
        let of = |snapshot: &Snapshot| -> Vec<Procedure> {
            let all = snapshot.procedures.iter();
            let of = all.filter(|procedure| procedure.program == program);
            of.cloned().collect()
        };
        let ever: u64 = of(self.now).iter().map(|procedure| procedure.calls).sum();
        if ever == 0 {
            return;
        }
        let procedures = of(&self.change);
        let sum = |of: fn(&Procedure) -> u64| -> u64 { procedures.iter().map(of).sum() };
        let (calls, errors) = (sum(|one| one.calls), sum(|one| one.errors));
        let mut latency = Counts::default();
        for procedure in &procedures {
            latency.add(&procedure.latency_histogram.counts());
        }
        let quantiles = (latency.count() > 0).then(|| Latency::of(&latency.quantiles()));
        let mut put = |name: &str, value, unit, detail| {
            measures.push(Measure {
                name: format!("{title} {name}"),
                value,
                unit,
                detail,
            });
        };
        let errors = format!("{} with an error", Unit::PerSecond.show(self.rate(errors)));
        put("calls", Some(self.rate(calls)), Unit::PerSecond, errors);
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
        for (name, bytes) in [
            ("receives", sum(|one| one.received_bytes)),
            ("sends", sum(|one| one.sent_bytes)),
        ] {
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
        let title = |program: &str| PROGRAMS.into_iter().find(|(name, _)| *name == program);
        let called = self.change.procedures.iter().filter_map(|procedure| {
            let (_, program) = title(&procedure.program)?;
            let bytes = procedure
                .received_bytes
                .saturating_add(procedure.sent_bytes);
            (procedure.calls > 0).then(|| Called {
                program,
                procedure: procedure.procedure.clone(),
                calls: self.rate(procedure.calls),
                bytes: self.rate(bytes),
                errors: self.rate(procedure.errors),
                latency: procedure.latency_us,
            })
        });
        let mut called: Vec<Called> = called.collect();
        called.sort_by(|a, b| b.calls.total_cmp(&a.calls));
        called
    }
}

impl Unit {
    /// A value for people.
    pub(crate) fn show(self, value: f64) -> String {
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
    pub(crate) fn name(self) -> &'static str {
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
pub(crate) fn short(value: f64) -> String {
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
