//! Files on a DVD, read in small pieces.
//!
//! The report: OpenSolaris bug 6588256, "HSFS performance needs a boost". A DVD of 8.5 MB/s gave
//! 3.4, because reads had 2 KiB, one request at a time; a C-LOOK elevator with merging and
//! read-ahead halved the time of a copy. Here the drive is modelled ([`pagewell_layers::Model`],
//! preset `dvd`) with a clock that is faster than the wall's in all modes alike, and the cache in
//! front of it has its mechanisms off, as the report had them, on, and each off alone.

mod copying;
mod job;
mod loads;
mod pictures;
mod read_ahead;
mod reading;
mod rig;
mod rows;
mod variant;
mod walking;
mod warmth;

use super::{Result, Session};

/// Runs all cases.
pub(super) fn run(session: &mut Session) -> Result<()> {
    copying::run(session)?;
    walking::run(session)?;
    pictures::compare_rates(session);
    loads::run(session)?;
    pictures::compare_loads(session);
    warmth::run(session)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod virtual_drive;
