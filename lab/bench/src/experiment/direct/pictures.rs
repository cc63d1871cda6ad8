//! What each step of the report from one way to read to the next is worth, beside the report.

use pagewell_load::measure::Better;

use super::case::{Case, Kind, Line};
use super::path::{Path, Reference};
use super::reading::Reading;
use crate::experiment::picture::sides;
use crate::experiment::{Axis, Picture};

const MEGABYTE: f64 = 1e6;
/// The paths whose requests are compared.
const PATHS: [&str; 2] = ["O_DIRECT", "buffered"];

/// The pictures of a case.
pub(super) fn pictures(case: &Case) -> Vec<Picture> {
    let mut pictures = vec![
        steps(
            case,
            "how fast the same bytes are read",
            (Axis::logarithmic("MB/s"), Better::Higher),
            (
                Reading::megabytes_per_second,
                Reference::megabytes_per_second,
            ),
        ),
        steps(
            case,
            "processor time of a GiB",
            (Axis::logarithmic("s of processor time"), Better::Lower),
            (Reading::engine_seconds_per_gib, |report| {
                report.cpu_seconds_per_gib
            }),
        ),
    ];
    pictures.retain(|picture| picture.panels.iter().any(|panel| !panel.lines.is_empty()));
    // The order of requests needs one of several cases.
    if case.kind == Kind::Disk || case.kind == Kind::File {
        return pictures;
    }
    let last = |path| case.line(path, true)?.readings.last();
    if let Some((direct, buffered)) = last(Path::Direct).zip(last(Path::Buffered)) {
        pictures.extend(requests(&case.name, direct, buffered));
    }
    if let Some((buffered, lent)) = last(Path::Buffered).zip(last(Path::NoCopy)) {
        pictures.push(Picture::latencies(
            &format!("{}: how long a read of 8 KiB takes", case.name),
            "Most reads find their bytes in memory. With a copy, and with the page lent instead. \
             So many of all reads take at most so long. Lower is better.",
            1.0,
            &sides(["buffered", "nocopy"], [&buffered.latency, &lent.latency]),
        ));
    }
    pictures
}

/// Steps from one way to the next, before and after; the report had eight disks.
fn steps(
    case: &Case,
    what: &str,
    axis: (Axis, Better),
    (own, report): (impl Fn(&Reading) -> f64, impl Fn(&Reference) -> f64),
) -> Picture {
    let one = |path| case.line(path, true);
    let steps = [
        (
            "read ahead: O_DIRECT, then buffered",
            one(Path::Direct),
            one(Path::Buffered),
        ),
        (
            "no copy: buffered, then nocopy",
            one(Path::Buffered),
            one(Path::NoCopy),
        ),
        (
            "large requests: raw, then O_DIRECT",
            one(Path::Raw),
            one(Path::Direct),
        ),
        (
            "more requests at a time: O_DIRECT",
            one(Path::Direct),
            case.line(Path::Direct, false),
        ),
    ];
    let steps = steps.into_iter().filter_map(|(name, before, after)| {
        let (before, after) = before.zip(after)?;
        let here = |line: &Line| Some(line.mean(&own)).filter(|_| !line.readings.is_empty());
        let is_of_report = case.kind == Kind::Disks && after.depth == 1;
        let there = |line: &Line| is_of_report.then(|| report(&line.path.reference()));
        let values = [here(before), here(after), there(before), there(after)];
        Some((name.to_owned(), values))
    });
    let mut picture = Picture::cases(
        &format!("{}: {what}", case.name),
        match axis.1 {
            Better::Higher => "Further to the right is faster.",
            Better::Lower => "Further to the left is cheaper.",
        },
        axis,
        steps.collect(),
    );
    if case.kind == Kind::Disks {
        picture.text += " The report had eight disks, too.";
    }
    picture
}

fn requests(name: &str, direct: &Reading, buffered: &Reading) -> [Picture; 3] {
    [
        Picture::sizes(
            &format!("{name}: sizes of the requests"),
            "The program reads 1 MiB at a time past the cache, and 8 KiB through it.",
            &sides(PATHS, [direct.sizes.clone(), buffered.sizes.clone()]),
        ),
        Picture::order(
            &format!("{name}: the order of the requests on the first"),
            "The first requests of the run.",
            &sides(PATHS, [&direct.places[..], &buffered.places[..]]),
        ),
        Picture::timeline(
            (
                &format!("{name}: what the program gets, over time"),
                "Higher is better. One request at a time lets disks take turns; read-ahead has \
                 all of them at work.",
            ),
            ["s", "MB/s"],
            (1.0, MEGABYTE),
            sides(PATHS, [&direct.timeline, &buffered.timeline]),
        ),
    ]
}
