//! Two documents compared: which cases became faster, and is that more than chance?
//!
//! Rows are paired by experiment, case, mode, variant and phase. A difference counts as proven
//! when Welch's 95 % interval of the ratio of the means does not hold 1; everything else, and
//! everything that ran once, is *not proven*. Counts of device requests have no noise and are
//! shown as they are.

use std::collections::HashMap;

use serde_json::Value;

use super::document::SCHEMA;
use crate::measure::{Difference, difference};

/// What a comparison found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// For people, a line for each case.
    pub text: String,
    /// Cases that are proven to have become worse.
    pub worse: usize,
}

/// What is compared of a row.
struct Sample {
    unit: String,
    higher_is_better: bool,
    each: Vec<f64>,
    requests: Option<u64>,
}

/// Compares the second document with the first.
///
/// # Errors
///
/// A text that says which document is not one of ours.
pub fn compare_documents(first: &Value, second: &Value) -> Result<Comparison, String> {
    let before = samples(first).map_err(|error| format!("the first document {error}"))?;
    let after = samples(second).map_err(|error| format!("the second document {error}"))?;
    let mut before: HashMap<String, Sample> = before.into_iter().collect();
    let (mut text, mut worse, mut proven) = (String::new(), 0, 0);
    let paired = after.len();
    for (name, sample) in after {
        let Some(earlier) = before.remove(&name) else {
            text += &format!("only in the second: {name}\n");
            continue;
        };
        let found = if sample.higher_is_better {
            difference(&earlier.each, &sample.each)
        } else {
            difference(&sample.each, &earlier.each)
        };
        let Some(found) = found else {
            text += &format!("nothing measured: {name}\n");
            continue;
        };
        proven += usize::from(found.is_proven());
        worse += usize::from(found.is_proven() && found.ratio < 1.0);
        text += &line(&name, &earlier, &sample, found);
    }
    let mut missing: Vec<_> = before.into_keys().collect();
    missing.sort();
    for name in missing {
        text += &format!("only in the first: {name}\n");
    }
    text += &format!("{paired} cases, {proven} proven to differ, {worse} of them worse\n");
    Ok(Comparison { text, worse })
}

fn line(name: &str, before: &Sample, after: &Sample, found: Difference) -> String {
    let mean = |sample: &Sample| {
        let found = crate::measure::Interval::of(&sample.each);
        crate::report::rate(found.map_or(0.0, |found| found.mean))
    };
    let verdict = match found.range {
        None => "not proven (one run)".to_owned(),
        Some((low, high)) => {
            let word = match (found.is_proven(), found.ratio > 1.0) {
                (false, _) => "not proven",
                (true, true) => "better",
                (true, false) => "WORSE",
            };
            format!("{word} ({low:.3} to {high:.3})")
        }
    };
    let requests = match (before.requests, after.requests) {
        (Some(before), Some(after)) if before != after => {
            format!("; device requests {before} -> {after}")
        }
        _ => String::new(),
    };
    format!(
        "{name}: {} -> {} {}, {:.3} x, {verdict}{requests}\n",
        mean(before),
        mean(after),
        after.unit,
        found.ratio,
    )
}

fn samples(document: &Value) -> Result<Vec<(String, Sample)>, String> {
    if document.get("schema").and_then(Value::as_u64) != Some(u64::from(SCHEMA)) {
        return Err(format!("is not a result of schema {SCHEMA}"));
    }
    let rows = document.get("rows").and_then(Value::as_array);
    let rows = rows.ok_or("has no rows")?;
    let named = rows.iter().map(|row| (name(row), sample(row)));
    Ok(named.collect())
}

fn name(row: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let mut parts = Vec::new();
    for field in ["experiment", "case", "mode", "phase"] {
        parts.extend(text(row.get(field)));
    }
    parts.extend(text(row.pointer("/x/variant")));
    parts.join(", ")
}

fn sample(row: &Value) -> Sample {
    let numbers = |value: Option<&Value>| -> Vec<f64> {
        let list = value.and_then(Value::as_array);
        let list = list.map_or(&[][..], Vec::as_slice);
        list.iter().filter_map(Value::as_f64).collect()
    };
    let figure = row.pointer("/x/figure");
    let field = |name: &str| figure.and_then(|figure| figure.get(name)?.as_str());
    let each = match figure {
        Some(figure) => numbers(figure.get("each")),
        None => numbers(row.pointer("/x/seconds_each")),
    };
    Sample {
        unit: field("unit").unwrap_or("s").to_owned(),
        higher_is_better: field("better") == Some("higher"),
        each,
        requests: row.pointer("/device/requests").and_then(Value::as_u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Figure, Mode, Options, Phase, Row, Session, document};
    use crate::measure::Environment;

    fn document_of(seconds: &[f64], rates: &[f64]) -> Value {
        let mut session = Session::new(Options::default());
        session.begin("hsfs");
        let mut row = Row::new("dd", Mode::Enhanced, Phase::Cold);
        row.seconds = seconds.to_vec();
        session.push(row.clone());
        row.case = "random".to_owned();
        row.figure = Some(Figure::rate("ops/s", rates.to_vec()));
        session.push(row);
        document(&Environment::here(), &session)
    }

    #[test]
    fn the_same_run_proves_nothing() {
        let document = document_of(&[1.0, 1.1, 0.9], &[10.0, 11.0, 9.0]);
        let found = compare_documents(&document, &document).unwrap();
        assert_eq!(found.worse, 0);
        assert_eq!(
            found.text.matches("not proven").count(),
            2,
            "{}",
            found.text
        );
    }

    #[test]
    fn slower_and_fewer_are_worse() {
        let before = document_of(&[1.0, 1.01, 0.99], &[10.0, 10.1, 9.9]);
        let after = document_of(&[2.0, 2.01, 1.99], &[5.0, 5.1, 4.9]);
        assert_eq!(compare_documents(&before, &after).unwrap().worse, 2);
        let back = compare_documents(&after, &before).unwrap();
        assert_eq!(back.worse, 0);
        assert_eq!(back.text.matches("better").count(), 2, "{}", back.text);
        let once = document_of(&[9.0], &[1.0]);
        let found = compare_documents(&before, &once).unwrap();
        assert_eq!(found.worse, 0);
        assert!(found.text.contains("not proven (one run)"));
    }

    #[test]
    fn other_documents_are_refused_and_odd_rows_are_not() {
        let good = document_of(&[1.0], &[1.0]);
        let other = serde_json::json!({ "schema": 99, "rows": [] });
        let error = compare_documents(&good, &other).unwrap_err();
        assert!(error.contains("second"), "{error}");
        let odd = serde_json::json!({ "schema": 1, "rows": [7, { "case": "dd" }, {}] });
        let found = compare_documents(&odd, &good).unwrap();
        assert!(found.text.contains("only in the second"), "{}", found.text);
    }
}
