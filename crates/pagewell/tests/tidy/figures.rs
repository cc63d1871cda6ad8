//! The tables of the README are made from what docs/results records.
//!
//! A comment of the README says what a table is made of, and the table follows it:
//!
//! ```text
//!   <!-- measured: serve.md                      the file of docs/results
//!   | one | Pagewell | peer |                    the titles
//!   | {} | {pagewell, rate} {unit} | {peer} |    what stands in each row
//!   read 128 KiB, depth 16 => reads              a case, and its name in the README
//!   getattr, depth 32
//!   -->
//!   (the table)
//!   <!-- measured end -->
//! ```
//!
//! `{unit}` is the cell below `unit` in the first row of the case, `{pagewell, rate}` the cell
//! below `rate` in the row of the case whose second cell is `pagewell`, `{}` the name. A case that
//! ends in `*` is any that begins so. A sentence below the table says how much of what is required
//! is not met.

use std::fmt::Write as _;
use std::fs;

use crate::repository::repository;

const BEGIN: &str = "<!-- measured: ";
const END: &str = "<!-- measured end -->";
/// When it is set, the README is written instead of compared.
const WRITE: &str = "PAGEWELL_WRITE_README";

fn cells(row: &str) -> Vec<&str> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').unwrap_or(row);
    row.split('|').map(str::trim).collect()
}

/// The tables of a recorded file, each with its titles first.
fn tables(recorded: &str) -> Vec<Vec<Vec<&str>>> {
    let mut tables = vec![Vec::new()];
    for line in recorded.lines() {
        if line.starts_with('|') {
            tables.last_mut().expect("a table").push(cells(line));
        } else if tables.last().is_some_and(|table| !table.is_empty()) {
            tables.push(Vec::new());
        }
    }
    tables
}

/// What a reference of a template stands for; panics when the file does not have it.
fn cell<'a>(tables: &[Vec<Vec<&'a str>>], case: &str, reference: &str) -> &'a str {
    let (server, column) = match reference.split_once(", ") {
        Some((server, column)) => (Some(server), column),
        None => (None, reference),
    };
    let found = tables.iter().find_map(|table| {
        let index = table.first()?.iter().position(|title| *title == column)?;
        let of = |row: &&Vec<&str>| {
            let is_meant = row
                .first()
                .is_some_and(|cell| match case.strip_suffix('*') {
                    Some(begin) => cell.starts_with(begin),
                    None => *cell == case,
                });
            is_meant && server.is_none_or(|server| row.get(1).is_some_and(|cell| *cell == server))
        };
        table.iter().find(of)?.get(index).copied()
    });
    found.unwrap_or_else(|| panic!("no {{{reference}}} of '{case}' is recorded"))
}

/// A row of the README.
fn row(tables: &[Vec<Vec<&str>>], template: &str, line: &str) -> String {
    let (case, name) = line.split_once(" => ").unwrap_or((line, line));
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (reference, rest) = part.split_once('}').expect("a closed reference");
        text += match reference {
            "" => name,
            _ => cell(tables, case, reference),
        };
        text += rest;
    }
    text
}

/// How much of what is required is not met.
fn required(file: &str, recorded: &str) -> String {
    let said = recorded
        .lines()
        .find_map(|line| line.strip_prefix("Of what is required")?.strip_suffix(':'));
    let rows = recorded.lines().filter(|line| line.starts_with('|'));
    let missed = rows.filter(|row| {
        let mut cells = cells(row).into_iter();
        cells.any(|cell| cell == "FAIL" || cell.ends_with("not met"))
    });
    let said = said.map_or_else(
        || match missed.count() {
            1 => ", 1 is not met".to_owned(),
            count => format!(", {count} are not met"),
        },
        str::to_owned,
    );
    format!("Of what is required{said}: [all rows](docs/results/{file}).\n")
}

/// What follows a comment whose inside is `template`.
fn part(template: &str, read: &impl Fn(&str) -> String) -> String {
    let mut lines = template.lines();
    let mut next = || lines.next().expect("a file, titles and a row");
    let (file, titles, pattern) = (next(), next(), next());
    let recorded = read(file);
    let tables = tables(&recorded);
    let sides = "|---".repeat(cells(titles).len());
    let mut text = format!("\n{titles}\n{sides}|\n");
    for line in lines {
        let _ = writeln!(text, "{}", row(&tables, pattern, line));
    }
    let _ = write!(text, "\n{}", required(file, &recorded));
    text
}

/// The README with all of its tables made anew.
fn rendered(readme: &str, read: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut rest = readme;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (template, after) = after.split_once("\n-->\n").expect("the end of a comment");
        let (_, after) = after.split_once(END).expect("the end of a table");
        let made = part(template, &read);
        let _ = write!(text, "{before}{BEGIN}{template}\n-->\n{made}\n{END}");
        rest = after;
    }
    text + rest
}

#[test]
fn the_readme_shows_what_was_recorded() {
    let path = repository().join("README.md");
    let readme = fs::read_to_string(&path).expect("README.md");
    let expected = rendered(&readme, |file| {
        fs::read_to_string(repository().join("docs/results").join(file)).expect("a result")
    });
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &expected).expect("README.md can be written");
        return;
    }
    let (_, measured) = readme.split_once("## Measured").expect("a section");
    let (measured, _) = measured.split_once("\n## ").expect("another section");
    assert!(measured.matches(BEGIN).count() >= 3, "tables are missing");
    // Outside the comments and what follows them there is no table.
    for written in measured.split(END) {
        let written = written.split(BEGIN).next().unwrap_or_default();
        assert!(!written.contains("\n|"), "a table is written by hand");
    }
    assert!(
        readme == expected,
        "README.md is not what was recorded (`make readme` writes it):\n{expected}"
    );
}

#[test]
fn a_table_is_made_from_its_comment() {
    let recorded = "| case | server | rate | unit |\n| --- | --- | ---: | --- |\n\
                    | read, deep | own | 3,000 | MB/s |\n| read, deep | peer | 2 | MB/s |\n\n\
                    Of what is required of own, 1 are met and 2 are not:\n";
    let comment = "<!-- measured: some.md\n| one | own | peer |\n\
                   | {} | {own, rate} {unit} | {peer, rate} |\nread, deep => reads\n-->\n";
    let readme = format!("before\n{comment}old\n{END}\nafter\n");
    let expected = format!(
        "before\n{comment}\n| one | own | peer |\n|---|---|---|\n| reads | 3,000 MB/s | 2 |\n\n\
         Of what is required of own, 1 are met and 2 are not: \
         [all rows](docs/results/some.md).\n\n{END}\nafter\n"
    );
    assert_eq!(rendered(&readme, |_| recorded.to_owned()), expected);
    assert_eq!(rendered(&expected, |_| recorded.to_owned()), expected);
    let failing = "| a | FAIL |\n| b | 2, not met |\n| c | PASS |\n";
    assert!(required("f", failing).starts_with("Of what is required, 2 are not met: "));
}
