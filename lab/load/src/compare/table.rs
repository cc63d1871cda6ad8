//! Results as a table for a terminal, a table for a document, and JSON rows.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::median::Spread;
use super::rounds::{CaseResult, Server};
use crate::load::Measurement;
use crate::report::{self, micro_per_operation, rate};

/// How many columns there are before those of numbers.
const TEXT_COLUMNS: usize = 2;

/// The heads of the columns and the cells of every row: one for each server of each case.
fn cells(servers: &[Server], results: &[CaseResult]) -> Vec<Vec<String>> {
    let own = servers.first().map_or("", |server| server.name.as_str());
    let mut head: Vec<String> = ["case", "server", "rate", "unit"].map(str::to_owned).into();
    head.push(format!("{own} / it"));
    head.extend(
        [
            "p50 us",
            "p99 us",
            "system calls/op",
            "server CPU us/op",
            "client CPU us/op",
        ]
        .map(str::to_owned),
    );
    let mut table = vec![head];
    for result in results {
        let indices = (0..servers.len()).filter(|index| result.took_part(*index));
        table.extend(indices.map(|index| row_cells(servers, result, index)));
    }
    table
}

fn row_cells(servers: &[Server], result: &CaseResult, server: usize) -> Vec<String> {
    let middle = |of: &dyn Fn(&Measurement) -> Option<f64>| match result
        .spread(server, |run| of(run).unwrap_or(f64::NAN))
    {
        Some(Spread { median, .. }) if median.is_finite() => rate(median),
        _ => "-".to_owned(),
    };
    let ratio = |Spread { median, low, high }| format!("{median:.2} ({low:.2}..{high:.2})");
    let ratio = result.ratio(server).filter(|_| server > 0).map(ratio);
    let calls = result.system_calls.get(server).copied().flatten();
    let micro = |time: Duration| time.as_secs_f64() * 1e6;
    vec![
        result.case.name.clone(),
        servers
            .get(server)
            .map_or_else(String::new, |server| server.name.clone()),
        middle(&|run| Some(result.rate(run))),
        result.case.rate.unit().to_owned(),
        ratio.unwrap_or_default(),
        middle(&|run| Some(micro(run.latency.quantiles().p50))),
        middle(&|run| Some(micro(run.latency.quantiles().p99))),
        calls.map_or_else(|| "-".to_owned(), rate),
        middle(&|run| Some(micro_per_operation(run.server.as_ref()?, run))),
        middle(&|run| Some(micro_per_operation(&run.client, run))),
    ]
}

/// For a terminal: columns of equal width.
#[must_use]
pub fn text(servers: &[Server], results: &[CaseResult]) -> String {
    let table = cells(servers, results);
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| {
        table
            .iter()
            .filter_map(|row| Some(row.get(column)?.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &table {
        let line: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                if column < TEXT_COLUMNS {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// For a document.
#[must_use]
pub fn markdown(servers: &[Server], results: &[CaseResult]) -> String {
    let mut text = String::new();
    for (number, row) in cells(servers, results).iter().enumerate() {
        text += &format!("| {} |\n", row.join(" | "));
        if number == 0 {
            let align = |column| {
                if column < TEXT_COLUMNS {
                    " --- |"
                } else {
                    " ---: |"
                }
            };
            text += &format!("|{}\n", (0..row.len()).map(align).collect::<String>());
        }
    }
    text
}

/// One JSON row for each case and server that did it: `enhanced` is the first server, `baseline`
/// the others.
#[must_use]
pub fn rows(servers: &[Server], results: &[CaseResult]) -> Vec<Value> {
    let mut rows = Vec::new();
    for result in results {
        for (index, (server, runs)) in servers.iter().zip(&result.runs).enumerate() {
            if !result.took_part(index) {
                continue;
            }
            let mut x = Map::new();
            x.insert("server".to_owned(), json!(server.name));
            x.insert("version".to_owned(), json!(server.version));
            let rate = result.spread(index, |run| result.rate(run));
            x.insert("rate".to_owned(), spread_value(rate));
            x.insert("rate_unit".to_owned(), json!(result.case.rate.unit()));
            if let Some(calls) = result.system_calls.get(index).copied().flatten() {
                x.insert("system_calls_per_operation".to_owned(), json!(calls));
            }
            if index > 0 {
                x.insert(
                    "first_server_factor".to_owned(),
                    spread_value(result.ratio(index)),
                );
            }
            let mode = if index == 0 { "enhanced" } else { "baseline" };
            let key = ("serve", result.case.name.as_str(), Some(mode));
            rows.push(report::row(key, &result.case.load, runs, x));
        }
    }
    rows
}

fn spread_value(spread: Option<Spread>) -> Value {
    spread.map_or(
        Value::Null,
        |Spread { median, low, high }| json!({ "median": median, "low": low, "high": high }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::rounds::tests::result;
    use crate::compare::rounds::tests::server;

    fn servers() -> [Server; 2] {
        ["own", "peer"].map(server)
    }

    #[test]
    fn tables_show_each_server_that_took_part_and_the_ratio() {
        let results = [
            result(
                "read 1 MiB, depth 1",
                &[(3000, 300), (2000, 200)],
                &[(1000, 1000), (1000, 1000)],
            ),
            result("getattr, depth 32", &[(10, 1)], &[]),
        ];
        let markdown = markdown(&servers(), &results);
        let lines: Vec<&str> = markdown.lines().collect();
        assert!(lines[0].starts_with("| case | server | rate | unit | own / it | p50 us |"));
        assert_eq!(
            lines[1].matches("---").count(),
            lines[0].matches(" |").count()
        );
        let own = "| read 1 MiB, depth 1 | own | 2,500 | MB/s |  | 2,500 | 2,500 | 2.00 | 100 | \
             0.000 |";
        assert_eq!(lines[2], own);
        let peer = "| read 1 MiB, depth 1 | peer | 1,000 | MB/s | 2.50 (2.00..3.00) | 1,000 | \
             1,000 | - | 1,000 | 0.000 |";
        assert_eq!(lines[3], peer);
        assert!(lines[4].starts_with("| getattr, depth 32 | own | 10.0 | ops/s |  |"));
        let text = text(&servers(), &results);
        assert_eq!((lines.len(), text.lines().count()), (5, 4));
    }

    #[test]
    fn rows_name_the_server_and_its_mode() {
        let results = [result(
            "read 1 MiB, depth 1",
            &[(3000, 300)],
            &[(1000, 1000)],
        )];
        let rows = rows(&servers(), &results);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (&rows[0]["mode"], &rows[1]["mode"]),
            (&json!("enhanced"), &json!("baseline"))
        );
        assert_eq!(rows[1]["x"]["first_server_factor"]["median"], json!(3.0));
        assert_eq!(rows[0]["x"]["system_calls_per_operation"], json!(2.0));
        assert_eq!(rows[0]["x"]["server"], json!("own"));
        assert_eq!(rows[0]["case"], json!("read 1 MiB, depth 1"));
    }
}
