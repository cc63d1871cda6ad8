//! One reader of one large file: dd with 8 KiB blocks, and cp.

use pagewell_device::Issuer;
use pagewell_load::measure::number;
use pagewell_load::report::bytes;

use super::job::Job;
use super::pictures;
use super::rig::{Rig, Run, Setup};
use super::rows::{Look, interleave, reference, row};
use super::variant::Variant;
use crate::experiment::{Mode, Phase, Result, Row, Session};

const MIB: u64 = 1 << 20;
/// What the report's dd and cp read.
pub(super) const REPORT_BYTES: u64 = 1 << 30;
/// The drive's clock runs this many times as fast as the wall's: 2 KiB take 66 us on the wall, well
/// above a change of threads.
const SPEED: f64 = 10.0;
/// Smaller than the file, so that memory is given back all the time.
const CACHE_BYTES: u64 = 64 * MIB;
/// Seconds of the report: command, baseline, enhanced.
pub(super) const REPORT: [(&str, f64, f64); 2] =
    [("dd", 364.996, 190.065), ("cp", 363.944, 186.583)];
/// Requests of the report after the change: by dd itself, and by its read-ahead.
const REPORT_READER: f64 = 13.0;
const REPORT_AHEAD: f64 = 65_694.0;

#[derive(Clone, Copy, Debug)]
struct Copy {
    command: &'static str,
    io_bytes: usize,
    file_bytes: u64,
}

impl Copy {
    fn name(&self) -> String {
        let io = bytes(self.io_bytes as u64);
        format!("{} of {}, {io} reads", self.command, bytes(self.file_bytes))
    }
}

pub(super) fn run(session: &mut Session) -> Result<()> {
    let file_bytes = session.options().amount(64 * MIB, REPORT_BYTES);
    let copy = |command, io_bytes| Copy {
        command,
        io_bytes,
        file_bytes,
    };
    let (dd, cp) = (copy("dd", 8192), copy("cp", 1 << 20));
    let three = [Variant::BASELINE, Variant::REPORT, Variant::ENHANCED];
    let mut variants = three.to_vec();
    variants.extend(Variant::ABLATIONS);
    let repeats = measure(session, dd, &variants)?;
    if let Some(runs) = repeats.last() {
        describe(session, runs);
        session.picture(pictures::sizes(runs));
    }
    for runs in &repeats {
        judge(session, dd, runs);
    }
    measure(session, cp, &three)?;
    Ok(())
}

fn measure(session: &mut Session, copy: Copy, variants: &[Variant]) -> Result<Vec<Vec<Run>>> {
    let name = copy.name();
    let once = |session: &Session, variant: &Variant| once(session, copy, variant);
    interleave(session, &name, variants, once, |variant, runs| {
        let row = row(&name, variant, Phase::Cold, Look::Seconds, runs);
        referred(row, copy)
    })
}

fn once(session: &Session, copy: Copy, variant: &Variant) -> Result<Run> {
    let setup = Setup {
        length_bytes: copy.file_bytes,
        cache_bytes: CACHE_BYTES,
        speed: SPEED,
        queue_depth: 1,
    };
    let rig = Rig::new(variant, setup)?;
    let job = Job::once(copy.command, copy.file_bytes, copy.io_bytes);
    rig.run(vec![job], None, session.deadline())
}

/// How exact the drive was, and the sizes of its requests in the form of dtrace.
fn describe(session: &mut Session, runs: &[Run]) {
    let [baseline, report, enhanced, ..] = runs else {
        return;
    };
    session.note(format!(
        "Modelled DVD: 0.43 ms a request, 8.5 MB/s, 67 ms a seek; its clock runs {SPEED} times as \
         fast as the wall's\nhere, in all modes ({} in other cases; each row says it). Seconds are \
         those that the drive was\nbusy, on its clock, and those that it waited for the host, on \
         the wall's. The host took {:.1} us for\neach request of the baseline's dd ({:.3} s busy, \
         {:.3} s on the wall; {:.1} s if the wall's were multiplied).",
        "20 to 50",
        baseline.host_micro_per_request(),
        baseline.busy.as_secs_f64(),
        baseline.wall.as_secs_f64(),
        baseline.wall.as_secs_f64() * SPEED,
    ));
    for (name, run) in [
        ("baseline", baseline),
        ("HSFS rule", report),
        ("enhanced", enhanced),
    ] {
        for issuer in [Issuer::Reader, Issuer::ReadAhead] {
            let sizes = run.device.sizes(Some(issuer));
            // The histogram of the report; longer requests have too many rows.
            let few = sizes.between(32 << 10, u64::MAX) == 0;
            if sizes.total() > 0 && few {
                let issuer = issuer.name();
                session.note(format!("dd, {name}, requests by {issuer}:\n{sizes}"));
            }
        }
    }
}

