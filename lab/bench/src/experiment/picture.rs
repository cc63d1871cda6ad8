//! Pictures of a report: numbers with their meaning, without the drawing.
//!
//! A page draws each picture from the picture's own table of numbers, so the two cannot differ.

use pagewell_layers::SizeHistogram;
use pagewell_load::measure::{Better, Latency, Mode, Row, Timeline, number};
use pagewell_load::named;
use pagewell_load::report::bytes;

/// Bytes of one step of a [`SizeHistogram`].
const SIZE_STEP: u64 = 2048;
/// Parts of all operations in a distribution, in percent.
const PERCENTS: [f64; 11] = [
    10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99,
];

named! {
    /// What some numbers are of.
    pub enum Role {
        /// What was measured here without the mechanism.
        Baseline = "baseline",
        /// What was measured here with it.
        Enhanced = "enhanced",
        /// The report's number without it, of other hardware.
        ReportBaseline = "report-baseline",
        /// The report's number with it.
        ReportEnhanced = "report-enhanced",
    }
}

impl Role {
    /// Its title for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Enhanced => "enhanced",
            Self::ReportBaseline => "the report, before",
            Self::ReportEnhanced => "the report, after",
        }
    }
}

/// What was recorded, its role, and its name.
type Named<'a, T> = (Role, &'a str, &'a T);

/// The columns of recorded things.
fn columns<T>(counted: &[Named<'_, T>]) -> Vec<(Role, String)> {
    let named = counted.iter();
    named
        .map(|(role, name, _)| (*role, (*name).to_owned()))
        .collect()
}

/// A name, and a number for each role, in the order of [`Role::ALL`].
type Case = (String, [Option<f64>; 4]);

/// How numbers are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Cases below each other; the numbers go from left to right.
    Cases,
    /// A mark for each number.
    Points,
    /// A line through the numbers of each column.
    Lines,
    /// Lines over parts of a whole, with smaller steps near all of it.
    Quantiles,
}

/// The meaning of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it is, with its unit.
    pub label: String,
    /// Whether each step is ten times the one before.
    pub logarithmic: bool,
}

/// Some numbers of one case or one place on the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// A name, or a number as shown.
    pub place: String,
    /// One for each column.
    pub values: Vec<Option<f64>>,
}

/// A part of a picture with a table of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its columns: whose numbers, and their title.
    pub columns: Vec<(Role, String)>,
    /// Its numbers.
    pub lines: Vec<Line>,
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Set by the session.
    pub experiment: &'static str,
    /// How it is drawn.
    pub kind: Kind,
    /// What one sees.
    pub title: String,
    /// How to read it.
    pub text: String,
    /// The axis along the picture.
    pub place: Axis,
    /// The meaning of the numbers.
    pub value: Axis,
    /// Which numbers are better, if either.
    pub better: Option<Better>,
    /// Its parts, which share their axes.
    pub panels: Vec<Panel>,
}

impl Axis {
    /// Equal steps.
    pub fn linear(label: &str) -> Self {
        let (label, logarithmic) = (label.to_owned(), false);
        Self { label, logarithmic }
    }

    /// Steps of ten times.
    pub fn logarithmic(label: &str) -> Self {
        let (label, logarithmic) = (label.to_owned(), true);
        Self { label, logarithmic }
    }
}

impl Picture {
    /// A picture without numbers.
    fn new(kind: Kind, title: &str, text: &str, [place, value]: [Axis; 2]) -> Self {
        Self {
            experiment: "",
            kind,
            title: title.to_owned(),
            text: text.to_owned(),
            place,
            value,
            better: None,
            panels: Vec::new(),
        }
    }

    /// Cases with a number for each role, in the order of [`Role::ALL`].
    pub fn cases(
        title: &str,
        text: &str,
        (value, better): (Axis, Better),
        cases: Vec<Case>,
    ) -> Self {
        let mut picture = Self::new(Kind::Cases, title, text, [Axis::linear("case"), value]);
        picture.better = Some(better);
        let used = |column: usize| cases.iter().any(|(_, values)| values[column].is_some());
        let used: Vec<usize> = (0..Role::ALL.len())
            .filter(|column| used(*column))
            .collect();
        let title = |column: &usize| (Role::ALL[*column], Role::ALL[*column].title().to_owned());
        picture.panels.push(Panel {
            columns: used.iter().map(title).collect(),
            lines: cases
                .into_iter()
                .map(|(place, values)| Line {
                    place,
                    values: used.iter().map(|column| values[*column]).collect(),
                })
                .collect(),
        });
        picture
    }

