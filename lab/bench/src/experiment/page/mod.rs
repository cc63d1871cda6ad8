//! A run as one page that needs and asks for nothing else: its style, its program, and the library
//! that draws are in it. Verdicts come first, then pictures, and numbers folded below them.
//!
//! All text of a run is escaped, and folders of the machine are left out: the page is made to be
//! given to others.

mod escape;
mod figure;

use pagewell_load::measure::Environment;
use pagewell_load::report::{Outcome, Table, Verdict};
use pagewell_monitor::plotting;

use super::picture::plain;
use super::session::Session;
use super::table::{summary, table};
use super::{Experiment, Picture, Role};
use escape::escape;

const STYLE: &str = include_str!("report.css");
const PROGRAM: &str = include_str!("report.js");
/// A browser asks for nothing from elsewhere, whatever the page holds.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";
const LOGO: &str = "<svg viewBox=\"0 0 16 16\" width=\"32\" height=\"32\" aria-hidden=\"true\">\
                    <rect width=\"16\" height=\"16\" rx=\"4\" fill=\"#0b62b8\"/>\
                    <path d=\"M2 11l3-4 3 2 3-5 3 4\" fill=\"none\" stroke=\"#fff\" \
                    stroke-width=\"2\"/></svg>";

/// The page; `date` is when the run began, for people.
pub fn page(environment: &Environment, session: &Session, date: &str) -> String {
    let experiments = session.experiments();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>pagewell bench, {}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>{}</style>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        escape(date),
        plotting::STYLE,
    );
    page += &head(environment, session, date);
    page += "<main>\n";
    page += &tiles(session, &experiments);
    for experiment in &experiments {
        page += &section(session, experiment);
    }
    page += "</main>\n";
    page += &format!(
        "<footer>\n<p>pagewell {}. KiB and MiB are 1024 and 1,048,576 bytes. Numbers of the \
         reports are of other hardware.</p>\n<details><summary>Plots: {}</summary>\n\
         <pre tabindex=\"0\">{}</pre></details>\n</footer>\n\
         <script>{}</script>\n<script>{PROGRAM}</script>\n\
         </body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        plotting::NAME,
        escape(plotting::LICENCE),
        plotting::PROGRAM,
    );
    page
}

/// The outcome, then when, with what and where.
fn head(environment: &Environment, session: &Session, date: &str) -> String {
    let class = if session.is_good() { "good" } else { "bad" };
    let mark = if session.is_good() { "✔" } else { "✘" };
    let mut text = format!(
        "<header>\n<div class=\"brand\">{LOGO}<h1>pagewell bench</h1></div>\n\
         <p class=\"verdict {class}\"><span aria-hidden=\"true\">{mark}</span> {}</p>\n<p>{}</p>\n",
        escape(&sentence(session)),
        escape(&proof(environment, session)),
    );
    for failure in session.failures() {
        text += &format!("<p class=\"bad\">Stopped: {}</p>\n", escape(failure));
    }
    text += "<details><summary>When, with what and where</summary>\n<dl>";
    for (name, value) in [
        ("Date", date.to_owned()),
        ("Command", environment.command.clone()),
        ("Version", env!("CARGO_PKG_VERSION").to_owned()),
        ("Processor", environment.processor.clone()),
        ("Processors", environment.processors.to_string()),
        (
            "Memory",
            pagewell_load::report::bytes(environment.memory_bytes),
        ),
        ("Kernel", environment.kernel.clone()),
        (
            "Load average at the start",
            format!("{:.1}", environment.load_average),
        ),
        ("Verdicts", summary(session)),
    ] {
        text += &format!("<dt>{name}</dt><dd>{}</dd>\n", escape(&value));
    }
    text + "</dl></details>\n</header>\n"
}

fn count(verdicts: &[&Verdict], exact: bool, outcome: Option<Outcome>) -> usize {
    let is_one = |verdict: &&&Verdict| {
        verdict.exact == exact && outcome.is_none_or(|outcome| verdict.outcome() == outcome)
    };
    verdicts.iter().filter(is_one).count()
}

