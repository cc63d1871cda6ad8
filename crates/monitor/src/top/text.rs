//! One look as text for scripts, one number a line.

use std::fmt::Write;

use super::measure::{Called, Look, Unit};
use crate::metrics::snapshot::Latency;
use crate::metrics::text::{duration, short};

/// `name value unit` for each number, `-` without a value, then the procedures.
pub fn render(look: &Look) -> String {
    // Writing to a String cannot fail.
    let mut text = format!("{}\n\n", look.title);
    let measures = || look.measures.iter().chain(&look.stores);
    if measures().next().is_none() {
        text.push_str("nothing has been done yet\n");
    }
    let name_width = measures().map(|one| one.name.len()).max();
    let name_width = name_width.unwrap_or(0);
    for measure in measures() {
        let value = measure
            .value
            .map_or("-".to_owned(), |value| format!("{value:.3}"));
        let _ = writeln!(
            text,
            "{:<name_width$} {value:>16} {}",
            measure.name,
            measure.unit.name()
        );
    }
    if !look.procedures.is_empty() {
        text.push('\n');
        let _ = writeln!(text, "{}", HEAD.trim_end());
        for called in &look.procedures {
            let _ = writeln!(text, "{}", line(called).trim_end());
        }
    }
    text
}

/// The heading of [`line()`].
pub const HEAD: &str =
    "program  procedure       calls/s        bytes/s   errors/s        p50        p99";

/// One procedure as a line.
pub fn line(called: &Called) -> String {
    let time = |of: fn(&Latency) -> f64| {
        let latency = called.latency.as_ref();
        latency.map_or("-".to_owned(), |latency| duration(of(latency)))
    };
    let known = |value: Option<f64>, show: fn(f64) -> String| value.map_or("-".to_owned(), show);
    format!(
        "{:<8} {:<12} {:>10} {:>14} {:>10} {:>10} {:>10}",
        called.program,
        called.procedure,
        short(called.calls),
        known(called.bytes, |bytes| Unit::BytesPerSecond.show(bytes)),
        known(called.errors, short),
        time(|latency| latency.p50),
        time(|latency| latency.p99),
    )
}