    /// The sizes of requests, in percent of all.
    pub fn sizes(title: &str, text: &str, counted: &[(Role, &str, SizeHistogram)]) -> Self {
        let axes = [Axis::linear("size"), Axis::linear("% of the requests")];
        let mut picture = Self::new(Kind::Cases, title, text, axes);
        let steps = counted.iter().map(|(_, _, sizes)| sizes.counts.len()).max();
        // From each power of two to the next; the last also has all longer ones.
        let mut lines = Vec::new();
        let mut low = 0;
        while low < steps.unwrap_or(0) as u64 * SIZE_STEP {
            let high = (low * 2).max(SIZE_STEP);
            let count = |sizes: &SizeHistogram| sizes.between(low, high);
            if counted.iter().any(|(_, _, sizes)| count(sizes) > 0) {
                let part = |(_, _, sizes): &(Role, &str, SizeHistogram)| {
                    Some(100.0 * number(count(sizes)) / number(sizes.total().max(1)))
                };
                lines.push(Line {
                    place: match low {
                        0 => format!("below {}", bytes(high)),
                        _ => format!("{} to {}", bytes(low), bytes(high)),
                    },
                    values: counted.iter().map(part).collect(),
                });
            }
            low = high;
        }
        let columns = counted.iter().map(|(role, name, sizes)| {
            let requests = if sizes.total() == 1 {
                "request"
            } else {
                "requests"
            };
            (
                *role,
                format!("{name}, {} {requests}", plain(number(sizes.total()))),
            )
        });
        let columns = columns.collect();
        picture.panels.push(Panel { columns, lines });
        picture
    }

    /// Places of the first requests, in their order.
    pub fn order(title: &str, text: &str, counted: &[Named<'_, [(u64, usize)]>]) -> Self {
        let all = counted.iter().flat_map(|(_, _, places)| *places);
        let furthest = all.map(|(offset, _)| *offset).max().unwrap_or(0);
        let (unit, name) = match furthest {
            0..=0x3f_ffff => (1 << 10, "KiB from the start"),
            _ => (1 << 20, "MiB from the start"),
        };
        let axes = [Axis::linear("request"), Axis::linear(name)];
        let mut picture = Self::new(Kind::Points, title, text, axes);
        for (role, name, places) in counted {
            let lines = (1_u32..).zip(*places).map(|(request, (offset, _))| Line {
                place: request.to_string(),
                values: vec![Some(number(*offset) / f64::from(unit))],
            });
            picture.panels.push(Panel {
                columns: vec![(*role, (*name).to_owned())],
                lines: lines.collect(),
            });
        }
        picture
    }

    /// Latencies of operations; times are multiplied by `factor`.
    pub fn latencies(title: &str, text: &str, factor: f64, counted: &[Named<'_, Latency>]) -> Self {
        let axes = [
            Axis::linear("part of the operations"),
            Axis::logarithmic("ms at most"),
        ];
        let mut picture = Self::new(Kind::Quantiles, title, text, axes);
        let line = |place: String, part: f64| Line {
            place,
            values: counted
                .iter()
                .map(|(_, _, latency)| {
                    let time = latency.quantile(part)?.as_secs_f64();
                    (time > 0.0).then_some(time * 1e3 * factor)
                })
                .collect(),
        };
        let percents = PERCENTS.iter();
        let mut lines: Vec<Line> = percents
            .map(|percent| line(format!("{percent} %"), percent / 100.0))
            .collect();
        lines.push(line("longest".to_owned(), 1.0));
        lines.retain(|line| line.values.iter().any(Option::is_some));
        let columns = columns(counted);
        picture.panels.push(Panel { columns, lines });
        picture
    }

    /// The amount in each second; seconds are multiplied by `factor`, amounts divided by `unit`.
    pub fn timeline(
        (title, text): (&str, &str),
        axes: [&str; 2],
        (factor, unit): (f64, f64),
        [before, after]: [Named<'_, Timeline>; 2],
    ) -> Self {
        let axes = axes.map(Axis::linear);
        let mut picture = Self::new(Kind::Lines, title, text, axes);
        let (mut one, mut other) = (before.2.clone(), after.2.clone());
        one.make_equal(&mut other);
        let seconds = one.interval().as_secs_f64() * factor;
        // The last interval is not whole.
        let whole = |line: &Timeline| match line.amounts() {
            [all @ .., _] if !all.is_empty() => all.to_vec(),
            all => all.to_vec(),
        };
        let (one, other) = (whole(&one), whole(&other));
        let count = one.len().max(other.len());
        let rate = |amounts: &[u64], place: usize| {
            amounts
                .get(place)
                .map(|amount| number(*amount) / unit / seconds)
        };
        let lines = (0..count).map(|place| Line {
            place: plain(number(place) * seconds),
            values: vec![rate(&one, place), rate(&other, place)],
        });
        picture.panels.push(Panel {
            columns: columns(&[before, after]),
            lines: lines.collect(),
        });
        picture
    }
}

/// The usual names of before and after.
pub(super) const BOTH: [&str; 2] = ["baseline", "enhanced"];

/// What was recorded before and after, by these names.
pub(super) fn sides<T>(names: [&str; 2], [before, after]: [T; 2]) -> [(Role, &str, T); 2] {
    let [first, second] = names;
    [
        (Role::Baseline, first, before),
        (Role::Enhanced, second, after),
    ]
}

/// For [`Picture::cases`]: the rows that `wanted` names, baseline and enhanced side by side with
/// the report's numbers.
pub(super) fn compared(rows: &[&Row], wanted: impl Fn(&Row) -> Option<String>) -> Vec<Case> {
    let mut cases = Vec::new();
    for row in rows {
        let Some(name) = wanted(row) else { continue };
        let enhanced = usize::from(row.mode == Some(Mode::Enhanced));
        let values = values_of(&mut cases, name);
        values[enhanced] = row.mean();
        values[2 + enhanced] = row.reference.as_ref().map(|found| found.value);
    }
    cases
}

/// The numbers of the case of this name, which is made if missing.
pub(super) fn values_of(cases: &mut Vec<Case>, name: String) -> &mut [Option<f64>; 4] {
    let place = cases.iter().position(|(case, _)| *case == name);
    let place = place.unwrap_or(cases.len());
    if place == cases.len() {
        cases.push((name, [None; 4]));
    }
    &mut cases[place].1
}

/// A number with four digits, and commas between thousands.
pub(super) fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    if value.abs() >= 1000.0 {
        return pagewell_load::report::rate(value);
    }
    // 0 to 12.
    let decimals = (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Phase, Reference};
    use std::time::Duration;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.000_123_45, "0.0001234"),
            (12.3456, "12.35"),
            (100.0, "100"),
            (999.96, "1000"),
            (12_345.6, "12,346"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(plain(value), text);
        }
    }

