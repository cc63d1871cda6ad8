//! An NFS client and its server: round trips, read-ahead, and writes that are gathered.
//!
//! **Problem.** A report of 2014 reads and writes files over NFS at 10 Gbit/s, in eight ways. The
//! client writes small random writes one by one (0.88 WRITEs for each, a hundredth of the wire),
//! reads useless blocks while it lays files out, and keeps one block ahead, so that every distance
//! shows; its counters mix units and go below zero.
//!
//! **Rule.** The same eight workloads over [`pagewell_source_nfs`] against the project's own server
//! in another process, or any server: as the report's client did (blocks of 64 KiB, written when
//! their end is reached or a second range of them becomes dirty; read-ahead of 1 or 8 blocks), and
//! as it is here. Counted are calls by procedure, hits and misses, and processor time on both
//! sides; the ends of every read block are compared with what was written. Then the same reads with
//! a round trip added to each call, fixed read-ahead against `auto`.
//!
//! Known weaknesses: client and server share the processors of one machine, so that rates say
//! little about two; processor time of the server is counted in clock ticks of 10 ms.

mod case;
mod file;
mod fio;
mod netstat;
mod nfsstat;
mod old_client;
mod pictures;
mod recording;
mod round_trip;
mod rows;
mod run;
mod server;
mod threads;
mod verdicts;
mod workload;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;
use pagewell_base::size;
use pagewell_monitor::metrics::Snapshot;

pub use workload::Workload;

use super::{Experiment, Result, Session, system};
use case::{Case, Configuration};
use run::{Memory, Place};

/// Fewer runs do not rule out chance.
const REPEATS_MIN: usize = 3;
const REPEATS_MIN_QUICK: usize = 2;
const MIB: u64 = 1 << 20;
/// The largest file: the order of its blocks is in memory.
const FILE_BYTES_MAX: u64 = 1 << 40;
const FILE_BYTES: u64 = 256 * MIB;
const FILE_BYTES_QUICK: u64 = 32 * MIB;
/// Random writes with the cache of a usual mount.
const USUAL_FILE_BYTES: u64 = 1 << 30;
const USUAL_FILE_BYTES_QUICK: u64 = 128 * MIB;
/// Enough for read-ahead of 1 and of 8 blocks.
const PAIR_BYTES_MAX: u64 = 32 * MIB;
/// With a long round trip only a large file shows what follows the beginning.
const FAR_BYTES_MIN: u64 = 64 * MIB;
/// Files beside each other at the server, and the room of a file system.
const SOURCE_FILES: u64 = 3;
const SOURCE_BYTES_MORE: u64 = 64 * MIB;

/// What to measure. Without a URL this program's own server in another process, once with 4 threads
/// and once with 64, over memory.
#[derive(Clone, Debug, Default, Args)]
pub struct Choice {
    /// The server's export; a file of it may be written, and is removed afterwards
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Bytes of each file [default: 256m, 32m with --quick]
    #[arg(long = "size", value_name = "SIZE", value_parser = parse_file_bytes)]
    pub file_bytes: Option<u64>,
    /// Let the own server export this directory instead of memory
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    pub directory: Option<PathBuf>,
    /// Print each case as fio 2.1.3 would have
    #[arg(long)]
    pub fio: bool,
    /// Print what the clients did in all runs as nfsstat -c of FreeBSD would have, and what memory
    /// is in use as netstat -m would have
    #[arg(long)]
    pub nfsstat: bool,
    /// Only random writes of 4 KiB over 1 GiB (or --size) with the cache that a mount has
    #[arg(long)]
    pub random_writes: bool,
}

fn parse_file_bytes(text: &str) -> std::result::Result<u64, String> {
    size::within(text, MIB..=FILE_BYTES_MAX)
}

/// The `pagewell` beside this program, else that of the PATH.
fn program_beside() -> std::io::Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("pagewell");
    Ok(if beside.exists() {
        beside
    } else {
        "pagewell".into()
    })
}

impl Choice {
    fn file_bytes(&self, quick: bool) -> u64 {
        self.whole(if quick { FILE_BYTES_QUICK } else { FILE_BYTES })
    }

    /// Bytes of a file, in whole megabytes: every block divides them.
    fn whole(&self, usual: u64) -> u64 {
        let bytes = self.file_bytes.unwrap_or(usual);
        bytes.clamp(MIB, FILE_BYTES_MAX) / MIB * MIB
    }

