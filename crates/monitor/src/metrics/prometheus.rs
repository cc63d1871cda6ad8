//! A snapshot in the text format of Prometheus (exposition format 0.0.4).

use std::fmt::Write;

use pagewell_counters::names;

use crate::metrics::snapshot::{ClientProcedure, Histogram, Procedure, RefusedClient, Snapshot};

/// `Content-Type` of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of the buckets of a latency, as powers of two of nanoseconds: 1 us to 17 s. A duration
/// that is exactly a bound counts as longer.
const BUCKETS_LOG2: std::ops::RangeInclusive<u32> = 10..=34;

/// A metric that is not a counter or gauge of [`names`].
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// One sentence.
    pub help: &'static str,
}

const BUILD: Family = Family {
    name: "pagewell_build_info",
    kind: "gauge",
    help: "Always 1; the label says which version runs.",
};
const UPTIME: Family = Family {
    name: "pagewell_uptime_seconds",
    kind: "gauge",
    help: "Seconds since the program started.",
};
const RESIDENT: Family = Family {
    name: "process_resident_memory_bytes",
    kind: "gauge",
    help: "Resident memory of the process.",
};
const CALLS: Family = Family {
    name: "pagewell_procedure_calls_total",
    kind: "counter",
    help: "Calls answered, by program and procedure.",
};
const ERRORS: Family = Family {
    name: "pagewell_procedure_errors_total",
    kind: "counter",
    help: "Calls answered with a status that is not OK.",
};
const RECEIVED: Family = Family {
    name: "pagewell_procedure_received_bytes_total",
    kind: "counter",
    help: "Bytes of the calls, headers included.",
};
const SENT: Family = Family {
    name: "pagewell_procedure_sent_bytes_total",
    kind: "counter",
    help: "Bytes of the replies, headers included.",
};
const LATENCY: Family = Family {
    name: "pagewell_procedure_seconds",
    kind: "histogram",
    help: "Time from the last byte of a call to its reply being handed to the socket; \
           procedures that were called, in steps of two.",
};

const CLIENT_CALLS: Family = Family {
    name: "pagewell_client_procedure_calls_total",
    kind: "counter",
    help: "Calls made by the NFS clients of the process, by procedure.",
};
const CLIENT_LATENCY: Family = Family {
    name: "pagewell_client_procedure_seconds",
    kind: "histogram",
    help: "Time from a call of an NFS client to its reply; procedures that were called, in steps \
           of two.",
};

const REFUSED: Family = Family {
    name: "pagewell_refused_clients_total",
    kind: "counter",
    help: "Times that a client was turned away, by its address and the reason; the addresses \
           that came last are kept.",
};

/// All of them, in the order in which they are shown.
#[cfg(test)]
pub const FAMILIES: [&Family; 11] = [
    &BUILD,
    &UPTIME,
    &RESIDENT,
    &CALLS,
    &ERRORS,
    &RECEIVED,
    &SENT,
    &LATENCY,
    &CLIENT_CALLS,
    &CLIENT_LATENCY,
    &REFUSED,
];

/// Renders a snapshot of this process.
pub fn render(snapshot: &Snapshot) -> String {
    let mut text = Text(String::with_capacity(32 << 10));
    text.head(&BUILD);
    text.line(&format!(
        "{}{{version=\"{}\"}} 1",
        BUILD.name, snapshot.version
    ));
    text.head(&UPTIME);
    text.line(&format!("{} {}", UPTIME.name, snapshot.uptime_seconds));
    text.head(&RESIDENT);
    text.line(&format!("{} {}", RESIDENT.name, snapshot.resident_bytes));
    for counter in names::counters() {
        let value = snapshot.counters.get(counter.name()).copied().unwrap_or(0);
        let (name, value) = in_base_unit(counter.name(), value);
        text.simple(&name, "counter", counter.help(), &value);
    }
    for gauge in names::GAUGES {
        let value = snapshot.gauges.get(gauge.name()).copied().unwrap_or(0);
        text.simple(gauge.name(), "gauge", gauge.help(), &value.to_string());
    }
    let procedures = &snapshot.procedures;
    text.each(&CALLS, procedures, |procedure| procedure.calls);
    text.each(&ERRORS, procedures, |procedure| procedure.errors);
    text.each(&RECEIVED, procedures, |procedure| procedure.received_bytes);
    text.each(&SENT, procedures, |procedure| procedure.sent_bytes);
    text.head(&LATENCY);
    for procedure in &snapshot.procedures {
        text.latency(&LATENCY, &labels(procedure), &procedure.latency_histogram);
    }
    text.head(&CLIENT_CALLS);
    let client = &snapshot.client_procedures;
    let label = |procedure: &ClientProcedure| format!("procedure=\"{}\"", procedure.procedure);
    for procedure in client {
        let (name, labels) = (CLIENT_CALLS.name, label(procedure));
        text.line(&format!("{name}{{{labels}}} {}", procedure.calls));
    }
    text.head(&CLIENT_LATENCY);
    for procedure in client {
        text.latency(
            &CLIENT_LATENCY,
            &label(procedure),
            &procedure.latency_histogram,
        );
    }
    text.refused(&snapshot.refused_clients);
    text.0
}

/// The name and the value that are shown: Prometheus counts time in seconds.
pub fn in_base_unit(name: &str, value: u64) -> (String, String) {
    match name.contains("_nanoseconds_") {
        true => (name.replace("_nanoseconds_", "_seconds_"), seconds(value)),
        false => (name.to_owned(), value.to_string()),
    }
}

fn labels(procedure: &Procedure) -> String {
    format!(
        "program=\"{}\",procedure=\"{}\"",
        procedure.program, procedure.procedure
    )
}

struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn head(&mut self, family: &Family) {
        let Family { name, kind, help } = family;
        self.line(&format!("# HELP {name} {help}"));
        self.line(&format!("# TYPE {name} {kind}"));
    }

    fn simple(&mut self, name: &str, kind: &str, help: &str, value: &str) {
        self.line(&format!("# HELP {name} {help}"));
        self.line(&format!("# TYPE {name} {kind}"));
        self.line(&format!("{name} {value}"));
    }

    fn each(&mut self, family: &Family, all: &[Procedure], value: impl Fn(&Procedure) -> u64) {
        self.head(family);
        for procedure in all {
            let labels = labels(procedure);
            self.line(&format!("{}{{{labels}}} {}", family.name, value(procedure)));
        }
    }

    fn refused(&mut self, clients: &[RefusedClient]) {
        self.head(&REFUSED);
        for client in clients {
            let reasons = [
                ("not_allowed", client.not_allowed),
                ("no_place", client.no_place),
            ];
            for (reason, count) in reasons {
                let (name, address) = (REFUSED.name, &client.address);
                self.line(&format!(
                    "{name}{{address=\"{address}\",reason=\"{reason}\"}} {count}"
                ));
            }
        }
    }

    /// A histogram; without any call there is none.
    fn latency(&mut self, family: &Family, labels: &str, histogram: &Histogram) {
        let counts = histogram.counts();
        let count = counts.count();
        if count == 0 {
            return;
        }
        let name = family.name;
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

#[allow(clippy::cast_precision_loss)] // for people and graphs
fn seconds(nanoseconds: u64) -> String {
    format!("{}", nanoseconds as f64 / 1e9)
}
