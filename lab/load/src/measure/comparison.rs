//! Results of two programs compared: which cases became faster, and is that more than chance?
//!
//! Rows are paired by experiment, case, mode, variant and phase. [`crate::measure::movements`] says
//! what is proven, from whole runs and from all cases together; everything else is *not proven*.
//! Counts of device requests have no noise and are shown as they are.
//!
//! A broken program is worse without proof: a case that the first measured and the second did not,
//! or only as zeros, and each failure that the second reports.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use crate::measure::{Case, Movement, RUNS_MIN, mean, movements};
use crate::report::{Table, rate};

/// The version of the form of documents.
pub const SCHEMA: u32 = 1;

const COLUMNS: &str = "case | unit | first | second | better by | device requests | verdict";
/// Those with numbers.
const NUMBERS: Range<usize> = 2..6;

/// What a comparison found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// A line for each case.
    pub text: String,
    /// Cases that are proven to differ.
    pub proven: usize,
    /// Of these the worse ones, and what only the first program could do.
    pub worse: usize,
}

struct Sample {
    unit: String,
    higher_is_better: bool,
    each: Vec<f64>,
    requests: Option<u64>,
}

/// A row in the runs of both programs.
#[derive(Default)]
struct Pair {
    name: String,
    before: Vec<Sample>,
    after: Vec<Sample>,
}

/// Compares whole runs of one program with whole runs of another.
///
/// # Errors
///
/// Which document is not one of ours.
pub fn compare_documents(before: &[Value], after: &[Value]) -> Result<Comparison, String> {
    let pairs = pairs(before, after)?;
    let cases: Vec<Case> = pairs.iter().map(Pair::case).collect();
    let found = movements(&cases);
    let mut comparison = Comparison {
        text: machines(before, after),
        proven: 0,
        worse: 0,
    };
    let mut compared = 0;
    let mut lines = Vec::new();
    for (pair, movement) in pairs.iter().zip(&found) {
        lines.push(pair.line(movement.as_ref()));
        let Some(movement) = movement else {
            comparison.worse += usize::from(pair.is_lost());
            continue;
        };
        compared += 1;
        comparison.proven += usize::from(movement.is_proven());
        comparison.worse += usize::from(movement.is_proven() && pair.gain(movement) < 1.0);
    }
    let table = Table::new(COLUMNS.split(" | "), NUMBERS, lines).without_empty_columns();
    comparison.text += &table.text();
    for failure in after.iter().flat_map(failures) {
        comparison.worse += 1;
        comparison.text += &format!("the second program failed: {failure}\n");
    }
    let Comparison { proven, worse, .. } = comparison;
    comparison.text += &format!(
        "{} and {} runs, {compared} cases, {proven} proven to differ, {worse} worse\n",
        before.len(),
        after.len(),
    );
    if before.len().min(after.len()) < RUNS_MIN {
        comparison.text += &format!(
            "fewer than {RUNS_MIN} runs of each prove nothing: make as many or more, in turn, and \
             give a folder for each program\n"
        );
    }
    Ok(comparison)
}

fn pairs(before: &[Value], after: &[Value]) -> Result<Vec<Pair>, String> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let sides = [("first", before), ("second", after)];
    for (side, documents) in sides {
        for document in documents {
            let samples = samples(document)
                .map_err(|error| format!("a document of the {side} program {error}"))?;
            for (name, sample) in samples {
                let place = *places.entry(name.clone()).or_insert(pairs.len());
                if place == pairs.len() {
                    let pair = Pair::default();
                    pairs.push(Pair { name, ..pair });
                }
                match side {
                    "first" => pairs[place].before.push(sample),
                    _ => pairs[place].after.push(sample),
                }
            }
        }
    }
    Ok(pairs)
}

/// A note if the documents are not of one machine.
fn machines(before: &[Value], after: &[Value]) -> String {
    let machine = |document: &Value| -> Vec<Value> {
        let fields = ["processor", "processors", "kernel"];
        let field = |name: &str| document.pointer(&format!("/environment/{name}")).cloned();
        fields.into_iter().filter_map(field).collect()
    };
    let mut all = before.iter().chain(after).map(machine);
    let first = all.next();
    match all.all(|other| Some(other) == first) {
        true => String::new(),
        false => "not all runs are of the same machine and kernel\n".to_owned(),
    }
}

impl Pair {
    fn case(&self) -> Case {
        let numbers = |samples: &[Sample]| -> Vec<Vec<f64>> {
            samples.iter().map(|sample| sample.each.clone()).collect()
        };
        Case {
            before: numbers(&self.before),
            after: numbers(&self.after),
        }
    }

    fn higher_is_better(&self) -> bool {
        let mut samples = self.after.iter().chain(&self.before);
        samples.next().is_some_and(|sample| sample.higher_is_better)
    }

    /// How many times better the second program is.
    fn gain(&self, movement: &Movement) -> f64 {
        if self.higher_is_better() {
            movement.ratio
        } else {
            1.0 / movement.ratio
        }
    }

    fn is_lost(&self) -> bool {
        let is_measured = |samples: &[Sample]| mean_of(samples) > 0.0;
        is_measured(&self.before) && !is_measured(&self.after)
    }

    fn line(&self, movement: Option<&Movement>) -> Vec<String> {
        let mean = |samples: &[Sample]| match samples {
            [] => String::new(),
            samples => rate(mean_of(samples)),
        };
        let gain = movement.map(|movement| self.gain(movement));
        let mut samples = self.after.iter().chain(&self.before);
        vec![
            self.name.clone(),
            samples
                .next()
                .map_or_else(String::new, |sample| sample.unit.clone()),
            mean(&self.before),
            mean(&self.after),
            gain.map_or_else(String::new, |gain| format!("{gain:.3} x")),
            self.requests(),
            self.verdict(movement),
        ]
    }

    fn verdict(&self, movement: Option<&Movement>) -> String {
        let Some(movement) = movement else {
            let text = match (self.before.is_empty(), self.after.is_empty()) {
                (true, _) => "only in the second",
                _ if self.is_lost() => "MISSING in the second",
                (_, true) => "only in the first",
                _ => "nothing measured",
            };
            return text.to_owned();
        };
        match (movement.needed, movement.is_proven()) {
            (None, _) => "not proven (too few runs)".to_owned(),
            (Some(needed), false) => format!("not proven (needs {needed:.3} x)"),
            (Some(_), true) if self.gain(movement) > 1.0 => "better".to_owned(),
            (Some(_), true) => "WORSE".to_owned(),
        }
    }

    /// Device requests, if they are equal in all runs of a program.
    fn requests(&self) -> String {
        let count = |samples: &[Sample]| {
            let mut counts = samples.iter().map(|sample| sample.requests);
            let first = counts.next().flatten()?;
            counts.all(|other| other == Some(first)).then_some(first)
        };
        match count(&self.before).zip(count(&self.after)) {
            Some((before, after)) if before != after => format!("{before} -> {after}"),
            _ => String::new(),
        }
    }
}

fn mean_of(samples: &[Sample]) -> f64 {
    mean(samples.iter().flat_map(|sample| &sample.each).copied())
}

/// The failures that a document reports.
fn failures(document: &Value) -> Vec<String> {
    let list = document.get("failures").and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
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
