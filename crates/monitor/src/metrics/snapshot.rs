//! All numbers of a process, read once: the document of `/stat.json`.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use anyhow::{Context, ensure};
use pagewell_base::size;
use pagewell_counters::served::{self, Program};
use pagewell_counters::{Counter, Counts, Gauge, names};
use pagewell_sunrpc::client::nfs_procedures;
use pagewell_sunrpc::nfs3;
use serde::{Deserialize, Serialize};

use super::clients::{self, Client};
use super::prices::{self, Prices};
use super::text;

/// Version of the document; grows when readers of the old form would be misled.
pub const SCHEMA: u32 = 1;

/// All numbers of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// When the program started, in seconds since 1970.
    #[serde(default)]
    pub start_time_seconds: u64,
    /// Seconds since the program started.
    pub uptime_seconds: f64,
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// By name.
    pub counters: BTreeMap<String, u64>,
    /// By name.
    pub gauges: BTreeMap<String, i64>,
    /// What requests to object stores cost.
    #[serde(default)]
    pub object_prices: Prices,
    /// Pages of caches pinned for payloads.
    #[serde(default)]
    pub pinned_pages: u64,
    /// Every procedure of every program, by program and number.
    pub procedures: Vec<Procedure>,
    /// Every procedure of the process' NFS clients, by number.
    #[serde(default)]
    pub client_procedures: Vec<Procedure>,
    /// Refused clients, the latest last; the oldest are forgotten.
    #[serde(default)]
    pub refused_clients: Vec<RefusedClient>,
    /// Clients of servers, at most 256, those with the most calls first.
    #[serde(default)]
    pub clients: Vec<Client>,
}

/// The refusals of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedClient {
    /// The client.
    pub address: String,
    /// Because no export, or not the wanted one, allows it.
    pub not_allowed: u64,
    /// Because there were too many connections.
    pub no_place: u64,
}

/// Counts of one procedure of a server or an NFS client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Procedure {
    /// `nfs` or `mount`; empty for a client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// Its name.
    pub procedure: String,
    /// Calls answered or made, without retransmissions.
    pub calls: u64,
    /// Servers only.
    #[serde(flatten)]
    pub traffic: Option<Traffic>,
    /// From a call to its reply; absent without calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// The histogram of these, for differences.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub latency_histogram: Histogram,
}

/// A server's counts of a procedure besides its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Calls answered with a status that is not OK.
    pub errors: u64,
    /// Bytes of calls.
    pub received_bytes: u64,
    /// Bytes of replies.
    pub sent_bytes: u64,
}

/// The non-empty buckets of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Sum of all durations.
    sum_nanoseconds: u64,
    /// Number and count of each bucket.
    buckets: Vec<(u16, u64)>,
}

/// Quantiles in microseconds, at most 12.5 % too high.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Sum over all calls.
    pub sum: f64,
    /// The median.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

static STARTED: OnceLock<(Instant, SystemTime)> = OnceLock::new();

/// Starts the clock of the uptime, and returns its start.
pub fn start_clock() -> (Instant, SystemTime) {
    *STARTED.get_or_init(|| (Instant::now(), SystemTime::now()))
}

impl Snapshot {
    /// Reads all numbers.
    pub fn take() -> Self {
        let counters = names::counters();
        let gauges = names::GAUGES.iter();
        let fronts = served::fronts().into_iter();
        let programs = fronts.flat_map(|front| front.programs());
        let (started, at) = start_clock();
        let at = at.duration_since(SystemTime::UNIX_EPOCH);
        // In this order the pinned pages are never fewer than the unpinned.
        let unpinned = names::CACHE_UNPINNED_PAGES.get();
        Self {
            pinned_pages: names::CACHE_PINNED_PAGES.get().saturating_sub(unpinned),
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            start_time_seconds: at.map_or(0, |at| at.as_secs()),
            uptime_seconds: started.elapsed().as_secs_f64(),
            resident_bytes: resident_bytes(),
            counters: counters.map(|c| (c.name.to_owned(), c.get())).collect(),
            gauges: gauges.map(|g| (g.name.to_owned(), g.get())).collect(),
            procedures: programs.flat_map(procedures).collect(),
            client_procedures: client_procedures().collect(),
            object_prices: prices::prices(),
            refused_clients: refused_clients(),
            clients: clients::list(),
        }
    }

