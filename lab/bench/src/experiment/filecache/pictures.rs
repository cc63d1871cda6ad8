//! What a read costs with both mappings, beside what the report says.

use pagewell_load::measure::{Better, Latency};

use super::file::Mapping;
use super::hammer::Hammered;
use super::regime::Regime;
use super::runs::Cell;
use crate::experiment::picture::{BOTH, sides};
use crate::experiment::{Axis, Picture};

/// The pictures of all cells.
pub(super) fn pictures(cells: &[Cell]) -> Vec<Picture> {
    let Some(few) = cells.iter().map(|cell| cell.threads).min() else {
        return Vec::new();
    };
    let cost = |cell: &Cell, mapping| Some(cell.mean(mapping, Hammered::cpu_us));
    let [window, direct] = Mapping::ALL;
    let costs = |cell: &Cell, (before, after): (Option<f64>, Option<f64>)| {
        [cost(cell, window), cost(cell, direct), before, after]
    };
    let alone = cells.iter().filter(|cell| cell.threads == few);
    let regimes = alone.map(|cell| {
        let (before, after) = cell.regime.reference();
        let values = costs(cell, (Some(before), Some(after)));
        (cell.regime.name().to_owned(), values)
    });
    let mut regimes: Vec<_> = regimes.collect();
    // The common case first.
    regimes.sort_by_key(|(name, _)| name != Regime::Large.name());
    let large = || cells.iter().filter(|cell| cell.regime == Regime::Large);
    let threads = large().map(|cell| {
        let word = if cell.threads == 1 {
            "thread"
        } else {
            "threads"
        };
        let name = format!("{} {word}", cell.threads);
        (name, costs(cell, (None, None)))
    });
    let text = "Further to the left is cheaper. Baseline: windows that are mapped as needed; \
                enhanced: all memory mapped once.";
    let mut pictures = vec![
        Picture::cases(
            "Processor time of a random read of 8 KiB",
            text,
            (Axis::logarithmic("µs of processor time"), Better::Lower),
            regimes,
        ),
        Picture::cases(
            "The same in memory, by threads that read",
            text,
            (Axis::logarithmic("µs of processor time"), Better::Lower),
            threads.collect(),
        ),
    ];
    let latency =
        |cell: &Cell, mapping| -> Latency { cell.of(mapping).iter().map(|run| &run.latency).sum() };
    if let Some(cell) = large().find(|cell| cell.threads == few) {
        let (before, after) = (latency(cell, window), latency(cell, direct));
        pictures.push(Picture::latencies(
            "How long a read takes that is in memory",
            "So many of all reads take at most so long; one in 64 was timed. Lower is better.",
            1.0,
            &sides(BOTH, [&before, &after]),
        ));
    }
    pictures
}
