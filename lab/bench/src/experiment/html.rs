//! A run as one page that needs nothing else: no network, no script.

use pagewell_load::measure::Better;
use pagewell_load::measure::Environment;
use pagewell_load::measure::{Mode, Row};
use pagewell_load::report::Table;

use super::session::Session;
use super::table::{summary, table};

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;\
color:#222;background:#fff}\
table{border-collapse:collapse;margin:1em 0}\
th,td{padding:.25em .7em;text-align:left;border-bottom:1px solid #ddd}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
.pass{color:#176b2c}.fail{color:#a8201a;font-weight:bold}\
.verdict{font-size:1.3em;font-weight:600}\
summary{cursor:pointer;font-weight:600}figure{margin:1em 0}\
.wide,pre{overflow-x:auto}\
pre{background:#f5f5f5;padding:.8em}\
svg{width:100%;height:auto;max-width:900px}\
svg text{font:12px system-ui,sans-serif;fill:#222}\
svg line{stroke:#999}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}\
th,td{border-color:#444}pre{background:#222}svg text{fill:#ddd}\
.pass{color:#6c8}.fail{color:#f77}}\
@media print{figure,li,tr{break-inside:avoid}body{margin:0;max-width:none}}";

const BAR_HEIGHT: usize = 14;
const ROW_HEIGHT: usize = BAR_HEIGHT + 4;
const NAMES_WIDTH: f64 = 300.0;
/// Of 900, so that a number stands beside the longest bar.
const BARS_WIDTH: f64 = 520.0;

/// The page; `date` is when the run began, for people.
#[must_use]
pub fn page(environment: &Environment, session: &Session, date: &str) -> String {
    let mut experiments: Vec<&str> = session.rows().iter().map(|row| row.experiment).collect();
    experiments.dedup();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>pagewell bench {date}</title><style>{STYLE}</style></head><body>\n\
         <h1>pagewell bench</h1>\n",
        date = escape(date)
    );
    page += &head(environment, session, date);
    page += &contents(session, &experiments);
    for experiment in experiments {
        page += &section(session, experiment);
    }
    for failure in session.failures() {
        page += &format!(
            "<p class=\"fail\">stopped: {}</p>\n",
            escape(&portable(failure))
        );
    }
    page + "</body></html>\n"
}

/// When, with what and where, and what came out.
fn head(environment: &Environment, session: &Session, date: &str) -> String {
    let class = if session.is_good() { "pass" } else { "fail" };
    let mut text = format!(
        "<p class=\"verdict {class}\">{}</p>\n",
        escape(&sentence(session))
    );
    text += &format!("<p>{}</p>\n", escape(&summary(session)));
    text += "<details><summary>When, with what and where</summary><table>\n";
    for (name, value) in [
        ("date", date.to_owned()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("command", portable(&environment.command)),
        ("processor", environment.processor.clone()),
        ("processors", environment.processors.to_string()),
        (
            "memory",
            pagewell_load::report::bytes(environment.memory_bytes),
        ),
        ("kernel", environment.kernel.clone()),
        ("load average", format!("{:.1}", environment.load_average)),
    ] {
        text += &format!("<tr><th>{name}</th><td>{}</td></tr>\n", escape(&value));
    }
    text + "</table></details>\n"
}

/// What came out, for who reads no further.
fn sentence(session: &Session) -> String {
    let all = session.verdicts().len();
    let missed = session.verdicts().iter().filter(|one| !one.pass).count();
    match (all, missed, session.failures().len()) {
        (_, _, stopped) if stopped > 0 => {
            format!("Not all was measured: {stopped} stopped early, and {missed} of {all} not met.")
        }
        (0, ..) => "Nothing was measured that must hold.".to_owned(),
        (_, 0, _) => format!("All {all} statements about what the mechanisms do hold here."),
        _ => format!("{missed} of {all} statements about what the mechanisms do do not hold here."),
    }
}

/// Without the folders of this machine: of a path from the root its last part stays.
fn portable(text: &str) -> String {
    let word = |word: &str| {
        let start = word
            .find('/')
            .filter(|at| *at == 0 || word[..*at].ends_with(['=', ':', '(']));
        match start.and_then(|at| Some((at, word.rfind('/')?))) {
            Some((first, last)) => format!("{}{}", &word[..first], &word[last + 1..]),
            None => word.to_owned(),
        }
    };
    let lines = text.split('\n').map(|line| {
        let words: Vec<String> = line.split(' ').map(word).collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The experiments, each with how much of what must hold does.
fn contents(session: &Session, experiments: &[&str]) -> String {
    let mut text = "<ul>\n".to_owned();
    for experiment in experiments {
        let of = || {
            session
                .verdicts()
                .iter()
                .filter(|one| one.experiment == *experiment)
        };
        let (all, passed) = (of().count(), of().filter(|one| one.pass).count());
        let class = if all == passed { "pass" } else { "fail" };
        let name = escape(experiment);
        text += &format!(
            "<li><a href=\"#{name}\">{name}</a> \
             <span class=\"{class}\">{passed} of {all} passed</span></li>\n"
        );
    }
    text + "</ul>\n"
}

fn section(session: &Session, experiment: &str) -> String {
    let mut text = format!("<h2 id=\"{0}\">{0}</h2>\n", escape(experiment));
    let notes = session.notes().filter(|(name, _)| *name == experiment);
    let notes: Vec<String> = notes.map(|(_, note)| escape(&portable(note))).collect();
    text += &bars(session.rows(), experiment);
    text += "<details><summary>All numbers</summary>\n";
    if !notes.is_empty() {
        text += &format!("<pre>{}</pre>\n", notes.join("\n"));
    }
    text += &cells(&table(session.rows(), experiment));
    text += "</details>\n";
    text += "<ul>\n";
    let verdicts = session.verdicts().iter();
    for verdict in verdicts.filter(|verdict| verdict.experiment == experiment) {
        let (class, word) = match verdict.pass {
            true => ("pass", "met"),
            false => ("fail", "NOT MET"),
        };
        text += &format!(
            "<li class=\"{class}\">{word}: {}</li>\n",
            escape(&portable(&verdict.what))
        );
    }
    text + "</ul>\n"
}

fn cells(table: &Table) -> String {
    let titles = table.columns().iter();
    let titles = titles.map(|column| format!("<th>{}</th>", escape(&column.title)));
    let titles: String = titles.collect();
    let mut text = format!("<div class=\"wide\"><table><tr>{titles}</tr>\n");
    for row in &table.rows {
        text += "<tr>";
        for (cell, column) in row.iter().zip(table.columns()) {
            let class = if column.is_number { " class=\"n\"" } else { "" };
            text += &format!("<td{class}>{}</td>", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</table></div>\n"
}

/// For each case how many times better each variant is than its baseline, on a scale that
/// doubles.
fn bars(rows: &[Row], experiment: &str) -> String {
    let mut found = Vec::new();
    let of = || rows.iter().filter(|row| row.experiment == experiment);
    for row in of().filter(|row| row.mode == Some(Mode::Enhanced)) {
        let baseline = of().find(|other| {
            other.mode == Some(Mode::Baseline) && other.case == row.case && other.phase == row.phase
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
    if found.is_empty() {
        return String::new();
    }
    let widest = found.iter().map(|(_, factor)| factor.log2().abs());
    let widest = widest.fold(1.0, f64::max).ceil();
    let scale = BARS_WIDTH / 2.0 / widest;
    let middle = NAMES_WIDTH + BARS_WIDTH / 2.0;
    let bottom = found.len() * ROW_HEIGHT;
    let mut text = format!(
        "<figure><figcaption>How many times better than baseline; each step of the axis is \
         twice as much</figcaption>\n\
         <svg viewBox=\"0 0 900 {}\" role=\"img\" aria-label=\"times better than baseline\">\n",
        bottom + 2 * ROW_HEIGHT
    );
    text += &axis(widest, scale, bottom);
    for (index, (name, factor)) in found.iter().enumerate() {
        let top = index * ROW_HEIGHT;
        let width = factor.log2().abs() * scale;
        let (left, colour) = if *factor >= 1.0 {
            (middle, "#2a7a3b")
        } else {
            (middle - width, "#b33")
        };
        text += &format!(
            "<text x=\"0\" y=\"{}\">{}</text><rect x=\"{left:.0}\" y=\"{top}\" \
             width=\"{width:.0}\" height=\"{BAR_HEIGHT}\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"{}\">{factor:.2} x</text>\n",
            top + BAR_HEIGHT - 2,
            escape(name),
            left.max(middle) + if *factor >= 1.0 { width } else { 0.0 } + 4.0,
            top + BAR_HEIGHT - 2,
        );
    }
    text + "</svg></figure>\n"
}

/// Lines at factors of two from `1 / 2^widest` to `2^widest`, at most nine of them labelled.
fn axis(widest: f64, scale: f64, bottom: usize) -> String {
    let middle = NAMES_WIDTH + BARS_WIDTH / 2.0;
    let step = (widest / 4.0).ceil();
    let mut text = String::new();
    for tick in -4..=4 {
        let power = f64::from(tick) * step;
        if power.abs() > widest {
            continue;
        }
        let x = middle + power * scale;
        let label = match power < 0.0 {
            true => format!("1/{}", 2f64.powf(-power)),
            false => format!("{}", 2f64.powf(power)),
        };
        text += &format!(
            "<line x1=\"{x:.0}\" y1=\"0\" x2=\"{x:.0}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.0}\" y=\"{}\" text-anchor=\"middle\">{label} x</text>\n",
            bottom + BAR_HEIGHT
        );
    }
    text
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
    fn folders_of_the_machine_stay_behind() {
        for (text, expected) in [
            (
                "/usr/a/pagewell-bench hsfs --work=/tmp/b/c",
                "pagewell-bench hsfs --work=c",
            ),
            ("a/b 1/2 read (/dev/sda)", "a/b 1/2 read (sda)"),
            (
                "first /x/y\nsecond  iso:/x/z.iso",
                "first y\nsecond  iso:z.iso",
            ),
        ] {
            assert_eq!(portable(text), expected);
        }
    }

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
        let page = page(&environment, &session, hostile);
        assert!(!page.contains("<script"), "{page}");
        let escaped = "&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;";
        assert_eq!(page.matches(escaped).count(), 7, "{page}");
        assert!(page.contains("2.00 x") && page.contains("<rect"));
        assert!(!page.contains("http"), "no network");
        for part in [
            "0 of 1 passed",
            "width=device-width",
            "href=\"#hsfs\"",
            ">1/2 x<",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
