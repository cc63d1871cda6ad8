//! Which dirty bytes are written when, and how fast may writers go?
//!
//! **Nothing is written because it was written.** There are four reasons: a caller wants it durable
//! (a tag), it is dirty for 30 s, dirty memory is above its background limit, or a sequential
//! writer that fills fresh pages is past it.
//!
//! [`WriteBack::admit`] lets a writer in or has it pause (`share.rs`), [`WriteBack::wrote`] notes
//! its bytes (`dirty_map.rs`), [`WriteBack::next`] chooses a [`Write`] (`write_back.rs`),
//! [`WriteBack::finished`] ends it, [`WriteBack::tag`] asks for a range (`tags.rs`).
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
//! A device that may lose what it took has its bytes *kept* until a flush was good. Limits are on
//! *memory*: a page with one dirty byte counts whole.
//!
//! A [`WriteBack`] belongs to one object of a store, whose objects share limits and bandwidth. The
//! caller calls `next` after [`Urgency::Now`], after `finished`, at [`WriteBack::next_at`], and of
//! all objects after [`WriteBack::take_waiting`].

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

/// Names a tag until its end is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Whether a writer may put bytes into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Granted,
    /// After this pause, at most [`settings::PAUSE_MAX`].
    Paused(Duration),
    /// Not before a write has finished.
    Refused,
}

/// What a call that made bytes dirty asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing.
    Later,
    /// [`WriteBack::next`] has something.
    Now,
}

/// A run of bytes to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// For [`WriteBack::finished`].
    pub id: WriteId,
    /// Its bytes.
    pub extent: Extent,
}

/// The state of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagState {
    /// Something is not written.
    Pending,
    /// Everything was written.
    Written,
    /// A write failed, or the tag is not known.
    Failed,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writers let in at once.
    pub granted: u64,
    /// Writers that paused.
    pub paused: u64,
    /// Writers that would have paused, but might not.
    pub would_pause: u64,
    /// Writers refused at the hard limit.
    pub refused: u64,
    /// Bytes written that were dirty already.
    pub rewritten_bytes: u64,
    /// Bytes written that were under write-out.
    pub redirtied_bytes: u64,
    /// Writes handed out.
    pub writes: u64,
    /// Bytes in them.
    pub write_bytes: u64,
    /// Writes for a tag.
    pub tagged_writes: u64,
    /// Writes of expired bytes.
    pub expired_writes: u64,
    /// Writes again after a failure.
    pub retry_writes: u64,
    /// Writes behind a sequential writer.
    pub behind_writes: u64,
    /// Writes above the background limit.
    pub background_writes: u64,
    /// Times that others preceded tagged bytes.
    pub tags_yielded: u64,
    /// Times that enough was under write-out.
    pub flight_stops: u64,
    /// Writes that succeeded.
    pub written: u64,
    /// Writes that failed.
    pub failed: u64,
    /// Tags set.
    pub tags: u64,
    /// Tags with everything written.
    pub tags_written: u64,
    /// Tags with a failure.
    pub tags_failed: u64,
    /// Unclean bytes that were forgotten.
    pub forgotten_bytes: u64,
    /// Bytes dirty again after a failed flush.
    pub replayed_bytes: u64,
    /// Write streams begun.
    pub streams: u64,
    /// Writes of a stream.
    pub sequential: u64,
    /// Pages behind a stream, written shortly before.
    pub behind_spared_pages: u64,
    /// Pages behind a stream, not full.
    pub behind_skipped_pages: u64,
    /// Pages looked at behind streams.
    pub behind_looked_pages: u64,
    /// Measurements of bandwidth.
    pub bandwidth_steps: u64,
    /// Those of a device with too little to do.
    pub bandwidth_steps_idle: u64,
}
