//! Runs as rows and as tables.

use std::time::Duration;

use pagewell_load::measure::{Latency, Runs, Usage};
use pagewell_load::report::{Table, bytes, rate};
use serde_json::json;

use super::file::Mapping;
use super::hammer::Hammered;
use super::kernel::Shootdowns;
use super::regime::{Regime, window_slots};
use super::runs::{Cell, Settings};
use crate::experiment::{DeviceUse, Figure, Mode, Phase, Reference, Row};

const COLUMNS: &str = "\
    regime | mapping | threads | CPU us/op | user | system | ops/s | hit ratio | maps/M | \
    unmaps/M | window hits | page faults/M | shoot-downs/M | reference us/op";

/// The large table, and the gains by threads.
pub(super) fn text(cells: &[Cell], settings: &Settings) -> String {
    let cache_bytes = settings.cache_bytes;
    let mut text = format!(
        "random reads of 8 KiB, cache of {}, {} windows of 8 KiB in the baseline; /M: of a million \
         reads\n",
        bytes(cache_bytes),
        window_slots(cache_bytes)
    );
    for regime in Regime::ALL {
        let file = bytes(regime.file_bytes(cache_bytes));
        text += &format!("{}: a file of {file}\n", regime.name());
    }
    text.push('\n');
    let pairs = cells
        .iter()
        .flat_map(|cell| Mapping::ALL.map(|mapping| (cell, mapping)));
    let lines: Vec<_> = pairs.map(|(cell, mapping)| line(cell, mapping)).collect();
    text += &Table::new(COLUMNS.split(" | "), 2.., lines).text();
    text + "\nprocessor time saved of a read (window - direct), us\n" + &gains(cells)
}

fn line(cell: &Cell, mapping: Mapping) -> Vec<String> {
    let mean = |of: &dyn Fn(&Hammered) -> f64| cell.mean(mapping, of);
    let per_million = |of: &dyn Fn(&Hammered) -> u64| rate(mean(&|run| run.per_million(of(run))));
    let micro = |of: &dyn Fn(&Hammered) -> Duration| {
        rate(mean(&|run| {
            of(run).as_secs_f64() * 1e6 / run.reads.max(1) as f64
        }))
    };
    let lookups = |run: &Hammered| (run.window_hits + run.maps).max(1) as f64;
    let window_hits = match mapping {
        Mapping::Window => format!(
            "{:.1} %",
            100.0 * mean(&|run| run.window_hits as f64 / lookups(run))
        ),
        Mapping::Direct => "-".to_owned(),
    };
    let counted = cell.of(mapping).iter();
    let shootdowns = match counted.filter_map(|run| run.shootdowns.interrupts).next() {
        Some(_) => per_million(&|run| run.shootdowns.interrupts.unwrap_or(0)),
        None => "not counted".to_owned(),
    };
    let (window, direct) = cell.regime.reference();
    let reference = match mapping {
        Mapping::Window => window,
        Mapping::Direct => direct,
    };
    vec![
        cell.regime.name().to_owned(),
        mapping.name().to_owned(),
        cell.threads.to_string(),
        rate(mean(&Hammered::cpu_us)),
        micro(&|run| run.usage.user),
        micro(&|run| run.usage.system),
        rate(mean(&Hammered::reads_per_second)),
        format!("{:.4}", mean(&Hammered::hit_ratio)),
        per_million(&|run| run.maps),
        per_million(&|run| run.unmaps),
        window_hits,
        per_million(&|run| run.usage.page_faults),
        shootdowns,
        rate(reference),
    ]
}

fn gains(cells: &[Cell]) -> String {
    let mut threads: Vec<usize> = cells.iter().map(|cell| cell.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let titles = threads.iter().map(|count| format!("{count} threads"));
    let titles: Vec<String> = titles.collect();
    let titles = std::iter::once("regime").chain(titles.iter().map(String::as_str));
    let lines = Regime::ALL.map(|regime| {
        let mut line = vec![regime.name().to_owned()];
        for count in &threads {
            let mut found = cells.iter();
            let found = found.find(|cell| cell.regime == regime && cell.threads == *count);
            line.push(found.map_or_else(String::new, |cell| {
                let window = cell.mean(Mapping::Window, Hammered::cpu_us);
                let gain = window - cell.mean(Mapping::Direct, Hammered::cpu_us);
                format!("{} ({:.0} %)", rate(gain), 100.0 * gain / window)
            }));
        }
        line
    });
    Table::new(titles, 1.., lines.to_vec()).text()
}

/// A row for each mapping; windows are the baseline.
pub(super) fn rows(cell: &Cell) -> [Row; 2] {
    Mapping::ALL.map(|mapping| row(cell, mapping))
}

fn row(cell: &Cell, mapping: Mapping) -> Row {
    let runs = cell.of(mapping);
    let (mode, reference) = match mapping {
        Mapping::Window => (Mode::Baseline, cell.regime.reference().0),
        Mapping::Direct => (Mode::Enhanced, cell.regime.reference().1),
    };
    let case = format!("{}, {} threads", cell.regime.name(), cell.threads);
    let phase = match cell.regime {
        Regime::NotCached => Phase::Warming,
        _ => Phase::Warm,
    };
    let mut row = Row::new(case, mode, phase);
    let count = |of: &dyn Fn(&Hammered) -> u64| runs.mean_count(of);
    row.seconds = runs.iter().map(|run| run.elapsed.as_secs_f64()).collect();
    let costs = runs.iter().map(Hammered::cpu_us);
    row.figure = Some(Figure::cost("CPU us/op", costs.collect()));
    row.operations = Some(count(&|run| run.reads));
    row.bytes = Some(count(&|run| run.reads * super::hammer::READ_BYTES as u64));
    row.copied_bytes = Some(count(&|run| run.copied_bytes));
    row.device = Some(DeviceUse {
        requests: count(&|run| run.device_requests),
        bytes: count(&|run| run.device_bytes),
        by_issuer: Vec::new(),
    });
    row.usage = Some(Usage::mean(runs.iter().map(|run| run.usage)));
    row.hit_ratio = Some(cell.mean(mapping, Hammered::hit_ratio));
    let latency: Latency = runs.iter().map(|run| &run.latency).sum();
    row.latency = Some(latency.quantiles());
    row.reference = Some(Reference {
        value: reference,
        unit: "us",
    });
    // A number that is unknown for one run is unknown for all.
    let all = |of: fn(&Shootdowns) -> Option<u64>| {
        let is_known = runs.iter().all(|run| of(&run.shootdowns).is_some());
        is_known.then(|| count(&|run| of(&run.shootdowns).unwrap_or(0)))
    };
    row.put_all(json!({
        "mapping": mapping.name(),
        "threads": cell.threads,
        "operations_per_second": cell.mean(mapping, Hammered::reads_per_second),
        "window_hits": count(&|run| run.window_hits),
        "maps": count(&|run| run.maps),
        "unmaps": count(&|run| run.unmaps),
        "page_faults": count(&|run| run.usage.page_faults),
        "tlb_shootdown_interrupts": all(|counted| counted.interrupts),
        "tlb_remote_flushes": all(|counted| counted.remote_flushes),
    }));
    row
}
