//! The result as text.

use std::fmt::Write as _;

use crate::operations::Row;

/// How many places are named for each operation.
const PLACES_MAX: usize = 12;

/// A table in Markdown, and below it the places if they are wanted.
pub(crate) fn text(rows: &[Row], with_places: bool) -> String {
    let mut text = String::from(
        "| each operation | one file | | a file for each | | atomic, of any line | instructions | \
         system calls |\n|---|---|---|---|---|---|---|---|\n\
         | | *shared writes* | *atomic* | *shared writes* | *atomic* | | | |\n",
    );
    for row in rows {
        let shared = |places: &[(f64, f64, Vec<String>)]| {
            let writes: f64 = places.iter().map(|(writes, ..)| writes).sum();
            let locked: f64 = places.iter().map(|(_, locked, _)| locked).sum();
            format!("{writes:.1} | {locked:.1}")
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.0} | {:.1} |",
            row.name,
            shared(&row.one_file),
            shared(&row.own_files),
            row.locked,
            row.instructions,
            row.system_calls,
        );
    }
    if !with_places {
        return text;
    }
    for row in rows {
        for (what, places) in [("one file", &row.one_file), ("own files", &row.own_files)] {
            let _ = writeln!(text, "\n{}, {what}: shared writes by place", row.name);
            for (writes, locked, functions) in places.iter().take(PLACES_MAX) {
                let chain = functions.join(" < ");
                let _ = writeln!(text, "{writes:7.2} ({locked:.2} atomic) {chain}");
            }
        }
    }
    text
}
