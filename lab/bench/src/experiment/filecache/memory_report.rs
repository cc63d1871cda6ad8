//! Reads of bytes in memory, as rows, a table and requirements.

use pagewell_load::report::{Table, bytes, rate};

use super::hammer::READ_BYTES;
use super::memory_copy::{PINS, Times, Way};
use crate::experiment::{Figure, Mode, Phase, Row};

const COLUMNS: &str = "way | ns/op (each thread) | GB/s (each thread) | of memcpy";

/// A copying read against a bare copy.
const COPY_FACTOR: f64 = 1.15;
/// pread(2) against a copying read.
const PREAD_FACTOR: f64 = 1.4;
/// A pin, in nanoseconds.
const PIN_NS: f64 = 100.0;
/// Two threads together against one.
const THREADS_FACTOR: f64 = 1.8;
/// Where two processors share a core, or another program has one, no copy gains more.
const BARE_SHARE: f64 = 0.9;

/// The median times.
pub(super) fn text(times: &Times) -> String {
    let line = |way: Way| {
        let each = times.median(way);
        vec![
            way.name().to_owned(),
            rate(each),
            rate(READ_BYTES as f64 / each),
            rate(times.ratio(way, Way::Copy)),
        ]
    };
    let lines = Way::ALL.map(line).to_vec();
    format!(
        "random reads of 8 KiB in memory, working set {}, {}, medians of {} rounds of {} reads\n{}",
        bytes(times.bytes),
        times.page_size,
        times.rounds[0].len(),
        times.reads,
        Table::new(COLUMNS.split(" | "), 1.., lines).text()
    )
}

/// A row for each way; pread(2) is the baseline.
pub(super) fn rows(times: &Times) -> Vec<Row> {
    let row = |way: Way| {
        let mode = if way == Way::Pread {
            Mode::Baseline
        } else {
            Mode::Enhanced
        };
        let case = format!("in memory, {}", bytes(times.bytes));
        let mut row = Row::new(case, mode, Phase::Warm);
        if way != Way::Pread {
            row.variant = Some(way.name().to_owned());
        }
        let each = &times.rounds[way as usize];
        let reads = match way {
            Way::Pin => PINS * times.reads,
            _ => times.reads,
        };
        let seconds = each.iter().map(|time| time * reads as f64 / 1e9);
        row.seconds = seconds.collect();
        row.figure = Some(Figure::cost("ns/op", each.clone()));
        let threads = match way {
            Way::TwoThreads | Way::TwoCopies => 2,
            _ => 1,
        };
        row.operations = Some(threads * reads);
        row.bytes = Some(threads * reads * READ_BYTES as u64);
        row.put("way", way.name());
        row.put("page_size", times.page_size.as_str());
        row
    };
    Way::ALL.map(row).into()
}

pub(super) fn verdicts(times: &Times) -> Vec<(bool, String)> {
    let set = bytes(times.bytes);
    let copy = times.ratio(Way::ReadAt, Way::Copy);
    let pread = times.ratio(Way::Pread, Way::ReadAt);
    let pin = times.median(Way::Pin);
    let threads = 2.0 * times.ratio(Way::ReadAt, Way::TwoThreads);
    let bare = 2.0 * times.ratio(Way::Copy, Way::TwoCopies);
    let wanted = THREADS_FACTOR.min(bare * BARE_SHARE);
    vec![
        verdict!(
            copy <= COPY_FACTOR,
            "{set}: read_at <= {COPY_FACTOR} x memcpy: {copy:.3} x"
        ),
        verdict!(
            pread >= PREAD_FACTOR,
            "{set}: read_at >= {PREAD_FACTOR} x faster than pread(2): {pread:.3} x"
        ),
        verdict!(
            pin <= PIN_NS,
            "{set}: a pin <= {PIN_NS} ns: {} ns",
            rate(pin)
        ),
        verdict!(
            threads >= wanted,
            "{set}: two threads >= {THREADS_FACTOR} x one, or {BARE_SHARE} of what a bare copy \
                 gains by them ({bare:.3} x): {threads:.3} x"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_met_or_not() {
        let times = |rounds: [f64; 6]| Times {
            bytes: 64 << 20,
            reads: 10,
            page_size: String::new(),
            rounds: rounds.map(|time| vec![time; 3]),
        };
        let passes = |rounds| {
            let verdicts = verdicts(&times(rounds));
            verdicts.iter().map(|(pass, _)| *pass).collect::<Vec<_>>()
        };
        assert_eq!(
            passes([1000.0, 1100.0, 2000.0, 50.0, 1150.0, 1000.0]),
            [true; 4]
        );
        assert_eq!(
            passes([1000.0, 1200.0, 1300.0, 101.0, 1400.0, 1000.0]),
            [false; 4]
        );
        // Two processors that are one: nothing gains by threads.
        let shared = [1000.0, 1100.0, 2000.0, 50.0, 2200.0, 2000.0];
        assert_eq!(passes(shared), [true; 4]);
    }
}
