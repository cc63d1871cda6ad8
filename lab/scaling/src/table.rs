//! The result as text.

use std::fmt::Write as _;

use pagewell_load::report::{Table, rate};

use crate::operations::{Counted, Place};

/// How many places are named for each operation.
const PLACES_MAX: usize = 12;

const COLUMNS: &str = "\
    each operation | one file: shared writes | atomic | a file for each: shared writes | \
    atomic | atomic, of any line | instructions | system calls";

/// A table in Markdown, and below it the places if they are wanted.
pub(crate) fn text(all: &[Counted], with_places: bool) -> String {
    let lines = all.iter().map(|counted| {
        let [one, own] = [&counted.one_file, &counted.own_files].map(|places| sums(places));
        let numbers = [
            one.0,
            one.1,
            own.0,
            own.1,
            counted.locked,
            counted.instructions,
            counted.system_calls,
        ];
        let cells = std::iter::once(counted.name.to_owned()).chain(numbers.map(rate));
        cells.collect()
    });
    let mut text = Table::new(COLUMNS.split(" | "), 1.., lines.collect()).markdown();
    if !with_places {
        return text;
    }
    for counted in all {
        let places = [
            ("one file", &counted.one_file),
            ("own files", &counted.own_files),
        ];
        for (what, places) in places {
            let _ = writeln!(text, "\n{}, {what}: shared writes by place", counted.name);
            for place in places.iter().take(PLACES_MAX) {
                let chain = place.functions.join(" < ");
                let _ = writeln!(
                    text,
                    "{:7.2} ({:.2} atomic) {chain}",
                    place.writes, place.locked
                );
            }
        }
    }
    text
}

/// Shared writes of all places, and those that are atomic.
fn sums(places: &[Place]) -> (f64, f64) {
    places.iter().fold((0.0, 0.0), |(writes, locked), place| {
        (writes + place.writes, locked + place.locked)
    })
}
