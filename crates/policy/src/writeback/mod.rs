//! Which dirty bytes are written when, and how fast may writers go?
//!
//! The problem, as a report of 2000 measured it: a program that rewrote eight cached blocks waited
//! for the disk 8,750 times in 10,000, because a block written to its end was taken for a finished
//! one. So the rule is: **nothing is written because it was written.** There are four reasons to
//! write: a caller wants it durable (a tag), it has been dirty for 30 s, dirty memory is above its
//! background limit, or it lies behind a sequential writer that fills fresh pages one after the
//! other and will not come back.
//!
//! The life of a dirty byte: [`WriteBack::admit`] lets its writer in, or makes it pause
//! (`pacing.rs`). [`WriteBack::wrote`] notes it (`writer.rs`, `file.rs`). [`WriteBack::next`]
//! chooses it (`selection.rs`, which holds the theory of that) and hands it out in a [`Write`],
//! together with its neighbours; from now on it is under write-out. It may be written again
//! meanwhile: then it is both. [`WriteBack::finished`] makes it clean, or dirty again after a
//! failure (`completion.rs`). [`WriteBack::tag`] asks for all of a range (`tags.rs`).
//!
//! ```text
//!            wrote              next               finished: written
//!   clean ----------> dirty ----------> under -----------------------> clean
//!                       ^               write-out ---- wrote ---> both
//!                       |                    |                      |
//!                       +---- finished ------+      finished        |
//!                       |      (failed)                             |
//!                       +-------------------------------------------+
//! ```
//!
//! A device that may lose what it took, and say so, has its bytes *kept* until a flush was good
//! (`kept.rs`).
//!
//! Dirty *memory* is what is limited: a page with one dirty byte counts as a page.
//!
//! There are no threads here. One [`WriteBack`] belongs to one device; the caller keeps it under
//! a lock, and calls `next` whenever something may have become due: after [`Urgency::Now`], after
//! `finished`, and at [`WriteBack::next_at`].

mod completion;
mod counts;
mod discard;
mod file;
mod index;
mod kept;
mod pacing;
mod selection;
pub mod settings;
mod state;
mod stream;
mod tags;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::time::Duration;

pub use crate::elevator::Extent;
pub use counts::Counts;
pub use pacing::Limits;
pub use settings::Settings;
pub use state::WriteBack;

/// Names a file. Chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

/// Names a write until it is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// Names a tag until its end was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// When bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// When there is a reason. The other rules are the baselines of measurements.
    Delayed,
    /// The rule of FreeBSD 2 and 3: a call that reaches the end of a block makes that block due
    /// at once, except block 0, and a block reached in the same call right after block 0.
    BlockEnd,
    /// The same without clustering (mount option `noclusterw`): a call that reaches the end of
    /// a block makes that block due at once, without exception.
    NoCluster,
    /// Every call is written before it returns.
    Sync,
    /// The same, and the block is read again each time, as a `sync` mount of FreeBSD 3 did.
    BugReplica,
    /// The rule of FreeBSD's NFS client: a block knows one range of dirty bytes. A call that
    /// neither overlaps nor touches that range waits until it is written; one that reaches the
    /// end of a block makes the block due at once.
    OneRange,
}

impl Rule {
    /// All, the default first.
    pub const ALL: [Self; 6] = [
        Self::Delayed,
        Self::BlockEnd,
        Self::NoCluster,
        Self::Sync,
        Self::BugReplica,
        Self::OneRange,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::BlockEnd => "block-end",
            Self::NoCluster => "nocluster",
            Self::Sync => "sync",
            Self::BugReplica => "bug-replica",
            Self::OneRange => "one-range",
        }
    }

    /// The rule of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// Whether the cache has to forget a block after it was written, and so reads it again.
    #[must_use]
    pub fn reads_again(self) -> bool {
        self == Self::BugReplica
    }

    /// Whether blocks are written one by one, and writers wait for them.
    fn by_block(self) -> bool {
        matches!(self, Self::BlockEnd | Self::NoCluster | Self::OneRange)
    }

    /// Whether a call is written before it returns.
    #[must_use]
    pub fn synchronous(self) -> bool {
        matches!(self, Self::Sync | Self::BugReplica)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Whether a writer may put bytes into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Granted,
    /// After this pause, at most [`Settings::pause_max`]; then without asking again.
    Paused(Duration),
    /// Not while so much is dirty: drive, wait until a write finished, and ask again.
    Refused,
    /// These bytes are due or under write-out, and the rule makes writers wait for that: drive,
    /// wait until a write finished, and ask again.
    Busy,
}

/// What a call that made bytes dirty has to see to. The later, the more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing.
    Later,
    /// [`WriteBack::next`] has something: wake the thread that drives, or drive.
    Now,
    /// Commit these bytes before the call returns.
    Synchronous,
}

/// A run of bytes to write.
///
/// Under the rules that write by block ([`Rule::BlockEnd`] and the like) it lies in one block and
/// goes from its first dirty byte to its last; what lies between may be clean, and has to be in
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// To be given to [`WriteBack::finished`].
    pub id: WriteId,
    /// Whose bytes.
    pub file: FileNumber,
    /// Which.
    pub extent: Extent,
}

/// How far a tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagState {
    /// Something is not written yet.
    Pending,
    /// Everything was written.
    Written,
    /// Everything was tried, and at least one write failed, or its file was forgotten. Also the
    /// answer for a tag that is not known.
    Failed,
}
