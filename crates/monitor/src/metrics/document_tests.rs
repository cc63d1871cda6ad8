//! `docs/METRICS.md`: written from the names in the code, so that it cannot be wrong.

use std::fmt::Write;
use std::path::Path;

use pagewell_counters::names;

use crate::metrics::prometheus::{CALLS, PROCESS, in_base_unit};

/// Set to write the document instead of comparing it.
const WRITE_VARIABLE: &str = "PAGEWELL_WRITE_DOCS";

const HEAD: &str = "\
# Metrics

This file is generated from the code. To write it anew:

```
PAGEWELL_WRITE_DOCS=1 cargo test -p pagewell-monitor --lib metrics::document
```

`pagewell serve --http 127.0.0.1:20491` serves all of these at `/metrics` (text format of
Prometheus) and `/stat.json`, and shows them at `/`; `pagewell counters` and `pagewell top` show
them, too. Counters begin at 0 when the server starts. Alert rules and a dashboard for Grafana are
in `contrib/`.

`/stat.json` has `version`, `start_time_seconds` (since 1970), `uptime_seconds`, `resident_bytes`
and `pinned_pages` (pages of the cache that replies hold), `counters` and `gauges` by name, and
`procedures`, a list with calls, errors, bytes, latency in microseconds and the histogram behind it
(pairs of bucket and count; eight buckets for each power of two of nanoseconds), and
`client_procedures`, what the NFS clients of the process called, `refused_clients`, and what the
process says of itself: `process` (`serve` or `mount`), `ready`, `exports` with `name`, `source`,
`read_only` and `warnings`, and `notes`. A field of it may be added at any time; `schema` grows when
a reader would be misled.

`/history.json?range=minute`, `hour` or `day` has points 1 s, 10 s or 4 min apart: `times`, the ends
of their intervals in seconds since 1970, and `series` with `name`, `unit` and `values`, which are
rates, shares, percentiles and means of the interval, or null where nothing happened that they are
about; with `&since=SECONDS` only later points. `/healthz` says `alive`; `/readyz` says `ready` or,
with status 503, `not ready`.

";

fn render() -> String {
    let mut text = String::from(HEAD);
    text.push_str("## Of the process and its calls\n\n| name | kind | meaning |\n|---|---|---|\n");
    for family in PROCESS.iter().chain(&CALLS) {
        row(&mut text, family.name, family.kind, family.help);
    }
    text.push_str(
        "\nThose of procedures have the labels `program` (`nfs`, `mount`) and `procedure`, \
         those of clients `procedure` only, that of refused clients `address` and `reason` \
         (`not_allowed`, `no_place`).\n\
         \n## Counters\n\n| name | kind | meaning |\n|---|---|---|\n",
    );
    for counter in names::counters() {
        let (name, _) = in_base_unit(counter.name, 0);
        row(&mut text, &name, "counter", counter.help);
    }
    text.push_str("\n## Gauges\n\n| name | kind | meaning |\n|---|---|---|\n");
    for gauge in names::GAUGES {
        let name = gauge.name;
        row(&mut text, name, "gauge", gauge.help);
    }
    text
}

fn row(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "| `{name}` | {kind} | {help} |");
}

#[test]
fn the_document_of_metrics_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md");
    let text = render();
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        std::fs::write(&path, &text).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/METRICS.md is out of date: {WRITE_VARIABLE}=1 cargo test -p pagewell-monitor --lib \
         metrics::document"
    );
}