    /// Parses a document; only its names are shown unchanged.
    ///
    /// # Errors
    ///
    /// It is another document, or a name in it could disturb a terminal.
    pub fn parse(json: &[u8]) -> anyhow::Result<Self> {
        const OTHER: &str = "not the counters of pagewell";
        let snapshot: Self = serde_json::from_slice(json).context(OTHER)?;
        let procedures = snapshot
            .procedures
            .iter()
            .chain(&snapshot.client_procedures);
        let refused = snapshot.refused_clients.iter();
        let is_plain = procedures
            .flat_map(|one| [&one.program, &one.procedure])
            .chain(snapshot.counters.keys())
            .chain(snapshot.gauges.keys())
            .chain(refused.map(|client| &client.address))
            .chain([&snapshot.version, &snapshot.object_prices.name])
            .chain([&snapshot.object_prices.currency])
            .all(|name| name.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        ensure!(
            is_plain && snapshot.clients.iter().all(Client::is_plain),
            OTHER
        );
        Ok(snapshot)
    }

    /// The counts and quantiles since `earlier`, with the current gauges.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        if self.is_of_another(earlier) {
            return difference;
        }
        for (name, value) in &mut difference.counters {
            *value = value.saturating_sub(earlier.counters.get(name).copied().unwrap_or(0));
        }
        subtract(&mut difference.procedures, &earlier.procedures);
        subtract(
            &mut difference.client_procedures,
            &earlier.client_procedures,
        );
        for client in &mut difference.refused_clients {
            let mut before = earlier.refused_clients.iter();
            if let Some(before) = before.find(|other| other.address == client.address) {
                client.not_allowed = client.not_allowed.saturating_sub(before.not_allowed);
                client.no_place = client.no_place.saturating_sub(before.no_place);
            }
        }
        for client in &mut difference.clients {
            let mut before = earlier.clients.iter();
            if let Some(before) = before.find(|other| other.address == client.address) {
                client.subtract(before);
            }
        }
        let refused = &mut difference.refused_clients;
        refused.retain(|client| client.not_allowed > 0 || client.no_place > 0);
        difference
    }

    /// Whether the process was restarted since `earlier`.
    pub(crate) fn is_of_another(&self, earlier: &Self) -> bool {
        self.start_time_seconds != earlier.start_time_seconds
            || self.uptime_seconds < earlier.uptime_seconds
    }

    /// A counter's value; 0 without it.
    pub fn counter(&self, counter: &Counter) -> u64 {
        self.counters.get(counter.name).copied().unwrap_or(0)
    }

    /// A gauge's value; 0 without it.
    pub fn gauge(&self, gauge: &Gauge) -> i64 {
        self.gauges.get(gauge.name).copied().unwrap_or(0)
    }

    /// A line about the process: `pagewell 0.1.0, up 3 min 2 s, resident 20 MiB`.
    pub fn title(&self) -> String {
        format!(
            "pagewell {}, up {}, resident {}",
            self.version,
            text::uptime(self.uptime_seconds),
            size::display(self.resident_bytes)
        )
    }

    /// The calls of the process' NFS clients.
    pub fn client_calls(&self) -> u64 {
        let calls = self.client_procedures.iter();
        calls.map(|procedure| procedure.calls).sum()
    }
}

/// Subtracts the counts of `earlier` from each procedure.
fn subtract(procedures: &mut [Procedure], earlier: &[Procedure]) {
    for procedure in procedures {
        let same = |other: &&Procedure| {
            other.program == procedure.program && other.procedure == procedure.procedure
        };
        let Some(before) = earlier.iter().find(same) else {
            continue;
        };
        procedure.calls = procedure.calls.saturating_sub(before.calls);
        if let (Some(now), Some(then)) = (&mut procedure.traffic, before.traffic) {
            now.errors = now.errors.saturating_sub(then.errors);
            now.received_bytes = now.received_bytes.saturating_sub(then.received_bytes);
            now.sent_bytes = now.sent_bytes.saturating_sub(then.sent_bytes);
        }
        let then = before.latency_histogram.counts();
        procedure.set_latency(&procedure.latency_histogram.counts().difference(&then));
    }
}

fn refused_clients() -> Vec<RefusedClient> {
    let fronts = served::fronts().into_iter();
    let refused = fronts.flat_map(|front| front.refused());
    let refused = refused.map(|refused| RefusedClient {
        address: refused.address.to_string(),
        not_allowed: refused.not_allowed,
        no_place: refused.no_slot,
    });
    refused.collect()
}

fn client_procedures() -> impl Iterator<Item = Procedure> {
    let all = nfs3::Procedure::NAMES.iter().zip(nfs_procedures());
    all.map(|(name, counts)| Procedure::new("", name, counts.calls, None, &counts.latency))
}

fn procedures(program: Program) -> impl Iterator<Item = Procedure> {
    let names = program.procedures.iter();
    names.zip(program.counts).map(move |(name, counts)| {
        let traffic = Traffic {
            errors: counts.errors,
            received_bytes: counts.bytes_received,
            sent_bytes: counts.bytes_sent,
        };
        Procedure::new(
            program.name,
            name,
            counts.calls,
            Some(traffic),
            &counts.latency,
        )
    })
}