    #[test]
    fn rows_of_a_case_stand_side_by_side_with_the_report() {
        let mut rows = Vec::new();
        for (mode, seconds) in [(Mode::Baseline, 4.0), (Mode::Enhanced, 1.0)] {
            let mut row = Row::new("dd", mode, Phase::Cold);
            row.seconds = vec![seconds];
            row.reference = (mode == Mode::Enhanced).then_some(Reference {
                value: 9.0,
                unit: "s",
            });
            rows.push(row);
        }
        let rows: Vec<&Row> = rows.iter().collect();
        let cases = compared(&rows, |row| Some(row.case.clone()));
        let expected = [Some(4.0), Some(1.0), None, Some(9.0)];
        assert_eq!(cases, [("dd".to_owned(), expected)]);
        let axis = (Axis::logarithmic("s"), Better::Lower);
        let picture = Picture::cases("t", "", axis, cases);
        let roles: Vec<Role> = picture.panels[0]
            .columns
            .iter()
            .map(|(role, _)| *role)
            .collect();
        assert_eq!(
            roles,
            [Role::Baseline, Role::Enhanced, Role::ReportEnhanced]
        );
        assert!(compared(&rows, |_| None).is_empty());
    }

    #[test]
    fn sizes_are_parts_of_all_by_powers_of_two() {
        let mut counts = vec![0; 40];
        (counts[1], counts[8], counts[15]) = (2, 5, 3);
        let sizes = SizeHistogram { counts };
        let picture = Picture::sizes("t", "", &[(Role::Baseline, "dd", sizes)]);
        let panel = &picture.panels[0];
        assert_eq!(panel.columns[0].1, "dd, 10 requests");
        let lines = panel
            .lines
            .iter()
            .map(|line| (line.place.as_str(), line.values[0]));
        let lines: Vec<_> = lines.collect();
        assert_eq!(
            lines,
            [
                ("2 KiB to 4 KiB", Some(20.0)),
                ("16 KiB to 32 KiB", Some(80.0))
            ]
        );
    }

    #[test]
    fn a_distribution_says_nothing_of_parts_that_it_has_not() {
        let mut latency = Latency::default();
        (1..=20).for_each(|milli| latency.record(Duration::from_millis(milli)));
        let picture = Picture::latencies("t", "", 2.0, &[(Role::Enhanced, "read", &latency)]);
        let places = picture.panels[0]
            .lines
            .iter()
            .map(|line| line.place.as_str());
        let places: Vec<_> = places.collect();
        assert_eq!(
            places,
            ["10 %", "25 %", "50 %", "75 %", "90 %", "95 %", "longest"]
        );
        let longest = picture.panels[0].lines[6].values[0].unwrap();
        assert!((longest - 40.0).abs() < 1e-9, "{longest}");
    }

    #[test]
    fn a_timeline_has_rates_and_no_broken_interval() {
        let (mut one, mut other) = (Timeline::default(), Timeline::default());
        for milli in 0..100 {
            one.record(Duration::from_millis(milli), 1 << 20);
            if milli < 50 {
                other.record(Duration::from_millis(milli), 2 << 20);
            }
        }
        let lines = [(Role::Baseline, "a", &one), (Role::Enhanced, "b", &other)];
        let axes = ["s", "MiB/s"];
        let picture = Picture::timeline(("t", ""), axes, (10.0, 1_048_576.0), lines);
        let lines = &picture.panels[0].lines;
        assert_eq!(lines[0].values, [Some(100.0), Some(200.0)]);
        assert_eq!(lines.last().unwrap().values[1], None, "it ended earlier");
        assert!(lines.iter().all(|line| line.values[0] == Some(100.0)));
    }
}
