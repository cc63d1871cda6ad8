//! Pictures of the runs, beside the report.

use pagewell_layers::SizeHistogram;
use pagewell_load::measure::{Better, number};

use super::rig::Run;
use super::{copying, walking};
use crate::experiment::picture::{BOTH, compared, sides};
use crate::experiment::{Axis, Picture, Role, Row, Session};

const MEGABYTE: f64 = 1e6;
const MIB: f64 = 1_048_576.0;
/// Requests of the report's dd by the lower end of their size, before and after: those of dd and of
/// its read-ahead together.
const REPORT_BEFORE: [(usize, u64); 1] = [(2048, 524_288)];
const REPORT_AFTER: [(usize, u64); 5] = [
    (4096, 2),
    (12_288, 2),
    (16_384, 65_522),
    (20_480, 1),
    (24_576, 7),
];

/// Longer than all of them.
const REPORT_BYTES_MAX: usize = 32 << 10;

/// The rates at which programs read, whatever the amount.
pub(super) fn compare_rates(session: &mut Session) {
    let tasks = copying::REPORT.map(|(name, ..)| name).into_iter();
    let tasks = tasks.chain(walking::REPORT.map(|(name, ..)| name));
    let cases = tasks.map(|task| {
        let mut values = [None; 4];
        for row in session.own_rows() {
            let is_task = row.case.split(' ').next() == Some(task) && row.variant.is_none();
            let (Some(mode), true) = (row.mode, is_task) else {
                continue;
            };
            let rate = row.bytes.zip(row.mean());
            let rate = rate.map(|(bytes, seconds)| number(bytes) / seconds.max(1e-9) / MEGABYTE);
            values[mode as usize] = rate;
        }
        let reports = [
            (copying::REPORT, copying::REPORT_BYTES),
            (walking::REPORT, walking::REPORT_BYTES),
        ];
        for (report, bytes) in reports {
            if let Some((_, before, after)) = report.iter().find(|(name, ..)| *name == task) {
                let rate = |seconds: &f64| Some(number(bytes) / seconds / MEGABYTE);
                (values[2], values[3]) = (rate(before), rate(after));
            }
        }
        (task.to_owned(), values)
    });
    let picture = Picture::cases(
        "How fast four programs read the disc",
        "Further to the right is faster; each step of the axis is ten times as much. The report \
         had a real drive, here it is modelled.",
        (Axis::logarithmic("MB/s"), Better::Higher),
        cases.collect(),
    );
    session.picture(picture);
}

/// The loads of filebench.
pub(super) fn compare_loads(session: &mut Session) {
    let wanted = |row: &Row| {
        let is_load = row.variant.is_none() && row.reference.is_some();
        let unit = row.figure.as_ref().map(|figure| figure.unit);
        (is_load && unit == Some("ops/s")).then(|| row.case.clone())
    };
    let picture = Picture::cases(
        "Operations per second of twelve loads",
        "Further to the right is faster. The report's single streams came out of memory after the \
         first pass; here every byte comes from the disc.",
        (Axis::logarithmic("operations/s"), Better::Higher),
        compared(&session.own_rows(), wanted),
    );
    session.picture(picture);
}

/// Sizes of the requests of dd: baseline, HSFS rule and enhanced are the first runs.
pub(super) fn sizes(runs: &[Run]) -> Picture {
    let mut counted = Vec::new();
    if let [baseline, _, enhanced, ..] = runs {
        let sizes = |run: &Run| run.device.sizes(None);
        counted.push((Role::Baseline, "baseline", sizes(baseline)));
        counted.push((Role::Enhanced, "enhanced", sizes(enhanced)));
    }
    let report = |requests: &[(usize, u64)]| {
        let mut counts = vec![0; REPORT_BYTES_MAX / 2048];
        requests
            .iter()
            .for_each(|(size, count)| counts[size / 2048] += count);
        SizeHistogram { counts }
    };
    counted.extend([
        (
            Role::ReportBaseline,
            "the report before",
            report(&REPORT_BEFORE),
        ),
        (
            Role::ReportEnhanced,
            "the report after",
            report(&REPORT_AFTER),
        ),
    ]);
    Picture::sizes(
        "dd: sizes of the requests that reach the drive",
        "Each request costs the drive 0.43 ms before its first byte, so few long ones are fast.",
        &counted,
    )
}

/// What the elevator makes of sixteen readers.
pub(super) fn random_order(baseline: &Run, enhanced: &Run) -> Picture {
    order(
        "Sixteen random readers: the order of their requests on the disc",
        "The first requests of the run. The elevator sweeps upwards, over and over.",
        [baseline, enhanced],
    )
}

/// Three readers of a file each: order, latency, and rate over time.
pub(super) fn streams(baseline: &Run, enhanced: &Run) -> [Picture; 3] {
    let (before, after) = (baseline.latency(), enhanced.latency());
    let latencies = Picture::latencies(
        "Three sequential readers: how long a read of 8 KiB takes",
        "So many of all reads take at most so long, on the drive's clock. Lower is better.",
        baseline.speed,
        &sides(BOTH, [&before, &after]),
    );
    let (before, after) = (baseline.timeline(), enhanced.timeline());
    let timeline = Picture::timeline(
        (
            "Three sequential readers: what they get together, over time",
            "Higher is better; the medium gives 8.5 MB/s at most. What was read ahead comes out of \
             memory faster than that, for a moment.",
        ),
        ["s of the drive", "MiB/s"],
        (baseline.speed, MIB),
        sides(BOTH, [&before, &after]),
    );
    [
        order(
            "Three sequential readers: the order of their requests on the disc",
            "The first requests of the run. Each change from one file to another is a seek.",
            [baseline, enhanced],
        ),
        latencies,
        timeline,
    ]
}

fn order(title: &str, text: &str, [baseline, enhanced]: [&Run; 2]) -> Picture {
    Picture::order(
        title,
        text,
        &sides(
            BOTH,
            [&baseline.device.places[..], &enhanced.device.places[..]],
        ),
    )
}
