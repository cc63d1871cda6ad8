//! What may be read of a mirror, told from the standings of its legs.
//!
//! The highest generation decides:
//!
//! ```text
//!   leg    generation  state                   is
//!   0      7           in use                  current
//!   1      7           in use                  doubtful
//!   2      6           in use                  stale: it missed a write
//!   3      7           being resynchronised    unfinished
//! ```
//!
//! - A leg with a lower generation than another missed writes.
//! - Legs that are all *in use* were left without a goodbye: what was on its way at that moment
//!   may have reached some and not others. Each of them is a right answer, but only one of them
//!   may be read, and always the same: the first that is there. Which one was read is not kept, so
//!   bytes go back when an earlier one returns. A leg that is *clean* among them shows that
//!   the mirror was being opened or closed, and nothing was on its way.
//! - What stands in the place of a leg now may be another file or disk than the record is about.
//!   It is *replaced*: it is never read, nor copied from. What its record says of the others is
//!   true all the same.
//! - A leg that is *missing* is left out. Others may have been written to without it, or it
//!   without them, which its record, where it is kept elsewhere, tells.
//! - Legs that have each been written to while the other was missing are *split*.
//! - What contradicts itself is refused. Nobody can tell by looking at bytes which leg is right.

use std::sync::Arc;

use super::record::{LegState, MirrorRecord, RecordError, Standing};
use crate::{CombineError, Device};

/// Higher ones are not counted to; a record that has one is refused.
pub(super) const GENERATION_MAX: u64 = 1 << 62;

/// What a leg is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It has all that was written.
    Current,
    /// It may differ from the first leg in what was on its way when the program ended.
    Doubtful,
    /// It missed writes.
    Stale,
    /// It was being copied to.
    Unfinished,
    /// It is not what the record is about.
    Replaced,
    /// Nothing is there.
    Missing,
    /// It and another were each written to while the other was missing.
    Split,
    /// Nothing is known about any leg.
    Unknown,
}

impl Condition {
    /// A word for people and for JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Doubtful => "doubtful",
            Self::Stale => "stale",
            Self::Unfinished => "unfinished",
            Self::Replaced => "replaced",
            Self::Missing => "missing",
            Self::Split => "split",
            Self::Unknown => "unknown",
        }
    }

    /// Whether it may be read.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, Self::Current | Self::Unknown)
    }
}

/// Standings that contradict each other. Each text names legs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A leg has no record, and another has one.
    #[error("{0} has no record of the mirror, {1} has")]
    Missing(String, String),
    /// They are legs of different mirrors.
    #[error("{0} and {1} are legs of different mirrors")]
    Foreign(String, String),
    /// Not all legs were given, or too many.
    #[error("{leg} is one of {count} legs, not of {given}")]
    Count {
        /// A leg.
        leg: String,
        /// How many it knows of.
        count: u8,
        /// How many were given.
        given: usize,
    },
    /// The same leg twice.
    #[error("{0} and {1} have the record of the same leg")]
    Twice(String, String),
    /// It has got longer or shorter.
    #[error("{leg} has {found_bytes} bytes; it had {length_bytes} as a leg of the mirror")]
    Length {
        /// The leg.
        leg: String,
        /// What the record says.
        length_bytes: u64,
        /// What it has.
        found_bytes: u64,
    },
    /// A generation that nobody counts to.
    #[error("{0} has an impossible record of the mirror")]
    Impossible(String),
    /// A leg that was named as the source would be copied to a good one.
    #[error("{0} was not completely resynchronised and {1} is good")]
    Unfinished(String, String),
    /// None of the legs was ever finished.
    #[error("no leg is complete")]
    NoneComplete,
    /// Those that have everything are missing, were replaced, or contradict each other.
    #[error("no leg is there that is known to have all that was written")]
    NoneGood,
    /// Something else is in the place of a leg: it may hold data that is wanted.
    #[error("{leg} is not the file or device that was a leg of the mirror ({good})")]
    Replaced {
        /// What is there now.
        leg: String,
        /// Which leg is good, in words.
        good: String,
    },
    /// Two that have writes which the other lacks.
    #[error("{0} and another leg were each written to while the other was missing")]
    Split(String),
    /// It cannot be made equal.
    #[error("{0} is missing")]
    Absent(String),
    /// Nothing is known about the legs, and they are to be written to.
    #[error("the legs were never compared")]
    NeverCompared,
}

/// Why a mirror cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// The legs do not fit together.
    #[error(transparent)]
    Combine(#[from] CombineError),
    /// A record could not be read, or not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The records contradict each other.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The bytes could not be read, written or made durable.
    #[error(transparent)]
    Device(#[from] crate::Error),
    /// Legs of which nothing is known are not equal.
    #[error("{leg} differs from {other} at byte {offset}, and nothing tells which is right")]
    Differs {
        /// One.
        leg: String,
        /// The other.
        other: String,
        /// First byte of the first chunk that differs.
        offset: u64,
    },
}

/// What the standings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// Of each leg, in the order in which they were given.
    pub conditions: Vec<Condition>,
    /// As they were found. Those of legs that are there all have one, or none has.
    pub standings: Vec<Option<Standing>>,
    /// The highest, 0 when nothing is known.
    pub generation: u64,
}

impl Assessment {
    /// Loads and judges.
    pub fn of(record: &dyn MirrorRecord, legs: &[Arc<dyn Device>]) -> Result<Self, MirrorError> {
        let loaded = (0..legs.len()).map(|leg| record.load(leg));
        let standings = loaded.collect::<Result<Vec<_>, _>>()?;
        let bindings: Vec<Option<u64>> = (0..legs.len()).map(|leg| record.binding(leg)).collect();
        Ok(judge(standings, legs, &bindings)?)
    }

