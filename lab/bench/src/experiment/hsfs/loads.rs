//! The twelve cases of filebench in the report.
//!
//! The report ran each for 302 s on files of 1 GB. Here random loads run for a number of
//! operations, at the same places in all modes; competing streams run for a time, so that a
//! starving one shows.

use std::time::Duration;

use pagewell_load::measure::number;
use pagewell_load::report::{bytes, rate};

use super::job::Job;
use super::pictures;
use super::rig::{Rig, Run, Setup};
use super::rows::{Look, interleave, mean_milliseconds, reference, row};
use super::variant::Variant;
use crate::experiment::{Phase, Result, Session};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Files, one behind the other.
const FILES: u64 = 3;
const FILE_BYTES: u64 = 1 << 30;
const CACHE_BYTES: u64 = 64 * MIB;
/// Requests at a time of a drive which is no DVD.
const DEEP: u32 = 4;
/// Readers of the random loads.
const THREADS: u64 = 16;

/// A load of the report.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Random,
    Single,
    Streams,
    Mixed,
}

/// How long, and the speed of the drive's clock.
#[derive(Clone, Copy, Debug)]
struct Amount {
    speed: f64,
    /// Of each thread.
    operations: Option<u64>,
    limit: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    kind: Kind,
    io_bytes: u64,
    /// Operations per second in the report, before and after.
    report: (f64, f64),
}

const fn load(kind: Kind, io_bytes: u64, before: f64, after: f64) -> Load {
    Load {
        kind,
        io_bytes,
        report: (before, after),
    }
}

const LOADS: [Load; 12] = [
    load(Kind::Random, 2 * KIB, 14.8, 14.9),
    load(Kind::Random, 8 * KIB, 14.5, 14.9),
    load(Kind::Random, 32 * KIB, 3.3, 3.3),
    load(Kind::Random, 64 * KIB, 1.6, 1.6),
    load(Kind::Random, MIB, 0.106, 0.113),
    load(Kind::Single, 8 * KIB, 366.2, 19754.4),
    load(Kind::Single, 32 * KIB, 91.8, 7184.6),
    load(Kind::Single, MIB, 2.9, 268.1),
    load(Kind::Streams, 8 * KIB, 6.6, 13.5),
    load(Kind::Streams, 32 * KIB, 1.66, 2.89),
    load(Kind::Streams, MIB, 0.05, 0.1),
    load(Kind::Mixed, 0, 5.3, 7.8),
];

impl Load {
    fn name(&self) -> String {
        let io = bytes(self.io_bytes);
        match self.kind {
            Kind::Random => format!("randomread {io}, {THREADS} threads"),
            Kind::Single => format!("singlestreamread {io}"),
            Kind::Streams => format!("multistreamread {io}, {FILES} files"),
            Kind::Mixed => "mixed, 4 threads".to_owned(),
        }
    }

    fn jobs(&self) -> Vec<Job> {
        let io = usize::try_from(self.io_bytes).unwrap_or(0);
        let start = |file: u64| (file - 1) * FILE_BYTES;
        match self.kind {
            Kind::Random => (1..=THREADS)
                .map(|seed| Job::random(&format!("rand{seed}"), 0, FILE_BYTES, io, seed))
                .collect(),
            Kind::Single => vec![Job::sequential("seqread", 0, FILE_BYTES, io)],
            Kind::Streams => (1..=FILES)
                .map(|file| Job::sequential(&format!("seqread{file}"), start(file), FILE_BYTES, io))
                .collect(),
            // Small reads share the first file, long ones have a file each.
            Kind::Mixed => vec![
                Job::random("rand1", start(1), FILE_BYTES, 8192, 1),
                Job::sequential("seq", start(1), FILE_BYTES, 8192),
                Job::sequential("seq1", start(2), FILE_BYTES, 1 << 20),
                Job::random("rand2", start(3), FILE_BYTES, 1 << 20, 2),
            ],
        }
    }

    /// Random loads end with their operations: about 70 s of the drive for small reads, more for
    /// long ones, which the baseline cuts. Single streams end with their bytes.
    fn amount(&self, quick: bool) -> Amount {
        let part = if quick { 1 } else { 4 };
        let operations = |count: u64| Some(count * part);
        let (speed, operations, seconds) = match self.kind {
            Kind::Random if self.io_bytes >= MIB => (50.0, operations(1), None),
            Kind::Random => (50.0, operations((256 * KIB / self.io_bytes).min(64)), None),
            Kind::Single => (20.0, operations(32 * MIB / self.io_bytes), None),
            Kind::Streams | Kind::Mixed if quick => (40.0, None, Some(80)),
            Kind::Streams | Kind::Mixed => (20.0, None, Some(302)),
        };
        Amount {
            speed,
            operations,
            limit: seconds.map(Duration::from_secs),
        }
    }
}

pub(super) fn run(session: &mut Session) -> Result<()> {
    let both = [Variant::BASELINE, Variant::ENHANCED];
    for load in &LOADS {
        let is_one = load.io_bytes == 8 * KIB;
        let mut variants = both.to_vec();
        if is_one && load.kind == Kind::Streams {
            variants.extend(Variant::ABLATIONS);
        }
        let repeats = measure(session, load, &variants)?;
        for runs in &repeats {
            if let [baseline, enhanced, ..] = runs.as_slice() {
                judge(session, load, baseline, enhanced);
            }
        }
        if load.kind == Kind::Random && load.io_bytes <= 8 * KIB {
            deep(session, load)?;
        }
        if let Some([baseline, enhanced, ..]) = repeats.last().map(Vec::as_slice) {
            filebench(session, load, baseline, "baseline");
            filebench(session, load, enhanced, "enhanced");
            if is_one && load.kind == Kind::Random {
                session.picture(pictures::random_order(baseline, enhanced));
            } else if is_one && load.kind == Kind::Streams {
                session.pictures_of(pictures::streams(baseline, enhanced));
            }
        }
    }
    Ok(())
}

