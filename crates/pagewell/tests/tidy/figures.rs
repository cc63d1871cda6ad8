//! The figures of the README are those that docs/results records.

use std::fs;
use std::path::PathBuf;

use crate::report;
use crate::repository::repository;

/// The numbers of a text, each with how much its last digit is worth.
fn numbers(text: &str) -> Vec<(f64, f64)> {
    let is_part = |character: char| character.is_ascii_digit() || ",.".contains(character);
    let parts = text.split(|character| !is_part(character));
    let read = |part: &str| -> Option<(f64, f64)> {
        let digits = part.trim_matches([',', '.']).replace(',', "");
        let decimals = digits.split_once('.').map_or(0, |(_, rest)| rest.len());
        let unit = 10f64.powi(-i32::try_from(decimals).ok()?);
        Some((digits.parse().ok()?, unit))
    };
    parts.filter_map(read).collect()
}

/// Cells of the tables of a text but the first of each row, which says what was measured.
fn cells(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| row.trim_matches('|').split('|').skip(1))
        .collect()
}

#[test]
fn the_readme_shows_what_was_recorded() {
    let read = |path: PathBuf| fs::read_to_string(path).expect("a document");
    let readme = read(repository().join("README.md"));
    let results = fs::read_dir(repository().join("docs/results")).expect("the results");
    let recorded: String = results
        .map(|entry| read(entry.expect("a result").path()))
        .collect();
    let (_, measured) = readme.split_once("## Measured").expect("a section");
    let (measured, _) = measured.split_once("\n## ").expect("another section");
    let recorded: Vec<f64> = cells(&recorded)
        .iter()
        .flat_map(|cell| numbers(cell))
        .map(|(number, _)| number)
        .collect();
    let shown: Vec<(f64, f64)> = cells(measured)
        .iter()
        .flat_map(|cell| numbers(cell))
        .collect();
    assert!(shown.len() > 20, "{} numbers", shown.len());
    let missing = shown.into_iter().filter(|(number, unit)| {
        // As far as it is rounded: to its last digit, or to three digits of a large one.
        let off = (unit / 2.0).max(number * 0.005) * 1.001;
        !recorded.iter().any(|other| (other - number).abs() <= off)
    });
    let missing = missing.map(|(number, _)| format!("README.md: {number} is not recorded"));
    report(missing.collect());
}
