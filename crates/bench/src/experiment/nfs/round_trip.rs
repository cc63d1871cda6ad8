//! What read-ahead does where the server is far away: every call takes a round trip more.

use std::time::Duration;

use pagewell_fs::nfs::ReadAhead;

use super::case::median;
use super::recording::{Recording, number};
use super::rows::row;
use super::run::{Memory, Place, REPORT_BLOCK_BYTES, Setting};
use super::workload::Workload;
use crate::experiment::grid::grid;
use crate::experiment::{Mode, Phase, Result, Session};
use crate::report::rate;

/// The round trip of the report's comparison of read-ahead.
const NEAR: Duration = Duration::from_millis(1);
/// Where `auto` must find the right distance by itself.
const ROUND_TRIPS_US: [u64; 4] = [100, 1000, 10_000, 50_000];
/// Fixed read-ahead that `auto` is compared with, in blocks of a READ.
const FIXED: [u32; 4] = [1, 4, 16, 64];
/// Sequential reads with read-ahead 8 against 1.
const RATIO_MIN: f64 = 2.0;
/// What calls of random reads may differ.
const RANDOM_DIFFERENCE_MAX: f64 = 0.03;
/// The same rate but for noise.
const AS_GOOD: f64 = 0.95;

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
                mode: Mode::Enhanced,
                read_ahead,
                transfer_bytes,
                round_trip: Some(round_trip),
                memory: Memory::Whole,
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
        format!(
            "{}, {} ms round trip, read-ahead {}",
            self.workload.name(),
            self.round_trip().as_secs_f64() * 1e3,
            self.read_ahead()
        )
    }

    fn rate(&self) -> f64 {
        median(&self.runs, Recording::kilobytes_per_second)
    }

    fn steady_rate(&self) -> f64 {
        median(&self.runs, Recording::steady_kilobytes_per_second)
    }
}

/// Measures all, and says what must hold.
pub(super) fn run(
    session: &mut Session,
    place: &Place,
    small: &Place,
    repeats: usize,
) -> Result<()> {
    let near = |workload, count| {
        let block = Some(REPORT_BLOCK_BYTES);
        Line::new(workload, ReadAhead::Blocks(count), NEAR, block)
    };
    let mut pairs = vec![
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
    for repeat in 1..=repeats {
        for line in pairs.iter_mut() {
            session.step(&format!("{}, {repeat} of {repeats}", line.name()))?;
            line.runs
                .extend(small.read(&line.setting, line.workload, 1)?);
        }
        for line in grid.iter_mut() {
            session.step(&format!("{}, {repeat} of {repeats}", line.name()))?;
            line.runs
                .extend(place.read(&line.setting, line.workload, 1)?);
        }
    }
    let all = || pairs.iter().chain(&grid);
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
    for (pass, what) in verdicts(&pairs, &grid) {
        session.verdict(pass, what);
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
            format!("{:.1}", median(&line.runs, Recording::depth_of_calls)),
            format!("{:.0}", median(&line.runs, |run| number(run.calls.reads))),
        ]
    });
    let titles = [
        "workload",
        "round trip ms",
        "read-ahead",
        "KB/s",
        "second half KB/s",
        "calls at a time",
        "READ",
    ];
    grid(&titles, 1, &cells.collect::<Vec<_>>())
}

fn verdicts(pairs: &[Line], grid: &[Line]) -> Vec<(bool, String)> {
    let mut verdicts = Vec::new();
    if let [one, eight, random_one, random_eight] = pairs {
        let ratio = eight.rate() / one.rate().max(1e-9);
        verdicts.push((
            ratio >= RATIO_MIN,
            format!(
                "{} at {} ms: read-ahead 8 at least {RATIO_MIN} x read-ahead 1: {} x",
                one.workload.name(),
                NEAR.as_secs_f64() * 1e3,
                rate(ratio)
            ),
        ));
        let calls = |line: &Line| median(&line.runs, |run| number(run.calls.requests));
        let change = calls(random_eight) / calls(random_one).max(1.0) - 1.0;
        let rates = random_eight.rate() / random_one.rate().max(1e-9) - 1.0;
        verdicts.push((
            change.abs() <= RANDOM_DIFFERENCE_MAX,
            format!(
                "{}: read-ahead 8 instead of 1 changes the calls by at most {} %: {:.1} % (the \
                 rate: {:.1} %)",
                random_one.workload.name(),
                RANDOM_DIFFERENCE_MAX * 100.0,
                change * 100.0,
                rates * 100.0
            ),
        ));
    }
    for micro in ROUND_TRIPS_US {
        let trip = Duration::from_micros(micro);
        let here = || grid.iter().filter(move |line| line.round_trip() == trip);
        let auto = here().find(|line| line.setting.read_ahead == ReadAhead::Auto);
        let fixed = here().filter(|line| line.setting.read_ahead != ReadAhead::Auto);
        let best = fixed.max_by(|a, b| a.steady_rate().total_cmp(&b.steady_rate()));
        let (Some(auto), Some(best)) = (auto, best) else {
            continue;
        };
        let ratio = auto.steady_rate() / best.steady_rate().max(1e-9);
        verdicts.push((
            ratio >= AS_GOOD,
            format!(
                "{} ms: auto, once it has learnt (second half), as good as the best of fixed \
                 read-ahead ({}): {} x; whole file {} x",
                trip.as_secs_f64() * 1e3,
                best.read_ahead(),
                rate(ratio),
                rate(auto.rate() / best.rate().max(1e-9))
            ),
        ));
    }
    verdicts
}
