//! A run as one page that needs nothing else: no network, no script.

use super::figure::Better;
use super::row::{Mode, Row};
use super::session::Session;
use super::table::{COLUMNS, Line, lines, used_columns};
use crate::measure::Environment;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;\
color:#222;background:#fff}\
table{border-collapse:collapse;margin:1em 0}\
th,td{padding:.25em .7em;text-align:left;border-bottom:1px solid #ddd}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
.pass{color:#176b2c}.fail{color:#a8201a;font-weight:bold}\
pre{background:#f5f5f5;padding:.8em;overflow-x:auto}\
svg text{font:12px system-ui,sans-serif;fill:#222}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}\
th,td{border-color:#444}pre{background:#222}svg text{fill:#ddd}\
.pass{color:#6c8}.fail{color:#f77}}";

const BAR_HEIGHT: usize = 14;
const NAMES_WIDTH: usize = 300;
const BARS_WIDTH: f64 = 480.0;

/// The page.
#[must_use]
pub fn page(environment: &Environment, session: &Session) -> String {
    let mut body = String::new();
    for (name, value) in [
        ("command", environment.command.clone()),
        ("processor", environment.processor.clone()),
        ("processors", environment.processors.to_string()),
        ("memory", crate::report::bytes(environment.memory_bytes)),
        ("kernel", environment.kernel.clone()),
        ("load average", format!("{:.1}", environment.load_average)),
    ] {
        body += &format!("<tr><th>{name}</th><td>{}</td></tr>\n", escape(&value));
    }
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>pagewell bench</title><style>{STYLE}</style></head><body>\n\
         <h1>pagewell bench</h1>\n<table>\n{body}</table>\n"
    );
    let mut experiments: Vec<&str> = session.rows().iter().map(|row| row.experiment).collect();
    experiments.dedup();
    for experiment in experiments {
        page += &section(session, experiment);
    }
    for failure in session.failures() {
        page += &format!("<p class=\"fail\">stopped: {}</p>\n", escape(failure));
    }
    page + "</body></html>\n"
}

fn section(session: &Session, experiment: &str) -> String {
    let mut text = format!("<h2>{}</h2>\n", escape(experiment));
    let notes = session.notes().filter(|(name, _)| *name == experiment);
    let notes: Vec<String> = notes.map(|(_, note)| escape(note)).collect();
    if !notes.is_empty() {
        text += &format!("<pre>{}</pre>\n", notes.join("\n"));
    }
    text += &table(&lines(session.rows(), experiment));
    text += &bars(session.rows(), experiment);
    text += "<ul>\n";
    let verdicts = session.verdicts().iter();
    for verdict in verdicts.filter(|verdict| verdict.experiment == experiment) {
        let (class, word) = match verdict.pass {
            true => ("pass", "met"),
            false => ("fail", "NOT MET"),
        };
        text += &format!(
            "<li class=\"{class}\">{word}: {}</li>\n",
            escape(&verdict.what)
        );
    }
    text + "</ul>\n"
}

fn table(lines: &[Line]) -> String {
    let used = used_columns(lines);
    let mut text = "<table><tr>".to_owned();
    for title in used.iter().filter_map(|column| COLUMNS.get(*column)) {
        text += &format!("<th>{}</th>", escape(title));
    }
    text += "</tr>\n";
    for line in lines {
        text += "<tr>";
        for column in &used {
            let class = if (4..8).contains(column) {
                " class=\"n\""
            } else {
                ""
            };
            let cell = line.cells.get(*column).map_or("", String::as_str);
            text += &format!("<td{class}>{}</td>", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</table>\n"
}

/// For each case how many times better each variant is than its baseline, on a scale that
/// doubles.
fn bars(rows: &[Row], experiment: &str) -> String {
    let mut found = Vec::new();
    let of = || rows.iter().filter(|row| row.experiment == experiment);
    for row in of().filter(|row| row.mode == Mode::Enhanced) {
        let baseline = of().find(|other| {
            other.mode == Mode::Baseline && other.case == row.case && other.phase == row.phase
        });
        let numbers = baseline.and_then(Row::mean).zip(row.mean());
        if let Some((before, after)) = numbers.filter(|(a, b)| *a > 0.0 && *b > 0.0) {
            let factor = match row.shown().better {
                Better::Higher => after / before,
                Better::Lower => before / after,
            };
            let variant = row.variant.as_deref().unwrap_or("enhanced");
            let name = format!("{}, {}: {variant}", row.case, row.phase.name());
            found.push((name, factor));
        }
    }
    let widest = found.iter().map(|(_, factor)| factor.log2().abs());
    let widest = widest.fold(1.0, f64::max);
    let middle = NAMES_WIDTH as f64 + BARS_WIDTH / 4.0;
    let scale = BARS_WIDTH * 3.0 / 4.0 / widest;
    let mut text = format!(
        "<svg width=\"900\" height=\"{}\" role=\"img\" aria-label=\"better by\">\n",
        (found.len() + 1) * (BAR_HEIGHT + 4)
    );
    for (index, (name, factor)) in found.iter().enumerate() {
        let top = index * (BAR_HEIGHT + 4);
        let width = (factor.log2().abs() * scale).min(BARS_WIDTH * 3.0 / 4.0);
        let (left, colour) = if *factor >= 1.0 {
            (middle, "#2a7a3b")
        } else {
            ((middle - width).max(NAMES_WIDTH as f64), "#b33")
        };
        text += &format!(
            "<text x=\"0\" y=\"{}\">{}</text><rect x=\"{left:.0}\" y=\"{top}\" \
             width=\"{width:.0}\" height=\"{BAR_HEIGHT}\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"{}\">{factor:.2} x</text>\n",
            top + BAR_HEIGHT - 2,
            escape(name),
            left + width + 4.0,
            top + BAR_HEIGHT - 2,
        );
    }
    text + "</svg>\n"
}

/// Text that means itself in HTML, in attributes too.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Options, Phase};

    #[test]
    fn nothing_from_outside_is_markup() {
        let mut session = Session::new(Options::default());
        session.begin("hsfs");
        let hostile = "<script>alert('&\"')</script>";
        for (mode, seconds) in [(Mode::Baseline, 2.0), (Mode::Enhanced, 1.0)] {
            let mut row = Row::new(hostile, mode, Phase::Cold);
            row.seconds = vec![seconds];
            session.push(row);
        }
        session.note(hostile);
        session.verdict(false, hostile);
        let mut environment = Environment::here();
        environment.command = hostile.to_owned();
        let page = page(&environment, &session);
        assert!(!page.contains("<script"), "{page}");
        let escaped = "&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;";
        assert_eq!(page.matches(escaped).count(), 5, "{page}");
        assert!(page.contains("2.00 x") && page.contains("<rect"));
        assert!(!page.contains("http"), "no network");
    }
}
