//! What is kept about the legs of a mirror while no program runs.
//!
//! Each leg has a record of its own, its *standing*, kept apart from its bytes and replaced as a
//! whole. Where records live is for the [`MirrorRecord`] to say.

use pagewell_base::sync::Mutex;
use rustix::io::Errno;

/// What a leg was last known to be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegState {
    /// Nobody writes to it, and everything that was written is durable.
    Clean,
    /// A program writes to it, or did so and ended without closing it.
    InUse,
    /// Another leg is being copied to it: its bytes are a mixture until that is done.
    Resynchronising,
}

impl LegState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Clean, Self::InUse, Self::Resynchronising];

    /// A word for people and for JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::InUse => "in use",
            Self::Resynchronising => "being resynchronised",
        }
    }
}

/// The record of one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Random, the same for all legs of one mirror.
    pub identity: [u8; 16],
    /// Which leg it is, from 0.
    pub index: u8,
    /// How many legs the mirror has.
    pub count: u8,
    /// Raised whenever a leg is left behind: one that has a lower one than another missed writes.
    pub generation: u64,
    /// What it was doing.
    pub state: LegState,
    /// Length of the leg, in bytes.
    pub length_bytes: u64,
    /// Legs that lack writes which this one has, a bit for each [`Self::index`]. Two that say so
    /// of each other were both written to while the other was away.
    pub left_behind: u64,
    /// What the leg was when this was stored, by [`MirrorRecord::binding`].
    pub binding: u64,
}

impl Standing {
    /// Of a leg of a new mirror without identity, which is equal to the others.
    pub(super) fn first(index: u8, count: u8, length_bytes: u64) -> Self {
        Self {
            identity: [0; 16],
            index,
            count,
            generation: 1,
            state: LegState::Clean,
            length_bytes,
            left_behind: 0,
            binding: 0,
        }
    }

    /// Whether it has writes that the other lacks.
    pub(super) fn left_behind(&self, other: &Self) -> bool {
        self.left_behind & other.bit() != 0
    }

    /// This leg in [`Self::left_behind`].
    pub(super) fn bit(&self) -> u64 {
        1u64.checked_shl(u32::from(self.index)).unwrap_or(0)
    }
}

/// A record that could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The system refused.
    #[error("{place}: {errno}")]
    Failed {
        /// Where the record is kept.
        place: String,
        /// The system's reason.
        errno: Errno,
    },
    /// What is there is no record, or none that can be relied on.
    #[error("{place}: {reason}")]
    Garbled {
        /// Where the record is kept.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Where the standings of the legs of one mirror are kept. Legs are counted in the order in
/// which they were given, which need not be that of [`Standing::index`].
pub trait MirrorRecord: Send + Sync {
    /// The standing of a leg, nothing when none was ever kept.
    fn load(&self, leg: usize) -> Result<Option<Standing>, RecordError>;

    /// Replaces the standing of a leg. It is durable when this returns `Ok`; after an error the
    /// old or the new one is kept, and nothing between.
    fn store(&self, leg: usize, standing: &Standing) -> Result<(), RecordError>;

    /// A number of what stands in the place of a leg now, which another thing that is put there
    /// cannot have; nothing when nothing is there. Stored with each standing, it tells whether
    /// that is about this leg.
    fn binding(&self, _leg: usize) -> Option<u64> {
        Some(0)
    }
}

/// Standings that end with the program, for legs that do so too.
pub struct MemoryRecord {
    standings: Mutex<Vec<Option<Standing>>>,
}

impl MemoryRecord {
    /// `count` legs of which nothing is known.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            standings: Mutex::new(vec![None; count]),
        }
    }

    /// `count` legs of `length_bytes` that are known to hold the same bytes, at most 64.
    #[must_use]
    pub fn of_equal(count: usize, length_bytes: u64) -> Self {
        let count = u8::try_from(count).unwrap_or(u8::MAX);
        let standings = (0..count).map(|index| Some(Standing::first(index, count, length_bytes)));
        Self {
            standings: Mutex::new(standings.collect()),
        }
    }
}

impl MirrorRecord for MemoryRecord {
    fn load(&self, leg: usize) -> Result<Option<Standing>, RecordError> {
        Ok(self.standings.lock().get(leg).copied().flatten())
    }

    fn store(&self, leg: usize, standing: &Standing) -> Result<(), RecordError> {
        let mut standings = self.standings.lock();
        let slot = standings.get_mut(leg).ok_or_else(|| RecordError::Failed {
            place: format!("leg {leg}"),
            errno: Errno::NOENT,
        })?;
        *slot = Some(*standing);
        Ok(())
    }
}
