//! A run for people: baseline and enhanced side by side, with their ratio.

use std::ops::Range;

use pagewell_load::measure::{Better, Figure, Mode, Row, difference};
use pagewell_load::report::{Outcome, Table, rate};

use super::session::Session;

const COLUMNS: &str = "\
    case | phase | variant | unit | baseline | enhanced | better by | 95 % interval | \
    reference, other hardware";
/// Those with numbers.
const NUMBERS: Range<usize> = 4..8;

/// Notes, table, verdicts and failures of a run.
pub fn text(session: &Session) -> String {
    let mut text = String::new();
    for experiment in session.experiments() {
        text += &format!("{experiment}\n\n");
        for (_, note) in session.notes().filter(|(name, _)| *name == experiment) {
            text += &format!("{note}\n");
        }
        if session
            .rows()
            .iter()
            .any(|row| row.experiment == experiment)
        {
            text += &format!("\n{}\n", table(session.rows(), experiment).text());
        }
        let verdicts = session.verdicts().iter();
        for verdict in verdicts.filter(|verdict| verdict.experiment == experiment) {
            text += &verdict.line();
        }
        text.push('\n');
    }
    for failure in session.failures() {
        text += &format!("STOPPED {failure}\n");
    }
    text + &summary(session) + "\n"
}

/// One line: how many requirements are met, and which are not.
pub(super) fn summary(session: &Session) -> String {
    let verdicts = session.verdicts();
    let passed = verdicts.iter().filter(|verdict| verdict.pass).count();
    let mut text = format!("{passed} of {} passed", verdicts.len());
    for (outcome, word) in [
        (Outcome::Failed, "failed"),
        (Outcome::NotProven, "not proven"),
    ] {
        let of = || {
            verdicts
                .iter()
                .filter(|verdict| verdict.outcome() == outcome)
        };
        let mut experiments: Vec<&str> = of().map(|verdict| verdict.experiment).collect();
        experiments.dedup();
        let each = experiments.iter().map(|name| {
            let count = of().filter(|verdict| verdict.experiment == *name).count();
            format!("{count} of {name}")
        });
        let each: Vec<String> = each.collect();
        if !each.is_empty() {
            text += &format!(", {word}: {}", each.join(", "));
        }
    }
    if !session.failures().is_empty() {
        text += &format!(", {} stopped early", session.failures().len());
    }
    text
}

/// The table of one experiment, without empty columns.
pub(super) fn table(rows: &[Row], experiment: &str) -> Table {
    Table::new(COLUMNS.split(" | "), NUMBERS, lines(rows, experiment)).without_empty_columns()
}

/// The lines of one experiment: each row that is no baseline, with its baseline; and baselines
/// without a comparison.
fn lines(rows: &[Row], experiment: &str) -> Vec<Vec<String>> {
    let of = || rows.iter().filter(|row| row.experiment == experiment);
    let same = |one: &Row, other: &Row| one.case == other.case && one.phase == other.phase;
    let mut lines = Vec::new();
    for row in of() {
        if row.mode == Some(Mode::Enhanced) {
            let baseline = of()
                .filter(|other| other.mode == Some(Mode::Baseline) && same(row, other))
                .find(|other| other.variant.is_none() || other.variant == row.variant);
            lines.push(line(baseline, Some(row)));
        } else if !of().any(|other| other.mode == Some(Mode::Enhanced) && same(row, other)) {
            lines.push(line(Some(row), None));
        }
    }
    lines
}

fn line(baseline: Option<&Row>, enhanced: Option<&Row>) -> Vec<String> {
    let row = enhanced.or(baseline);
    let shown = |row: Option<&Row>| row.map(Row::shown);
    let (before, after) = (shown(baseline), shown(enhanced));
    let (better, interval) = compared(before.as_ref(), after.as_ref());
    let mean = |figure: &Option<Figure>| {
        let found = figure.as_ref().and_then(Figure::interval);
        found.map_or_else(String::new, |found| rate(found.mean))
    };
    let variant = row.and_then(|row| row.variant.clone());
    vec![
        row.map_or_else(String::new, |row| row.case.clone()),
        row.map_or("", |row| row.phase.name()).to_owned(),
        variant.unwrap_or_default(),
        after
            .as_ref()
            .or(before.as_ref())
            .map_or("", |figure| figure.unit)
            .to_owned(),
        mean(&before),
        mean(&after),
        better,
        interval,
        references(baseline, enhanced),
    ]
}