impl Procedure {
    fn new(
        program: &str,
        procedure: &str,
        calls: u64,
        traffic: Option<Traffic>,
        latency: &Counts,
    ) -> Self {
        let mut new = Self {
            program: program.to_owned(),
            procedure: procedure.to_owned(),
            calls,
            traffic,
            latency_us: None,
            latency_histogram: Histogram::default(),
        };
        new.set_latency(latency);
        new
    }

    pub(crate) fn set_latency(&mut self, counts: &Counts) {
        self.latency_us = Latency::of(counts);
        self.latency_histogram = Histogram::of(counts);
    }
}

impl Histogram {
    fn of(counts: &Counts) -> Self {
        let buckets = (0..=u16::MAX).zip(counts.buckets.iter().copied());
        Self {
            sum_nanoseconds: counts.sum_nanoseconds,
            buckets: buckets.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// All buckets.
    pub fn counts(&self) -> Counts {
        let last = self.buckets.iter().map(|(bucket, _)| *bucket).max();
        let mut buckets = vec![0; last.map_or(0, |last| usize::from(last) + 1)];
        for (bucket, count) in &self.buckets {
            buckets[usize::from(*bucket)] = *count;
        }
        Counts {
            buckets,
            sum_nanoseconds: self.sum_nanoseconds,
        }
    }
}

impl Latency {
    /// The quantiles of durations, if there are any.
    pub fn of(counts: &Counts) -> Option<Self> {
        let quantiles = counts.quantiles();
        let microseconds = |duration: std::time::Duration| duration.as_secs_f64() * 1e6;
        (quantiles.count > 0).then(|| Self {
            sum: microseconds(quantiles.sum),
            p50: microseconds(quantiles.p50),
            p99: microseconds(quantiles.p99),
            p999: microseconds(quantiles.p999),
            max: microseconds(quantiles.max),
        })
    }
}

/// Resident memory from the second field of `/proc/self/statm` (proc(5)); 0 without that file.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_snapshot_survives_json_and_has_every_name() {
        let snapshot = crate::testing::snapshot();
        let json = serde_json::to_string(&snapshot).unwrap();
        let read = Snapshot::parse(json.as_bytes()).unwrap();
        assert_eq!(read.procedures.len(), 28);
        assert_eq!(read.client_procedures.len(), 22);
        assert_eq!(read.counters.len(), names::counters().count());
        assert_eq!(read.gauges.len(), names::GAUGES.len());
        assert!(read.resident_bytes > 0);
        let hostile = json.replace("getattr", "\\u001b[2J");
        assert_ne!(hostile, json);
        assert!(Snapshot::parse(hostile.as_bytes()).is_err());
    }

    #[test]
    fn differences_count_from_the_earlier_look() {
        let mut earlier = crate::testing::snapshot();
        earlier.counters.insert("a".to_owned(), 5);
        earlier.procedures[1].calls = 10;
        let mut later = earlier.clone();
        later.counters.insert("a".to_owned(), 7);
        later.counters.insert("b".to_owned(), 1);
        later.procedures[1].calls = 14;
        let histogram = pagewell_counters::Histogram::new();
        (0..10).for_each(|_| histogram.record(Duration::from_micros(5)));
        earlier.procedures[1].set_latency(&histogram.counts());
        histogram.record(Duration::from_millis(7));
        later.procedures[1].set_latency(&histogram.counts());
        later.uptime_seconds += 1.0;
        let refused = |address: &str, not_allowed| RefusedClient {
            address: address.to_owned(),
            not_allowed,
            no_place: 2,
        };
        earlier.refused_clients = vec![refused("192.0.2.1", 5), refused("192.0.2.2", 5)];
        later.refused_clients = vec![refused("192.0.2.1", 5), refused("192.0.2.2", 7)];
        let difference = later.since(&earlier);
        assert_eq!((difference.counters["a"], difference.counters["b"]), (2, 1));
        assert_eq!(difference.procedures[1].calls, 4);
        let latency = difference.procedures[1].latency_us.unwrap();
        assert!(
            latency.p50 >= 7000.0 && latency.p50 < 7900.0,
            "only the later: {latency:?}"
        );
        let [refused] = difference.refused_clients.as_slice() else {
            panic!("{:?}", difference.refused_clients);
        };
        assert_eq!((refused.not_allowed, refused.no_place), (2, 0));
        let started_again = Snapshot {
            start_time_seconds: later.start_time_seconds + 1,
            ..later.clone()
        };
        assert_eq!(started_again.since(&earlier).counters["a"], 7);
        later.uptime_seconds = 0.0;
        assert_eq!(later.since(&earlier).counters["a"], 7, "restarted");
    }
}