    /// Refuses a mirror of which no leg may be read.
    pub(super) fn check_readable(&self) -> Result<(), Refusal> {
        if self.bad() == self.conditions.len() {
            return Err(Refusal::NoneGood);
        }
        Ok(())
    }

    /// Refuses to say by itself which leg is right, when that is not known for certain.
    pub fn certain(&self, legs: &[Arc<dyn Device>]) -> Result<(), Refusal> {
        let name = |leg: usize| name_of(legs, leg);
        let is = |wanted: Condition| self.conditions.iter().position(|one| *one == wanted);
        if let Some(leg) = is(Condition::Split) {
            return Err(Refusal::Split(name(leg)));
        }
        if let Some(leg) = is(Condition::Replaced) {
            let good = is(Condition::Current).map_or_else(
                || "and no other is known to be good".to_owned(),
                |good| format!("{} is good", name(good)),
            );
            let leg = name(leg);
            return Err(Refusal::Replaced { leg, good });
        }
        self.check_readable()
    }

    /// Whether nothing is known about any leg.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.generation == 0
    }

    /// Whether the mirror is written to now, or was when its last user ended.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let current = |(condition, standing): (&Condition, &Option<Standing>)| {
            matches!(condition, Condition::Current)
                && standing.is_some_and(|standing| standing.state != LegState::InUse)
        };
        let pairs = self.conditions.iter().zip(&self.standings);
        !self.is_unknown() && !pairs.into_iter().any(current)
    }

    /// Legs that may not be read.
    #[must_use]
    pub fn bad(&self) -> usize {
        self.conditions.iter().filter(|one| !one.is_good()).count()
    }
}

/// The name of a leg.
pub(super) fn name_of(legs: &[Arc<dyn Device>], leg: usize) -> String {
    let device = legs.get(leg);
    device.map_or_else(String::new, |device| device.name().to_owned())
}

fn judge(
    standings: Vec<Option<Standing>>,
    legs: &[Arc<dyn Device>],
    bindings: &[Option<u64>],
) -> Result<Assessment, Refusal> {
    check(&standings, legs, bindings)?;
    let known = || standings.iter().flatten();
    let complete = known().filter(|one| one.state != LegState::Resynchronising);
    let generation = complete.map(|one| one.generation).max();
    if generation.is_none() && known().next().is_some() {
        return Err(Refusal::NoneComplete);
    }
    let generation = generation.unwrap_or(0);
    let newest =
        |one: &&Standing| one.state != LegState::Resynchronising && one.generation == generation;
    let is_unclean = known()
        .filter(newest)
        .all(|one| one.state == LegState::InUse);
    let pairs = || standings.iter().zip(bindings);
    // Those that are what their record is about.
    let there = pairs().filter_map(|(one, binding)| {
        let standing = one.as_ref()?;
        (*binding == Some(standing.binding)).then_some(standing)
    });
    let lowest = there.filter(newest).map(|one| one.index).min();
    let is_left_behind =
        |one: &Standing| known().filter(newest).any(|other| other.left_behind(one));
    let is_split =
        |one: &Standing| known().any(|other| other.left_behind(one) && one.left_behind(other));
    let condition = |(one, binding): (&Option<Standing>, &Option<u64>)| match (one, binding) {
        (_, None) => Condition::Missing,
        (None, Some(_)) => Condition::Unknown,
        (Some(one), Some(binding)) if *binding != one.binding => Condition::Replaced,
        (Some(one), Some(_)) => match one.state {
            LegState::Resynchronising => Condition::Unfinished,
            _ if is_split(one) => Condition::Split,
            _ if one.generation < generation || is_left_behind(one) => Condition::Stale,
            _ if is_unclean && Some(one.index) != lowest => Condition::Doubtful,
            _ => Condition::Current,
        },
    };
    Ok(Assessment {
        conditions: pairs().map(condition).collect(),
        standings,
        generation,
    })
}

/// Whether the standings can be those of one mirror that consists of these legs.
fn check(
    standings: &[Option<Standing>],
    legs: &[Arc<dyn Device>],
    bindings: &[Option<u64>],
) -> Result<(), Refusal> {
    let Some(first) = standings.iter().position(Option::is_some) else {
        return Ok(());
    };
    let name = |leg: usize| name_of(legs, leg);
    let mut known: Vec<(usize, Standing)> = Vec::with_capacity(standings.len());
    let all = standings.iter().zip(legs).zip(bindings).enumerate();
    for (leg, ((standing, device), binding)) in all {
        let found_bytes = device.length_bytes();
        let Some(standing) = *standing else {
            if binding.is_none() {
                continue;
            }
            return Err(Refusal::Missing(name(leg), name(first)));
        };
        if let Some((other, one)) = known.first()
            && one.identity != standing.identity
        {
            return Err(Refusal::Foreign(name(leg), name(*other)));
        }
        if usize::from(standing.count) != legs.len() {
            return Err(Refusal::Count {
                leg: name(leg),
                count: standing.count,
                given: legs.len(),
            });
        }
        if let Some((other, _)) = known.iter().find(|(_, one)| one.index == standing.index) {
            return Err(Refusal::Twice(name(leg), name(*other)));
        }
        if standing.length_bytes != found_bytes && binding.is_some() {
            return Err(Refusal::Length {
                leg: name(leg),
                length_bytes: standing.length_bytes,
                found_bytes,
            });
        }
        let is_counted = (1..=GENERATION_MAX).contains(&standing.generation);
        if !is_counted || standing.index >= standing.count {
            return Err(Refusal::Impossible(name(leg)));
        }
        known.push((leg, standing));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
