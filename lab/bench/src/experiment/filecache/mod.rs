//! Random reads through windows of mapped memory, and with all memory mapped.
//!
//! **Problem.** Solaris before segkpm reached its page cache through segmap: a region of windows,
//! 12 % of memory, into which pieces of files were mapped and from which they were unmapped. A file
//! larger than the region cost two changes of mappings for each read, and an interrupt on every
//! other processor for each change. **Rule.** Mapping all memory once makes a read's cost
//! independent of its page.
//!
//! The cache does the second. The windows are made here, into the memory of a cache that is a file,
//! and both read through the same pins. Random reads of 8 KiB over files of three sizes
//! ([`Regime`]), the mappings by turns, by 1 to 16 threads: processor time of a read, windows
//! mapped and unmapped, page faults, shoot-downs. The device is a computed pattern and costs both
//! the same. Then reads of bytes in memory beside a bare copy.

mod file;
mod hammer;
mod kernel;
mod memory_copy;
mod memory_report;
mod pictures;
mod random;
mod regime;
mod report;
mod runs;
mod verdicts;
mod window;

use std::path::PathBuf;

use pagewell_load::measure::memory_bytes;

pub use regime::{Regime, window_slots};
pub use runs::Settings;

use super::{Experiment, Result, Session};

const MIB: u64 = 1 << 20;
/// Fewer runs do not rule out chance.
const REPEATS_MIN: usize = 3;
/// Threads of the table; the report expects the gain to grow with processors.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// Reads of a quick run: a quarter to half of a second in each regime.
const READS: [u64; 3] = [200_000, 40_000, 16_000];
/// Times as many in a full run.
const FULL: u64 = 5;

/// How much to do.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The runs through the cache.
    pub settings: Settings,
    /// Working sets of the comparison with a bare copy, in bytes.
    pub working_sets: Vec<u64>,
    /// Reads of one of its rounds.
    pub reads: u64,
    /// Its rounds.
    pub rounds: u32,
    /// Where its file is made.
    pub directory: Option<PathBuf>,
}

impl Choice {
    /// All cases, each at least `repeat` times.
    pub fn everything(quick: bool, repeat: usize) -> Self {
        let repeats = u32::try_from(repeat.max(REPEATS_MIN)).unwrap_or(u32::MAX);
        Self {
            settings: Settings {
                cache_bytes: if quick { 256 * MIB } else { 1024 * MIB },
                threads: THREADS.to_vec(),
                repeats,
                reads: READS.map(|reads| if quick { reads } else { FULL * reads }),
            },
            working_sets: if quick {
                vec![64 * MIB, 512 * MIB]
            } else {
                vec![64 * MIB, 4096 * MIB]
            },
            reads: if quick { 50_000 } else { 200_000 },
            rounds: if quick { 5 } else { 9 },
            directory: None,
        }
    }
}

/// Runs all cases.
pub(super) fn run(session: &mut Session) -> Result<()> {
    let options = session.options();
    let choice = Choice::everything(options.quick, options.repeat);
    measure(session, &choice)
}

/// Runs the chosen cases. After an early end the session has the reason and what was measured.
pub fn run_choice(session: &mut Session, choice: &Choice) {
    session.conduct(Experiment::FileCache, |session| measure(session, choice));
}

fn measure(session: &mut Session, choice: &Choice) -> Result<()> {
    let settings = &choice.settings;
    let mut cells = Vec::new();
    for regime in Regime::ALL {
        let what = |what: &str| format!("{}: {what}", regime.name());
        session.step(&what("filling"))?;
        let mut pair = runs::prepare_both(regime, settings.cache_bytes)?;
        for threads in &settings.threads {
            session.step(&what(&format!("{threads} threads")))?;
            let cell = pair.measure(*threads, settings)?;
            session.rows_of(report::rows(&cell));
            cells.push(cell);
        }
    }
    session.note(report::text(&cells, settings));
    session.pictures_of(pictures::pictures(&cells));
    session.counts(verdicts::counts(&cells));
    session.times(verdicts::times(&cells));
    for bytes in &choice.working_sets {
        copies(session, choice, *bytes)?;
    }
    Ok(())
}

/// Reads of one working set beside a bare copy.
fn copies(session: &mut Session, choice: &Choice, bytes: u64) -> Result<()> {
    let name = pagewell_load::report::bytes(bytes);
    session.step(&format!("reads and copies, {name}"))?;
    // The cache, the bare memory and the file in the kernel's cache.
    let wanted = bytes.saturating_mul(7) / 2;
    let available = memory_bytes("MemAvailable").unwrap_or(u64::MAX);
    if available < wanted {
        session.note(format!(
            "{name} were left out: that takes {} of memory, and {} are free\n",
            pagewell_load::report::bytes(wanted),
            pagewell_load::report::bytes(available)
        ));
        return Ok(());
    }
    let (reads, rounds) = (choice.reads, choice.rounds);
    let times = memory_copy::measure(bytes, reads, rounds, choice.directory.as_deref())?;
    session.note(memory_report::text(&times));
    session.rows_of(memory_report::rows(&times));
    session.times(memory_report::verdicts(&times));
    Ok(())
}
