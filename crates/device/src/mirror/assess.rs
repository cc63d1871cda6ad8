//! What may be read of a mirror, told from the standings of its halves.
//!
//! The highest generation decides:
//!
//! ```text
//!   half   generation  state                   is
//!   0      7           in use                  current
//!   1      7           in use                  doubtful
//!   2      6           in use                  stale: it missed a write
//!   3      7           being resynchronised    unfinished
//! ```
//!
//! - A half with a lower generation than another missed writes.
//! - Halves that are all *in use* were left without a goodbye: what was on its way at that moment
//!   may have reached some and not others. Each of them is a right answer, but only one of them
//!   may be read, and always the same: the first. A half that is *clean* among them shows that
//!   the mirror was being opened or closed, and nothing was on its way.
//! - What stands in the place of a half now may be another file or disk than the record is about.
//!   It is *replaced*: it is never read, nor copied from. What its record says of the others is
//!   true all the same.
//! - A half that is *missing* is left out. Others may have been written to without it, or it
//!   without them, which its record, where it is kept elsewhere, tells.
//! - Halves that have each been written to while the other was missing are *split*.
//! - What contradicts itself is refused. Nobody can tell by looking at bytes which half is right.

use std::sync::Arc;

use super::record::{HalfState, MirrorRecord, RecordError, Standing};
use crate::{CombineError, Device};

/// Higher ones are not counted to; a record that has one is refused.
pub(super) const GENERATION_MAX: u64 = 1 << 62;

/// What a half is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It has all that was written.
    Current,
    /// It may differ from the first half in what was on its way when the program ended.
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
    /// Nothing is known about any half.
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

/// Standings that contradict each other. Each text names a half.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Others have a record and this one has none.
    #[error("{half} has no record of the mirror, {other} has")]
    Missing {
        /// Without.
        half: String,
        /// With.
        other: String,
    },
    /// They are halves of different mirrors.
    #[error("{half} and {other} are halves of different mirrors")]
    Foreign {
        /// One.
        half: String,
        /// The other.
        other: String,
    },
    /// Not all halves were given, or too many.
    #[error("{half} is one of {count} halves, not of {given}")]
    Count {
        /// A half.
        half: String,
        /// How many it knows of.
        count: u8,
        /// How many were given.
        given: usize,
    },
    /// The same half twice.
    #[error("{half} and {other} have the record of the same half")]
    Twice {
        /// One.
        half: String,
        /// The other.
        other: String,
    },
    /// It has got longer or shorter.
    #[error("{half} has {found_bytes} bytes; it had {length_bytes} as a half of the mirror")]
    Length {
        /// The half.
        half: String,
        /// What the record says.
        length_bytes: u64,
        /// What it has.
        found_bytes: u64,
    },
    /// A generation that nobody counts to.
    #[error("{half} has an impossible record of the mirror")]
    Impossible {
        /// The half.
        half: String,
    },
    /// It would be copied to good ones.
    #[error("{half} was not completely resynchronised and {other} is good")]
    Unfinished {
        /// The half that was named as the source.
        half: String,
        /// The good one.
        other: String,
    },
    /// None of the halves was ever finished.
    #[error("no half is complete")]
    NoneComplete,
    /// Those that have everything are missing, were replaced, or contradict each other.
    #[error("no half is there that is known to have all that was written")]
    NoneGood,
    /// Something else is in the place of a half: it may hold data that is wanted.
    #[error("{half} is not the file or device that was a half of the mirror ({good})")]
    Replaced {
        /// What is there now.
        half: String,
        /// Which half is good, in words.
        good: String,
    },
    /// Two that have writes which the other lacks.
    #[error("{half} and another half were each written to while the other was missing")]
    Split {
        /// One.
        half: String,
    },
    /// It cannot be made equal.
    #[error("{half} is missing")]
    Absent {
        /// The half.
        half: String,
    },
    /// Nothing is known about the halves, and they are to be written to.
    #[error("the halves were never compared")]
    NeverCompared,
}

/// Why a mirror cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// The halves do not fit together.
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
    /// Halves of which nothing is known are not equal.
    #[error("{half} differs from {other} at byte {offset}, and nothing tells which is right")]
    Differs {
        /// One.
        half: String,
        /// The other.
        other: String,
        /// First byte of the first chunk that differs.
        offset: u64,
    },
}

/// What the standings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// Of each half, in the order in which they were given.
    pub conditions: Vec<Condition>,
    /// As they were found. Those of halves that are there all have one, or none has.
    pub standings: Vec<Option<Standing>>,
    /// The highest, 0 when nothing is known.
    pub generation: u64,
}

impl Assessment {
    /// Loads and judges.
    pub fn of(record: &dyn MirrorRecord, halves: &[Arc<dyn Device>]) -> Result<Self, MirrorError> {
        let loaded = (0..halves.len()).map(|half| record.load(half));
        let standings = loaded.collect::<Result<Vec<_>, _>>()?;
        let bindings: Vec<Option<u64>> =
            (0..halves.len()).map(|half| record.binding(half)).collect();
        Ok(judge(standings, halves, &bindings)?)
    }

