//! Cached blocks, rewritten: when do they go to the device?
//!
//! **Problem.** A mail of 2000: a program that reads and writes blocks of a small, wholly cached
//! file here and there waits for the disk 8,750 times in 10,000 updates. The system took a call
//! that ends at the end of a block for the last one to this block, and wrote it at once; the next
//! visit waited for that write.
//!
//! **Rule.** The same program under each rule of [`Rule`](super::Rule): those of the report as
//! baselines, `delayed`, that of the page cache, as enhanced. Counted are device reads and writes
//! in the program and device writes in the flush after it. In memory for all sizes, for counts; on
//! a file and on slow devices for times. Each run ends with a comparison of the file with what it
//! must hold.
//!
//! Known weakness: the seconds of the report are those of a disk of 7,200 or 5,400 turns a minute,
//! and include the start of the process; only the counts can be compared.

mod case;
mod pictures;
mod program;
mod report;
mod run;
mod storage;
mod target;
#[cfg(test)]
mod tests;
mod verdicts;

use case::Case;
pub use case::Choice;
pub use program::{Order, Program};
pub use target::TargetName;

use super::{Experiment, Result, Session};

/// Fewer runs do not rule out chance; counts are the same in each.
const TIMED_RUNS_MIN: usize = 5;

/// Runs all cases.
pub(super) fn run(session: &mut Session) -> Result<()> {
    measure(session, &Choice::default())
}

/// Runs the chosen cases. After an early end the session has the reason and what was measured.
pub fn run_choice(session: &mut Session, choice: &Choice) {
    session.conduct(Experiment::SeekReadWrite, |session| {
        measure(session, choice)
    });
}

fn measure(session: &mut Session, choice: &Choice) -> Result<()> {
    let mut cases = choice.cases(session.options().quick)?;
    let ended = run_cases(session, choice, &mut cases);
    // Also after an early end.
    cases.retain(|case| !case.runs.is_empty());
    session.note(report::text(&cases));
    for case in &cases {
        session.push(report::row(case));
    }
    session.pictures_of(pictures::pictures(&cases));
    ended?;
    session.counts(verdicts::counts(&cases));
    session.times(verdicts::times(&cases));
    Ok(())
}

fn run_cases(session: &Session, choice: &Choice, cases: &mut [Case]) -> Result<()> {
    // Repeats in turn, so that changes on the machine meet all cases alike.
    for repeat in 0..session.options().repeat.max(TIMED_RUNS_MIN) {
        for case in &mut *cases {
            if repeat < case.repeats(session.options().repeat) {
                let rule = case.plan.rule.name();
                session.step(&format!("{}, {rule}, {}", case.name(), repeat + 1))?;
                case.runs.push(case.plan.run(choice.directory.as_deref())?);
            }
        }
    }
    Ok(())
}
