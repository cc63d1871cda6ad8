//! Requirements.

use pagewell_load::measure::{Spread, difference};
use pagewell_load::report::rate;

use super::file::Mapping;
use super::hammer::Hammered;
use super::regime::Regime;
use super::runs::Cell;

/// Processor time saved where the file lies between windows and cache.
const SAVED_MIN: f64 = 0.3;
/// Noise where both do nearly the same.
const NOISE: f64 = 0.05;

/// Counts that must hold, and whether they do.
pub(super) fn counts(cells: &[Cell]) -> Vec<(bool, String)> {
    let regimes = Regime::ALL.into_iter();
    regimes
        .filter_map(|regime| windows_mapped(cells, regime))
        .collect()
}

/// Times that must hold of all cells, and whether they do.
pub(super) fn times(cells: &[Cell]) -> Vec<(bool, String)> {
    let mut verdicts: Vec<_> = cells.iter().map(not_dearer).collect();
    let large = || cells.iter().filter(|cell| cell.regime == Regime::Large);
    verdicts.extend(large().map(saved));
    let alone = |cell: &&Cell| cell.threads == 1;
    let other = cells
        .iter()
        .filter(alone)
        .find(|cell| cell.regime == Regime::NotCached);
    verdicts.extend(
        large()
            .find(alone)
            .zip(other)
            .map(|(cell, other)| same_device(cell, other)),
    );
    verdicts.extend(grows(&large().collect::<Vec<_>>()));
    verdicts
}

fn cpu(cell: &Cell, mapping: Mapping) -> f64 {
    cell.mean(mapping, Hammered::cpu_us)
}

fn each(cell: &Cell, mapping: Mapping) -> Vec<f64> {
    cell.of(mapping).iter().map(Hammered::cpu_us).collect()
}

fn name(cell: &Cell) -> String {
    format!("{}, {} threads", cell.regime.name(), cell.threads)
}

/// Mapping once costs no more, but for chance.
fn not_dearer(cell: &Cell) -> (bool, String) {
    let (window, direct) = (cpu(cell, Mapping::Window), cpu(cell, Mapping::Direct));
    let found = difference(&each(cell, Mapping::Window), &each(cell, Mapping::Direct));
    let proven = found.is_some_and(|found| found.is_proven());
    verdict!(
        direct <= window || !proven || direct <= window * (1.0 + NOISE),
        "{}: direct <= window, CPU us/op: {} <= {}",
        name(cell),
        rate(direct),
        rate(window)
    )
}

fn saved(cell: &Cell) -> (bool, String) {
    let part = 1.0 - cpu(cell, Mapping::Direct) / cpu(cell, Mapping::Window);
    verdict!(
        part >= SAVED_MIN,
        "{}: processor time saved >= {:.0} %: {:.1} % (reference, other hardware: 45.9 %)",
        name(cell),
        SAVED_MIN * 100.0,
        part * 100.0
    )
}

/// A small file stays in its windows, and most reads of a large one need another: else other things
/// than the mappings are compared.
fn windows_mapped(cells: &[Cell], regime: Regime) -> Option<(bool, String)> {
    let of_regime = cells.iter().filter(|cell| cell.regime == regime);
    let mut runs = of_regime
        .flat_map(|cell| cell.of(Mapping::Window))
        .peekable();
    runs.peek()?;
    let (maps, reads) = runs.fold((0, 0), |(maps, reads), run| {
        (maps + run.maps, reads + run.reads)
    });
    let (pass, wanted) = match regime {
        Regime::Small => (maps == 0, "none"),
        Regime::Large | Regime::NotCached => (maps >= reads / 2, "at least for every second"),
    };
    let name = regime.name();
    Some(verdict!(
        pass,
        "{name}: windows mapped for {reads} reads through windows: {maps} ({wanted})"
    ))
}

