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

/// How an access found its bytes; one that found all, and no marker, is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Neither in memory nor on its way.
    Miss,
    /// Read-ahead was still on its way.
    Late,
    /// A page with a [`Plan::marker`] was first touched.
    Marker,
}

impl AccessKind {
    /// Whether anything was not in memory.
    #[must_use]
    pub fn is_missing(self) -> bool {
        matches!(self, Self::Miss | Self::Late)
    }
}

/// One read, or its part in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// How it found its bytes.
    pub kind: AccessKind,
    /// What read-ahead may request now, for all streams.
    pub budget_bytes: u64,
    /// Memory for what random reads bring along; 0 while read-ahead is on its way.
    pub spare_bytes: u64,
    /// Never goes back; the same for all parts of one read.
    pub now: Duration,
    /// The reader's file, if known. Nothing outside is requested until a reader goes there; where
    /// files lie apart ([`Settings::file_alignment_bytes`]), never.
    pub bounds: Option<Bounds>,
    /// The least time of an answer lately; `None`: not known, or parallel requests gain nothing.
    pub latency: Option<Duration>,
}

/// A file on a device of many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First byte.
    pub start: u64,
    /// The byte after the last.
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

/// What became of planned bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// Read before they were evicted.
    Useful {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Evicted unread.
    Wasted {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// No memory for the rest of the plan.
    Refused {
        /// First byte not fetched.
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

    /// True, and all is forgotten, when too much of at least `least` was evicted unread.
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
    /// Bytes to fetch, the most needed first, with those in memory.
    pub fetch: Vec<Range<u64>>,
    /// Bytes to fetch for no stream.
    pub along: Option<Range<u64>>,
    /// The page whose touch is a [`AccessKind::Marker`].
    pub marker: Option<u64>,
    /// Bytes that the stream will not want again.
    pub release: Option<Range<u64>>,
}

impl Plan {
    /// Cuts at `within`; whether anything to fetch was outside.
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

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses of a stream.
    pub sequential: u64,
    /// Accesses of no stream.
    pub random: u64,
    /// Streams begun.
    pub streams: u64,
    /// Plans that asked for something.
    pub plans: u64,
    /// Bytes asked for.
    pub planned_bytes: u64,
    /// Accesses to bytes on their way.
    pub late: u64,
    /// Bytes evicted unread.
    pub wasted_bytes: u64,
    /// Plans cut for want of memory.
    pub refused: u64,
    /// Those that go backward.
    pub backward: u64,
    /// Those that go in strides.
    pub strides: u64,
    /// Forward skips in streams.
    pub skips: u64,
    /// Streams without a place.
    pub crowded: u64,
    /// Plans cut or put off by the budget.
    pub budget_cuts: u64,
    /// Distances grown as a stream was late.
    pub grown: u64,
    /// Distances shrunk as bytes were wasted.
    pub shrunk: u64,
    /// Plans cut at the end of a file.
    pub bounded: u64,
    /// Plans cut where files lie apart.
    pub outside: u64,
    /// Streams whose readers went into the next file.
    pub unbound: u64,
}
