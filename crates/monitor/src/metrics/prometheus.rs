//! A snapshot in the text format of Prometheus (exposition format 0.0.4).

use std::fmt::Write;

use pagewell_counters::names;

use crate::metrics::snapshot::{Procedure, RefusedClient, Snapshot, Traffic};

/// `Content-Type` of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of buckets of latency, as powers of two of nanoseconds: 1 us to 17 s. A duration at a
/// bound counts as longer.
const BUCKETS_LOG2: std::ops::RangeInclusive<u32> = 10..=34;

/// A metric besides the counters and gauges of [`names`].
pub struct Family {
    /// The Prometheus name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// One sentence of help.
    pub help: &'static str,
    /// Writes its lines.
    show: fn(&mut Text, &str, &Snapshot),
}

/// Metrics of the process.
pub const PROCESS: [Family; 4] = [
    Family {
        name: "pagewell_build_info",
        kind: "gauge",
        help: "Always 1; the label says which version runs.",
        show: |text, name, all| text.line(&format!("{name}{{version=\"{}\"}} 1", all.version)),
    },
    Family {
        name: "pagewell_uptime_seconds",
        kind: "gauge",
        help: "Seconds since the program started.",
        show: |text, name, all| text.line(&format!("{name} {}", all.uptime_seconds)),
    },
    Family {
        name: "process_resident_memory_bytes",
        kind: "gauge",
        help: "Resident memory of the process.",
        show: |text, name, all| text.line(&format!("{name} {}", all.resident_bytes)),
    },
    Family {
        name: "pagewell_object_cost_total",
        kind: "counter",
        help: "What requests to object stores and the bytes from them cost, about, by the table of \
               prices (`--object-prices`), in the currency of the label; only where a store was \
               asked.",
        show: |text, name, all| {
            let prices = &all.object_prices;
            if let Some(cost) = prices.cost(all) {
                let currency = &prices.currency;
                text.line(&format!("{name}{{currency=\"{currency}\"}} {cost}"));
            }
        },
    },
];

/// Metrics of calls.
pub const CALLS: [Family; 8] = [
    Family {
        name: "pagewell_procedure_calls_total",
        kind: "counter",
        help: "Calls answered, by program and procedure.",
        show: |text, name, all| text.each(name, &all.procedures, |one| one.calls),
    },
    Family {
        name: "pagewell_procedure_errors_total",
        kind: "counter",
        help: "Calls answered with a status that is not OK.",
        show: |text, name, all| text.traffic(name, all, |traffic| traffic.errors),
    },
    Family {
        name: "pagewell_procedure_received_bytes_total",
        kind: "counter",
        help: "Bytes of the calls, headers included.",
        show: |text, name, all| text.traffic(name, all, |traffic| traffic.received_bytes),
    },
    Family {
        name: "pagewell_procedure_sent_bytes_total",
        kind: "counter",
        help: "Bytes of the replies, headers included.",
        show: |text, name, all| text.traffic(name, all, |traffic| traffic.sent_bytes),
    },
    Family {
        name: "pagewell_procedure_seconds",
        kind: "histogram",
        help: "Time from the last byte of a call to its reply being handed to the socket; \
               procedures that were called, in steps of two.",
        show: |text, name, all| text.latencies(name, &all.procedures),
    },
    Family {
        name: "pagewell_client_procedure_calls_total",
        kind: "counter",
        help: "Calls made by the NFS clients of the process, by procedure.",
        show: |text, name, all| text.each(name, &all.client_procedures, |one| one.calls),
    },
    Family {
        name: "pagewell_client_procedure_seconds",
        kind: "histogram",
        help: "Time from a call of an NFS client to its reply; procedures that were called, in \
               steps of two.",
        show: |text, name, all| text.latencies(name, &all.client_procedures),
    },
    Family {
        name: "pagewell_refused_clients_total",
        kind: "counter",
        help: "Times that a client was turned away, by its address and the reason; the addresses \
               that came last are kept.",
        show: |text, name, all| text.refused(name, &all.refused_clients),
    },
];

/// Renders a snapshot of this process.
pub fn render(snapshot: &Snapshot) -> String {
    let mut text = Text(String::with_capacity(32 << 10));
    text.families(&PROCESS, snapshot);
    for counter in names::counters() {
        let (name, value) = in_base_unit(counter.name, snapshot.counter(counter));
        text.head(&name, "counter", counter.help);
        text.line(&format!("{name} {value}"));
    }
    for gauge in names::GAUGES {
        let (name, value) = (gauge.name, snapshot.gauge(gauge));
        text.head(name, "gauge", gauge.help);
        text.line(&format!("{name} {value}"));
    }
    text.families(&CALLS, snapshot);
    text.0
}

/// The Prometheus name and value: time in seconds.
pub fn in_base_unit(name: &str, value: u64) -> (String, String) {
    match name.contains("_nanoseconds_") {
        true => (name.replace("_nanoseconds_", "_seconds_"), seconds(value)),
        false => (name.to_owned(), value.to_string()),
    }
}

fn labels(procedure: &Procedure) -> String {
    let name = format!("procedure=\"{}\"", procedure.procedure);
    match procedure.program.as_str() {
        "" => name,
        program => format!("program=\"{program}\",{name}"),
    }
}

struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(&format!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn families(&mut self, families: &[Family], snapshot: &Snapshot) {
        for family in families {
            self.head(family.name, family.kind, family.help);
            (family.show)(self, family.name, snapshot);
        }
    }

    fn each(&mut self, name: &str, all: &[Procedure], value: impl Fn(&Procedure) -> u64) {
        for procedure in all {
            let labels = labels(procedure);
            self.line(&format!("{name}{{{labels}}} {}", value(procedure)));
        }
    }

    fn traffic(&mut self, name: &str, all: &Snapshot, value: fn(&Traffic) -> u64) {
        let value = |procedure: &Procedure| procedure.traffic.as_ref().map_or(0, value);
        self.each(name, &all.procedures, value);
    }

    fn refused(&mut self, name: &str, clients: &[RefusedClient]) {
        for client in clients {
            let reasons = [
                ("not_allowed", client.not_allowed),
                ("no_place", client.no_place),
            ];
            for (reason, count) in reasons {
                let address = &client.address;
                self.line(&format!(
                    "{name}{{address=\"{address}\",reason=\"{reason}\"}} {count}"
                ));
            }
        }
    }

    /// Histograms, of procedures that were called.
    fn latencies(&mut self, name: &str, all: &[Procedure]) {
        for procedure in all {
            let counts = procedure.latency_histogram.counts();
            let (labels, count) = (labels(procedure), counts.count());
            if count == 0 {
                continue;
            }
            for power in BUCKETS_LOG2 {
                let below = counts.count_below(1 << power);
                let bound = seconds(1 << power);
                self.line(&format!("{name}_bucket{{{labels},le=\"{bound}\"}} {below}"));
            }
            self.line(&format!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}"));
            let sum = seconds(counts.sum_nanoseconds);
            self.line(&format!("{name}_sum{{{labels}}} {sum}"));
            self.line(&format!("{name}_count{{{labels}}} {count}"));
        }
    }
}

/// Above 2^53 ns, 104 days, the last digits are lost.
fn seconds(nanoseconds: u64) -> String {
    format!("{}", nanoseconds as f64 / 1e9)
}