/// A device read adds the same with both mappings: the gain is mapping alone. The noise is that of
/// the four means, each taken as the spread of its runs. With one thread: several that wait for the
/// device leave fewer processors to interrupt, so that changes of mappings cost less where there
/// are misses.
fn same_device(large: &Cell, other: &Cell) -> (bool, String) {
    let added = |mapping| cpu(other, mapping) - cpu(large, mapping);
    let (window, direct) = (added(Mapping::Window), added(Mapping::Direct));
    let noise: f64 = [large, other]
        .iter()
        .flat_map(|cell| Mapping::ALL.map(|mapping| spread(&each(cell, mapping))))
        .sum::<f64>()
        + NOISE * cpu(other, Mapping::Window);
    verdict!(
        (window - direct).abs() <= noise,
        "{} threads: what the device adds to a read, CPU us/op, is equal within noise ({}): \
             window {}, direct {} (reference, other hardware: 55 and 55)",
        large.threads,
        rate(noise),
        rate(window),
        rate(direct)
    )
}

/// Half of the range.
fn spread(values: &[f64]) -> f64 {
    Spread::of(values).map_or(0.0, |spread| (spread.high - spread.low) / 2.0)
}

/// The time saved with one thread against the most saved with more.
fn grows(large: &[&Cell]) -> Option<(bool, String)> {
    let gain = |cell: &Cell| cpu(cell, Mapping::Window) - cpu(cell, Mapping::Direct);
    let one = gain(large.iter().find(|cell| cell.threads == 1)?);
    let more = large.iter().filter(|cell| cell.threads > 1);
    let most = more.map(|cell| gain(cell)).reduce(f64::max)?;
    Some(verdict!(
        most > one,
        "{}: the gain grows with threads: {} us/op saved with one, up to {} with more",
        Regime::Large.name(),
        rate(one),
        rate(most)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_load::measure::Usage;
    use std::time::Duration;

    fn cell(regime: Regime, threads: usize, window: u64, direct: u64) -> Cell {
        let maps = if regime == Regime::Small { 0 } else { 900 };
        let run = |micro: u64, maps: u64| Hammered {
            reads: 1000,
            maps,
            usage: Usage {
                user: Duration::from_millis(micro),
                ..Usage::default()
            },
            ..Hammered::default()
        };
        Cell {
            regime,
            threads,
            runs: [vec![run(window, maps); 3], vec![run(direct, 0); 3]],
        }
    }

    fn passes(cells: &[Cell]) -> Vec<bool> {
        let all = times(cells).into_iter().chain(counts(cells));
        all.map(|(pass, _)| pass).collect()
    }

    #[test]
    fn the_numbers_of_the_report_pass() {
        let cells = [
            cell(Regime::Small, 1, 89, 83),
            cell(Regime::Large, 1, 181, 98),
            cell(Regime::Large, 2, 191, 98),
            cell(Regime::NotCached, 1, 236, 153),
        ];
        assert_eq!(passes(&cells), [true; 11]);
    }

    #[test]
    fn each_broken_promise_is_found() {
        assert_eq!(passes(&[cell(Regime::Small, 1, 80, 90)]), [false, true]);
        let mut maps = cell(Regime::Small, 1, 89, 83);
        maps.runs[0][2].maps = 1;
        assert_eq!(passes(&[maps]), [true, false]);
        let mut hits = cell(Regime::Large, 1, 181, 98);
        hits.runs[0].iter_mut().for_each(|run| run.maps = 400);
        assert_eq!(passes(&[hits]), [true, true, false]);
        // Too little saved; then more threads save less than one.
        let cells = [
            cell(Regime::Large, 1, 100, 60),
            cell(Regime::Large, 2, 100, 71),
        ];
        assert_eq!(passes(&cells), [true, true, true, false, false, true]);
        let cells = [
            cell(Regime::Large, 1, 181, 98),
            cell(Regime::NotCached, 1, 266, 153),
        ];
        assert_eq!(passes(&cells), [true, true, true, false, true, true]);
    }
}
