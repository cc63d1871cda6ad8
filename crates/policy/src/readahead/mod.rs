//! Which bytes will be wanted next?

use std::ops::Range;
use std::time::Duration;

mod adaptive;
mod far;
pub mod hsfs;
mod latency;
mod none;
mod recent;
pub mod settings;
mod stream;
mod stride;

pub use adaptive::Adaptive;
pub use hsfs::Hsfs;
pub use latency::LeastLatency;
pub use none::NoReadAhead;
pub use settings::Settings;

/// How an access found its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// At least one byte was not in memory and not on its way.
    Miss,
    /// A byte that read-ahead asked for was still on its way: read-ahead was late.
    Late,
    /// Everything was there, and the first byte of a page with a [`Plan::marker`] was touched.
    Marker,
    /// Everything was there. Told only to a policy that wants every access.
    Hit,
}

/// One read, or the part of it in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// How it found its bytes.
    pub kind: AccessKind,
    /// How many bytes of read-ahead may be asked for now, over all streams of the cache.
    pub budget_bytes: u64,
    /// The time, since any fixed moment; never goes back. Parts of one read carry the same time:
    /// they are one access, and two accesses are what proves a stream.
    pub now: Duration,
    /// Where what the reader is in ends, when that is known: the end of a file on a device of many
    /// files. Nothing past it is asked for until a reader has crossed it.
    pub bound: Option<u64>,
    /// The least time that the device took to answer a read lately, where many can be on their way
    /// at a time. `None`: not known, or more requests at a time would gain nothing.
    pub latency: Option<Duration>,
}

/// What became of bytes that a plan asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// They were read before they were evicted.
    Useful {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// They were evicted before anybody read them.
    Wasted {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// There was no memory for them: the rest of the plan from `offset` was not fetched.
    Refused {
        /// First byte that was not fetched.
        offset: u64,
    },
}

/// What to do after an access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bytes to fetch that nobody asked for yet, in the order of their need; never past the end.
    /// What is in memory already is skipped by the caller.
    pub fetch: Vec<Range<u64>>,
    /// Report the first touch of the page that holds this byte as [`AccessKind::Marker`].
    pub marker: Option<u64>,
    /// Bytes that the stream has passed and will not want again (free-behind).
    pub release: Option<Range<u64>>,
}

/// A read-ahead policy for one run of bytes (a file or a device).
pub trait ReadAhead: Send {
    /// Whether [`AccessKind::Hit`] has to be told too. Costs a lock for each read.
    fn wants_hits(&self) -> bool;

    /// Tells of an access and asks what to do.
    fn access(&mut self, access: &Access) -> Plan;

    /// Tells what became of an earlier plan.
    fn feedback(&mut self, feedback: Feedback);

    /// What has happened so far.
    fn counts(&self) -> Counts;
}

/// What a policy has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses that went on with a stream.
    pub sequential: u64,
    /// Accesses that belonged to no stream.
    pub random: u64,
    /// Streams begun.
    pub streams: u64,
    /// Plans that asked for something.
    pub plans: u64,
    /// Bytes asked for.
    pub planned_bytes: u64,
    /// Accesses that found their bytes on the way.
    pub late: u64,
    /// Bytes that were used.
    pub useful_bytes: u64,
    /// Bytes that were evicted unread.
    pub wasted_bytes: u64,
    /// Plans cut for want of memory.
    pub refused: u64,
    /// Streams that go backward, among those begun.
    pub backward: u64,
    /// Streams that go in strides, among those begun.
    pub strides: u64,
    /// Forward skips that a stream followed, or that took its distance to a new place.
    pub skips: u64,
    /// Streams not begun because all places were taken by live ones.
    pub crowded: u64,
    /// Plans cut or put off because the budget was too small.
    pub budget_cuts: u64,
    /// Distances grown because read-ahead was late.
    pub grown: u64,
    /// Distances grown at once to what a far device needs; among `grown`, but for streams that
    /// began with what others had learnt.
    pub far: u64,
    /// Times that growing brought no better rate, and was taken back.
    pub unpaid: u64,
    /// Distances shrunk because of waste.
    pub shrunk: u64,
    /// Plans cut at the bound of what the reader is in.
    pub bounded: u64,
    /// Streams that were let past all bounds, because their readers went from one file into the
    /// next.
    pub unbound: u64,
}

impl Counts {
    /// Counts what became of a plan.
    fn feedback(&mut self, feedback: Feedback) {
        match feedback {
            Feedback::Useful { length, .. } => {
                self.useful_bytes = self.useful_bytes.saturating_add(length);
            }
            Feedback::Wasted { length, .. } => {
                self.wasted_bytes = self.wasted_bytes.saturating_add(length);
            }
            Feedback::Refused { .. } => self.refused += 1,
        }
    }
}
