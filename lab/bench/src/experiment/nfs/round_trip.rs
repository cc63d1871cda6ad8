//! Read-ahead from a remote server: every call takes a round trip more.

use std::time::Duration;

use pagewell_load::report::{Table, rate};
use pagewell_source_nfs::ReadAhead;

use super::recording::{Recording, middle_ratio};
use super::rows::row;
use super::run::{Place, REPORT_BLOCK_BYTES, Setting};
use super::workload::{Workload, shuffled};
use crate::experiment::{Phase, Result, Session};
use pagewell_load::measure::{Runs, number};

/// The round trip of the report's comparison of read-ahead.
const NEAR: Duration = Duration::from_millis(1);
/// `auto` must find the right distance for each of these.
const ROUND_TRIPS_US: [u64; 4] = [100, 1000, 10_000, 50_000];
/// Fixed read-ahead to compare with `auto`, in blocks of a READ.
const FIXED: [u32; 4] = [1, 4, 16, 64];
/// Sequential reads with read-ahead 8 against 1.
const RATIO_MIN: f64 = 2.0;
/// The most by which calls and rate of random reads may differ.
const RANDOM_DIFFERENCE_MAX: f64 = 0.03;
/// How much the median ratio of runs side by side moves when nothing differs: the same setting
/// against itself.
const NOISE: f64 = 0.03;
/// Runs of each way to read. With a near server they are short, and other programs of the machine
/// show in them.
const REPEATS_NEAR: usize = 61;
const REPEATS_FAR: usize = 5;
/// Reads of a run in random order: so few that most pages of the file are met once. In a whole file
/// in random order many a read is next to another by chance.
const RANDOM_READS: usize = 1024;
const REPEATS_RANDOM: usize = 7;
/// From here on a run is mostly waiting for round trips.
const FAR: Duration = Duration::from_millis(10);

const COLUMNS: &str =
    "workload | round trip ms | read-ahead | KB/s | second half KB/s | calls at a time | READ";

/// One way to read, and its runs.
struct Line {
    workload: Workload,
    setting: Setting,
    runs: Vec<Recording>,
}

impl Line {
    fn new(
        workload: Workload,
        read_ahead: ReadAhead,
        round_trip: Duration,
        transfer_bytes: Option<u32>,
    ) -> Self {
        Self {
            workload,
            setting: Setting {
                read_ahead,
                transfer_bytes,
                round_trip: Some(round_trip),
                ..Setting::USUAL
            },
            runs: Vec::new(),
        }
    }

    fn round_trip(&self) -> Duration {
        self.setting.round_trip.unwrap_or_default()
    }

    fn read_ahead(&self) -> String {
        match self.setting.read_ahead {
            ReadAhead::Auto => "auto".to_owned(),
            ReadAhead::Blocks(count) => count.to_string(),
        }
    }

    fn name(&self) -> String {
        let transfer = self.setting.transfer_bytes;
        let transfer =
            transfer.map(|bytes| format!("rsize {}, ", pagewell_load::report::bytes(bytes.into())));
        format!(
            "{}, {}{} ms round trip, read-ahead {}",
            self.workload.name(),
            transfer.unwrap_or_default(),
            self.round_trip().as_secs_f64() * 1e3,
            self.read_ahead()
        )
    }

    fn rate(&self) -> f64 {
        self.runs.median(Recording::kilobytes_per_second)
    }

    fn steady_rate(&self) -> f64 {
        self.runs.median(Recording::steady_kilobytes_per_second)
    }

    fn repeats(&self) -> usize {
        if self.workload.random {
            REPEATS_RANDOM
        } else if self.round_trip() < FAR {
            REPEATS_NEAR
        } else {
            REPEATS_FAR
        }
    }

    /// The median of the ratios of `of` in runs side by side.
    fn beside(&self, other: &Self, of: impl Fn(&Recording) -> f64) -> f64 {
        middle_ratio(&self.runs, &other.runs, of)
    }
}

pub(super) fn run(session: &mut Session, place: &Place, small: &Place) -> Result<()> {
    let (mut pairs, mut grid) = lines();
    let ended = run_lines(session, place, small, (&mut pairs, &mut grid));
    // Also after an early end.
    let all = pairs.iter().chain(&grid);
    let all = || all.clone().filter(|line| !line.runs.is_empty());
    session.note(text(all()));
    for line in all() {
        let phase = if line.workload.random {
            Phase::Warming
        } else {
            Phase::Cold
        };
        session.push(row(
            &line.name(),
            line.workload,
            line.setting.mode,
            phase,
            &line.runs,
        ));
    }
    ended?;
    session.times(verdicts(&pairs, &grid, place.file_bytes));
    Ok(())
}

fn run_lines(
    session: &Session,
    place: &Place,
    small: &Place,
    (pairs, grid): (&mut [Line], &mut [Line]),
) -> Result<()> {
    for lines in pairs.chunks_mut(2) {
        let place = if lines.iter().any(|line| line.workload.random) {
            place
        } else {
            small
        };
        interleave(session, place, lines)?;
    }
    for lines in grid.chunks_mut(FIXED.len() + 1) {
        interleave(session, place, lines)?;
    }
    Ok(())
}

