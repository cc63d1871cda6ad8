//! The modes on a small file, at a speed at which time does not matter: exact counts.

use std::time::{Duration, Instant};

use pagewell_device::Issuer;

use super::job::Job;
use super::rig::{Rig, Run, Setup};
use super::rows::{Look, row};
use super::variant::Variant;
use crate::experiment::{Mode, Options, Phase, Session};

const FILE_BYTES: u64 = 4 << 20;

fn rig(variant: &Variant) -> Rig {
    rig_at(variant, 100_000.0)
}

fn rig_at(variant: &Variant, speed: f64) -> Rig {
    let setup = Setup {
        length_bytes: FILE_BYTES,
        cache_bytes: 4 << 20,
        speed,
        queue_depth: 1,
    };
    Rig::new(variant, setup).unwrap()
}

fn dd(rig: &Rig) -> Run {
    let job = Job::once("dd", FILE_BYTES, 8192);
    let deadline = Instant::now() + Duration::from_mins(5);
    rig.run(vec![job], None, deadline).unwrap()
}

fn requests(run: &Run, issuer: Issuer) -> u64 {
    run.device.of(issuer).map(|flow| flow.requests).sum()
}

#[test]
fn the_baseline_asks_for_every_sector() {
    let run = dd(&rig(&Variant::BASELINE));
    assert_eq!(run.device.requests(), FILE_BYTES / 2048);
    assert_eq!(
        run.device.sizes(None).between(2048, 4096),
        FILE_BYTES / 2048
    );
    assert_eq!(requests(&run, Issuer::Reader), FILE_BYTES / 2048);
    assert_eq!((run.operations(), run.bytes()), (512, FILE_BYTES));
    assert_eq!((run.seeks, run.device.backward), (0, 0));
    // Exactly the published time: 0.66 ms for each.
    let busy = Duration::from_micros(660) * 2048;
    assert_eq!(run.busy, busy);
}

#[test]
fn the_enhanced_engine_asks_little_and_for_each_byte_once() {
    let run = dd(&rig(&Variant::ENHANCED));
    assert_eq!(run.device.bytes(), FILE_BYTES);
    assert!(
        run.device.requests() <= FILE_BYTES / 65_536,
        "{}",
        run.device.requests()
    );
    assert!(requests(&run, Issuer::ReadAhead) > requests(&run, Issuer::Reader));
}

/// The second drive is slow: read-ahead that is late is not gone, and what follows it is asked for
/// in pieces of four pages, not again and in part.
#[test]
fn the_hsfs_rule_reads_four_pages_ahead() {
    for speed in [100_000.0, 20.0] {
        let run = dd(&rig_at(&Variant::REPORT, speed));
        assert_eq!(run.device.bytes(), FILE_BYTES);
        let total = run.device.requests();
        let pieces = FILE_BYTES / 16_384;
        assert!((pieces..=pieces + 8).contains(&total), "{total}");
        assert!(run.device.sizes(None).between(16_384, 18_432) >= pieces - 4);
        assert!(requests(&run, Issuer::Reader) <= 8);
    }
}

#[test]
fn every_mechanism_switches_off_alone() {
    let enhanced = Variant::ENHANCED.options(8 << 20, 1.0);
    let mut seen = Vec::new();
    for variant in Variant::ABLATIONS {
        let options = variant.options(8 << 20, 1.0);
        assert_ne!(options, enhanced, "{variant:?}");
        assert!(!seen.contains(&options), "{variant:?}");
        seen.push(options);
        let run = dd(&rig(&variant));
        assert_eq!(run.device.bytes(), FILE_BYTES, "{variant:?}");
    }
    assert_eq!(Variant::BASELINE.mode, Mode::Baseline);
    let slow = Variant::ENHANCED.options(8 << 20, 10.0).read_deadline;
    assert_eq!(slow, Some(Duration::from_millis(50)));
}

#[test]
fn a_warm_pass_asks_for_nothing() {
    let rig = rig(&Variant::BASELINE);
    let small = || Job::sequential("dd", 0, 1 << 20, 8192).take(128);
    let deadline = Instant::now() + Duration::from_mins(5);
    let cold = rig.run(vec![small()], None, deadline).unwrap();
    let warm = rig.run(vec![small()], None, deadline).unwrap();
    assert_eq!((cold.device.requests(), warm.device.requests()), (512, 0));
    assert_eq!(warm.bytes(), 1 << 20);
}

#[test]
fn the_end_of_all_time_is_an_error() {
    let job = Job::sequential("dd", 0, FILE_BYTES, 8192);
    let past = Instant::now();
    let result = rig(&Variant::ENHANCED).run(vec![job], None, past);
    assert!(matches!(
        result,
        Err(crate::experiment::Error::OutOfTime(_))
    ));
}

#[test]
fn a_row_has_what_the_device_was_asked_for() {
    let runs = [dd(&rig(&Variant::BASELINE)), dd(&rig(&Variant::BASELINE))];
    let mut session = Session::new(Options::default());
    session.push(row(
        "dd",
        &Variant::BASELINE,
        Phase::Cold,
        Look::Seconds,
        &runs,
    ));
    let json = session.rows()[0].json();
    assert_eq!(json["repeats"], 2);
    assert_eq!(json["device"]["by_issuer"]["reader"], 2048);
    assert_eq!(json["x"]["request_sizes"]["reader"]["2048"], 2048);
    assert_eq!(json["x"]["streams"][0]["operations"], 512);
    // The sum of the drive's service times is on its own clock.
    assert!(json["seconds"]["mean"].as_f64().unwrap() >= 1.351);
}

#[test]
fn a_read_that_crosses_the_limit_of_a_run_counts() {
    let rig = rig(&Variant::BASELINE);
    let job = Job::sequential("s", 0, FILE_BYTES, 1 << 20);
    let end = Instant::now() + Duration::from_mins(5);
    let limit = Some(Duration::from_millis(1));
    let run = rig.run(vec![job], limit, end).unwrap();
    assert!(run.bytes() > 0);
    assert_eq!(run.bytes(), run.device.bytes());
}