    fn place(&self, threads: u32, file_bytes: u64) -> Result<Place> {
        if let Some(url) = &self.url {
            return Place::foreign(url, file_bytes);
        }
        let source = match &self.directory {
            Some(directory) => format!("dir:{}", directory.display()),
            None => format!("ram:{}", SOURCE_FILES * file_bytes + SOURCE_BYTES_MORE),
        };
        let program = program_beside().map_err(system("this program's path"))?;
        Place::start(&program, threads, &source, file_bytes)
    }
}

/// Runs all cases.
pub(super) fn run(session: &mut Session) -> Result<()> {
    measure(session, &Choice::default())
}

/// Runs the chosen cases. After an early end the session has the reason and what was measured.
pub fn run_choice(session: &mut Session, choice: &Choice) {
    session.conduct(Experiment::Nfs, |session| {
        let ended = measure(session, choice);
        if choice.nfsstat {
            let now = Snapshot::take();
            let text = nfsstat::render(&now) + &netstat::render(&now);
            session.note(text.trim_start().to_owned());
        }
        ended
    });
}

fn measure(session: &mut Session, choice: &Choice) -> Result<()> {
    let quick = session.options().quick;
    let least = session.options().amount(REPEATS_MIN_QUICK, REPEATS_MIN);
    let repeats = session.options().repeat.max(least);
    if choice.random_writes {
        return usual_memory(session, choice, repeats);
    }
    session.step("laying files out")?;
    let file_bytes = choice.file_bytes(quick);
    let places: Result<Vec<Place>> = Configuration::ALL
        .into_iter()
        .map(|configuration| choice.place(configuration.threads(), file_bytes))
        .collect();
    let places = places?;
    // In the order of all configurations.
    let of = |configuration| &places[configuration as usize];
    let few = of(Configuration::Few);
    session.note(few.describe()?);
    let mut cases = case::cases();
    let ended = run_cases(session, &mut cases, repeats, of);
    tell(session, choice, &cases, few.is_ours());
    session.pictures_of(pictures::pictures(&cases, few.is_ours()));
    ended?;
    session.counts(verdicts::counts(&cases, &places));
    session.times(verdicts::random_writes(&cases));
    if few.is_ours() {
        threads::run(session, few, of(Configuration::Many))?;
    }
    usual_memory(session, choice, repeats)?;
    session.step("counting calls")?;
    session.counts(verdicts::exact_reads(few)?);
    drop(places);
    let threads = Configuration::Many.threads();
    let far = choice.place(threads, file_bytes.max(FAR_BYTES_MIN))?;
    let pair = choice.place(threads, file_bytes.min(PAIR_BYTES_MAX))?;
    round_trip::run(session, &far, &pair)
}

/// Random writes over a large file, with the cache of a usual mount.
fn usual_memory(session: &mut Session, choice: &Choice, repeats: usize) -> Result<()> {
    let options = session.options();
    let file_bytes = choice.whole(options.amount(USUAL_FILE_BYTES_QUICK, USUAL_FILE_BYTES));
    session.step("laying a large file out")?;
    let place = choice.place(Configuration::Few.threads(), file_bytes)?;
    let mut cases = case::usual_cases();
    let ended = run_cases(session, &mut cases, repeats, |_| &place);
    tell(session, choice, &cases, place.is_ours());
    ended?;
    let mebibytes = file_bytes >> 20;
    if !Memory::usual_holds(file_bytes) {
        session.note(format!(
            "the cache of a mount of this machine does not hold {mebibytes} MiB of random writes: \
             not judged"
        ));
        return Ok(());
    }
    for (pass, what) in verdicts::random_writes(&cases) {
        session.verdict(pass, format!("{mebibytes} MiB, {what}"));
    }
    Ok(())
}

/// Repeats in turn, so that changes on the machine meet all cases alike.
fn run_cases<'a>(
    session: &Session,
    cases: &mut [Case],
    repeats: usize,
    of: impl Fn(Configuration) -> &'a Place,
) -> Result<()> {
    for repeat in 1..=repeats {
        for case in &mut *cases {
            let (name, mode) = (case.name(true), case.mode.name());
            session.step(&format!("{name}, {mode}, {repeat} of {repeats}"))?;
            case.run(of(case.configuration))?;
        }
    }
    Ok(())
}

/// Also after an early end.
fn tell(session: &mut Session, choice: &Choice, cases: &[Case], ours: bool) {
    session.note(rows::table(cases, ours));
    for case in cases {
        session.rows_of(rows::rows(case, ours));
        if let Some(first) = case.first().first().filter(|_| choice.fio) {
            let title = format!("{}, {}", case.name(ours), case.mode.name());
            let text = fio::text(rows::job(case.workload), case.workload, first);
            session.note(format!("{title}\n\n{text}"));
        }
    }
}
