//! What the NFS clients of the process have done, in the layout of FreeBSD's `nfsstat -c`.
//!
//! Four things differ: numbers that are not counted here have no column, columns are as wide as
//! their widest number, hits and misses of a cache count the same thing (questions) and add up, and
//! Requests is the sum of all procedures shown, with COMMIT. Latencies follow, which nfsstat lacks.

use std::fmt::Write;

use pagewell_monitor::metrics::Snapshot;
use pagewell_monitor::metrics::text::duration;

/// nfsstat's own width.
const COLUMN_MIN: usize = 9;

/// Lines of procedures by nfsstat's names, which are ours but for one and capital letters.
const PROCEDURES: [&str; 3] = [
    "Getattr Setattr Lookup Readlink Read Write Create Remove",
    "Rename Link Symlink Mkdir Rmdir Readdir RdirPlus Access",
    "Mknod Fsstat Fsinfo PathConf Commit Null",
];

/// Caches: nfsstat's name, and that of our counters between `pagewell_client_` and `_hits_total`.
const CACHES: [(&str, &str); 4] = [
    ("Attr Hits", "attribute_cache"),
    ("Lkup Hits", "name_cache"),
    ("BioR Hits", "read"),
    ("BioW Hits", "write"),
];

/// Names with their numbers.
type Line = Vec<(&'static str, u64)>;

pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut text = String::from("\nClient Info:\nRpc Counts:\n");
    let procedures = PROCEDURES.iter().map(|line| procedures(snapshot, line));
    put(&mut text, &procedures.collect::<Vec<_>>());
    text.push_str("Rpc Info:\n");
    let counter = |name: &str| counter(snapshot, name);
    let calls = [
        ("TimedOut", counter("timeouts")),
        ("Retries", counter("retransmissions")),
        ("Requests", snapshot.client_calls()),
    ];
    put(&mut text, &[calls.to_vec()]);
    text.push_str("Cache Info:\n");
    put(&mut text, &[caches(snapshot)]);
    text.push_str(&latencies(snapshot));
    text
}

fn procedures(snapshot: &Snapshot, line: &'static str) -> Line {
    let calls = |title: &str| {
        let wanted = title.to_lowercase().replace("rdir", "readdir");
        let mut all = snapshot.client_procedures.iter();
        let found = all.find(|procedure| procedure.procedure == wanted);
        found.map_or(0, |procedure| procedure.calls)
    };
    let line = line.split(' ').map(|title| (title, calls(title)));
    // nfsstat has no column for it.
    line.filter(|(title, calls)| *title != "Null" || *calls > 0)
        .collect()
}

fn caches(snapshot: &Snapshot) -> Line {
    let pairs = CACHES.iter().flat_map(|(title, name)| {
        let hits = counter(snapshot, &format!("{name}_hits"));
        let misses = counter(snapshot, &format!("{name}_misses"));
        [(*title, hits), ("Misses", misses)]
    });
    pairs.collect()
}

fn counter(snapshot: &Snapshot, name: &str) -> u64 {
    let name = format!("pagewell_client_{name}_total");
    snapshot.counters.get(&name).copied().unwrap_or(0)
}

/// Each line as a line of names and one of numbers, right-aligned in columns of one width.
fn put(text: &mut String, lines: &[Line]) {
    let numbers = lines
        .iter()
        .flatten()
        .map(|(_, number)| number.to_string().len());
    let width = numbers.max().unwrap_or(0).max(COLUMN_MIN);
    for line in lines {
        let mut row = |cell: &dyn Fn(&(&str, u64)) -> String| {
            let cells: Vec<String> = line
                .iter()
                .map(|one| format!("{:>width$}", cell(one)))
                .collect();
            text.push_str(&cells.join(" "));
            text.push('\n');
        };
        row(&|(name, _)| (*name).to_owned());
        row(&|(_, number)| number.to_string());
    }
}

