//! Which bytes will be wanted next?

use std::ops::Range;
use std::time::Duration;

mod adaptive;
mod bandwidth_delay;
mod scattered;
pub mod settings;
mod stream;
mod stride;

pub use adaptive::Adaptive;
pub use bandwidth_delay::LeastLatency;
pub use settings::Settings;

use settings::WASTE_DIVISOR;

/// How an access found its bytes. One that found all, and no marker, is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// At least one byte was not in memory and not on its way.
    Miss,
    /// A byte that read-ahead requested was still on its way.
    Late,
    /// The first byte of a page with a [`Plan::marker`] was touched.
    Marker,
}

impl AccessKind {
    /// Whether anything was not in memory.
    #[must_use]
    pub fn is_missing(self) -> bool {
        matches!(self, Self::Miss | Self::Late)
    }
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
    /// What read-ahead may request now, over all streams of the cache.
    pub budget_bytes: u64,
    /// What may come along with reads at random now: memory for it, and 0 while anything that was
    /// fetched ahead is on its way.
    pub spare_bytes: u64,
    /// Never goes back. Parts of one read carry the same time.
    pub now: Duration,
    /// Where the reader's file lies, if known. Nothing outside is requested until a reader has
    /// gone there, and nothing at all where files lie apart ([`Settings::file_alignment_bytes`]).
    pub bounds: Option<Bounds>,
    /// The least time of an answer lately; `None`: not known, or more requests at a time gain
    /// nothing.
    pub latency: Option<Duration>,
}

/// Where a file lies on a device of many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
}

impl Bounds {
    fn mirrored(self, length: u64) -> Self {
        Self {
            start: length.saturating_sub(self.end),
            end: length.saturating_sub(self.start),
        }
    }
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
    /// They were evicted unread.
    Wasted {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// There was no memory for the rest of the plan.
    Refused {
        /// First byte that was not fetched.
        offset: u64,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Judged {
    useful: u64,
    wasted: u64,
}

impl Judged {
    fn useful(&mut self, bytes: u64, recent: u64) {
        self.useful = self.useful.saturating_add(bytes);
        self.fade(recent);
    }

    /// Bytes were evicted unread. True, and all is forgotten, when that is too much of at least
    /// `least`.
    fn wasted(&mut self, bytes: u64, least: u64, recent: u64) -> bool {
        self.wasted = self.wasted.saturating_add(bytes);
        let judged = self.wasted.saturating_add(self.useful);
        if judged < least || self.wasted <= judged / WASTE_DIVISOR {
            self.fade(recent);
            return false;
        }
        *self = Self::default();
        true
    }

    fn fade(&mut self, recent: u64) {
        if self.useful.saturating_add(self.wasted) > recent {
            self.useful /= 2;
            self.wasted /= 2;
        }
    }
}

/// What to do after an access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bytes to fetch, in the order of their need. The caller skips what is in memory.
    pub fetch: Vec<Range<u64>>,
    /// Bytes to fetch that are of no stream.
    pub along: Option<Range<u64>>,
    /// The page to report as [`AccessKind::Marker`] when it is touched.
    pub marker: Option<u64>,
    /// Bytes that the stream will not want again (free-behind).
    pub release: Option<Range<u64>>,
}

impl Plan {
    /// Cuts at `within`; whether that changed anything.
    fn cut(&mut self, within: &Range<u64>) -> bool {
        let outside = |range: &Range<u64>| range.start < within.start || range.end > within.end;
        let cut = |range: &Range<u64>| {
            let inside = range.start.max(within.start)..range.end.min(within.end);
            (inside.start < inside.end).then_some(inside)
        };
        let was_outside = self.fetch.iter().any(outside);
        if was_outside {
            self.fetch = self.fetch.iter().filter_map(cut).collect();
        }
        self.release = self.release.as_ref().and_then(cut);
        self.marker = self.marker.filter(|marker| within.contains(marker));
        was_outside
    }
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
    /// Bytes that were evicted unread.
    pub wasted_bytes: u64,
    /// Plans cut for want of memory.
    pub refused: u64,
    /// Streams that go backward, among those begun.
    pub backward: u64,
    /// Streams that go in strides, among those begun.
    pub strides: u64,
    /// Forward skips of streams.
    pub skips: u64,
    /// Streams not begun for want of a place.
    pub crowded: u64,
    /// Plans cut or put off by the budget.
    pub budget_cuts: u64,
    /// Distances grown because of being late.
    pub grown: u64,
    /// Distances shrunk because of waste.
    pub shrunk: u64,
    /// Plans cut at the end of a file.
    pub bounded: u64,
    /// Plans cut or dropped where files lie apart.
    pub outside: u64,
    /// Streams without bounds, as their readers went into the next file.
    pub unbound: u64,
}
