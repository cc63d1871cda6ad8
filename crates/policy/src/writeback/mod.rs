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
//! (`share.rs`). [`WriteBack::wrote`] notes it (`dirty_map.rs`). [`WriteBack::next`] chooses it
//! (`write_back.rs`, which holds the theory of that) and hands it out in a [`Write`], together with
//! its neighbours; from now on it is under write-out. It may be written again meanwhile: then it is
//! both. [`WriteBack::finished`] makes it clean, or dirty again after a failure. [`WriteBack::tag`]
//! asks for all of a range (`tags.rs`).
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
//! A device that may lose what it took, and say so, has its bytes *kept* until a flush was good.
//!
//! Dirty *memory* is what is limited: a page with one dirty byte counts as a page.
//!
//! There are no threads here. One [`WriteBack`] belongs to one object: a device, or a file of a
//! store, whose objects share limits and bandwidth (`share.rs`). The caller keeps it under a lock,
//! and calls `next` whenever something may have become due: after [`Urgency::Now`], after
//! `finished`, at [`WriteBack::next_at`], and of all objects after [`WriteBack::take_waiting`].

mod dirty_map;
pub mod settings;
mod share;
mod stream;
mod tags;
#[cfg(test)]
mod tests;
mod write_back;

use std::time::Duration;

pub use crate::elevator::Extent;
pub use settings::Settings;
pub use share::{Limits, StoreShare};
pub use write_back::WriteBack;

/// Names a write until it is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// Names a tag until its end was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Whether a writer may put bytes into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Granted,
    /// After this pause, at most [`settings::PAUSE_MAX`]; then without asking again.
    Paused(Duration),
    /// Not while so much is dirty: drive, wait until a write finished, and ask again.
    Refused,
}

/// What a call that made bytes dirty has to see to. The later, the more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing.
    Later,
    /// [`WriteBack::next`] has something: wake the thread that drives, or drive.
    Now,
}

/// A run of bytes to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// To be given to [`WriteBack::finished`].
    pub id: WriteId,
    /// Which bytes.
    pub extent: Extent,
}

/// How far a tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagState {
    /// Something is not written yet.
    Pending,
    /// Everything was written.
    Written,
    /// Everything was tried, and at least one write failed, or it was forgotten. Also the answer
    /// for a tag that is not known.
    Failed,
}

/// How often each branch was taken since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writers let through at once.
    pub granted: u64,
    /// Writers told to pause.
    pub paused: u64,
    /// Writers that may not wait, and would have had to pause.
    pub would_pause: u64,
    /// Writers refused because dirty memory was at its hard limit.
    pub refused: u64,
    /// Bytes written that were dirty already: writes to the device that were saved.
    pub rewritten_bytes: u64,
    /// Bytes written that were under write-out, and are dirty again.
    pub redirtied_bytes: u64,
    /// Writes handed out.
    pub writes: u64,
    /// Bytes in them.
    pub write_bytes: u64,
    /// Writes handed out for a tag.
    pub tagged_writes: u64,
    /// Writes handed out because bytes were dirty for too long.
    pub expired_writes: u64,
    /// Writes handed out again some time after they had failed.
    pub retry_writes: u64,
    /// Writes handed out behind a sequential writer.
    pub behind_writes: u64,
    /// Writes handed out because dirty memory was above its background limit.
    pub background_writes: u64,
    /// Times that tagged bytes let others go first, so that commits hold up no other.
    pub tags_yielded: u64,
    /// Times that writing stopped because enough was under write-out.
    pub flight_stops: u64,
    /// Writes that succeeded.
    pub written: u64,
    /// Writes that failed.
    pub failed: u64,
    /// Tags set.
    pub tags: u64,
    /// Tags that ended with everything written.
    pub tags_written: u64,
    /// Tags that ended with a failure.
    pub tags_failed: u64,
    /// Bytes that were dirty, under write-out or kept when all was forgotten.
    pub forgotten_bytes: u64,
    /// Bytes that were written and dirty again, as a flush failed.
    pub replayed_bytes: u64,
    /// Write streams begun.
    pub streams: u64,
    /// Writes that went on with a stream.
    pub sequential: u64,
    /// Pages that a stream left for later because they had been dirty or written shortly before.
    pub behind_spared_pages: u64,
    /// Pages that a stream had passed before they were full.
    pub behind_skipped_pages: u64,
    /// Pages that were looked at to find what lies behind a sequential writer.
    pub behind_looked_pages: u64,
    /// Measurements of the bandwidth.
    pub bandwidth_steps: u64,
    /// Measurements thrown away because the device had too little to do.
    pub bandwidth_steps_idle: u64,
}
