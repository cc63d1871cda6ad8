//! The worth of a warm cache, and what a stream leaves of it.
//!
//! The report's single streams ran at up to 268 MB/s, more than any DVD gives: the file came from
//! memory, which the report's baseline did not keep. Here each pass has rows of its own. And a
//! stream much longer than the cache must leave what others use.

use std::sync::Arc;

use pagewell_base::mix::Random;
use pagewell_cache::{Cache, CachedDevice, ReadMode};
use pagewell_layers::Pattern;
use pagewell_load::measure::number;
use pagewell_load::report::bytes;

use super::job::Job;
use super::rig::{Rig, Run, Setup};
use super::rows::{Look, row};
use super::variant::Variant;
use crate::experiment::{Figure, Mode, Phase, Result, Row, Session};

const MIB: u64 = 1 << 20;
const SPEED: f64 = 20.0;
const IO_BYTES: usize = 8192;

pub(super) fn run(session: &mut Session) -> Result<()> {
    passes(session)?;
    free_behind(session)
}

/// The same file twice, through a cache that holds it.
fn passes(session: &mut Session) -> Result<()> {
    let file_bytes = session.options().amount(16 * MIB, 128 * MIB);
    let name = format!("{} twice, 8 KiB reads", bytes(file_bytes));
    for variant in [Variant::BASELINE, Variant::ENHANCED] {
        let (mut cold, mut warm) = (Vec::new(), Vec::new());
        for repeat in 0..session.options().repeat.max(1) {
            session.step(&format!("{name}, {}, {repeat}", variant.label()))?;
            let setup = Setup {
                length_bytes: file_bytes,
                cache_bytes: 2 * file_bytes,
                speed: SPEED,
                queue_depth: 1,
            };
            let rig = Rig::new(&variant, setup)?;
            let pass = || -> Result<Run> {
                let job = Job::once("seqread", file_bytes, IO_BYTES);
                rig.run(vec![job], None, session.deadline())
            };
            cold.push(pass()?);
            warm.push(pass()?);
        }
        let again: u64 = warm.iter().map(|run| run.device.requests()).sum();
        for (phase, runs) in [(Phase::Cold, &cold), (Phase::Warm, &warm)] {
            session.push(row(&name, &variant, phase, Look::Operations, runs));
        }
        session.exact(
            again == 0,
            format!(
                "{name}, {}: {again} requests when warm; 0 wanted",
                variant.label()
            ),
        );
    }
    Ok(())
}

/// A stream of many times the cache over a small warm set; no drive is needed.
fn free_behind(session: &mut Session) -> Result<()> {
    let quick = (32 * MIB, 8 * MIB, 512 * MIB);
    let full = (256 * MIB, 64 * MIB, 4096 * MIB);
    let (cache, warm, stream) = session.options().amount(quick, full);
    let name = format!(
        "{} stream, {} cache: what stays of {}",
        bytes(stream),
        bytes(cache),
        bytes(warm)
    );
    let mut variants = vec![Variant::BASELINE, Variant::ENHANCED];
    variants.extend(Variant::ABLATIONS);
    variants.retain(|variant| matches!(variant.name, None | Some("no free-behind")));
    for variant in variants {
        session.step(&format!("{name}, {}", variant.label()))?;
        let pattern = Arc::new(Pattern::new(warm + stream, 1));
        let device = Cache::new(variant.options(cache, 1.0))?.open(pattern);
        let kept = kept(&device, warm, stream)?;
        let mut row = Row::new(name.clone(), variant.mode, Phase::Warm);
        row.variant = variant.name.map(str::to_owned);
        row.figure = Some(Figure::rate("% resident", vec![kept * 100.0]));
        session.push(row);
        if variant.mode == Mode::Enhanced && variant.name.is_none() {
            session.exact(
                kept >= 0.9,
                format!("{name}: {:.1} %; 90 % wanted", kept * 100.0),
            );
        }
    }
    Ok(())
}

/// The part of the first `warm` bytes, read three times at random before, that is in memory after
/// the rest was read in order.
fn kept(device: &CachedDevice, warm: u64, stream: u64) -> Result<f64> {
    let mut buffer = vec![0; IO_BYTES];
    let count = warm / IO_BYTES as u64;
    let mut random = Random(3);
    for pass in 0..3 {
        for index in 0..count {
            let place = if pass == 0 {
                index
            } else {
                random.below(count)
            };
            device.read_at(place * IO_BYTES as u64, &mut buffer, ReadMode::WAIT)?;
        }
    }
    let mut long = vec![0; 1 << 16];
    for offset in (warm..warm + stream).step_by(long.len()) {
        device.read_at(offset, &mut long, ReadMode::WAIT)?;
    }
    // From behind, and each page once, so that no look fetches what a later look finds.
    let pages = warm / pagewell_cache::PAGE_BYTES as u64;
    let mut found = 0;
    for page in (0..pages).rev() {
        let offset = page * pagewell_cache::PAGE_BYTES as u64;
        found += u64::from(device.pin(offset, 1, ReadMode::TRY).is_ok());
    }
    Ok(number(found) / number(pages.max(1)))
}
