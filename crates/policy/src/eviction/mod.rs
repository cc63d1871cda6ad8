//! Which page goes when another needs its place?
//!
//! [`S3Fifo`] says. The tests and the bench compare it with others.

mod ghost;
mod list;
mod s3fifo;

pub use ghost::Ghost;
pub use list::Links;
pub use s3fifo::{S3Fifo, STREAM_SHARE};

/// A place for one page in the arena, 0 to the number of places less 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameIndex(pub u32);

/// How a page came into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was asked for.
    Demand,
    /// Read-ahead fetched it for a stream.
    Stream,
}

/// What the owner of the pages knows of them. Hits are counted by the owner, without a lock and
/// without telling the policy.
pub trait Frames {
    /// Whether the page may go: it is neither pinned nor dirty nor being fetched.
    fn is_evictable(&self, frame: FrameIndex) -> bool;

    /// Hits since the page came or was last [`Frames::cool`]ed, saturating at
    /// [`HEAT_MAX`].
    fn heat(&self, frame: FrameIndex) -> u8;

    /// Lowers the heat to `heat`; hits that come meanwhile may be lost.
    fn cool(&self, frame: FrameIndex, heat: u8);
}

/// Hits of a page are counted up to this.
pub const HEAT_MAX: u8 = 3;

/// So many pages that cannot go are passed over in one search for a victim.
pub const SKIPS_MAX: u32 = 128;

/// So many pages that were hit are spared in one search for a victim; the next that can go goes.
pub const SPARED_MAX: u32 = 128;