fn latencies(snapshot: &Snapshot) -> String {
    let head = ["procedure", "calls", "p50", "p99", "p99.9", "max"].map(str::to_owned);
    let all = snapshot.client_procedures.iter().filter_map(|procedure| {
        let latency = procedure.latency_us?;
        let times = [latency.p50, latency.p99, latency.p999, latency.max];
        let [p50, p99, p999, max] = times.map(duration);
        let calls = procedure.calls.to_string();
        Some([procedure.procedure.clone(), calls, p50, p99, p999, max])
    });
    let rows: Vec<_> = all.collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from("Latency:\n");
    for [name, calls, p50, p99, p999, max] in std::iter::once(head).chain(rows) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name:<12} {calls:>12} {p50:>9} {p99:>9} {p999:>9} {max:>9}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_counters::names;

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::take();
        snapshot.client_procedures.iter_mut().for_each(|procedure| {
            procedure.calls = 0;
            procedure.latency_us = None;
        });
        snapshot.counters.values_mut().for_each(|value| *value = 0);
        snapshot
    }

    fn set(snapshot: &mut Snapshot, procedure: &str, calls: u64) {
        let mut all = snapshot.client_procedures.iter_mut();
        let found = all.find(|one| one.procedure == procedure).unwrap();
        found.calls = calls;
    }

    #[test]
    fn the_layout_is_that_of_nfsstat() {
        let mut snapshot = snapshot();
        for (name, calls) in [
            ("getattr", 3),
            ("read", 256_000),
            ("write", 5),
            ("commit", 1),
        ] {
            set(&mut snapshot, name, calls);
        }
        for (name, value) in [
            (&names::CLIENT_ATTRIBUTE_HITS, 7),
            (&names::CLIENT_ATTRIBUTE_MISSES, 3),
            (&names::CLIENT_RETRANSMISSIONS, 4),
        ] {
            snapshot.counters.insert(name.name.to_owned(), value);
        }
        let expected = "
Client Info:
Rpc Counts:
  Getattr   Setattr    Lookup  Readlink      Read     Write    Create    Remove
        3         0         0         0    256000         5         0         0
   Rename      Link   Symlink     Mkdir     Rmdir   Readdir  RdirPlus    Access
        0         0         0         0         0         0         0         0
    Mknod    Fsstat    Fsinfo  PathConf    Commit
        0         0         0         0         1
Rpc Info:
 TimedOut   Retries  Requests
        0         4    256009
Cache Info:
Attr Hits    Misses Lkup Hits    Misses BioR Hits    Misses BioW Hits    Misses
        7         3         0         0         0         0         0         0
";
        assert_eq!(render(&snapshot), expected);
    }

    #[test]
    fn requests_are_the_sum_of_what_is_shown() {
        let mut snapshot = snapshot();
        for (index, procedure) in snapshot.client_procedures.iter_mut().enumerate() {
            procedure.calls = 1 << index;
        }
        let text = render(&snapshot);
        let mut lines = text
            .lines()
            .skip_while(|line| *line != "Rpc Counts:")
            .skip(1);
        let mut sum = 0;
        for _ in 0..3 {
            lines.next();
            let numbers = lines.next().unwrap().split_whitespace();
            sum += numbers
                .map(|number| number.parse::<u64>().unwrap())
                .sum::<u64>();
        }
        assert_eq!(
            sum,
            (1 << snapshot.client_procedures.len()) - 1,
            "each procedure once"
        );
        assert!(text.contains(&format!(" {sum}\n")), "{text}");
    }

    #[test]
    fn wide_numbers_keep_their_columns() {
        let mut snapshot = snapshot();
        set(&mut snapshot, "read", 123_456_789_012);
        let text = render(&snapshot);
        let mut lines = text.lines().skip_while(|line| !line.contains("Getattr"));
        let (names, numbers) = (lines.next().unwrap(), lines.next().unwrap());
        let end = |line: &str, part: &str| line.find(part).map(|at| at + part.len());
        assert_eq!(
            end(names, " Read "),
            end(numbers, "123456789012 "),
            "{text}"
        );
    }

    #[test]
    fn every_cache_has_its_counters() {
        let known: Vec<&str> = names::counters().map(|counter| counter.name).collect();
        for (_, name) in CACHES {
            for kind in ["hits", "misses"] {
                let name = format!("pagewell_client_{name}_{kind}_total");
                assert!(known.contains(&name.as_str()), "{name}");
            }
        }
    }
}
