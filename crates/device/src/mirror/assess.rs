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
//! - What contradicts itself is refused. Nobody can tell by looking at bytes which half is right.

use super::record::{HalfState, MirrorRecord, RecordError, Standing};
use crate::CombineError;

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
    /// As they were found; all or none are there.
    pub standings: Vec<Option<Standing>>,
    /// The highest, 0 when nothing is known.
    pub generation: u64,
}

impl Assessment {
    /// Loads and judges. `halves` has the name and the length of each.
    pub fn of(record: &dyn MirrorRecord, halves: &[(&str, u64)]) -> Result<Self, MirrorError> {
        let loaded = (0..halves.len()).map(|half| record.load(half));
        let standings = loaded.collect::<Result<Vec<_>, _>>()?;
        Ok(judge(standings, halves)?)
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

fn judge(standings: Vec<Option<Standing>>, halves: &[(&str, u64)]) -> Result<Assessment, Refusal> {
    let Some(first) = standings.iter().position(Option::is_some) else {
        return Ok(Assessment {
            conditions: vec![Condition::Unknown; halves.len()],
            standings,
            generation: 0,
        });
    };
    let known = check(&standings, halves, first)?;
    let complete = known
        .iter()
        .filter(|one| one.state != HalfState::Resynchronising);
    let generation = complete.map(|one| one.generation).max();
    let generation = generation.ok_or(Refusal::NoneComplete)?;
    let newest =
        |one: &&Standing| one.state != HalfState::Resynchronising && one.generation == generation;
    let is_unclean = known
        .iter()
        .filter(newest)
        .all(|one| one.state == HalfState::InUse);
    let lowest = known.iter().filter(newest).map(|one| one.index).min();
    let condition = |one: &Standing| match one.state {
        HalfState::Resynchronising => Condition::Unfinished,
        _ if one.generation < generation => Condition::Stale,
        _ if is_unclean && Some(one.index) != lowest => Condition::Doubtful,
        _ => Condition::Current,
    };
    Ok(Assessment {
        conditions: known.iter().map(condition).collect(),
        standings,
        generation,
    })
}

/// All standings, when they can be those of one mirror that consists of these halves. `first` is
/// a half that has one.
fn check(
    standings: &[Option<Standing>],
    halves: &[(&str, u64)],
    first: usize,
) -> Result<Vec<Standing>, Refusal> {
    let name = |half: usize| halves.get(half).map_or("", |(name, _)| name).to_owned();
    let mut known: Vec<Standing> = Vec::with_capacity(standings.len());
    for (half, (standing, (_, found_bytes))) in standings.iter().zip(halves).enumerate() {
        let Some(standing) = *standing else {
            return Err(Refusal::Missing {
                half: name(half),
                other: name(first),
            });
        };
        if let Some(other) = known.first()
            && other.identity != standing.identity
        {
            return Err(Refusal::Foreign {
                half: name(half),
                other: name(0),
            });
        }
        if usize::from(standing.count) != halves.len() {
            return Err(Refusal::Count {
                half: name(half),
                count: standing.count,
                given: halves.len(),
            });
        }
        if let Some(other) = known.iter().position(|one| one.index == standing.index) {
            return Err(Refusal::Twice {
                half: name(half),
                other: name(other),
            });
        }
        if standing.length_bytes != *found_bytes {
            return Err(Refusal::Length {
                half: name(half),
                length_bytes: standing.length_bytes,
                found_bytes: *found_bytes,
            });
        }
        if !(1..=GENERATION_MAX).contains(&standing.generation) || standing.index >= standing.count
        {
            return Err(Refusal::Impossible { half: name(half) });
        }
        known.push(standing);
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use HalfState::{Clean, InUse, Resynchronising};

    const HALVES: [(&str, u64); 3] = [("a", 100), ("b", 100), ("c", 100)];

    fn one(index: u8, generation: u64, state: HalfState) -> Option<Standing> {
        Some(Standing {
            identity: [7; 16],
            index,
            count: 3,
            generation,
            state,
            length_bytes: 100,
        })
    }

    #[test]
    fn generations_and_states_tell_what_may_be_read() {
        use Condition::{Current, Doubtful, Stale, Unfinished};
        for (found, expected, in_use) in [
            (
                [(0, 5, Clean), (1, 5, Clean), (2, 5, Clean)],
                [Current, Current, Current],
                false,
            ),
            (
                [(0, 5, InUse), (1, 5, InUse), (2, 4, InUse)],
                [Current, Doubtful, Stale],
                true,
            ),
            // The order on the command line changes nothing.
            (
                [(2, 5, InUse), (1, 5, InUse), (0, 5, InUse)],
                [Doubtful, Doubtful, Current],
                true,
            ),
            // While it was opened or closed: nothing was on its way.
            (
                [(0, 5, InUse), (1, 5, Clean), (2, 5, InUse)],
                [Current, Current, Current],
                false,
            ),
            // The newest half was alone; that the others are clean says nothing.
            (
                [(0, 5, Clean), (1, 6, InUse), (2, 5, Clean)],
                [Stale, Current, Stale],
                true,
            ),
            // One that is being copied to is not taken for the newest.
            (
                [(0, 5, Clean), (1, 9, Resynchronising), (2, 5, InUse)],
                [Current, Unfinished, Current],
                false,
            ),
        ] {
            let found: Vec<_> = found
                .iter()
                .map(|half| one(half.0, half.1, half.2))
                .collect();
            let assessment = judge(found.clone(), &HALVES).unwrap();
            assert_eq!(assessment.conditions, expected, "{found:?}");
            assert_eq!(assessment.is_in_use(), in_use, "{found:?}");
        }
        let unknown = judge(vec![None; 3], &HALVES).unwrap();
        assert!(unknown.is_unknown() && !unknown.is_in_use());
        assert_eq!(unknown.bad(), 0);
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        let good = [one(0, 5, Clean), one(1, 5, Clean), one(2, 5, Clean)];
        let with = |half: usize, change: &dyn Fn(&mut Standing)| {
            let mut found = good.to_vec();
            change(found[half].as_mut().unwrap());
            judge(found, &HALVES).unwrap_err().to_string()
        };
        for (text, part) in [
            (
                with(1, &|one| one.identity[3] = 0),
                "b and a are halves of different",
            ),
            (
                with(2, &|one| one.count = 2),
                "c is one of 2 halves, not of 3",
            ),
            (
                with(2, &|one| one.index = 1),
                "c and b have the record of the same",
            ),
            (
                with(1, &|one| one.length_bytes = 99),
                "b has 100 bytes; it had 99",
            ),
            (with(1, &|one| one.generation = 0), "b has an impossible"),
            (
                with(1, &|one| one.generation = u64::MAX),
                "b has an impossible",
            ),
            (with(1, &|one| one.index = 3), "b has an impossible"),
        ] {
            assert!(text.contains(part), "{text}");
        }
        let missing = judge(vec![None, good[1], good[2]], &HALVES);
        let text = missing.unwrap_err().to_string();
        assert!(
            text.contains("a has no record of the mirror, b has"),
            "{text}"
        );
        let copied = [0, 1, 2].map(|index| one(index, 3, Resynchronising));
        let nothing = judge(copied.to_vec(), &HALVES);
        assert_eq!(nothing, Err(Refusal::NoneComplete));
    }
}