/// How many times better the second is, with its interval.
fn compared(before: Option<&Figure>, after: Option<&Figure>) -> (String, String) {
    let (Some(before), Some(after)) = (before, after) else {
        return Default::default();
    };
    let found = match after.better {
        Better::Higher => difference(&before.each, &after.each),
        Better::Lower => difference(&after.each, &before.each),
    };
    let Some(found) = found else {
        return Default::default();
    };
    let range = found.range.map_or_else(
        || "one run".to_owned(),
        |(low, high)| format!("{low:.3} to {high:.3}"),
    );
    (format!("{:.3} x", found.ratio), range)
}

fn references(baseline: Option<&Row>, enhanced: Option<&Row>) -> String {
    let number = |row: Option<&Row>| {
        let found = row.and_then(|row| row.reference.as_ref());
        found.map(|found| (rate(found.value), found.unit))
    };
    match (number(baseline), number(enhanced)) {
        (Some((before, _)), Some((after, unit))) => format!("{before} -> {after} {unit}"),
        (Some((value, unit)), None) | (None, Some((value, unit))) => format!("{value} {unit}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Options, Phase, Reference};

    fn row(mode: Mode, seconds: &[f64], reference: f64) -> Row {
        let mut row = Row::new("dd", mode, Phase::Cold);
        row.seconds = seconds.to_vec();
        row.reference = Some(Reference {
            value: reference,
            unit: "s",
        });
        row
    }

    #[test]
    fn modes_stand_side_by_side() {
        let rows = [
            row(Mode::Baseline, &[100.0, 101.0, 99.0], 365.0),
            row(Mode::Enhanced, &[50.0, 50.5, 49.5], 190.0),
        ];
        let lines = lines(&rows, "");
        assert_eq!(lines.len(), 1);
        let cells = &lines[0];
        assert_eq!(
            cells[..7],
            ["dd", "cold", "", "s", "100", "50.0", "2.000 x"]
        );
        assert!(
            cells[7].starts_with("1.9") && cells[7].contains(" to 2.0"),
            "{}",
            cells[7]
        );
        assert_eq!(cells[8], "365 -> 190 s");
    }

    #[test]
    fn an_experiment_that_ends_before_its_first_row_keeps_its_notes() {
        let mut session = Session::new(Options::default());
        for name in ["first", "second", "third"] {
            session.begin(name);
            if name != "second" {
                session.push(row(Mode::Baseline, &[1.0], 1.0));
            }
            session.note(format!("a note of the {name}"));
        }
        session.begin("none");
        assert_eq!(session.experiments(), ["first", "second", "third"]);
        let text = text(&session);
        let places = ["first", "second", "third"].map(|it| text.find(&format!("of the {it}")));
        assert!(places.is_sorted() && places[0].is_some(), "{text}");
    }

    #[test]
    fn a_baseline_alone_has_its_line_and_one_run_no_interval() {
        let alone = lines(&[row(Mode::Baseline, &[2.0], 1.0)], "");
        assert_eq!(alone[0][4..6], ["2.00".to_owned(), String::new()]);
        let pair = [
            row(Mode::Baseline, &[2.0], 1.0),
            row(Mode::Enhanced, &[1.0], 1.0),
        ];
        assert_eq!(lines(&pair, "")[0][7], "one run");
        assert!(lines(&pair, "other").is_empty());
    }

    #[test]
    fn a_higher_rate_is_better() {
        let mut rows = [
            row(Mode::Baseline, &[1.0], 1.0),
            row(Mode::Enhanced, &[1.0], 1.0),
        ];
        rows[0].figure = Some(Figure::rate("MB/s", vec![2.0]));
        rows[1].figure = Some(Figure::rate("MB/s", vec![6.0]));
        assert_eq!(lines(&rows, "")[0][6], "3.000 x");
    }

    #[test]
    fn empty_columns_are_left_out_and_the_rest_is_aligned() {
        let text = table(&[row(Mode::Baseline, &[2.0], 1.0)], "").text();
        assert!(
            !text.contains("variant") && !text.contains("enhanced"),
            "{text}"
        );
        assert!(text.lines().all(|line| !line.ends_with(' ')));
    }

    #[test]
    fn the_text_has_everything() {
        let mut session = Session::new(Options::default());
        session.begin("hsfs");
        session.note("speed 10");
        session.push(row(Mode::Baseline, &[2.0], 1.0));
        session.verdict(false, "as fast");
        session.exact(false, "as few");
        session.verdict(true, "as small");
        let text = text(&session);
        assert!(
            text.ends_with("\n1 of 3 passed, failed: 1 of hsfs, not proven: 1 of hsfs\n"),
            "{text}"
        );
        for part in [
            "hsfs\n",
            "speed 10\n",
            "dd ",
            "NOT PROVEN as fast\nFAIL as few\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