/// The outcome in a sentence. Counts decide.
fn sentence(session: &Session) -> String {
    let verdicts: Vec<&Verdict> = session.verdicts().iter().collect();
    let all = count(&verdicts, true, None);
    let failed = count(&verdicts, true, Some(Outcome::Failed));
    match (all, failed, session.failures().len()) {
        (_, 0, stopped) if stopped > 0 => {
            format!("Not everything was measured: {stopped} of the experiments stopped early.")
        }
        (0, ..) => "Nothing was counted that must hold.".to_owned(),
        (1, 0, _) => {
            "The mechanisms do what they should: the one count that must hold does.".to_owned()
        }
        (_, 0, _) => format!("The mechanisms do what they should: all {all} counts hold."),
        _ => format!("{failed} of {all} counts do not hold."),
    }
}

/// What times say.
fn proof(environment: &Environment, session: &Session) -> String {
    let verdicts: Vec<&Verdict> = session.verdicts().iter().collect();
    let all = count(&verdicts, false, None);
    let open = count(&verdicts, false, Some(Outcome::NotProven));
    if all == 0 {
        return "No limit of time was looked at.".to_owned();
    }
    let mut text = match open {
        0 => format!("All {all} limits of time hold, too."),
        _ => format!(
            "Of {all} limits of time {} hold and {open} {} not proven: a busy machine breaks such \
             a limit, so it decides nothing.",
            all - open,
            if open == 1 { "is" } else { "are" },
        ),
    };
    let processes = environment.load_average;
    let processors = environment.processors as f64;
    if open > 0 && processes > processors {
        text += &format!(
            " This one was: {processes:.0} processes wanted to run on {processors} processors when \
             it began."
        );
    }
    text
}

/// The pictures of an experiment, those beside the report's figures first.
fn pictures<'a>(session: &'a Session, experiment: &str) -> Vec<&'a Picture> {
    let pictures = session.pictures().iter();
    let mut own: Vec<&Picture> = pictures
        .filter(|one| one.experiment == experiment)
        .collect();
    own.sort_by_key(|picture| {
        let mut columns = picture.panels.iter().flat_map(|panel| &panel.columns);
        let is_reported = columns.any(|(role, _)| *role == Role::ReportBaseline);
        !(is_reported && picture.better.is_some())
    });
    own
}

/// The experiments, each with the first of its cases and its verdicts.
fn tiles(session: &Session, experiments: &[&str]) -> String {
    let mut text = "<nav aria-label=\"Experiments\"><ul class=\"tiles\">\n".to_owned();
    for experiment in experiments {
        let (word, class) = state(session, experiment);
        let pictures = pictures(session, experiment);
        let first = pictures.iter().find(|one| one.better.is_some());
        let first = first.copied();
        let headline = first.and_then(headline).map(|(factor, what)| {
            format!(
                "<strong>{}</strong><span>{}</span>",
                escape(&factor),
                escape(&what)
            )
        });
        let name = escape(experiment);
        text += &format!(
            "<li class=\"card\"><a href=\"#{name}\">{name}</a>{}<span class=\"{class}\">{}</span>\
             </li>\n",
            headline.unwrap_or_default(),
            escape(&word)
        );
    }
    text + "</ul></nav>\n"
}

/// Of the first case: how many times better, and what was compared.
fn headline(picture: &Picture) -> Option<(String, String)> {
    let panel = picture.panels.first()?;
    let line = panel.lines.first()?;
    let place = |role| panel.columns.iter().position(|(other, _)| *other == role);
    let factor =
        |before, after| figure::factor(line, place(before)?, place(after)?, picture.better?);
    // From or to nothing there is no factor.
    let numbers = || {
        let value = |role| line.values.get(place(role)?).copied().flatten();
        let (before, after) = value(Role::Baseline).zip(value(Role::Enhanced))?;
        Some(format!("{} → {}", plain(before), plain(after)))
    };
    let here = factor(Role::Baseline, Role::Enhanced).or_else(numbers)?;
    let report = factor(Role::ReportBaseline, Role::ReportEnhanced);
    let report = report.map_or(String::new(), |report| format!("; the report: {report}"));
    Some((
        here,
        format!("{}, {}{report}", line.place, picture.value.label),
    ))
}

