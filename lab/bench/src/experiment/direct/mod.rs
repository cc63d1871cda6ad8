//! Direct, raw, buffered and pinned reads of the same bytes.
//!
//! **Problem.** A mail of 2002 reads eight disks in four ways and finds direct I/O at half the rate
//! of buffered reads, and the copy of buffered reads at a third of their time. Both are true, and
//! neither is a property of direct I/O: the tool has one request outstanding, so that disks take
//! turns where read-ahead lets them work together.
//!
//! **Rule.** The same four paths over modelled disks and over a file: [`Path::Direct`],
//! [`Path::Raw`], [`Path::Buffered`], [`Path::NoCopy`]; then direct reads with more requests
//! outstanding than there are disks. Counted are requests and bytes at the device, bytes copied,
//! processor time with and without the simulation of devices, and where the reader's time went.
//! Before anything is timed each path reads some bytes of known value, and all are compared.
//!
//! Lent pages are safe: a pin gives a shared slice of the page, so the type system permits no write
//! to it, and the page stays until the pin is dropped.

mod case;
mod meter;
mod path;
mod pictures;
mod reading;
mod report;
mod rows;
mod scratch;
mod target;
mod verdicts;

pub use case::Choice;
pub use path::{Path, Reference};
pub use scratch::Scratch;
pub use target::TargetName;

use super::{Experiment, Result, Session};

/// Fewer runs do not rule out chance.
const REPEATS_MIN: usize = 3;

/// Runs all cases.
pub(super) fn run(session: &mut Session) -> Result<()> {
    measure(session, &Choice::default())
}

/// Runs the chosen cases. After an early end the session has the reason and what was measured.
pub fn run_choice(session: &mut Session, choice: &Choice) {
    session.conduct(Experiment::Direct, |session| measure(session, choice));
}

fn measure(session: &mut Session, choice: &Choice) -> Result<()> {
    session.step("making a scratch file")?;
    let repeats = session.options().repeat.max(REPEATS_MIN);
    for mut case in case::cases(choice, session.options().quick)? {
        session.step(&format!("{}, every byte compared", case.name))?;
        case.check()?;
        for repeat in 1..=repeats {
            session.step(&format!("{}, {repeat} of {repeats}", case.name))?;
            case.round()?;
        }
        session.note(report::text(&case)?);
        session.rows_of(rows::rows(&case));
        session.pictures_of(pictures::pictures(&case));
        session.counts(verdicts::counts(&case));
        session.times(verdicts::times(&case));
    }
    Ok(())
}
