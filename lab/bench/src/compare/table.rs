//! Results as a table for a terminal, a table for a document, and JSON rows.

use serde_json::{Map, Value, json};

use super::median::Spread;
use super::rounds::{CaseResult, Server};
use crate::load::Measurement;
use crate::report::{self, micro_per_operation, rate, seconds_per_gib};

/// The heads of the columns and the cells of every row.
fn cells(servers: &[Server], results: &[CaseResult]) -> Vec<Vec<String>> {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let own = names.first().copied().unwrap_or_default();
    let mut head = vec!["case".to_owned(), "unit".to_owned()];
    head.extend(names.iter().map(|name| (*name).to_owned()));
    head.extend(names.iter().skip(1).map(|other| format!("{own} / {other}")));
    head.extend(["p50 us", "p99 us", "CPU us/op", "CPU s/GiB"].map(str::to_owned));
    let mut table = vec![head];
    table.extend(
        results
            .iter()
            .map(|result| row_cells(servers.len(), result)),
    );
    table
}

fn row_cells(servers: usize, result: &CaseResult) -> Vec<String> {
    let middle = |of: &dyn Fn(&Measurement) -> Option<f64>| {
        let of = |server| result.spread(server, |run| of(run).unwrap_or(f64::NAN));
        let middles = (0..servers).map(|server| match of(server) {
            Some(Spread { median, .. }) if median.is_finite() => rate(median),
            _ => "-".to_owned(),
        });
        middles.collect::<Vec<String>>()
    };
    let mut row = vec![result.case.name.clone(), result.case.rate.unit().to_owned()];
    row.extend(middle(&|run| Some(result.rate(run))));
    row.extend((1..servers).map(|other| {
        let spread = |Spread { median, low, high }| format!("{median:.2} ({low:.2}..{high:.2})");
        result.ratio(other).map_or_else(|| "-".to_owned(), spread)
    }));
    let joined = |of: &dyn Fn(&Measurement) -> Option<f64>| middle(of).join(" / ");
    row.push(joined(&|run| {
        Some(run.latency.quantiles().p50.as_secs_f64() * 1e6)
    }));
    row.push(joined(&|run| {
        Some(run.latency.quantiles().p99.as_secs_f64() * 1e6)
    }));
    row.push(joined(&|run| {
        Some(micro_per_operation(run.server.as_ref()?, run))
    }));
    row.push(if result.case.load.workload.moves_data() {
        joined(&|run| Some(seconds_per_gib(run.server.as_ref()?, run)))
    } else {
        String::new()
    });
    row
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
                if column == 0 {
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
            let align = |column| if column < 2 { " --- |" } else { " ---: |" };
            text += &format!("|{}\n", (0..row.len()).map(align).collect::<String>());
        }
    }
    text
}

/// One JSON row for each case and server: `enhanced` is the first server, `baseline` the others.
#[must_use]
pub fn rows(servers: &[Server], results: &[CaseResult]) -> Vec<Value> {
    let mut rows = Vec::new();
    for result in results {
        for (index, (server, runs)) in servers.iter().zip(&result.runs).enumerate() {
            let mut x = Map::new();
            x.insert("server".to_owned(), json!(server.name));
            x.insert("version".to_owned(), json!(server.version));
            let rate = result.spread(index, |run| result.rate(run));
            x.insert("rate".to_owned(), spread_value(rate));
            x.insert("rate_unit".to_owned(), json!(result.case.rate.unit()));
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
    use crate::load::Target;

    fn servers() -> Vec<Server> {
        let server = |name: &str| Server {
            name: name.to_owned(),
            version: "1".to_owned(),
            target: Target {
                nfs: "127.0.0.1:1".parse().unwrap(),
                mount: "127.0.0.1:1".parse().unwrap(),
                export: "/".to_owned(),
            },
            process: None,
        };
        vec![server("own"), server("peer")]
    }

    #[test]
    fn tables_show_both_servers_and_their_ratio() {
        let results = [
            result(
                0,
                &[(3000, 300), (2000, 200)],
                &[(1000, 1000), (1000, 1000)],
            ),
            result(4, &[(10, 1)], &[(20, 1)]),
        ];
        let markdown = markdown(&servers(), &results);
        let lines: Vec<&str> = markdown.lines().collect();
        assert!(lines[0].starts_with("| case | unit | own | peer | own / peer | p50 us |"));
        assert_eq!(
            lines[1].matches("---").count(),
            lines[0].matches(" |").count()
        );
        let expected = "| read 1 MiB, depth 8 | MB/s | 2,500 | 1,000 | 2.50 (2.00..3.00) | \
             2,500 / 1,000 | 2,500 / 1,000 | 100 / 1,000 | 0.107 / 1.07 |";
        assert_eq!(lines[2], expected);
        assert!(lines[3].contains("| 0.50 (0.50..0.50) |") && lines[3].ends_with("|  |"));
        let text = text(&servers(), &results);
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn rows_name_the_server_and_its_mode() {
        let results = [result(0, &[(3000, 300)], &[(1000, 1000)])];
        let rows = rows(&servers(), &results);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (&rows[0]["mode"], &rows[1]["mode"]),
            (&json!("enhanced"), &json!("baseline"))
        );
        assert_eq!(rows[1]["x"]["first_server_factor"]["median"], json!(3.0));
        assert_eq!(rows[0]["x"]["server"], json!("own"));
        assert_eq!(rows[0]["case"], json!("read 1 MiB, depth 8"));
    }
}