fn verdicts_of<'a>(session: &'a Session, experiment: &str) -> Vec<&'a Verdict> {
    let verdicts = session.verdicts().iter();
    verdicts
        .filter(|one| one.experiment == experiment)
        .collect()
}

/// The verdicts of an experiment in few words, and their class.
fn state(session: &Session, experiment: &str) -> (String, &'static str) {
    let own = verdicts_of(session, experiment);
    let failed = count(&own, true, Some(Outcome::Failed));
    let open = count(&own, false, Some(Outcome::NotProven));
    let counts = count(&own, true, None);
    let mut word = match failed {
        0 if counts == 1 => "✔ 1 count holds".to_owned(),
        0 => format!("✔ {counts} counts hold"),
        _ => format!("✘ {failed} of {counts} counts do not hold"),
    };
    if open > 0 {
        let limits = if open == 1 { "limit" } else { "limits" };
        word += &format!(", {open} {limits} of time not proven");
    }
    (word, if failed == 0 { "good" } else { "bad" })
}

fn section(session: &Session, experiment: &str) -> String {
    let name = escape(experiment);
    let about = Experiment::named(experiment).map_or("", Experiment::about);
    let mut text = format!(
        "<section aria-labelledby=\"{name}\">\n<h2 id=\"{name}\">{name}</h2>\n<p>{}</p>\n\
         <div class=\"figures\">\n",
        escape(about)
    );
    for (number, picture) in (1..).zip(pictures(session, experiment)) {
        text += &figure::figure(picture, &format!("{name}-{number}"));
    }
    text += "</div>\n";
    text += &verdicts(session, experiment);
    text += &format!(
        "<details class=\"card\"><summary>All numbers<span class=\"unseen\"> of {name}</span>\
         </summary>\n"
    );
    let notes = session.notes().filter(|(other, _)| *other == experiment);
    let notes: Vec<String> = notes.map(|(_, note)| escape(note)).collect();
    if !notes.is_empty() {
        text += &format!(
            "<pre tabindex=\"0\" role=\"region\" aria-label=\"Notes of {name}\">{}</pre>\n",
            notes.join("\n")
        );
    }
    text += &cells(&table(session.rows(), experiment), &name);
    text + "</details>\n</section>\n"
}

/// The requirements, unmet ones first.
fn verdicts(session: &Session, experiment: &str) -> String {
    let mut own = verdicts_of(session, experiment);
    own.sort_by_key(|verdict| verdict.outcome());
    if own.is_empty() {
        return String::new();
    }
    let is_open = if own[0].outcome() == Outcome::Failed {
        " open"
    } else {
        ""
    };
    let (word, class) = state(session, experiment);
    let mut text = format!(
        "<details class=\"card\"{is_open}><summary>What must hold<span class=\"unseen\"> of {}\
         </span>: <span class=\"{class}\">{}</span></summary>\n<ul class=\"verdicts\">\n",
        escape(experiment),
        escape(&word)
    );
    for verdict in own {
        let (class, word) = match verdict.outcome() {
            Outcome::Passed => ("good", "✔ holds"),
            Outcome::NotProven => ("open", "? not proven"),
            Outcome::Failed => ("bad", "✘ does not hold"),
        };
        text += &format!(
            "<li><span class=\"{class}\">{word}:</span> {}</li>\n",
            escape(&verdict.what)
        );
    }
    text + "</ul></details>\n"
}

fn cells(table: &Table, name: &str) -> String {
    let titles = table.columns().iter();
    let titles = titles.map(|column| format!("<th scope=\"col\">{}</th>", escape(&column.title)));
    let titles: String = titles.collect();
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All numbers of {name}\">\
         <table><thead><tr>{titles}</tr></thead>\n<tbody>"
    );
    for row in &table.rows {
        // Optional end tags are left out.
        text += "<tr>";
        for (cell, column) in row.iter().zip(table.columns()) {
            let class = if column.is_number {
                ""
            } else {
                " class=\"text\""
            };
            text += &format!("<td{class}>{}", escape(cell));
        }
        text += "\n";
    }
    text + "</tbody></table></div>\n"
}

#[cfg(test)]
mod tests;