fn measure(session: &mut Session, load: &Load, variants: &[Variant]) -> Result<Vec<Vec<Run>>> {
    let name = load.name();
    let once = |session: &Session, variant: &Variant| once(session, load, variant, 1);
    interleave(session, &name, variants, once, |variant, runs| {
        let row = row(&name, variant, Phase::Cold, Look::Operations, runs);
        match (variant.label(), load.report) {
            ("baseline", (before, _)) => reference(row, before, "ops/s"),
            ("enhanced", (_, after)) => reference(row, after, "ops/s"),
            _ => row,
        }
    })
}

fn once(session: &Session, load: &Load, variant: &Variant, queue_depth: u32) -> Result<Run> {
    let amount = load.amount(session.options().quick);
    let setup = Setup {
        length_bytes: FILES * FILE_BYTES,
        cache_bytes: CACHE_BYTES,
        speed: amount.speed,
        queue_depth,
    };
    let rig = Rig::new(variant, setup)?;
    let mut jobs = load.jobs();
    if let Some(count) = amount.operations {
        jobs = jobs.into_iter().map(|job| job.take(count)).collect();
    }
    rig.run(jobs, amount.limit, session.deadline())
}

/// A drive that takes several requests must get them: no lock is held while one waits.
fn deep(session: &mut Session, load: &Load) -> Result<()> {
    let name = load.name();
    session.step(&format!("{name}, a drive that takes {DEEP}"))?;
    let run = once(session, load, &Variant::ENHANCED, DEEP)?;
    let depth = run.device.outstanding_mean();
    let mut row = row(
        &name,
        &Variant::ENHANCED,
        Phase::Cold,
        Look::Operations,
        &[run],
    );
    row.variant = Some(format!("drive of depth {DEEP}"));
    session.push(row);
    session.verdict(
        depth > 1.0,
        format!(
            "{name}: {depth:.1} requests on average inside a drive that takes {DEEP}; more than \
             1 wanted"
        ),
    );
    Ok(())
}

fn judge(session: &mut Session, load: &Load, baseline: &Run, enhanced: &Run) {
    let name = load.name();
    let factor = enhanced.operations_per_second() / baseline.operations_per_second().max(1e-9);
    session.verdict(
        factor >= 0.98,
        format!("{name}: {factor:.3} times the baseline's operations; 0.98 wanted"),
    );
    if load.kind == Kind::Random {
        let busy = enhanced.busy.as_secs_f64() / enhanced.seconds().max(1e-9);
        let waiting = enhanced.waiting();
        session.verdict(
            busy >= 0.99 && waiting > 1.0,
            format!(
                "{name}: {waiting:.1} reads under way on average, the drive busy for {:.1} % of \
                 the time; more than 1 and 99 % wanted",
                busy * 100.0
            ),
        );
    }
    let moves = enhanced.wraps + enhanced.deadline_picks;
    session.exact(
        enhanced.device.backward <= moves,
        format!(
            "{name}: {} backward moves, {} wraps and {} deadline picks",
            enhanced.device.backward, enhanced.wraps, enhanced.deadline_picks
        ),
    );
    if load.kind == Kind::Streams {
        let part = enhanced.rate() / enhanced.media_rate;
        session.verdict(
            part >= 0.8,
            format!("{name}: together {part:.3} of the media rate; 0.8 wanted"),
        );
        let least = enhanced.fairness();
        session.verdict(
            least >= 0.5,
            format!("{name}: the slowest stream has {least:.2} of the fastest; 0.5 wanted"),
        );
        session.verdict(
            factor >= 1.7,
            format!("{name}: {factor:.1} times the baseline's operations; 1.7 wanted"),
        );
    }
}

/// In the form of filebench in 2007: a line for each stream, then the sum.
fn filebench(session: &mut Session, load: &Load, run: &Run, mode: &str) {
    let seconds = run.seconds().max(1e-9);
    let mut text = format!("{}, {mode}:\n", load.name());
    let streams = run.streams.iter();
    for stream in streams.filter(|_| load.kind != Kind::Random) {
        text += &format!(
            "  {:<16} {:>10.1} ops/s {:>7.1} mb/s {:>10.1} ms/op\n",
            stream.name,
            number(stream.operations) / seconds,
            number(stream.bytes) / seconds / number(MIB),
            mean_milliseconds(run, stream),
        );
    }
    let operations = run.operations();
    let busy = run.streams.iter().map(|stream| stream.busy.as_secs_f64());
    text += &format!(
        "  IO Summary: {operations} ops {:.1} ops/s, ({:.0}/0 r/w) {:.1}mb/s, {:.0}uscpu/op, \
         {:.1} ms/op; active {:.2}, backward {}, hits {:.1} %, {} requests of {} on average",
        run.operations_per_second(),
        run.operations_per_second(),
        run.rate() / number(MIB),
        run.cpu_micro(),
        busy.sum::<f64>() * 1e3 * run.speed / number(operations.max(1)),
        run.device.outstanding_mean(),
        run.device.backward,
        run.hit_ratio() * 100.0,
        rate(number(run.device.requests())),
        bytes(run.device.bytes() / run.device.requests().max(1)),
    );
    session.note(text);
}