/// Read-ahead 8 beside 1, and every way beside `auto` at each round trip.
fn lines() -> (Vec<Line>, Vec<Line>) {
    let near = |workload, count| {
        let block = Some(REPORT_BLOCK_BYTES);
        Line::new(workload, ReadAhead::Blocks(count), NEAR, block)
    };
    let pairs = vec![
        near(Workload::READ_LARGE, 1),
        near(Workload::READ_LARGE, 8),
        near(Workload::RANDOM_READ_SMALL, 1),
        near(Workload::RANDOM_READ_SMALL, 8),
    ];
    let mut grid = Vec::new();
    for micro in ROUND_TRIPS_US {
        let trip = Duration::from_micros(micro);
        let ways = FIXED
            .map(ReadAhead::Blocks)
            .into_iter()
            .chain([ReadAhead::Auto]);
        grid.extend(ways.map(|way| Line::new(Workload::READ_LARGE, way, trip, None)));
    }
    (pairs, grid)
}

/// Runs lines side by side, each time in another order, so that changes on the machine and remains
/// of other runs meet all alike.
fn interleave(session: &Session, place: &Place, lines: &mut [Line]) -> Result<()> {
    let repeats = lines.iter().map(Line::repeats).max().unwrap_or(0);
    let repeats = repeats.max(session.options().repeat);
    let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    for repeat in 1..=repeats {
        for number in shuffled(count, repeat as u64) {
            let line = &mut lines[number as usize];
            session.step(&format!("{}, {repeat} of {repeats}", line.name()))?;
            let count = if line.workload.random {
                RANDOM_READS
            } else {
                usize::MAX
            };
            let run = place.read_some(&line.setting, line.workload, count)?;
            line.runs.push(run);
        }
    }
    Ok(())
}

fn text<'a>(lines: impl Iterator<Item = &'a Line>) -> String {
    let cells = lines.map(|line| {
        vec![
            line.workload.name(),
            format!("{}", line.round_trip().as_secs_f64() * 1e3),
            line.read_ahead(),
            rate(line.rate()),
            rate(line.steady_rate()),
            format!("{:.1}", line.runs.median(Recording::depth_of_calls)),
            format!("{:.0}", line.runs.median(|run| number(run.calls.reads))),
        ]
    });
    Table::new(COLUMNS.split(" | "), 1.., cells.collect()).text()
}

fn verdicts(pairs: &[Line], grid: &[Line], file_bytes: u64) -> Vec<(bool, String)> {
    let mut verdicts = Vec::new();
    if let [one, eight, random_one, random_eight] = pairs {
        let ratio = eight.beside(one, Recording::kilobytes_per_second);
        verdicts.push(verdict!(
            ratio >= RATIO_MIN,
            "{} at {} ms: read-ahead 8 at least {RATIO_MIN} x read-ahead 1: {} x",
            one.workload.name(),
            NEAR.as_secs_f64() * 1e3,
            rate(ratio)
        ));
        verdicts.push(random(random_one, random_eight, file_bytes));
    }
    let latencies = grid.chunks(FIXED.len() + 1);
    verdicts.extend(latencies.filter_map(whole_file));
    verdicts
}

fn random(one: &Line, eight: &Line, file_bytes: u64) -> (bool, String) {
    let calls = eight.beside(one, |run| number(run.calls.requests)) - 1.0;
    let rates = eight.beside(one, Recording::kilobytes_per_second) - 1.0;
    let most = RANDOM_DIFFERENCE_MAX;
    verdict!(
        calls.abs() <= most && rates.abs() <= most,
        "{}, {RANDOM_READS} of {} blocks: read-ahead 8 instead of 1 changes calls and rate by \
             at most {} %: {:.1} % and {:.1} % (middle of {} runs side by side)",
        one.workload.name(),
        file_bytes / u64::from(one.workload.block_bytes),
        most * 100.0,
        calls * 100.0,
        rates * 100.0,
        one.runs.len()
    )
}

/// From the first byte of the file to the last.
fn whole_file(lines: &[Line]) -> Option<(bool, String)> {
    let auto = |line: &&Line| line.setting.read_ahead == ReadAhead::Auto;
    let fixed = lines.iter().filter(|line| !auto(line));
    let auto = lines.iter().find(auto)?;
    let beside = |fixed| auto.beside(fixed, Recording::kilobytes_per_second);
    let best = fixed.min_by(|a, b| beside(a).total_cmp(&beside(b)))?;
    let ratio = beside(best);
    let steady = auto.beside(best, Recording::steady_kilobytes_per_second);
    Some(verdict!(
        ratio >= 1.0 - NOISE,
        "{} ms: auto at least as good as the best of fixed read-ahead ({}) over the whole \
             file: {} x (middle of {} runs side by side, at least 1 but for noise of {} %); second \
             half {} x",
        auto.round_trip().as_secs_f64() * 1e3,
        best.read_ahead(),
        rate(ratio),
        auto.runs.len(),
        NOISE * 100.0,
        rate(steady)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn lines_have_names_of_their_own() {
        let (pairs, grid) = lines();
        let names: HashSet<String> = pairs.iter().chain(&grid).map(Line::name).collect();
        assert_eq!(names.len(), pairs.len() + grid.len());
        let name = "sequential read 128k, rsize 64 KiB, 1 ms round trip, read-ahead 1";
        assert!(names.contains(name), "{names:?}");
    }
}