    /// Refuses a mirror of which no half may be read.
    pub(super) fn check_readable(&self) -> Result<(), Refusal> {
        if self.bad() == self.conditions.len() {
            return Err(Refusal::NoneGood);
        }
        Ok(())
    }

    /// Refuses to say by itself which half is right, when that is not known for certain.
    pub fn certain(&self, halves: &[Arc<dyn Device>]) -> Result<(), Refusal> {
        let name = |half: usize| name_of(halves, half);
        let is = |wanted: Condition| self.conditions.iter().position(|one| *one == wanted);
        if let Some(half) = is(Condition::Split) {
            return Err(Refusal::Split { half: name(half) });
        }
        if let Some(half) = is(Condition::Replaced) {
            let good = is(Condition::Current).map_or_else(
                || "and no other is known to be good".to_owned(),
                |good| format!("{} is good", name(good)),
            );
            let half = name(half);
            return Err(Refusal::Replaced { half, good });
        }
        self.check_readable()
    }

    /// Whether nothing is known about any half.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.generation == 0
    }

    /// Whether the mirror is written to now, or was when its last user ended.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let current = |(condition, standing): (&Condition, &Option<Standing>)| {
            matches!(condition, Condition::Current)
                && standing.is_some_and(|standing| standing.state != HalfState::InUse)
        };
        let pairs = self.conditions.iter().zip(&self.standings);
        !self.is_unknown() && !pairs.into_iter().any(current)
    }

    /// Halves that may not be read.
    #[must_use]
    pub fn bad(&self) -> usize {
        self.conditions.iter().filter(|one| !one.is_good()).count()
    }
}

/// The name of a half.
pub(super) fn name_of(halves: &[Arc<dyn Device>], half: usize) -> String {
    let device = halves.get(half);
    device.map_or_else(String::new, |device| device.name().to_owned())
}

fn judge(
    standings: Vec<Option<Standing>>,
    halves: &[Arc<dyn Device>],
    bindings: &[Option<u64>],
) -> Result<Assessment, Refusal> {
    let Some(first) = standings.iter().position(Option::is_some) else {
        let condition = |binding: &Option<u64>| match binding {
            Some(_) => Condition::Unknown,
            None => Condition::Missing,
        };
        return Ok(Assessment {
            conditions: bindings.iter().map(condition).collect(),
            standings,
            generation: 0,
        });
    };
    check(&standings, halves, bindings, first)?;
    let known = || standings.iter().flatten();
    let complete = known().filter(|one| one.state != HalfState::Resynchronising);
    let generation = complete.map(|one| one.generation).max();
    let generation = generation.ok_or(Refusal::NoneComplete)?;
    let newest =
        |one: &&Standing| one.state != HalfState::Resynchronising && one.generation == generation;
    let is_unclean = known()
        .filter(newest)
        .all(|one| one.state == HalfState::InUse);
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
            HalfState::Resynchronising => Condition::Unfinished,
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

/// Whether the standings can be those of one mirror that consists of these halves. `first` is
/// a half that has one.
fn check(
    standings: &[Option<Standing>],
    halves: &[Arc<dyn Device>],
    bindings: &[Option<u64>],
    first: usize,
) -> Result<(), Refusal> {
    let name = |half: usize| name_of(halves, half);
    let mut known: Vec<(usize, Standing)> = Vec::with_capacity(standings.len());
    let all = standings.iter().zip(halves).zip(bindings).enumerate();
    for (half, ((standing, device), binding)) in all {
        let found_bytes = device.length_bytes();
        let Some(standing) = *standing else {
            if binding.is_none() {
                continue;
            }
            return Err(Refusal::Missing {
                half: name(half),
                other: name(first),
            });
        };
        if let Some((other, _)) =
            { known.first() }.filter(|(_, one)| one.identity != standing.identity)
        {
            return Err(Refusal::Foreign {
                half: name(half),
                other: name(*other),
            });
        }
        if usize::from(standing.count) != halves.len() {
            return Err(Refusal::Count {
                half: name(half),
                count: standing.count,
                given: halves.len(),
            });
        }
        if let Some((other, _)) = known.iter().find(|(_, one)| one.index == standing.index) {
            return Err(Refusal::Twice {
                half: name(half),
                other: name(*other),
            });
        }
        if standing.length_bytes != found_bytes && binding.is_some() {
            return Err(Refusal::Length {
                half: name(half),
                length_bytes: standing.length_bytes,
                found_bytes,
            });
        }
        if !(1..=GENERATION_MAX).contains(&standing.generation) || standing.index >= standing.count
        {
            return Err(Refusal::Impossible { half: name(half) });
        }
        known.push((half, standing));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