/// The report has the whole size only, and no ablations.
fn referred(row: Row, copy: Copy) -> Row {
    let found = REPORT
        .iter()
        .find(|(command, _, _)| *command == copy.command);
    let Some((_, before, after)) = found.filter(|_| copy.file_bytes == REPORT_BYTES) else {
        return row;
    };
    match (row.mode, row.variant.as_deref()) {
        (Some(Mode::Baseline), _) => reference(row, *before, "s"),
        (Some(Mode::Enhanced), None | Some("HSFS rule")) => reference(row, *after, "s"),
        _ => row,
    }
}

/// Requirements for dd: baseline, HSFS rule and enhanced are the first three runs.
fn judge(session: &mut Session, copy: Copy, runs: &[Run]) {
    let [baseline, report, enhanced, ..] = runs else {
        return;
    };
    let share = number(copy.file_bytes) / number(REPORT_BYTES);
    let wanted = copy.file_bytes / 2048;
    let requests = baseline.device.requests();
    let sectors = baseline.device.sizes(None).between(2048, 4096);
    session.exact(
        requests == wanted && sectors == wanted,
        format!("dd baseline: {requests} requests, {sectors} of 2048 B; exactly {wanted} wanted"),
    );
    judge_report(session, report, share);
    let requests = enhanced.device.requests();
    let most = (16_384.0 * share) as u64;
    session.exact(
        requests <= most,
        format!("dd enhanced: {requests} requests; at most {most} wanted"),
    );
    let part = enhanced.rate() / enhanced.media_rate;
    session.verdict(
        part >= 0.95,
        format!("dd enhanced: {part:.3} of the media rate; 0.95 wanted"),
    );
    for (run, name) in [(report, "HSFS rule"), (enhanced, "enhanced")] {
        let saved = (1.0 - run.seconds() / baseline.seconds()) * 100.0;
        let required = if name == "enhanced" { 45.0 } else { 40.0 };
        session.verdict(
            saved >= required,
            format!("dd {name}: {saved:.1} % less time; {required} % wanted, 47.9 % in the report"),
        );
    }
    let system = |run: &Run| run.usage.system.as_secs_f64();
    let saved = (1.0 - system(enhanced) / system(baseline).max(1e-9)) * 100.0;
    session.verdict(
        saved >= 70.0,
        format!("dd enhanced: {saved:.1} % less system time; 70 % wanted, 75.4 % in the report"),
    );
}

/// The HSFS rule must make the requests of the report.
fn judge_report(session: &mut Session, run: &Run, share: f64) {
    let of = |issuer: Issuer| run.device.of(issuer).map(|flow| flow.requests).sum::<u64>();
    let (reader, ahead) = (of(Issuer::Reader), of(Issuer::ReadAhead));
    let total = number(reader + ahead);
    let expected = (REPORT_READER + REPORT_AHEAD) * share;
    let off = (total / expected - 1.0) * 100.0;
    session.verdict(
        off.abs() <= 1.0,
        format!(
            "dd HSFS rule: {reader} requests by the reader and {ahead} by read-ahead, {off:+.2} % \
             off the report's {expected:.0}; 1 % wanted"
        ),
    );
    let sizes = number(run.device.sizes(None).between(16_384, 18_432)) / total;
    let part = number(ahead) / total;
    session.verdict(
        sizes >= 0.999 && part >= 0.999,
        format!(
            "dd HSFS rule: {:.3} % of 16 KiB, {:.3} % by read-ahead; 99.9 % wanted",
            sizes * 100.0,
            part * 100.0
        ),
    );
}
