//! Results as a table and as rows.

use std::time::Duration;

use serde_json::{Value, json};

use super::rounds::{CaseResult, Server};
use crate::load::Measurement;
use crate::measure::{Figure, Mode, Row, Spread};
use crate::report::{self, Table, micro_per_operation, rate};

const FIRST_COLUMNS: &str = "case | server | rate | unit";
/// Behind the ratio, whose title names the first server.
const LAST_COLUMNS: &str =
    "p50 us | p99 us | system calls/op | server CPU us/op | client CPU us/op";

/// A row for each server of each case.
pub fn table(servers: &[Server], results: &[CaseResult]) -> Table {
    let own = servers.first().map_or("", |server| server.name.as_str());
    let beside = format!("{own} / it");
    let titles = FIRST_COLUMNS.split(" | ").chain([beside.as_str()]);
    let titles = titles.chain(LAST_COLUMNS.split(" | "));
    let cells = results.iter().flat_map(|result| {
        let indices = (0..servers.len()).filter(|index| result.took_part(*index));
        indices.map(|index| row_cells(servers, result, index))
    });
    Table::new(titles, 2.., cells.collect())
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

/// One row for each case and server that did it: `enhanced` is the first server, `baseline` the
/// others.
pub fn rows(servers: &[Server], results: &[CaseResult]) -> Vec<Row> {
    let mut rows = Vec::new();
    for result in results {
        for (index, (server, runs)) in servers.iter().zip(&result.runs).enumerate() {
            if !result.took_part(index) {
                continue;
            }
            let mode = if index == 0 {
                Mode::Enhanced
            } else {
                Mode::Baseline
            };
            let name = &result.case.name;
            let mut row = report::row(name, Some(mode), &result.case.load, runs);
            row.experiment = "serve";
            row.variant = Some(server.name.clone());
            let rates = runs.iter().map(|run| result.rate(run)).collect();
            row.figure = Some(Figure::rate(result.case.rate.unit(), rates));
            let rate = result.spread(index, |run| result.rate(run));
            row.put_all(json!({
                "server": server.name,
                "version": server.version,
                "rate": spread_value(rate),
                "rate_unit": result.case.rate.unit(),
                "system_calls_per_operation": result.system_calls.get(index),
            }));
            if index > 0 {
                row.put("first_server_factor", spread_value(result.ratio(index)));
            }
            rows.push(row);
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
        let table = table(&servers(), &results);
        let markdown = table.markdown();
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
        assert_eq!((lines.len(), table.text().lines().count()), (5, 4));
    }

    #[test]
    fn rows_name_the_server_and_its_mode() {
        let results = [result(
            "read 1 MiB, depth 1",
            &[(3000, 300)],
            &[(1000, 1000)],
        )];
        let rows = rows(&servers(), &results);
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
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
