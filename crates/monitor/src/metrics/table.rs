//! A snapshot for people.

use std::fmt::Write;

use crate::metrics::snapshot::{Procedure, Snapshot, Traffic};
use crate::metrics::text::duration;
use pagewell_base::size;

/// Renders a snapshot: tables of called procedures, then counters and gauges. With `all`, zeros
/// too.
pub fn render(snapshot: &Snapshot, all: bool) -> String {
    let mut text = snapshot.title() + "\n";
    for (program, title) in [("nfs", "Server nfs v3"), ("mount", "Server mount v3")] {
        let of_program = |procedure: &&Procedure| procedure.program == program;
        let procedures: Vec<&Procedure> = snapshot.procedures.iter().filter(of_program).collect();
        text.push_str(&program_table(title, &procedures, all));
    }
    if !snapshot.refused_clients.is_empty() {
        text.push_str("\nrefused clients               not allowed     no place\n");
    }
    for client in &snapshot.refused_clients {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<28} {:>12} {:>12}",
            client.address, client.not_allowed, client.no_place
        );
    }
    let of_clients: Vec<&Procedure> = snapshot.client_procedures.iter().collect();
    text.push_str(&program_table("Client nfs v3", &of_clients, all));
    let counters = snapshot.counters.iter();
    let counters = counters.map(|(name, value)| (name, i128::from(*value)));
    let gauges = snapshot.gauges.iter();
    let gauges = gauges.map(|(name, value)| (name, i128::from(*value)));
    let rows: Vec<(String, String)> = counters
        .chain(gauges)
        .filter(|(_, value)| all || *value != 0)
        .map(|(name, value)| (short(name), counted(name, value)))
        .collect();
    if !rows.is_empty() {
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        text.push('\n');
        for (name, value) in rows {
            let _ = writeln!(text, "{name:<width$}  {value}");
        }
    }
    text
}

fn program_table(title: &str, procedures: &[&Procedure], all: bool) -> String {
    let mut text = String::new();
    let calls: u64 = procedures.iter().map(|procedure| procedure.calls).sum();
    let traffic = |procedure: &Procedure| procedure.traffic.unwrap_or_default();
    let errors: u64 = procedures.iter().map(|one| traffic(one).errors).sum();
    if calls == 0 && !all {
        return text;
    }
    // Only servers count errors by procedure.
    let is_server = procedures.iter().any(|one| one.traffic.is_some());
    let errors = match is_server {
        true => format!(", {errors} errors"),
        false => String::new(),
    };
    let _ = writeln!(text, "\n{title}: {calls} calls{errors}");
    let _ = writeln!(
        text,
        "{:<12} {:>12} {:>5} {:>9} {:>10} {:>10} {:>9} {:>9}",
        "procedure", "calls", "%", "errors", "received", "sent", "p50", "p99"
    );
    for procedure in procedures {
        if procedure.calls == 0 && !all {
            continue;
        }
        // Two digits are shown.
        let percent = procedure.calls as f64 * 100.0 / (calls.max(1)) as f64;
        let (latency, traffic) = (procedure.latency_us, procedure.traffic);
        let of_server = |number: fn(Traffic) -> String| traffic.map_or("-".to_owned(), number);
        let _ = writeln!(
            text,
            "{:<12} {:>12} {percent:>4.0}% {:>9} {:>10} {:>10} {:>9} {:>9}",
            procedure.procedure,
            procedure.calls,
            of_server(|traffic| traffic.errors.to_string()),
            of_server(|traffic| size::display(traffic.received_bytes)),
            of_server(|traffic| size::display(traffic.sent_bytes)),
            latency.map_or("-".to_owned(), |latency| duration(latency.p50)),
            latency.map_or("-".to_owned(), |latency| duration(latency.p99)),
        );
    }
    text
}

/// `pagewell_copied_bytes_total` -> `copied bytes`.
fn short(name: &str) -> String {
    let name = name.strip_prefix("pagewell_").unwrap_or(name);
    let name = name.strip_suffix("_total").unwrap_or(name);
    name.replace('_', " ")
}

fn counted(name: &str, value: i128) -> String {
    match u64::try_from(value) {
        Ok(bytes) if name.ends_with("_bytes_total") || name.ends_with("_bytes") => {
            size::display(bytes)
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::snapshot::Latency;

    #[test]
    fn a_table_shows_what_was_called() {
        let mut snapshot = crate::testing::snapshot();
        for procedure in &mut snapshot.procedures {
            procedure.calls = 0;
            procedure.latency_us = None;
        }
        let read = &mut snapshot.procedures[6];
        read.calls = 30;
        read.traffic = Some(Traffic {
            errors: 2,
            received_bytes: 0,
            sent_bytes: 3 << 20,
        });
        read.latency_us = Some(Latency {
            sum: 1000.0,
            p50: 12.34,
            p99: 1234.0,
            p999: 2e6,
            max: 2e6,
        });
        snapshot.procedures[1].calls = 10;
        for procedure in &mut snapshot.client_procedures {
            procedure.calls = 0;
        }
        snapshot.client_procedures[3].calls = 7;
        let gauge = ("pagewell_held_bytes".to_owned(), 5 << 20);
        snapshot
            .gauges
            .extend([gauge, ("pagewell_negative".to_owned(), -1)]);
        let text = render(&snapshot, false);
        let line = text.lines().find(|line| line.starts_with("read ")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "read", "30", "75%", "2", "0", "B", "3.0", "MiB", "12.3", "us", "1.23", "ms"
            ]
        );
        let values = text.contains("held bytes") && text.contains("5.0 MiB") && text.contains("-1");
        assert!(values, "{text}");
        assert!(text.contains("Server nfs v3: 40 calls, 2 errors"), "{text}");
        assert!(text.contains("Client nfs v3: 7 calls\n"), "{text}");
        let lookup = text.lines().find(|line| line.starts_with("lookup "));
        let words: Vec<&str> = lookup.unwrap().split_whitespace().collect();
        assert_eq!(words, ["lookup", "7", "100%", "-", "-", "-", "-", "-"]);
        assert!(
            !text.contains("mount v3") && !text.contains("write "),
            "{text}"
        );
        let all = render(&snapshot, true);
        assert!(
            all.contains("mount v3") && all.contains("copied bytes"),
            "{all}"
        );
    }
}
