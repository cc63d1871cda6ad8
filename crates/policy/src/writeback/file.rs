//! The dirty bytes of one file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pagewell_base::spans::{Span, Spans};

use super::WriteId;

/// A page with a byte that is dirty, under write-out or kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// When it became dirty.
    pub(super) since: Duration,
    /// Writes under way that touch it.
    pub(super) flights: u32,
    /// It has a dirty byte.
    pub(super) dirty: bool,
    /// It has nothing but kept bytes.
    pub(super) only_kept: bool,
    /// It has a byte that may be written now.
    pub(super) ready: bool,
    /// Each of its dirty bytes was written once, and none to the device within the last expiry
    /// interval.
    pub(super) fresh: bool,
    /// A byte of it was written again while it was dirty or under write-out.
    pub(super) rewritten: bool,
    /// After a failure, until [`Page::retry_at`].
    pub(super) waiting: bool,
    /// When it is tried again.
    pub(super) retry_at: Duration,
    /// How long the last wait was; zero when the last write did not fail.
    pub(super) retry_delay: Duration,
}

impl Page {
    pub(super) fn new(since: Duration) -> Self {
        Self {
            since,
            flights: 0,
            dirty: false,
            only_kept: false,
            ready: false,
            fresh: false,
            rewritten: false,
            waiting: false,
            retry_at: Duration::ZERO,
            retry_delay: Duration::ZERO,
        }
    }
}

/// Why a page is to be written although dirty memory is below the background limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Expired,
    Retry,
    Behind,
}

/// Bytes under write-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) end: u64,
    pub(super) id: WriteId,
    /// The file was forgotten meanwhile.
    pub(super) forgotten: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(super) struct File {
    /// Dirty bytes that are not under write-out, and those that became dirty again there.
    pub(super) dirty: Spans,
    /// Written, and in no flush yet.
    pub(super) kept: Spans,
    /// Written, and in the flush that is on its way.
    pub(super) covered: Spans,
    /// By first byte; they do not overlap.
    pub(super) flights: BTreeMap<u64, Flight>,
    /// By number.
    pub(super) pages: BTreeMap<u64, Page>,
    /// Pages with [`Page::ready`].
    pub(super) ready: BTreeSet<u64>,
    /// Those of them with nothing but dirty bytes: one write cleans each of them.
    pub(super) whole: BTreeSet<u64>,
    /// Those of the others with one range of dirty bytes that was written once.
    pub(super) cheap: BTreeSet<u64>,
    /// Those of [`File::ready`] that are due.
    pub(super) due: BTreeMap<u64, Due>,
    /// First bytes of blocks that are due at once, under the rules of the report.
    pub(super) due_blocks: BTreeSet<u64>,
    /// Where the last write ended.
    pub(super) cursor: u64,
}

impl File {
    /// The first bytes in `start..end` that are dirty and not under write-out; with `block_bytes`,
    /// all from the first to the last dirty one of the first block that is not under write-out.
    pub(super) fn candidate(&self, start: u64, end: u64, block_bytes: Option<u64>) -> Option<Span> {
        let mut dirty = self.dirty.within(start, end);
        match block_bytes {
            None => dirty.find_map(|(from, to)| self.grounded(from, to)),
            Some(bytes) => dirty.find_map(|(from, to)| self.grounded_block(from, to, bytes)),
        }
    }

    /// The first part of `start..end` that is not under write-out.
    fn grounded(&self, start: u64, end: u64) -> Option<Span> {
        let mut from = start;
        if let Some((_, flight)) = self.flights.range(..=start).next_back() {
            from = from.max(flight.end);
        }
        for (&flight, &Flight { end: landing, .. }) in self.flights.range(from..end.max(from)) {
            if from < flight {
                return Some((from, flight));
            }
            from = landing;
        }
        (from < end).then_some((from, end))
    }

    fn grounded_block(&self, start: u64, end: u64, block_bytes: u64) -> Option<Span> {
        let mut block = start & !(block_bytes - 1);
        while block < end {
            let block_end = block.saturating_add(block_bytes);
            if !self.is_flying(block, block_end) {
                return self.hull(block, block_end);
            }
            if block_end == u64::MAX {
                break;
            }
            block = block_end;
        }
        None
    }

    /// From the first dirty byte of `start..end` to the last.
    pub(super) fn hull(&self, start: u64, end: u64) -> Option<Span> {
        let mut dirty = self.dirty.within(start, end);
        let first = dirty.next()?;
        let last = dirty.last().unwrap_or(first);
        Some((first.0, last.1))
    }

    /// Whether any byte of `start..end` is under write-out, also for a forgotten file.
    pub(super) fn is_flying(&self, start: u64, end: u64) -> bool {
        self.flying(start, end).next().is_some()
    }

    /// What of `start..end` is under write-out, ascending.
    pub(super) fn flying(&self, start: u64, end: u64) -> impl Iterator<Item = (Span, Flight)> {
        let before = self.flights.range(..start).next_back();
        let from = match before {
            Some((&low, flight)) if flight.end > start => low,
            _ => start,
        };
        self.flights
            .range(from..end.max(from))
            .map(move |(&low, &flight)| ((low.max(start), flight.end.min(end)), flight))
            .filter(|((low, high), _)| low < high)
    }

    /// What of `start..end` is dirty or kept.
    pub(super) fn held(&self, start: u64, end: u64) -> Spans {
        let mut spans = Spans::default();
        for set in [&self.dirty, &self.kept, &self.covered] {
            for (from, to) in set.within(start, end) {
                spans.insert(from, to);
            }
        }
        spans
    }

    /// Whether any byte of `start..end` waits for a flush.
    pub(super) fn is_kept(&self, start: u64, end: u64) -> bool {
        let holds = |spans: &Spans| !spans.is_empty() && spans.overlaps(start, end);
        holds(&self.kept) || holds(&self.covered)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.pages.is_empty() && self.flights.is_empty()
    }
}
